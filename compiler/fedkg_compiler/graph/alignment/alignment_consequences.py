"""The effect of the reviewed mappings between ontologies: their triples, and the consequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, ConfigDict

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.alignment.mappings import PREDICATES, equivalences, exact_matches
from fedkg_compiler.graph.contradictions import shown
from fedkg_compiler.graph.ontologies import Catalog
from fedkg_compiler.graph.owl_rl_closure import SUB_CLASS, SUB_PROPERTY, TYPE, follows
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS

Line = tuple[str, str, str]
_TELLING = frozenset({SUB_CLASS, SUB_PROPERTY, TYPE})
_VOCABULARY = (RDF, RDFS, OWL)


class Entailed(BaseModel):
    """The number of triples that mappings state and entail.

    Attributes:
        mappings: the number of mappings, by predicate.
        said: the subclass, subproperty and type triples of named terms that the mappings state and
            the ontologies do not entail.
        follows: the subclass, subproperty and type triples of named terms that nobody states and
            that follow only with the mappings.
    """

    model_config = ConfigDict(frozen=True)

    mappings: dict[str, int]
    said: tuple[Line, ...]
    follows: tuple[Line, ...]


def entailed(
    documents: Sequence[Document], aligned: Sequence[Document], catalog: Catalog
) -> Entailed:
    """Return what alignment files bring about over the files of their ontologies, by the rules that
    every compilation applies.

    Args:
        documents: the files of the ontologies.
        aligned: the alignment files between these ontologies.
        catalog: the catalogue of ontologies, for the prefixes of names.
    """
    alone = [quad for document in documents for quad in document.triples]
    mapped = [quad for document in aligned for quad in document.triples]
    mapped += equivalences(exact_matches(aligned), documents)
    together = [*alone, *mapped]
    before, said = _named(alone) | _named(follows(alone)), _named(mapped)
    after = _named(follows(together)) - before - said
    prefixes = {
        prefix: space
        for name in catalog.names()
        for prefix, space in catalog.prefixes_of(name).items()
    }
    prefixes |= {"rdfs": RDFS, "skos": "http://www.w3.org/2004/02/skos/core#"}
    counted = Counter(
        shown(quad.predicate, prefixes)
        for document in aligned
        for quad in document.triples
        if quad.predicate.value in PREDICATES
    )
    return Entailed(
        mappings=dict(sorted(counted.items())),
        said=_lines(said - before, prefixes),
        follows=_lines(after, prefixes),
    )


def _named(triples: Iterable[ox.Quad]) -> set[ox.Triple]:
    """The subclasses, subproperties and types of named terms, but for those that are of the
    vocabulary itself.
    """
    return {
        quad.triple
        for quad in triples
        if quad.predicate in _TELLING
        and isinstance(quad.subject, ox.NamedNode)
        and isinstance(quad.object, ox.NamedNode)
        and quad.subject != quad.object
        and not quad.object.value.startswith(_VOCABULARY)
    }


def _lines(triples: Iterable[ox.Triple], prefixes: dict[str, str]) -> tuple[Line, ...]:
    return tuple(
        sorted(
            (
                shown(one.subject, prefixes),
                shown(one.predicate, prefixes),
                shown(one.object, prefixes),
            )
            for one in triples
        )
    )
