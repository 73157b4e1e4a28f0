"""The closure against the same rules written naively over rdflib, to their fixpoint."""

from __future__ import annotations

import itertools

import pyoxigraph as ox
import rdflib
from hypothesis import example, given
from hypothesis import strategies as st
from rdflib import OWL, RDF, RDFS
from rdflib.collection import Collection
from tries import tries

from fedkg_compiler.graph.owl_rl_closure import follows

E = "http://example.org/"
CLASSES = [E + f"C{i}" for i in range(5)]
PROPERTIES = [E + f"p{i}" for i in range(4)]
THINGS = [E + f"x{i}" for i in range(4)]

Triple = tuple[str, str, str]


def naive(graph: rdflib.Graph) -> None:
    """Apply every rule to every pair of triples until nothing is new.

    Statements about blank classes are removed at the end.
    """
    asserted = set(graph)
    while True:
        new = set()
        for s, _, o in graph.triples((None, OWL.equivalentClass, None)):
            new |= {(s, RDFS.subClassOf, o), (o, RDFS.subClassOf, s)}
        for s, _, o in graph.triples((None, OWL.equivalentProperty, None)):
            new |= {(s, RDFS.subPropertyOf, o), (o, RDFS.subPropertyOf, s)}
        for s, _, head in graph.triples((None, OWL.intersectionOf, None)):
            new |= {(s, RDFS.subClassOf, member) for member in Collection(graph, head)}
        for s, _, head in graph.triples((None, OWL.unionOf, None)):
            new |= {(member, RDFS.subClassOf, s) for member in Collection(graph, head)}
        for relation in (RDFS.subClassOf, RDFS.subPropertyOf):
            for a, _, b in graph.triples((None, relation, None)):
                new |= {(a, relation, c) for c in graph.objects(b, relation)}
        for a, _, b in graph.triples((None, RDFS.subClassOf, None)):
            new |= {(s, RDF.type, b) for s in graph.subjects(RDF.type, a)}
        for p, _, q in graph.triples((None, RDFS.subPropertyOf, None)):
            new |= {(s, q, o) for s, _, o in graph.triples((None, p, None))}
        for p, _, c in graph.triples((None, RDFS.domain, None)):
            new |= {(s, RDF.type, c) for s, _, _ in graph.triples((None, p, None))}
        for p, _, c in graph.triples((None, RDFS.range, None)):
            new |= {
                (o, RDF.type, c)
                for _, _, o in graph.triples((None, p, None))
                if not isinstance(o, rdflib.Literal)
            }
        for p, _, q in graph.triples((None, OWL.inverseOf, None)):
            for one, other in ((p, q), (q, p)):
                new |= {
                    (o, other, s)
                    for s, _, o in graph.triples((None, one, None))
                    if not isinstance(o, rdflib.Literal)
                }
        for p in graph.subjects(RDF.type, OWL.SymmetricProperty):
            new |= {
                (o, p, s)
                for s, _, o in graph.triples((None, p, None))
                if not isinstance(o, rdflib.Literal)
            }
        for p in graph.subjects(RDF.type, OWL.TransitiveProperty):
            new |= {
                (a, p, c) for a, _, b in graph.triples((None, p, None)) for c in graph.objects(b, p)
            }
        new = {
            (s, p, o)
            for s, p, o in new - set(graph)
            if not (p in (RDFS.subClassOf, RDFS.subPropertyOf) and s == o)
        }
        if not new:
            break
        for triple in new:
            graph.add(triple)
    hierarchy = (RDFS.subClassOf, RDFS.subPropertyOf)
    for s, p, o in set(graph) - asserted:
        ends = (s, o) if p in hierarchy else (o,) if p == RDF.type else ()
        if any(isinstance(end, rdflib.BNode) for end in ends):
            graph.remove((s, p, o))


def closed(text: str) -> set[str]:
    triples = list(ox.parse(text.encode(), format=ox.RdfFormat.N_TRIPLES))
    added = follows(triples)
    assert len({*triples, *added}) == len(set(triples)) + len(added)
    assert not follows([*triples, *added])
    return {f"{quad.subject} {quad.predicate} {quad.object}" for quad in (*triples, *added)}


def reference(text: str) -> set[str]:
    graph = rdflib.Graph().parse(data=text, format="nt")
    naive(graph)
    out = rdflib.Graph()
    for triple in graph:
        out.add(triple)
    store = ox.Store()
    store.load(out.serialize(format="nt").encode(), format=ox.RdfFormat.N_TRIPLES)
    return {f"{quad.subject} {quad.predicate} {quad.object}" for quad in store}


def line(s: str, p: str, o: str) -> str:
    def term(text: str) -> str:
        return text if text.startswith(("_:", '"')) else f"<{text}>"

    return f"{term(s)} {term(p)} {term(o)} ."


