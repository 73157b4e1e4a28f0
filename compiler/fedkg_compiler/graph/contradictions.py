"""Says of each contradiction in a graph what cannot be so, and which statements bring it about,
each with its file and line.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedkg_compiler.diagnostics.record import Diagnostic, Related, Span
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.ontologies import find
from fedkg_compiler.graph.owl_rl_closure import Clash, Closure, clashes
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.rdf_terms import split_iri
from fedkg_compiler.graph.reasoning.facts import Facts
from fedkg_compiler.graph.reasoning.justifications import Reasons, Step
from fedkg_compiler.graph.reasoning.owl_vocabulary import Node
from fedkg_compiler.graph.standard_vocabularies import STANDARD_PREFIXES
from fedkg_compiler.graph.triple_locations import locate_triples

_WORDS = {
    "eq-diff1": "{0} and {1} are one thing, but are stated to be different",
    "eq-diff2": "{4} and {5} are one thing, but are stated to be different",
    "eq-diff3": "{4} and {5} are one thing, but are stated to be different",
    "prp-irp": "{1} has {0} to itself, which nothing can",
    "prp-asyp": "{1} has {0} to {2}, and {2} to {1}, which cannot both be",
    "prp-pdw": "{2} has both {0} and {1} to {3}, which cannot both be",
    "prp-adp": "{6} has both {4} and {5} to {7}, which cannot both be",
    "prp-npa1": "{1} has {2} to {3}, but is stated not to",
    "prp-npa2": "{1} has {2} {3}, but is stated not to",
    "cls-nothing2": "{0} is of a class that has no members",
    "cls-com": "{2} is of {0} and of {1}, and nothing is of both",
    "cls-maxc1": "{3} has {2}, but can have none",
    "cls-maxqc1": "{4} has {2} to a {3}, but can have none",
    "cls-maxqc2": "{3} has {2}, but can have none",
    "cax-dw": "{2} is of {0} and of {1}, and nothing is of both",
    "cax-adc": "{6} is of {4} and of {5}, and nothing is of both",
    "dt-diff": "{0} and {1} have to be one value, and are two",
}
"""The message of a contradiction, by the rule that finds it; the numbers are the rule's variables
in the order of the table."""


def contradictions(closed: Closure, documents: Sequence[Document]) -> list[Diagnostic]:
    """Return a warning for each contradiction.

    The statements that bring it about are its related places.

    Args:
        documents: the sources of the closed triples, the user's own first.
    """
    facts = closed.facts
    found = clashes(facts)
    if not found:
        return []
    reasons = Reasons((), (facts, closed.all_told()))
    prefixes = {
        prefix: space
        for document in reversed(documents)
        for prefix, space in document.prefixes.items()
    } | STANDARD_PREFIXES
    return [
        _diagnostic(clash, reasons.why_not(clash.rule, clash.values), facts, documents, prefixes)
        for clash in found
    ]


def _diagnostic(
    clash: Clash,
    why: tuple[Step, dict[int, int]] | None,
    facts: Facts,
    documents: Sequence[Document],
    prefixes: dict[str, str],
) -> Diagnostic:
    triples, values = ([], clash.values) if why is None else ([*why[0].asserted()], why[1])
    where = locate_triples(documents, triples)
    order = {document.name: i for i, document in enumerate(documents)}
    placed = sorted(
        ((where[triple], triple) for triple in triples if triple in where),
        key=lambda one: (order[one[0].file], one[0]),
    )
    related = tuple(
        Related(span=span, message=" ".join(shown(node, prefixes) for node in triple))
        for span, triple in placed
    )
    names_of = [facts.nodes[values[variable]] for variable in sorted(values, reverse=True)]
    names = [shown(node, prefixes) for node in names_of]
    message = _WORDS[clash.rule.name].format(*names) + f" ({clash.rule.name})"
    more = f"; the same statements about terms cause {clash.more:,} more" if clash.more else ""
    advice = (
        f"one of the statements at the listed places cannot be true{more}"
        if related[1:]
        else f"correct the statement at this place{more}"
        if related
        else f"check the statements about {names[-1]}{more}"
    )
    span = related[0].span if related else _first_mention(names_of, documents)
    diagnostic = report("FKG125", span, message, help=advice, severity="warning")
    return Diagnostic(
        code=diagnostic.code,
        severity="warning",
        span=span,
        message=message,
        help=diagnostic.help,
        related=related[1:],
        fix=diagnostic.fix,
    )


def _first_mention(nodes: Sequence[Node], documents: Sequence[Document]) -> Span:
    """The span at which the first document with a statement about one of these nodes writes it.

    A file's beginning where none does.
    """
    for node in nodes:
        for document in documents:
            if isinstance(node, ox.NamedNode) and any(
                quad.subject == node for quad in document.triples
            ):
                return find(document, node.value, *split_iri(node.value))
    return point(documents[0].name if documents else "")


def shown(node: Node, prefixes: dict[str, str]) -> str:
    """A node as people write it: with a prefix where one fits."""
    match node:
        case ox.NamedNode():
            found = [
                (space, prefix)
                for prefix, space in prefixes.items()
                if node.value.startswith(space) and space
            ]
            if found:
                space, prefix = max(found)
                rest = node.value[len(space) :]
                if rest and not set("/#:") & set(rest):
                    return (
                        "a" if node.value.endswith("22-rdf-syntax-ns#type") else f"{prefix}:{rest}"
                    )
            return f"<{node.value}>"
        case ox.BlankNode():
            return "[...]"
        case _:
            return (
                str(node)
                if isinstance(node, ox.Literal) and node.language
                else f'"{getattr(node, "value", node)}"'
            )
