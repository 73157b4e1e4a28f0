"""Shapes over observed values: row for row the focus nodes that pySHACL finds in the graph with the
row's values written into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from rdflib import Graph
from shacl_plant import HEAD, compile_shapes, dealt, ours, theirs

from fedkg.pack import Pack

PROPERTY = [
    "sh:path plant:state ; sh:pattern '^O' ; sh:flags 'i'",
    "sh:path plant:state ; sh:minLength 3",
    "sh:path plant:state ; sh:maxLength 2",
    "sh:path plant:state ; sh:nodeKind sh:IRI",
    "sh:path plant:state ; sh:datatype xsd:string",
    "sh:path plant:note ; sh:languageIn ( 'en' 'fr' )",
    "sh:path plant:note ; sh:datatype rdf:langString",
    "sh:path [ sh:alternativePath ( plant:note ( plant:feeds plant:note ) ) ] ; sh:uniqueLang true",
    "sh:path plant:material ; sh:class plant:Metal",
    "sh:path plant:material ; sh:nodeKind sh:IRI",
    "sh:path plant:material ; sh:pattern 'plant#[SB]'",
    "sh:path plant:material ; sh:in ( plant:Steel plant:Pine )",
    "sh:path ( plant:feeds plant:material ) ; sh:not [ sh:class plant:Wood ]",
    "sh:path plant:material ; sh:or ( [ sh:class plant:Iron ] [ sh:pattern 'Pine' ] )",
    "sh:path plant:pressure ; sh:class plant:Metal",
    "sh:path plant:pressure ; sh:datatype xsd:double",
    "sh:path plant:pressure ; sh:nodeKind sh:Literal",
    "sh:path plant:pressure ; sh:languageIn ( 'en' )",
    "sh:path plant:pressure ; sh:minLength 1",
    "sh:path plant:pressure ; sh:lessThan plant:level",
    (
        "sh:path plant:pressure ; {sparql 'SELECT $this ?value WHERE {{ $this $PATH ?value . "
        "FILTER(?value > 5) }}'}"
    ),
    (
        "sh:path ( plant:feeds plant:pressure ) ; {sparql 'SELECT $this ?value WHERE {{ $this "
        "$PATH ?value . FILTER(?value > 5) }}'}"
    ),
    "sh:path plant:pressure ; plant:most 7",
    "sh:path [ sh:alternativePath ( plant:pressure plant:level ) ] ; plant:most 8",
]
NODE = [
    (
        "sh:closed true ; sh:ignoredProperties ( rdf:type plant:feeds plant:serial "
        "plant:maxPressure plant:pressure plant:note plant:level )"
    ),
    (
        "sh:or ( [ sh:path plant:state ; sh:pattern 'n$' ] [ sh:path plant:pressure ; "
        "sh:maxInclusive 4 ] )"
    ),
    "{sparql 'SELECT $this WHERE {{ $this p:pressure ?v ; p:maxPressure ?m . FILTER(?v > ?m) }}'}",
    (
        "{sparql 'SELECT $this WHERE {{ $this p:pressure ?v ; p:feeds ?o . ?o p:pressure ?w . "
        "FILTER(?v + 1 < ?w) }}'}"
    ),
    (
        "{sparql 'SELECT $this WHERE {{ {{ $this p:pressure ?v . FILTER(?v > 6) }} UNION {{ "
        '$this p:state "stuck" }} }}\'}'
    ),
    (
        "{sparql 'SELECT $this WHERE {{ $this p:serial ?s . FILTER NOT EXISTS {{ $this "
        "p:pressure ?v }} }}'}"
    ),
    (
        "{sparql 'SELECT $this WHERE {{ $this p:pressure ?v . FILTER NOT EXISTS {{ $this "
        "p:level ?l . FILTER(?l > ?v) }} }}'}"
    ),
    (
        "{sparql 'SELECT $this WHERE {{ $this p:material p:Pine . OPTIONAL {{ $this p:level ?l "
        "}} FILTER(!bound(?l) || ?l < 3) }}'}"
    ),
    (
        "{sparql 'SELECT $this WHERE {{ {{ FILTER($this != p:P2) }} $this p:level ?l . "
        "FILTER(?l > 4) }}'}"
    ),
    (
        "{sparql 'SELECT $this WHERE {{ {{ SELECT $this WHERE {{ $this p:pressure ?v . "
        "FILTER(?v >= 5) }} }} }}'}"
    ),
    (
        "{sparql 'SELECT $this (SUM(?v) AS ?value) WHERE {{ $this p:feeds ?o . ?o p:pressure "
        "?v }} GROUP BY $this HAVING (SUM(?v) > 9)'}"
    ),
    "plant:above 3 ; plant:of plant:level",
]


def asked(pattern: str) -> str:
    """A target by a query."""
    return (
        "sh:target [ a sh:SPARQLTarget ; sh:prefixes <https://example.org/plant> ; sh:select"
        f' "SELECT ?this WHERE {{ {pattern} }}" ]'
    )


TARGETS = [
    asked("?this p:serial ?s"),
    "sh:target [ a plant:StrongerThan ; plant:limit 5 ]",
    "sh:targetSubjectsOf plant:state",
    "sh:targetObjectsOf plant:feeds",
    asked("?this p:level ?l FILTER(?l > 5)"),
    asked("?this p:feeds ?o . ?o p:state 'on'"),
    asked("{ ?this p:level ?l FILTER(?l > 7) } UNION { ?this p:serial ?s }"),
]
COMPONENTS = """
plant:StrongerThan a sh:SPARQLTargetType ; rdfs:subClassOf sh:Target ;
    sh:parameter [ sh:path plant:limit ] ;
    sh:prefixes <https://example.org/plant> ;
    sh:select "SELECT ?this WHERE { ?this p:maxPressure ?m . FILTER(?m > $limit) }" .
