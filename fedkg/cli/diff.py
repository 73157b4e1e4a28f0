"""`fedkg diff OLD NEW`: list rules that became stricter, looser, or changed their meaning."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg.cli.console import AsJson, print_json, print_line

if TYPE_CHECKING:
    from fedkg_compiler.analysis.pack_difference import RuleDifference


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A rule file, or a pack.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="A rule file, or a pack.")],
    graphs: Annotated[
        list[str] | None,
        typer.Option(
            "--graph",
            metavar="FILE",
            help="A graph that the rule files refer to: a file, store or URL; can be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List rules that were added, removed or renamed, or that changed their meaning.

    Changed rules are stricter, looser, or different. The comparison is about meaning, not text: the
    same limit in other words or units is equal. Each change has a value that only one of the two
    versions accepts. Exit code 0: all rules mean the same; 1: something changed.

    \b
    Examples:
      fedkg diff old.fkg new.fkg
      fedkg diff monday.fkgpack rules.fkg --graph plant.ttl
    """
    from fedkg import authoring

    sides = [
        [path, *authoring.parse_sources(graphs or [])] if authoring.is_authored(path) else [path]
        for path in (old, new)
    ]
    found = authoring.compare_rules(*sides)
    if as_json:
        print_json({"rules": [_json(one) for one in found], "same": all(one.same for one in found)})
    else:
        for line in (line for one in found for line in one.lines()):
            print_line(line)
        if all(one.same for one in found):
            print_line(f"{old} and {new} mean the same")
    if not all(one.same for one in found):
        raise typer.Exit(1)


def _json(one: RuleDifference) -> dict[str, Any]:
    """`Any`: JSON."""
    keys = (
        "name",
        "change",
        "was",
        "entities",
        "of",
        "entity",
        "before",
        "after",
        "witness",
        "accepted_by",
        "settings",
        "because",
    )
    facts: dict[str, Any] = {key: getattr(one, key) for key in keys}
    readings = [asdict(reading) for reading in one.values.readings] if one.values else []
    return facts | {"text_changed": one.text, "readings": readings}
