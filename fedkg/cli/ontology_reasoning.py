"""`fedkg ontology reason`: inferences from ontologies and graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg.cli.console import AsJson, print_json, print_line, print_note

if TYPE_CHECKING:
    from fedkg_compiler.graph.ontology_consequences import Reasoned

MAX_LINES = 25
"""Lines of one kind; --json prints all."""


def reason(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...", help="Ontologies and graphs: files, or names of the catalogue."
        ),
    ],
    dl: Annotated[
        bool, typer.Option("--dl", help="Also run the DL reasoner HermiT, which needs Java.")
    ] = False,
    limit: Annotated[
        float,
        typer.Option("--limit", metavar="SECONDS", help="Time limit of the DL reasoner.", min=0.1),
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Show the inferences from ontologies and graphs, and their contradictions.

    The OWL 2 RL rules apply as before every compilation: inferred subclasses and types, individuals
    that are equal, classes without possible members. --dl adds inferences that need a description
    logic, with a time limit. Exit code 1: an error or a warning.

    \b
    Examples:
      fedkg ontology reason plant.ttl
      fedkg ontology reason mason isa95 plant.ttl
      fedkg ontology reason plant.owl --dl --limit 120
    """
    from fedkg import authoring, ontologies

    found, diagnostics = ontologies.reason(files, dl=dl, limit=limit)
    troubles = [one for one in diagnostics if one.severity != "info"]
    if as_json:
        print_json(found.model_dump(mode="json") | authoring.diagnostics_json(diagnostics))
    else:
        if diagnostics:
            print_note(authoring.render(diagnostics))
        print_line("\n".join(_lines(found)))
    if troubles:
        raise typer.Exit(1)


def _lines(found: Reasoned) -> Iterator[str]:
    yield f"{found.reasoner}:"
    if found.unsatisfiable:
        yield f"  unsatisfiable: {', '.join(found.unsatisfiable)}"
    for title, lines in (
        ("subclasses and subproperties", found.below),
        ("types", found.types),
        ("equal individuals", found.same),
    ):
        if lines:
            yield f"  inferred {title}: {len(lines):,}"
            yield from (f"    {' '.join(line)}" for line in lines[:MAX_LINES])
            if len(lines) > MAX_LINES:
                yield f"    and {len(lines) - MAX_LINES:,} more, with --json"
    for name, more in found.others.items():
        yield f"  {more:,} more of {name}"
    if not (found.below or found.types or found.same or found.others):
        yield "  no inferences"