plant:MostComponent a sh:ConstraintComponent ; sh:parameter [ sh:path plant:most ] ;
    sh:validator [ a sh:SPARQLAskValidator ; sh:ask "ASK { FILTER($value <= $most) }" ] .
plant:AboveComponent a sh:ConstraintComponent ;
    sh:parameter [ sh:path plant:above ] , [ sh:path plant:of ] ;
    sh:nodeValidator [ a sh:SPARQLSelectValidator ; sh:prefixes <https://example.org/plant> ;
        sh:select "SELECT $this WHERE { $this p:level ?v . FILTER(?v <= $above) }" ] .
"""


def sparql(text: str) -> str:
    return (
        'sh:sparql [ sh:prefixes <https://example.org/plant> ; sh:message "no" ; sh:select'
        f' """{text}""" ]'
    )


def written(body: str) -> str:
    """A template with ``{sparql '...'}`` spelt out."""
    head, mark, rest = body.partition("{sparql '")
    return (
        body
        if not mark
        else head + sparql(rest.removesuffix("'}").replace("{{", "{").replace("}}", "}"))
    )


def shapes() -> str:
    bodies = [
        f"sh:property plant:S{i}_ . plant:S{i}_ {written(body)}" for i, body in enumerate(PROPERTY)
    ]
    bodies += [written(body) for body in NODE]
    lines = [
        f"plant:S{i} a sh:NodeShape ; sh:targetClass plant:Pump ; {body} ."
        for i, body in enumerate(bodies)
    ]
    first = len(lines)
    lines += [
        f"plant:S{first + i} a sh:NodeShape ; {target} ; sh:property plant:S{first + i}_ . "
        f"plant:S{first + i}_ sh:path plant:pressure ; "
        "sh:maxInclusive 2 ; sh:minCount 1 ; "
        f"{sparql('SELECT $this WHERE { $this $PATH ?v . FILTER(?v < 1) }')} ."
        for i, target in enumerate(TARGETS)
    ]
    return HEAD + COMPONENTS + "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """The pack of all shapes, and their graph for pySHACL."""

    pack: Pack
    shapes: Graph


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder: Path = tmp_path_factory.mktemp("plant")
    found = compile_shapes(folder, shapes())
    assert found.pack is not None, found.diagnostics
    assert [
        item.message for item in found.diagnostics if item.code in ("FKG312", "FKG313", "FKG316")
    ] == []
    return Compiled(pack=found.pack, shapes=Graph().parse(data=shapes(), format="turtle"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_each_row_violates_what_pyshacl_finds_in_its_graph(compiled: Compiled, seed: int) -> None:
    rows = dealt(seed, 3)
    found = ours(compiled.pack, rows)
    expected = theirs(compiled.shapes, rows)
    assert sorted(found - expected) == []
    assert sorted(expected - found) == []
    assert len({shape for _, shape, _ in expected}) > 20
