"""Rules that a run does not evaluate, with the reason for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from fedkg._internal.safe_text import list_first

MAX_NAMED = 10
"""Rules that a sentence lists before it counts the rest."""

COMPARES_ROWS = "it compares rows, and the test rows are a random sample"
"""Reason for a rule that compares several rows or steps, on the test rows."""

NO_TEST_ROW = "no test row has the key, meets the condition and gives the values"
"""Reason for a rule about an output that applies to no test row."""

NO_ROW = "no row has the key, meets the condition and gives the values"
"""Reason for a rule over the data alone that applies to no row."""

NO_ROWS = "the samples are windows or images, not rows"
"""Reason for a rule over the data alone if the data set has no rows."""

UNBOUND = "it is bound to nothing"
"""Reason for a rule without bound rows."""


def find_unevaluated(*tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Rules without any evaluation in `rules.csv` and `checks.csv`: the reason by the rule's name.

    Args:
        tables: rows of these files.
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
    """One sentence per reason, with the rules that it applies to."""
    rules: dict[str, list[str]] = {}
    for rule, reason in reasons.items():
        rules.setdefault(reason, []).append(f"`{rule}`")
    return [
        f"Not evaluated, neither satisfied nor violated: {list_first(names, MAX_NAMED)}; {reason}."
        for reason, names in rules.items()
    ]