classes = st.sampled_from([*CLASSES, "_:k0", "_:k1"])
properties = st.sampled_from(PROPERTIES)
schema = st.one_of(
    st.tuples(classes, st.sampled_from([str(RDFS.subClassOf), str(OWL.equivalentClass)]), classes),
    st.tuples(
        properties,
        st.sampled_from([str(RDFS.subPropertyOf), str(OWL.equivalentProperty), str(OWL.inverseOf)]),
        properties,
    ),
    st.tuples(properties, st.sampled_from([str(RDFS.domain), str(RDFS.range)]), classes),
    st.tuples(
        properties,
        st.just(str(RDF.type)),
        st.sampled_from([str(OWL.TransitiveProperty), str(OWL.SymmetricProperty)]),
    ),
)
named_classes = st.sampled_from(CLASSES)
unusual = st.one_of(
    st.tuples(
        properties,
        st.just(str(RDFS.subPropertyOf)),
        st.sampled_from([str(RDF.type), str(RDFS.subClassOf), str(RDFS.domain)]),
    ),
    st.tuples(
        st.sampled_from([str(RDF.type), str(RDFS.subClassOf)]),
        st.just(str(RDFS.subPropertyOf)),
        properties,
    ),
    st.tuples(named_classes, properties, named_classes),
)
facts = st.one_of(
    st.tuples(
        st.sampled_from(THINGS), properties, st.one_of(st.sampled_from(THINGS), st.just('"5"'))
    ),
    st.tuples(st.sampled_from(THINGS), st.just(str(RDF.type)), classes),
)


@tries(75)
@given(st.lists(schema, max_size=8), st.lists(facts, max_size=8))
def test_the_closure_is_the_fixpoint_of_its_rules(
    ontology: list[Triple], data: list[Triple]
) -> None:
    text = "\n".join(sorted({line(*triple) for triple in itertools.chain(ontology, data)})) + "\n"
    assert named(closed(text)) == named(reference(text))


@example(  # a class below itself is never inferred, but matters if it is asserted
    [(CLASSES[0], str(RDFS.subClassOf), CLASSES[0])],
    [],
    [(str(RDFS.subClassOf), str(RDFS.subPropertyOf), PROPERTIES[0])],
)
@tries(75)
@given(
    st.lists(schema, max_size=6),
    st.lists(facts, max_size=6),
    st.lists(unusual, min_size=1, max_size=3),
)
def test_schema_that_follows_from_data_is_taken_up(
    ontology: list[Triple], data: list[Triple], odd: list[Triple]
) -> None:
    triples = [
        triple
        for triple in itertools.chain(ontology, data, odd)
        if not any(part.startswith("_:") for part in triple)
    ]
    text = "\n".join(sorted({line(*triple) for triple in triples})) + "\n"
    assert named(closed(text)) == named(reference(text))


def named(triples: set[str]) -> set[str]:
    """Triples without blank nodes, because labels of blank nodes differ between the two sides."""
    return {text for text in triples if "_:" not in text}


def test_lists_of_classes_are_read() -> None:
    both = f"{E}A", f"{E}B"
    text = (
        f"<{E}Both> <{OWL.intersectionOf}> _:l0 .\n_:l0 <{RDF.first}> <{both[0]}> .\n_:l0 "
        f"<{RDF.rest}> _:l1 .\n"
        f"_:l1 <{RDF.first}> <{both[1]}> .\n_:l1 <{RDF.rest}> <{RDF.nil}> .\n"
        f"<{E}Either> <{OWL.unionOf}> _:l0 .\n<{E}x> <{RDF.type}> <{E}Both> .\n<{E}y> "
        f"<{RDF.type}> <{E}B> .\n"
    )
    result = closed(text)
    assert named(result) == named(reference(text))
    assert f"<{E}x> <{RDF.type}> <{E}Either>" in result
    assert f"<{E}y> <{RDF.type}> <{E}Either>" in result
    assert f"<{E}y> <{RDF.type}> <{E}Both>" not in result


def test_a_list_that_runs_in_a_circle_ends() -> None:
    text = (
        f"<{E}U> <{OWL.unionOf}> _:l .\n_:l <{RDF.first}> <{E}A> .\n_:l <{RDF.rest}> "
        f"_:l .\n<{E}x> <{RDF.type}> <{E}A> .\n"
    )
    assert f"<{E}x> <{RDF.type}> <{E}U>" in closed(text)


def test_a_circle_of_parts_ends() -> None:
    p = E + "partOf"
    text = (
        "".join(line(E + a, p, E + b) + "\n" for a, b in ("ab", "bc", "ca"))
        + line(p, str(RDF.type), str(OWL.TransitiveProperty))
        + "\n"
    )
    assert {f"<{E}{a}> <{p}> <{E}{b}>" for a in "abc" for b in "abc"} <= closed(text)


def test_a_type_that_follows_through_a_pattern_of_its_own_is_taken_up() -> None:
    """A subproperty of rdf:type gives types, and a subproperty of rdfs:subClassOf gives a
    hierarchy.
    """
    text = "".join(
        line(*triple) + "\n"
        for triple in (
            (E + "isA", str(RDFS.subPropertyOf), str(RDF.type)),
            (E + "under", str(RDFS.subPropertyOf), str(RDFS.subClassOf)),
            (E + "x", E + "isA", E + "A"),
            (E + "A", E + "under", E + "B"),
        )
    )
    assert f"<{E}x> <{RDF.type}> <{E}B>" in closed(text)
