"""Reports the SWRL rules of a graph that fedkg does not apply."""

from __future__ import annotations

from collections.abc import Sequence

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.reasoning.facts import Facts
from fedkg_compiler.graph.reasoning.swrl_rules import swrl_rules
from fedkg_compiler.graph.triple_locations import TermTriple, locate_triples

_MOST_REPORTED = 20


def unapplied_rules(facts: Facts, documents: Sequence[Document]) -> list[Diagnostic]:
    """Return a warning for each SWRL rule that fedkg does not apply.

    Args:
        facts: the closure of the documents.
        documents: the files with the rules, the user's own first.
    """
    _, found = swrl_rules(facts)
    others = found[:_MOST_REPORTED]
    more = len(found) - len(others)
    rules = "rule is" if more == 1 else "rules are"
    further = f"; {more} more {rules} not applied" if more else ""
    places = locate_triples(documents, [one.triple for one in others]) if others else {}
    return [
        report(
            "FKG128",
            _place(places, one.triple, documents),
            f"the SWRL rule is not applied: {one.reason}",
            help=f"{one.advice}{further}",
            severity="warning",
        )
        for one in others
    ]


def _place(
    places: dict[TermTriple, Span], triple: TermTriple, documents: Sequence[Document]
) -> Span:
    """The span of a triple.

    Triples of OWL's own syntaxes are written in none of their lines: then the first rule of the
    file.
    """
    span = places.get(triple, point(documents[0].name if documents else ""))
    text = next((document.text for document in documents if document.name == span.file), "")
    at = text.find("DLSafeRule")
    if (span.line, span.column) != (1, 1) or at < 0:
        return span
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return point(span.file, line, column, width=len("DLSafeRule"))
