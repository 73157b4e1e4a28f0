"""Proposals between two ontologies by name, without what has been reviewed already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.alignment.b2mml_mapping_rules import b2mml_alignments
from fedkg_compiler.graph.alignment.mapping_proposals import Proposal, propose
from fedkg_compiler.graph.alignment.mappings import PREDICATES
from fedkg_compiler.graph.alignment.ontology_term_reader import gather
from fedkg_compiler.graph.ontologies import Catalog, load_catalog, our_file
from fedkg_compiler.graph.rdf_reader import Document


@dataclass(frozen=True, slots=True)
class Proposed:
    """The output of `fedkg ontology align`.

    Attributes:
        proposals: the proposed mappings, the one with the highest confidence first.
        reviewed: how many mappings between the two were reviewed already, or follow from a rule.
        prefixes: the prefixes of both ontologies, to write names.
        problems: the diagnostics of the files.
        by_rule: the mappings that follow from a rule (`b2mml_mapping_rules.py`), as SSSOM/TSV; ""
            if there are none.
    """

    proposals: tuple[Proposal, ...]
    reviewed: int
    prefixes: dict[str, str]
    problems: tuple[Diagnostic, ...]
    by_rule: str = ""


def align(
    first: str, second: str, *, least: float = 0.5, catalog: Catalog | None = None
) -> Proposed:
    """Return proposals between two ontologies, each a name of the catalogue or the path of an RDF
    file.

    Raises:
        UsageError: there is no such ontology or file, or it is one and the same.
    """
    if first == second:
        raise UsageError(
            f"{first} cannot be compared with itself", expected="two different ontologies"
        )
    catalog = load_catalog() if catalog is None else catalog
    (one, said), (other, also) = gather(first, catalog), gather(second, catalog)
    if one is None or other is None:
        return Proposed((), 0, {}, (*said, *also))
    ruled = [
        mapped
        for schema, isa95 in ((one, other), (other, one))
        if isa95.name == "isa95"
        for mapped in b2mml_alignments(schema.documents, isa95.documents)
    ]
    known = reviewed(catalog, first, second) | _pairs(ruled)
    return Proposed(
        propose(one, other, known=known, least=least),
        len(known),
        {**other.prefixes, **one.prefixes},
        (*said, *also),
        ruled[0].text if ruled else "",
    )


def reviewed(catalog: Catalog, first: str, second: str) -> frozenset[frozenset[str]]:
    """The pairs of terms that an alignment between these two ontologies maps."""
    documents = [
        our_file(catalog.folder / alignment.file)[0]
        for alignment in catalog.alignments
        if set(alignment.between) == {first, second}
    ]
    return _pairs(document for document in documents if document is not None)


def _pairs(documents: Iterable[Document]) -> frozenset[frozenset[str]]:
    return frozenset(
        frozenset((quad.subject.value, quad.object.value))
        for document in documents
        for quad in document.triples
        if quad.predicate.value in PREDICATES
        and isinstance(quad.subject, ox.NamedNode)
        and isinstance(quad.object, ox.NamedNode)
    )
