"""What `fedkg explain` is asked for: rules by the names that people know, those of shapes, queries, libraries and files too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import UsageError

if TYPE_CHECKING:
    from fedkg.pack import Pack, Placement

MAX_NAMED = 8
"""Rules that are named in an error."""


def find_rules(pack: Pack, what: str) -> tuple[list[str], list[Placement]]:
    """The rules that a word means, and the parts of shapes and queries that it means and that became no rule.

    A word is the name of a rule, or the end of one from a library (``torque_limit``); a shape or a part of it (``PumpShape``,
    ``ex:PumpShape``, its IRI, ``PumpShape.pressure``); a title, such as `sh:name` gives; or a file.

    Raises:
        UsageError: when it means nothing here.
    """
    manifest = pack.manifest
    names = [record.name for record in manifest.rules]
    if what in names:
        return [what], []
    plain = re.split(r"[#/:]", what.strip("<>").rstrip("#/"))[-1]
    within = f"{plain}."
    rules = [
        record.name
        for record in manifest.rules
        if record.name == plain
        or record.name.startswith(within)
        or record.name.endswith(f".{plain}")
        or plain == record.file
        or (record.title and record.title.rstrip(".").casefold() == what.rstrip(".").casefold())
    ]
    parts = [
        one
        for one in manifest.placements
        if one.where != "rows"
        and (one.part == plain or one.part.startswith(within) or one.source == plain)
    ]
    if not rules and not parts:
        raise UsageError(
            f"there is no rule `{what}`",
            help=_suggest_name(plain, [*names, *(one.part for one in manifest.placements)]),
        )
    return rules, parts


def _suggest_name(word: str, names: Sequence[str]) -> str:
    """The name that is near, or the first ones that there are."""
    known = list(dict.fromkeys(names))
    shapes = [name.rpartition(".")[0] for name in known if "." in name]
    near = nearest_name(word, [*known, *shapes, *(name.partition(".")[0] for name in shapes)])
    if near:
        return f"did you mean `{near}`?"
    shown = ", ".join(known[:MAX_NAMED]) + (" ..." if len(known) > MAX_NAMED else "")
    return f"its rules: {shown}" if known else "there are no rules"


def describe_part(part: Placement) -> str:
    """Where a part went that became no rule: ``PumpShape.maxPressure.minCount: decided on the graph, which keeps it  (pump.ttl)``."""
    match part.where:
        case "graph":
            what = "decided on the graph, which " + (
                "violates it" if part.conforms is False else "keeps it"
            )
        case "off":
            what = "switched off"
        case _:
            what = "not checked"
    return f"{part.part}: {what}{f': {part.reason}' if part.reason else ''}  ({part.source})"
