"""`fedkg ontology show TERM` and `fedkg ontology report`: facts about terms and ontologies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line, print_note, stdout_console

if TYPE_CHECKING:
    from fedkg_compiler.graph.alignment.alignment_consequences import Entailed
    from fedkg_compiler.graph.term_description import About

REFERENCE = {"concepts": 5247, "relations": 12893, "constraints": 3000}
"""The knowledge graph of the SCFA paper (section 4.1, table 1), with 3,000 SPARQL constraints."""
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
"""Names of one kind that are shown."""


def show_term(text: str, *, as_json: bool) -> None:
    """Print the facts about a term. Raises UsageError for an unknown term."""
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
    """Count the concepts, relations, axioms, constraints and matched terms of ontologies.

    A concept is a class, property or individual that a file defines; a relation is a statement
    between two different concepts; axioms are hierarchies, equivalence, disjointness, inverses,
    domains, ranges and characteristics of properties; constraints are restrictions, property shapes
    and disjointness. Matched concepts are connected to another ontology. Inferences do not count.

    For two or more ontologies fedkg also counts what the reviewed mappings add: subclasses,
    subproperties and types that they state, and those that follow only with them.

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
            f"{count_noun(REFERENCE[key] - getattr(found.total, key), key.removesuffix('s'))}"
            for key in low
        )
        print_line(
            f"fewer than in the paper's graph: {parts}; official files have more: fedkg "
            "ontology add NAME FILE"
        )


def _entailed(found: Entailed) -> Iterator[str]:
    """The effect of mappings, at most `_MANY` lines of each kind."""
    by = ", ".join(f"{number:,} {predicate}" for predicate, number in found.mappings.items())
    yield f"mappings between them: {sum(found.mappings.values()):,}{f' ({by})' if by else ''}"
    for title, lines in (("stated by mappings", found.said), ("inferred from them", found.follows)):
        yield f"{title}: {len(lines):,}"
        yield from (f"  {' '.join(line)}" for line in lines[:_MANY])
        if len(lines) > _MANY:
            yield f"  and {len(lines) - _MANY:,} more, with --json"
