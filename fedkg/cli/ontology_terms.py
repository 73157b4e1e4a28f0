"""`fedkg ontology show TERM` and `fedkg ontology report`: what the ontologies say of a term, and how much they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line, print_note, stdout_console

if TYPE_CHECKING:
    from fedkg_compiler.ontology.about import About
    from fedkg_compiler.ontology.alignment.entailed import Entailed

REFERENCE = {"concepts": 5247, "relations": 12893, "constraints": 3000}
"""The knowledge graph that the SCFA paper integrates (section 4.1, table 1); its constraints are 3,000 SPARQL queries."""
_COLUMNS = (
    "concepts",
    "classes",
    "properties",
    "individuals",
    "relations",
    "axioms",
    "constraints",
    "matched",
    "unmatched",
)
_MANY = 12
"""Names of one kind that are shown; of more, how many there are."""


def show_term(text: str, *, as_json: bool) -> None:
    """Print what is known of the terms that a text names. Raises UsageError where there is none."""
    from fedkg import authoring, ontologies

    terms, diagnostics = ontologies.describe_term(text)
    if as_json:
        print_json(
            {"terms": [term.model_dump() for term in terms]}
            | authoring.diagnostics_json(diagnostics)
        )
        return
    if diagnostics:
        print_note(authoring.render(diagnostics))
    print_line("\n\n".join(_text(term) for term in terms))


def _text(term: About) -> str:
    mapped = [
        f"{one.name} ({'is ' if one.reverse else ''}{one.by}{' of' if one.reverse else ''})"
        for one in term.mapped
    ]
    facts = {
        "kind": f"{term.kind} of {term.ontology}",
        "label": term.label,
        "comment": term.comment,
        "IRI": term.iri,
        "defined in": term.defined_in,
        "a": _names(term.types),
        "above it": _names(term.parents),
        "below it": _names(term.children),
        "domain": _names(term.domain),
        "range": _names(term.range),
        "inverse": _names(term.inverse),
        "properties": _names(term.properties),
        "members": f"{term.members:,}" if term.members else "",
        "mapped to": _names(mapped),
    }
    width = max(len(key) for key in facts)
    return "\n".join(
        [term.name, *(f"  {key:<{width}}  {value}" for key, value in facts.items() if value)]
    )


def _names(names: list[str] | tuple[str, ...]) -> str:
    shown = ", ".join(names[:_MANY])
    return f"{shown} and {len(names) - _MANY:,} more" if len(names) > _MANY else shown


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="The ontologies to count; default: all."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count what the ontologies say: concepts, relations, axioms, constraints, and what alignments match.

    A concept is a class, property or individual that a file defines; a relation is a statement that joins two different ones; constraints
    are restrictions, property shapes and disjointness. All before anything is concluded.

    Of two or more by name also what the reviewed mappings between them bring about: subclasses, subproperties and types that they say, and
    those that follow by them and not without.

    \b
    Examples:
      fedkg ontology report
      fedkg ontology report mason isa95
    """
    from fedkg import authoring, ontologies

    found, diagnostics = ontologies.count_statements(names or ())
    if as_json:
        print_json(
            found.model_dump() | {"reference": REFERENCE} | authoring.diagnostics_json(diagnostics)
        )
        return
    if diagnostics:
        print_note(authoring.render(diagnostics))
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for header in _COLUMNS:
        table.add_column(header, justify="right")
    for row in (*found.ontologies, found.total):
        table.add_row(
            row.name + (" (added)" if row.in_use == "added" else ""),
            *(f"{getattr(row, key):,}" for key in _COLUMNS),
        )
    table.add_row(
        "SCFA paper", *(f"{REFERENCE[key]:,}" if key in REFERENCE else "" for key in _COLUMNS)
    )
    stdout_console().print(table)
    if found.entailed is not None:
        print_line("\n".join(_entailed(found.entailed)))
        return
    low = [key for key, value in REFERENCE.items() if getattr(found.total, key) < value]
    if low:
        parts = ", ".join(
            f"{count(REFERENCE[key] - getattr(found.total, key), key.removesuffix('s'))}"
            for key in low
        )
        print_line(
            f"below the paper's graph by {parts}; official files have more: fedkg ontology add NAME FILE"
        )


def _entailed(found: Entailed) -> Iterator[str]:
    """What mappings bring about; of many lines the first."""
    by = ", ".join(f"{number:,} {predicate}" for predicate, number in found.mappings.items())
    yield f"mappings between them: {sum(found.mappings.values()):,}{f' ({by})' if by else ''}"
    for title, lines in (("said by mappings", found.said), ("following by them", found.follows)):
        yield f"{title}: {len(lines):,}"
        yield from (f"  {' '.join(line)}" for line in lines[:_MANY])
        if len(lines) > _MANY:
            yield f"  and {len(lines) - _MANY:,} more, with --json"
