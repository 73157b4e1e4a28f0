"""Random little ontologies with data, over a few names, for tests of reasoning."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyoxigraph as ox
from hypothesis import strategies as st

from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS

E = "http://example.org/"
CLASSES = [f"<{E}C{i}>" for i in range(4)]
PROPERTIES = [f"<{E}p{i}>" for i in range(4)]
THINGS = [f"<{E}x{i}>" for i in range(4)]
TYPE = f"<{RDF}type>"
ONE = '"1"^^<http://www.w3.org/2001/XMLSchema#nonNegativeInteger>'
ZERO = '"0"^^<http://www.w3.org/2001/XMLSchema#nonNegativeInteger>'

Line = tuple[str, str, str]
Axiom = tuple[Line, ...]

classes = st.sampled_from([*CLASSES, "_:k0", "_:k1"])
named = st.sampled_from(CLASSES)
properties = st.sampled_from(PROPERTIES)
things = st.sampled_from(THINGS)


def owl(name: str) -> str:
    return f"<{OWL}{name}>"


def rdfs(name: str) -> str:
    return f"<{RDFS}{name}>"


def listed(owner: str, word: str, members: Sequence[str]) -> Axiom:
    """A list that `owner` has; its content names its cells, so that equal lists are one."""
    stem = "".join(c for c in f"{owner}{word}{''.join(members)}" if c.isalnum())
    cells = [f"_:l{stem}{i}" for i in range(len(members))]
    rests = [*cells[1:], f"<{RDF}nil>"]
    links = [
        ((cell, f"<{RDF}first>", member), (cell, f"<{RDF}rest>", rest))
        for cell, member, rest in zip(cells, members, rests, strict=True)
    ]
    return ((owner, owl(word), cells[0]), *itertools.chain(*links))


def short_lists(strategy: st.SearchStrategy[str], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(strategy, min_size=1, max_size=most)


def characters(*names: str) -> st.SearchStrategy[Axiom]:
    return st.builds(lambda p, kind: ((p, TYPE, owl(kind)),), properties, st.sampled_from(names))


def restriction(*told: st.SearchStrategy[Line]) -> st.SearchStrategy[Axiom]:
    """A restriction with these statements about `R` and a class in its place."""
    return st.builds(
        lambda node, p, lines: (
            (node, owl("onProperty"), p),
            *((node, word, value) for _, word, value in lines),
        ),
        classes,
        properties,
        st.tuples(*told),
    )


def value(word: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[Line]:
    return values.map(lambda one: ("R", owl(word), one))


_hierarchy = st.one_of(
    st.builds(lambda a, b: ((a, rdfs("subClassOf"), b),), classes, classes),
    st.builds(lambda a, b: ((a, owl("equivalentClass"), b),), classes, classes),
    st.builds(lambda p, q: ((p, rdfs("subPropertyOf"), q),), properties, properties),
    st.builds(
        lambda p, w, q: ((p, owl(w), q),),
        properties,
        st.sampled_from(["equivalentProperty", "inverseOf"]),
        properties,
    ),
    st.builds(
        lambda p, w, c: ((p, rdfs(w), c),),
        properties,
        st.sampled_from(["domain", "range"]),
        classes,
    ),
)
_lists = st.one_of(
    st.builds(
        lambda p, m: listed(p, "propertyChainAxiom", m),
        properties,
        st.lists(properties, min_size=2, max_size=3),
    ),
    st.builds(
        lambda c, w, m: listed(c, w, m),
        classes,
        st.sampled_from(["intersectionOf", "unionOf"]),
        short_lists(classes, 3),
    ),
    st.builds(lambda c, m: listed(c, "oneOf", m), classes, short_lists(things, 2)),
)
_restrictions = st.one_of(
    restriction(value("someValuesFrom", st.one_of(classes, st.just(owl("Thing"))))),
    restriction(value("allValuesFrom", classes)),
    restriction(value("hasValue", things)),
    restriction(value("maxCardinality", st.just(ONE))),
    restriction(
        value("maxQualifiedCardinality", st.just(ONE)),
        value("onClass", st.one_of(classes, st.just(owl("Thing")))),
    ),
)
schema = st.one_of(
    _hierarchy,
    _lists,
    _restrictions,
    characters(
        "FunctionalProperty", "InverseFunctionalProperty", "TransitiveProperty", "SymmetricProperty"
    ),
)
keys = st.builds(lambda c, m: listed(c, "hasKey", m), classes, short_lists(properties, 2))
facts = st.one_of(
    st.builds(lambda x, p, y: ((x, p, y),), things, properties, things),
    st.builds(lambda x, c: ((x, TYPE, c),), things, classes),
    st.builds(lambda x, y: ((x, owl("sameAs"), y),), things, things),
)
literals = st.builds(
    lambda x, p, v: ((x, p, v),), things, properties, st.sampled_from(['"5"', '"6"', ONE])
)
prohibitions = st.one_of(
    st.builds(
        lambda a, w, b: ((a, owl(w), b),),
        classes,
        st.sampled_from(["disjointWith", "complementOf"]),
        classes,
    ),
    st.builds(lambda p, q: ((p, owl("propertyDisjointWith"), q),), properties, properties),
    characters("AsymmetricProperty", "IrreflexiveProperty"),
    st.builds(lambda a, b: ((a, owl("differentFrom"), b),), things, things),
    st.builds(
        lambda m: (("_:all", TYPE, owl("AllDifferent")), *listed("_:all", "members", m)),
        st.lists(things, min_size=2, max_size=3),
    ),
    st.builds(
        lambda m: (("_:apart", TYPE, owl("AllDisjointClasses")), *listed("_:apart", "members", m)),
        st.lists(classes, min_size=2, max_size=3),
    ),
    restriction(value("maxCardinality", st.just(ZERO))),
    st.builds(
        lambda x, p, y: (
            ("_:not", owl("sourceIndividual"), x),
            ("_:not", owl("assertionProperty"), p),
            ("_:not", owl("targetIndividual"), y),
        ),
        things,
        properties,
        things,
    ),
)


def text_of(axioms: Sequence[Axiom]) -> str:
    """N-Triples, each line once."""
    return "".join(sorted({f"{' '.join(line)} .\n" for axiom in axioms for line in axiom}))


def quads_of(axioms: Sequence[Axiom]) -> list[ox.Quad]:
    """The triples, with the blank nodes as they are named here."""
    return [
        ox.Quad(node(s), predicate(p), node(o))
        for s, p, o in sorted({line for axiom in axioms for line in axiom})
    ]


def node(text: str) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    if text.startswith("<"):
        return ox.NamedNode(text[1:-1])
    if text.startswith("_:"):
        return ox.BlankNode(text[2:])
    lexical, _, datatype = text[1:].partition('"')
    return (
        ox.Literal(lexical, datatype=ox.NamedNode(datatype[3:-1]))
        if datatype
        else ox.Literal(lexical)
    )


def predicate(text: str) -> ox.NamedNode:
    return ox.NamedNode(text[1:-1])
