"""Find the rules that `fedkg explain` explains, by rule, shape, query, library or file name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import UsageError

if TYPE_CHECKING:
    from fedkg.pack import Pack, Placement

MAX_NAMED = 8
"""Number of rules that an error lists."""


def find_rules(pack: Pack, what: str) -> tuple[list[str], list[Placement]]:
    """The rules that a name selects, and its parts of shapes and queries that became no rule.

    A name is that of a rule, or the end of a library rule (``torque_limit``); a shape or a part of
    it (``PumpShape``, ``ex:PumpShape``, its IRI, ``PumpShape.pressure``); a title, such as
    `sh:name`; or a file.

    Raises:
        UsageError: the name selects nothing.
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
            f"unknown rule `{what}`",
            help=_suggest_name(
                plain,
                [
                    *names,
                    *(one.part for one in manifest.placements),
                    *(one.name for one in manifest.causes),
                ],
            ),
        )
    return rules, parts


def _suggest_name(word: str, names: Sequence[str]) -> str:
    """The nearest name, or the first names."""
    known = list(dict.fromkeys(names))
    shapes = [name.rpartition(".")[0] for name in known if "." in name]
    near = nearest_name(word, [*known, *shapes, *(name.partition(".")[0] for name in shapes)])
    if near:
        return f"did you mean `{near}`?"
    shown = ", ".join(known[:MAX_NAMED]) + (" ..." if len(known) > MAX_NAMED else "")
    return f"the rules are: {shown}" if known else "name files that define rules; these define none"


def describe_part(part: Placement) -> str:
    """What happened to a part:

    ``S.pressure.minCount: decided on the graph, which satisfies it (s.ttl)``.
    """
    match part.where:
        case "graph":
            what = "decided on the graph, which " + (
                "violates it" if part.conforms is False else "satisfies it"
            )
        case "off":
            what = "switched off"
        case _:
            what = "not checked"
    return f"{part.part}: {what}{f': {part.reason}' if part.reason else ''}  ({part.source})"
