"""Reasons for which a run does not evaluate a rule, as its tables and reports state them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

MAX_NAMED = 10
"""Rules that a sentence names before it counts the rest."""

COMPARES_ROWS = "it compares rows, and the test rows are a random sample"
"""A rule about several rows or steps, on the test rows."""

NO_TEST_ROW = "no test row has the key, meets the condition and gives the values"
"""A rule about an answer that decides nothing on any test row."""

NO_ROW = "no row has the key, meets the condition and gives the values"
"""A rule over the data alone that decides nothing on any row."""

NO_ROWS = "the samples are windows or images, not rows"
"""A rule over the data alone, where the data set has no rows."""

UNBOUND = "it is bound to nothing"
"""A rule without any bound row."""


def find_unevaluated(*tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Rules that no line of `rules.csv` and `checks.csv` evaluates, and why: the reason by the rule's name.

    Args:
        tables: lines of these files, by column.
    """
    reasons: dict[str, str] = {}
    evaluated: set[str] = set()
    for line in chain(*tables):
        if line["rate"]:
            evaluated.add(line["rule"])
        else:
            reasons.setdefault(line["rule"], line["reason"])
    return {rule: reason for rule, reason in reasons.items() if rule not in evaluated}


def describe_unevaluated(reasons: Mapping[str, str]) -> list[str]:
    """One sentence for each reason, with the rules that are not evaluated for it."""
    rules: dict[str, list[str]] = {}
    for rule, reason in reasons.items():
        rules.setdefault(reason, []).append(f"`{rule}`")
    return [
        f"Not evaluated, neither satisfied nor violated: {format_names(names)}; {reason}."
        for reason, names in rules.items()
    ]


def format_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    rest = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + rest
