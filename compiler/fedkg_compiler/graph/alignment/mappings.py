"""Terms that are taken as one: mappings in graphs, and the two spellings of Schema.org.

Mappings are proposals that a person has accepted. Two classes or two properties that match exactly
are equivalent. All other predicates of SKOS entail nothing; those of OWL and RDFS mean what they
say.

Schema.org has two names for each of its terms, ``http://schema.org/X`` and
``https://schema.org/X``. Both are in use. Where a compilation meets both, each term in the older
spelling is declared equivalent to that in the newer one, so that the closure applies statements
with either spelling to both; statements of a graph about a term apply to the newer spelling too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import report
from fedkg_compiler.graph.ontologies import definitions, find
from fedkg_compiler.graph.owl_rl_closure import SAME_CLASS, SAME_PROPERTY
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.rdf_terms import TermKind, split_iri
from fedkg_compiler.graph.standard_vocabularies import FKG, OWL, RDFS, SKOS, SSSOM

MARK = "mappingStatus"
"""A word that every file with proposals contains."""
SSSOM_WORD = "mapping_justification"
"""A word that every file with mappings of SSSOM contains."""
SSSOM_MARK = SSSOM + SSSOM_WORD
"""The property that every mapping of SSSOM has in RDF."""
OLDER, NEWER = "http://schema.org/", "https://schema.org/"
WORDS = (MARK, SSSOM_WORD, OLDER)
"""Only a graph with one of these words in its text or marks has terms that are taken as one."""
STATUSES = ("proposed", "accepted", "rejected")
PREDICATES = (
    *(SKOS + f"{kind}Match" for kind in ("exact", "close", "broad", "narrow", "related")),
    *(OWL + f"equivalent{kind}" for kind in ("Class", "Property")),
    *(RDFS + f"sub{kind}Of" for kind in ("Class", "Property")),
)
_SOURCE, _PREDICATE, _TARGET, _STATUS = (
    ox.NamedNode(FKG + f"mapping{end}") for end in ("Source", "Predicate", "Target", "Status")
)
_EXACT = ox.NamedNode(SKOS + "exactMatch")
_EQUIVALENT: dict[TermKind, ox.NamedNode] = {
    "class": ox.NamedNode(OWL + "equivalentClass"),
    "property": ox.NamedNode(OWL + "equivalentProperty"),
}


def accepted(documents: Iterable[Document]) -> tuple[list[ox.Quad], list[Diagnostic]]:
    """Return the mappings of the proposals in these graphs that a person has accepted, and what is
    wrong with proposals.
    """
    mapped: list[ox.Quad] = []
    problems: list[Diagnostic] = []
    for document in documents:
        if MARK not in document.text and FKG + MARK not in document.marks:
            continue
        parts: dict[ox.NamedNode | ox.BlankNode | ox.Triple, dict[ox.NamedNode, list[object]]] = {}
        for quad in document.triples:
            if quad.predicate in (_SOURCE, _PREDICATE, _TARGET, _STATUS):
                parts.setdefault(quad.subject, {}).setdefault(quad.predicate, []).append(
                    quad.object
                )
        for told in parts.values():
            status = [node.value for node in told.get(_STATUS, ()) if isinstance(node, ox.Literal)]
            ends = [_only_iri(told.get(end, ())) for end in (_SOURCE, _PREDICATE, _TARGET)]
            if len(status) != 1 or status[0] not in STATUSES:
                shown = " and ".join(repr(text) for text in status)
                problems.append(
                    _problem(
                        document,
                        ends,
                        f"the status of a proposed mapping is {shown}"
                        if shown
                        else "a proposed mapping has no status",
                        f"write one fkg:mappingStatus, one of: {', '.join(STATUSES)}",
                    )
                )
            elif status[0] == "accepted":
                source, predicate, target = ends
                if source is None or predicate is None or target is None:
                    advice = (
                        "give it one fkg:mappingSource, one fkg:mappingPredicate and "
                        "one fkg:mappingTarget"
                    )
                    problems.append(
                        _problem(document, ends, "an accepted mapping is incomplete", advice)
                    )
                elif predicate.value not in PREDICATES:
                    advice = (
                        "SKOS has exactMatch, closeMatch, broadMatch, narrowMatch, "
                        "relatedMatch; or rdfs:subClassOf, owl:equivalentClass"
                    )
                    problems.append(
                        _problem(
                            document,
                            ends,
                            f"<{predicate.value}> is not a predicate of mappings",
                            advice,
                        )
                    )
                else:
                    mapped.append(ox.Quad(source, predicate, target))
    return mapped, problems


def exact_matches(documents: Iterable[Document]) -> list[ox.Quad]:
    """Return the exact mappings of the documents that hold mappings."""
    return [
        quad
        for document in documents
        if SSSOM_WORD in document.text or SSSOM_MARK in document.marks
        for quad in document.triples
        if quad.predicate == _EXACT
    ]


def equivalences(exact: Iterable[ox.Quad], documents: Sequence[Document]) -> list[ox.Quad]:
    """Return the equivalences of exact mappings between two classes or two properties.

    Args:
        exact: triples with `skos:exactMatch`; others are skipped. documents: the files that define
            the terms, the smaller ones first. A term that none of them defines has no equivalent.
    """
    matches = [quad for quad in exact if quad.predicate == _EXACT]
    if not matches:
        return []
    kinds: dict[str, TermKind] = {}
    ends = {
        node.value
        for quad in matches
        for node in (quad.subject, quad.object)
        if isinstance(node, ox.NamedNode)
    }
    for document in documents:
        if len(kinds) == len(ends):
            break
        for iri, entry in definitions(document, "", individuals=False).items():
            if iri in ends:
                kinds.setdefault(iri, entry.kind)
    found = []
    for quad in matches:
        subject, target = quad.subject, quad.object
        if isinstance(subject, ox.NamedNode) and isinstance(target, ox.NamedNode):
            kind = kinds.get(subject.value)
            if kind is not None and kind == kinds.get(target.value) and kind in _EQUIVALENT:
                found.append(ox.Quad(subject, _EQUIVALENT[kind], target))
    return found


def exact_origins(equal: Iterable[ox.Quad]) -> dict[ox.Quad, ox.Quad]:
    """Return the exact mapping behind each of the equivalences that follow from one."""
    return {
        quad: ox.Quad(quad.subject, _EXACT, quad.object)
        for quad in equal
        if quad.predicate in _EQUIVALENT.values()
    }


def _only_iri(nodes: Sequence[object]) -> ox.NamedNode | None:
    return nodes[0] if len(nodes) == 1 and isinstance(nodes[0], ox.NamedNode) else None


def _problem(
    document: Document, ends: Sequence[ox.NamedNode | None], message: str, advice: str
) -> Diagnostic:
    """An error at the place of the proposal's source, where the file has it, else of the first
    status.
    """
    iri = next((end.value for end in (ends[0], ends[2]) if end is not None), FKG + MARK)
    return report("FKG124", find(document, iri, *split_iri(iri)), message, help=advice)


N = TypeVar("N")


def one_of_two_names(
    graphs: Sequence[Document], ontologies: Iterable[Document], namespaces: Iterable[str]
) -> tuple[list[ox.Quad], list[Diagnostic]]:
    """Return what makes the two spellings one for the terms that `graphs` have in the older one,
    and a note for each such graph.

    Args:
        graphs: the user's graphs.
        ontologies: the ontologies that are loaded with the graphs.
        namespaces: the namespaces of the prefixes that the rule files declare.

    Nothing is returned where nobody uses the newer spelling.
    """
    older = [document for document in graphs if OLDER in document.text or OLDER in document.marks]
    newer = NEWER in namespaces or any(
        NEWER in document.text or NEWER in document.marks for document in (*graphs, *ontologies)
    )
    if not older or not newer:
        return [], []
    terms: set[ox.NamedNode] = set()
    quads: list[ox.Quad] = []
    said: list[Diagnostic] = []
    for document in older:
        found = {
            node
            for quad in document.triples
            for node in (quad.subject, quad.predicate, quad.object)
            if _is_older(node)
        }
        if not found:
            continue
        message, advice = (
            f"terms of <{OLDER}> are taken as those of <{NEWER}>",
            f"write <{NEWER}>, and there is one name for each",
        )
        said.append(
            report(
                "FKG117", find(document, OLDER, OLDER, ""), message, help=advice, severity="info"
            )
        )
        about = (quad for quad in document.triples if quad.subject in found or quad.object in found)
        quads += [
            ox.Quad(_newer(quad.subject), _newer(quad.predicate), _newer(quad.object))
            for quad in about
        ]
        terms |= {node for node in found if isinstance(node, ox.NamedNode)}
    quads += [
        ox.Quad(term, SAME_CLASS if _is_class(term) else SAME_PROPERTY, _newer(term))
        for term in terms
    ]
    return quads, said


def _is_older(node: object) -> bool:
    return (
        isinstance(node, ox.NamedNode)
        and node.value.startswith(OLDER)
        and node.value[len(OLDER) :].isidentifier()
    )


def _newer(node: N) -> N | ox.NamedNode:
    return (
        ox.NamedNode(NEWER + node.value.removeprefix(OLDER))
        if isinstance(node, ox.NamedNode) and _is_older(node)
        else node
    )


def _is_class(term: ox.NamedNode) -> bool:
    """Schema.org's classes begin with a capital, its properties with a small letter."""
    return not term.value[len(OLDER)].islower()
