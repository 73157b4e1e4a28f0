"""Findings as RDF: reading returns what was written.

Mistakes in a graph of findings are reported.
"""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg import ontologies
from fedkg.errors import FedkgError
from fedkg.learned_knowledge_records import (
    CausalEdge,
    LearnedKnowledge,
    MinedNumber,
    MinedProperty,
    Precedence,
    RuleEvidence,
    UsedFile,
)
from fedkg_compiler.graph import load_graph
from fedkg_compiler.learned.from_rdf import read
from fedkg_compiler.learned.plant_nodes import plant_nodes
from fedkg_compiler.learned.to_rdf import trig

names = st.text('abcdefg_ é"\\7', min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
reals = st.floats(-1e9, 1e9, allow_nan=False)
numbers = st.builds(
    MinedNumber,
    name=st.just("low"),
    value=reals,
    unit=st.sampled_from(["", "degC", "N.m", "strange"]),
    direction=st.sampled_from(["up", "none"]),
)
steps = st.builds(
    MinedNumber, name=st.just("end"), value=st.integers(-1, 50).map(float), integer=st.just(True)
)
properties = st.builds(
    MinedProperty,
    inference=names,
    template=names,
    text=st.just("inside(volume, ?low, ?end)"),
    client=names | st.just(""),
    columns=st.sets(names, max_size=2).map(sorted).map(tuple),
    numbers=st.tuples(numbers, steps),
    traces=st.integers(1, 100),
    epsilon=st.none() | st.floats(0.125, 8),
    window=st.none()
    | st.just(("2024-03-04T09:30:00", "2024-03-05T10:00:00"))
    | st.just(("0 s", "9 s")),
)
evidence = st.builds(
    RuleEvidence,
    rule=names,
    title=names,
    kind=st.just("physical"),
    about=st.sampled_from(["data", "model"]),
    training=names,
    applied=st.integers(0, 9),
    violated=st.just(0),
    example=names | st.just(""),
)
followed = st.builds(
    Precedence,
    leads=names,
    rise=reals,
    follows=names,
    answer=reals,
    within=st.integers(1, 4),
    kept=st.floats(0, 1),
    chance=st.floats(0, 1),
    cases=st.integers(1, 99),
)
edges = st.builds(
    CausalEdge,
    driver=names,
    driven=names,
    strength=reals,
    lag=st.integers(1, 4),
    p_value=st.none() | st.floats(0.001, 1),
    adjusted=st.none() | st.floats(0.001, 1),
    precedence=st.none() | followed,
)
learnt = st.builds(
    LearnedKnowledge,
    run=st.just("ab12"),
    title=names,
    software=st.just("fedkg 0"),
    began=st.just("2026-01-31T12:00:00+01:00"),
    step=st.none() | st.just(60.0),
    window=st.none() | st.just(("row 1", "row 300")),
    files=st.just((UsedFile(name="a.csv", sha256="00"),)),
    properties=st.lists(properties, max_size=3).map(tuple),
    evidence=st.lists(evidence, max_size=3).map(tuple),
    edges=st.lists(edges, max_size=3).map(tuple),
)


def _read(text: str) -> tuple[LearnedKnowledge, ...]:
    return read(list(ox.parse(text.encode(), format=ox.RdfFormat.TRIG)), "found.trig")


@given(learnt)
def test_what_is_written_is_read_again(learned: LearnedKnowledge) -> None:
    found = _read(trig(learned))
    if not (learned.properties or learned.evidence or learned.edges):
        assert found == ()
        return
    (one,) = found
    assert (one.run, one.title, one.began, one.window) == (
        learned.run,
        learned.title,
        learned.began,
        learned.window,
    )
    assert one.properties == learned.properties
    assert one.evidence == learned.evidence
    assert one.edges == learned.edges


@given(learnt)
def test_the_same_findings_are_the_same_text(learned: LearnedKnowledge) -> None:
    assert trig(learned) == trig(learned)


def test_runs_do_not_mix() -> None:
    first = LearnedKnowledge(
        run="1",
        title="a",
        software="s",
        began="t",
        edges=(CausalEdge(driver="x", driven="y", strength=1.0),),
    )
    second = first.model_copy(update={"title": "b"})
    found = read(
        [
            *ox.parse(trig(first).encode(), format=ox.RdfFormat.TRIG),
            *ox.parse(trig(second).encode(), format=ox.RdfFormat.TRIG),
        ],
        "",
    )
    assert sorted(one.title for one in found) == ["a", "b"]
    assert all(one.edges == first.edges for one in found)


def test_units_that_our_vocabulary_has_are_nodes() -> None:
    number = MinedNumber(name="low", value=3.0, unit="degC")
    found = MinedProperty(inference="i", template="t", text="t(?low)", numbers=(number,), traces=3)
    text = trig(LearnedKnowledge(run="1", title="a", software="s", began="t", properties=(found,)))
    assert "qudt:hasUnit unit:DEG_C" in text


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("fkg:traces", "it has no fkg:traces"),
        ("qudt:numericValue", "it has no qudt:numericValue"),
        ("fkg:formula", "it has no fkg:formula"),
    ],
)
def test_a_finding_that_lacks_something_is_named(lacking: str, said: str) -> None:
    found = MinedProperty(
        inference="i",
        template="t",
        text="t(?low)",
        numbers=(MinedNumber(name="low", value=3.0),),
        traces=3,
    )
    text = trig(LearnedKnowledge(run="1", title="a", software="s", began="t", properties=(found,)))
    broken = "\n".join(line for line in text.splitlines() if lacking not in line)
    with pytest.raises(FedkgError, match=said) as told:
        _read(broken)
    assert "property-0" in str(told.value)


