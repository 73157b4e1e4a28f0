"""The closure of official files equals owlrl's, except for deliberate omissions of either."""

from __future__ import annotations

import warnings

import owlrl
import pyoxigraph as ox
import pytest
import rdflib
from shared import SHARED, needs_shared

from fedkg_compiler.graph.owl_rl_closure import follows
from fedkg_compiler.graph.rdf_reader import read_file

FILES = (
    "mason/mason.owl",
    "isa95-dinen62264-2/DINEN62264.owl",
    "ammo/ammo-0.6.0-merged.ttl",
    "iof/Maintenance.rdf",
    "iof/bfo.rdf",
)
W3C = "http://www.w3.org/"
Spoken = tuple[str, str, str]


def counts(spoken: Spoken) -> bool:
    """Whether a triple joins named nodes outside W3C's terms (owlrl adds axiomatic triples for
    those), and not a node with itself.
    """
    s, _, o = spoken
    named = (
        s.startswith("<") and not s.startswith(f"<{W3C}") and not o.startswith(("_:", f"<{W3C}"))
    )
    return named and s != o


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_official_files_have_the_closure_that_owlrl_gives_them(file: str) -> None:
    document, _ = read_file(SHARED / "ontologies" / file)
    assert document is not None
    ours = {
        spoken
        for quad in (*document.triples, *follows(document.triples, all_rules=True))
        if counts(spoken := (str(quad.subject), str(quad.predicate), str(quad.object)))
    }
    theirs = {spoken for spoken in by_owlrl(document.triples) if counts(spoken)}
    assert theirs - ours == set()
    assert ours - theirs == set()


def by_owlrl(triples: tuple[ox.Quad, ...]) -> set[Spoken]:
    body = ox.serialize([quad.triple for quad in triples], format=ox.RdfFormat.N_TRIPLES)
    assert body is not None
    graph = rdflib.Graph().parse(data=body.decode(), format="nt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    store = ox.Store()
    kept = rdflib.Graph()
    for triple in graph:
        if isinstance(triple[0], rdflib.URIRef) and isinstance(triple[1], rdflib.URIRef):
            kept.add(triple)
    store.load(kept.serialize(format="nt").encode(), format=ox.RdfFormat.N_TRIPLES, lenient=True)
    return {(str(quad.subject), str(quad.predicate), str(quad.object)) for quad in store}
