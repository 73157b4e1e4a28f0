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
        for line in (line for one in found for line in _lines(one)):
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


def _lines(one: RuleDifference) -> list[str]:
    """The lines about a rule; none if nothing changed."""
    reasons = [*one.because, *one.settings]
    about = f" ({', '.join(reasons)})" if reasons else ""
    match one.change:
        case "same":
            if one.settings:
                return [f"{one.name}: means the same{about}"]
            return [f"{one.name}: means the same, in other words"] if one.text else []
        case "added" | "removed":
            return [f"{one.name}: {one.change}: {one.after or one.before}"]
        case "renamed":
            return [f"{one.name}: renamed, was {one.was}{about}"]
        case "undecided":
            return [f"{one.name}: undecided whether the meaning changed{about}", *_versions(one)]
        case _:
            change = "changed its meaning" if one.change == "changed" else one.change
            where = f" for {one.entities:,} of {one.of:,} entities" if one.of > 1 else ""
            return [f"{one.name}: {change}{where}{about}", *_versions(one), *_witness(one)]


def _versions(one: RuleDifference) -> list[str]:
    place = f"{one.entity}: " if one.entity else ""
    if one.before == one.after:
        return [f"  {place}{one.after}"]
    return [f"  {place}{one.before or 'nothing'} -> {one.after or 'nothing'}"]


def _witness(one: RuleDifference) -> list[str]:
    if not one.witness:
        return []
    said = (
        "was accepted and is now rejected"
        if one.accepted_by == "old"
        else "was rejected and is now accepted"
    )
    return [f"  {one.witness} {said}"]