def test_the_share_of_further_series() -> None:
    """P = 2 numbers and S = 39 series: 1 - 2 / 40 (Campi and Garatti 2008, theorem 1)."""
    two = (MinedNumber(name="low", value=0.0), MinedNumber(name="high", value=1.0))
    assert MinedProperty(
        inference="i", template="t", text="", numbers=two, traces=39
    ).confidence == pytest.approx(0.95)
    assert (
        MinedProperty(inference="i", template="t", text="", numbers=two, traces=0).confidence == 0.0
    )


PLANT = """\
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix ref: <https://brickschema.org/schema/Brick/ref#> .
@prefix brick: <https://brickschema.org/schema/Brick#> .
@prefix plant: <https://example.org/plant#> .
plant:boiler fkg:client "house 1" ; plant:feeds plant:radiator ; brick:hasPoint plant:t1 .
plant:radiator a plant:Radiator ; brick:hasPoint plant:t2 .
plant:t1 ref:hasExternalReference [ ref:hasTimeseriesId "supply" ] .
plant:t2 ref:hasExternalReference [ ref:hasTimeseriesId "return" ] .
"""
JOIN = """\
PREFIX fkg: <https://w3id.org/fedkg/ns#>
PREFIX plant: <https://example.org/plant#>
PREFIX brick: <https://brickschema.org/schema/Brick#>
PREFIX prov: <http://www.w3.org/ns/prov#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
SELECT ?from ?to ?lead ?follow ?column WHERE {
  GRAPH ?run {
    ?edge a fkg:CausalEdge ; fkg:driverNode ?from ; fkg:drivenNode ?to ;
      fkg:leadingNode ?lead ; fkg:followingNode ?follow ;
      prov:wasGeneratedBy [ fkg:dataFrom ?first ; fkg:dataTo ?last ] .
    ?found a fkg:FoundProperty ; fkg:clientNode ?from ; fkg:columnNode ?column .
  }
  ?from plant:feeds ?to ; brick:hasPoint ?lead .
  ?to brick:hasPoint ?follow .
  FILTER(?first >= "2026-01-01T00:00:00"^^xsd:dateTime && ?last < "2026-02-01"^^xsd:date)
}
"""


def test_one_query_reads_the_plant_and_its_findings(tmp_path: Path) -> None:
    (tmp_path / "plant.ttl").write_text(PLANT, encoding="utf-8")
    follows = Precedence(
        leads="supply",
        rise=1.0,
        follows="return",
        answer=0.5,
        within=2,
        kept=0.8,
        chance=0.1,
        cases=20,
    )
    learned = LearnedKnowledge(
        run="1",
        title="heating",
        software="fedkg 0",
        began="2026-02-01T12:00:00+01:00",
        window=("2026-01-01T00:00:00", "2026-01-31"),
        properties=(
            MinedProperty(
                inference="night",
                template="inside",
                text="inside(supply, ?low)",
                client="house 1",
                columns=("supply",),
                numbers=(MinedNumber(name="low", value=20.0),),
                traces=3,
            ),
        ),
        edges=(
            CausalEdge(driver="house 1", driven="radiator", strength=0.5, precedence=follows),
            CausalEdge(driver="radiator", driven="unknown", strength=0.5),
        ),
    )
    text = ontologies.format_learned_graph(learned, [tmp_path / "plant.ttl"])
    store = ox.Store()
    store.load(PLANT.encode(), format=ox.RdfFormat.TURTLE)
    store.load(text.encode(), format=ox.RdfFormat.TRIG)
    rows = [[node.value for node in row] for row in store.query(JOIN)]  # type: ignore[union-attr]
    space = "https://example.org/plant#"
    assert rows == [[space + name for name in ("boiler", "radiator", "t1", "t2", "t1")]]
    assert text.count("fkg:drivenNode") == 1, "an unknown client has no node"
    assert _read(text)[0].edges == learned.edges


@pytest.mark.parametrize(
    ("written", "datatype"),
    [
        ("2026-01-01T00:00:00", "dateTime"),
        ("2026-01-01T00:00:00.25Z", "dateTime"),
        ("2026-01-01", "date"),
        ("row 1", "string"),
        ("192 cycle", "string"),
        ("2026-13-01", "string"),
    ],
)
def test_times_are_typed(written: str, datatype: str) -> None:
    learned = LearnedKnowledge(
        run="1", title="a", software="s", began="t", window=(written, written)
    )
    triples = ox.parse(trig(learned).encode(), format=ox.RdfFormat.TRIG)
    times = [quad.object for quad in triples if quad.predicate.value.endswith("dataFrom")]
    assert [(time.value, time.datatype.value) for time in times] == [  # type: ignore[union-attr]
        (written, f"http://www.w3.org/2001/XMLSchema#{datatype}")
    ]


def test_a_name_with_several_nodes_has_none() -> None:
    turtle_text = """\
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix p: <https://example.org/plant#> .
p:a fkg:client "one" . p:b fkg:client "one" . p:c fkg:column "T" . p:d fkg:column "T" .
p:one a p:Site .
"""
    graph, _, _ = load_graph([], {}, [], text_graphs=[("plant.ttl", turtle_text)])
    found = plant_nodes(graph, ["one", "T", "c"])
    assert found.columns == {}
    assert found.clients == {"c": "https://example.org/plant#c"}
