"""Proposals between two ontologies by name, without what has been reviewed already."""

from __future__ import annotations

from dataclasses import dataclass

import pyoxigraph as ox

from fedkg.errors import UsageError
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.ontology.alignment.alignment_terms import gather
from fedkg_compiler.ontology.alignment.suggest import Proposal, propose
from fedkg_compiler.ontology.catalog import Catalog, load_catalog
from fedkg_compiler.ontology.rdf_reader import read_file
from fedkg_compiler.ontology.standard_vocabularies import OWL

_SOURCE, _TARGET = ox.NamedNode(OWL + "annotatedSource"), ox.NamedNode(OWL + "annotatedTarget")


@dataclass(frozen=True, slots=True)
class Proposed:
    """The output of `fedkg ontology align`.

    Attributes:
        proposals: the proposed mappings, the one with the highest confidence first.
        reviewed: the number of pairs of terms that the alignments of the catalogue map already.
        prefixes: the prefixes of both ontologies, to write names.
        problems: the diagnostics of the files.
    """

    proposals: tuple[Proposal, ...]
    reviewed: int
    prefixes: dict[str, str]
    problems: tuple[Diagnostic, ...]


def align(
    first: str, second: str, *, least: float = 0.5, catalog: Catalog | None = None
) -> Proposed:
    """Return proposals between two ontologies, each a name of the catalogue or the path of an RDF
    file.

    Raises:
        UsageError: there is no such ontology or file, or it is one and the same.
    """
    if first == second:
        raise UsageError(f"{first} is to be compared with itself", expected="two ontologies")
    catalog = load_catalog() if catalog is None else catalog
    (one, said), (other, also) = gather(first, catalog), gather(second, catalog)
    if one is None or other is None:
        return Proposed((), 0, {}, (*said, *also))
    known = reviewed(catalog, first, second)
    return Proposed(
        propose(one, other, known=known, least=least),
        len(known),
        {**other.prefixes, **one.prefixes},
        (*said, *also),
    )


def reviewed(catalog: Catalog, first: str, second: str) -> frozenset[frozenset[str]]:
    """The pairs of terms that an alignment between these two ontologies maps."""
    found: set[frozenset[str]] = set()
    for alignment in catalog.alignments:
        if set(alignment.between) == {first, second}:
            document, _ = read_file(catalog.folder / alignment.file)
            ends: dict[object, set[str]] = {}
            for quad in document.triples if document is not None else ():
                if quad.predicate in (_SOURCE, _TARGET) and isinstance(quad.object, ox.NamedNode):
                    ends.setdefault(quad.subject, set()).add(quad.object.value)
            found |= {frozenset(pair) for pair in ends.values()}
    return frozenset(found)
