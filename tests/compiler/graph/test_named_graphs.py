"""Statements lie in the named graph of their source, and rules see the user's data and what it
entails.

The oracle for files with named graphs is pyoxigraph; that for inferences is the closure of all
triples without their graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from command import call
from graph_cases import HERE

from fedkg_compiler import compile_rules
from fedkg_compiler.graph import Catalog, Graph, load_graph
from fedkg_compiler.graph.owl_rl_closure import follows
from fedkg_compiler.graph.rdf_reader import (
    DEFAULT,
    INFERRED,
    VOCABULARY_INFERRED,
    checksum,
    file_graph,
    inferred_graph,
    kind_of,
    read_rdf,
)
from fedkg_compiler.graph.stores.store_writing import load_files

P = "https://example.org/plant#"
PREFIXES = f"""@prefix p: <{P}> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
RUN = "urn:fedkg:run:abc"
TRIG = f"""{PREFIXES}
p:M1 a p:Mill ; p:line [ p:name "a" ] .
p:Mill rdfs:subClassOf p:Machine .
p:survey {{ p:M1 p:maxTorque 60 . p:M2 a p:Mill ; p:maxTorque 40 ; p:line [ p:name "b" ] . }}
<{RUN}> {{ p:M9 a p:Mill ; p:maxTorque 10 . }}
_:x {{ p:M3 a p:Mill . p:survey p:made "2025" . }}
"""
RULE = f"prefix p: <{P}>\nsignal torque in N.m\n"


def triples(quads: object) -> set[ox.Triple]:
    return {quad.triple for quad in quads}  # type: ignore[attr-defined]


def as_stored(quads: Sequence[ox.Quad]) -> set[ox.Triple]:
    """The triples with their numbers as a store writes them."""
    store = ox.Store()
    store.extend(quads)
    return triples(store)


def in_graphs(graph: Graph) -> dict[str, set[ox.Triple]]:
    """The triples of each named graph; those of the default graph under ""."""
    found: dict[str, set[ox.Triple]] = {}
    for quad in graph.with_named_graphs():
        name = quad.graph_name.value if isinstance(quad.graph_name, ox.NamedNode) else ""
        found.setdefault(name, set()).add(quad.triple)
    return found


@pytest.fixture(scope="module")
def plant(catalog: Catalog) -> Graph:
    graph, problems, _ = load_graph(
        [("isa95", HERE)], {}, [], catalog=catalog, text_graphs=[("plant.trig", TRIG)]
    )
    assert [item.code for item in problems] == []
    return graph


def test_the_named_graphs_of_a_file_are_those_that_pyoxigraph_reads(plant: Graph) -> None:
    theirs = ox.Store()
    theirs.load(TRIG.encode(), format=ox.RdfFormat.TRIG)
    names = {node.value for node in theirs.named_graphs() if isinstance(node, ox.NamedNode)}
    found = in_graphs(plant)
    assert {iri for iri in found if kind_of(iri) in ("data", "learned")} - {""} == {
        "file:///plant.trig",
        *names,
    }
    for name in names:
        count = len(list(theirs.quads_for_pattern(None, None, None, ox.NamedNode(name))))
        assert len(found[name]) == count
    outside = [quad for quad in theirs if not isinstance(quad.graph_name, ox.NamedNode)]
    assert len(found["file:///plant.trig"]) == len(outside)


def test_the_default_graph_is_the_data_and_what_it_entails(plant: Graph) -> None:
    found = in_graphs(plant)
    data = found["file:///plant.trig"] | found[P + "survey"]
    assert found[""] == data | found[INFERRED]
    assert not data & found[INFERRED]


def test_all_graphs_together_are_the_closure_of_all_triples(plant: Graph) -> None:
    """Without the findings, from which nothing follows."""
    assert plant.told is not None
    found = in_graphs(plant)
    told = plant.told.triples()
    whole = as_stored([*told, *follows(told)])
    assert set().union(*(found[iri] for iri in found if kind_of(iri) != "learned")) == whole


def test_what_the_data_entails_is_what_the_ontologies_do_not(plant: Graph) -> None:
    assert plant.told is not None
    base = [
        quad
        for graph in plant.told.graphs()
        if graph.kind == "vocabulary"
        for quad in graph.triples
    ]
    known = as_stored([*base, *follows(base)])
    found = in_graphs(plant)
    assert found[VOCABULARY_INFERRED] == known - as_stored(base)
    assert not found[INFERRED] & known
    assert ox.Triple(*map(ox.NamedNode, (P + "M2", TYPE, P + "Machine"))) in found[INFERRED]


TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def test_nothing_follows_from_findings(plant: Graph) -> None:
    assert plant.instances(P + "Machine") == [P + "M1", P + "M2", P + "M3"]
    assert plant.instances(P + "Mill", vocabularies=True) == [P + f"M{i}" for i in (1, 2, 3, 9)]
    assert plant.select("?m a p:Mill", ["m"], span=HERE)[0] == []  # the prefix is not declared


def test_a_file_that_repeats_a_vocabulary_entails_what_it_does(catalog: Catalog) -> None:
    """QUDT entails classes of a unit; the data that describes the unit entails them too."""
    text = PREFIXES + "unit:BAR a qudt:Unit ."
    graph, _, _ = load_graph([], {}, [], catalog=catalog, text_graphs=[("g.ttl", text)])
    bar = ox.NamedNode("http://qudt.org/vocab/unit/BAR")
    everywhere = triples(graph.store.quads_for_pattern(bar, ox.NamedNode(TYPE), None))
    own = triples(graph.store.quads_for_pattern(bar, ox.NamedNode(TYPE), None, DEFAULT))
    assert own == everywhere
    assert graph.instances("http://qudt.org/schema/qudt/Unit") == [bar.value]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "plant.trig"
    path.write_text(TRIG, encoding="utf-8")
    return path


def test_formats_and_stores_give_one_pack(file: Path, tmp_path: Path) -> None:
    """A file of the same name in another format, and a store, have the same graphs."""
    quads = list(ox.parse(file.read_bytes(), format=ox.RdfFormat.TRIG))
    other = tmp_path / "b" / "plant.nq"
    other.parent.mkdir()
    ox.serialize(reversed(quads), output=other, format=ox.RdfFormat.N_QUADS)
    load_files(tmp_path / "plant.store", [file])
    rules = RULE + "\n".join(
        (
            "rule all for ?m in class p:Machine require torque <= 9 N.m",
            (
                "rule some for ?m, ?t where { GRAPH p:survey { ?m p:maxTorque ?t } }"
                " require torque <= ?t * 1 N.m"
            ),
            (
                f"rule found for ?m where {{ GRAPH <{RUN}> {{ ?m a p:Mill }} }}"
                " require torque <= 8 N.m"
            ),
            (
                "rule line for ?m, ?n where { GRAPH ?g { ?m p:line ?l . ?l p:name ?n } }"
                " require torque <= 7 N.m"
            ),
        )
    )
    packs = [
        compile_rules(text=rules, graphs=[place])
        for place in (file, other, tmp_path / "plant.store", tmp_path / "plant.store")
    ]
    problems = [item for one in packs for item in one.diagnostics]
    assert [item.code for item in problems if item.severity == "error"] == []
    bodies = {one.pack.to_bytes() for one in packs if one.pack is not None}
    assert len(bodies) == 1


def test_the_checksum_covers_the_names_of_graphs() -> None:
    def of(text: str, name: str) -> str:
        document, _ = read_rdf((PREFIXES + text).encode(), file=name)
        assert document is not None
        return checksum([document])

    assert of("p:g { p:a p:b p:c }", "a.trig") != of("p:h { p:a p:b p:c }", "a.trig")
    assert of("p:a p:b p:c .", "a.trig") == of("p:a p:b p:c .", "a.ttl")
    assert of("{ p:a p:b p:c }", "a.trig") == of("p:a p:b p:c .", "a.ttl")


def rows(file: Path, where: str, variables: str = "?m", client: str = "") -> int:
    """The number of bound rows of a rule over a pattern."""
    text = f"{RULE}rule r for {variables} where {{ {where} }} require torque <= 5 N.m"
    compilation = compile_rules(text=text, graphs=[file], client=client)
    if compilation.pack is None:
        assert "FKG173" in {item.code for item in compilation.diagnostics}
        return 0
    return sum(bank.rule.shape[0] for bank in compilation.pack.banks)


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("?m a p:Mill", 3),
        ("?m a p:Machine", 3),
        ("GRAPH p:survey { ?m a p:Mill }", 1),
        ("GRAPH <file:///plant.trig> { ?m a p:Mill }", 2),
        ("GRAPH <urn:fedkg:inferred> { ?m a p:Machine }", 3),
        ("GRAPH ?g { ?m a p:Mill }", 4),
        ("?m a p:Mill FILTER NOT EXISTS { GRAPH p:survey { ?m p:maxTorque ?t } }", 1),
        ("?g p:made ?year GRAPH ?g { ?m p:maxTorque ?t }", 2),
        ("?m a p:Mill . GRAPH <urn:fedkg:run:abc> { ?m p:maxTorque ?t }", 0),
    ],
)
def test_patterns_address_graphs(file: Path, where: str, count: int) -> None:
    assert rows(file, where) == count


@pytest.mark.parametrize("kind", ["inferred", "ontology:x", "vocabulary:qudt"])
def test_a_file_cannot_write_into_the_graphs_of_fedkg(kind: str) -> None:
    name = f"<urn:fedkg:{kind}>"
    _, problems = read_rdf(f"{PREFIXES}\n{name} {{ p:M a p:Mill }}".encode(), file="d.trig")
    assert [(one.code, one.severity, one.span.column) for one in problems] == [
        ("FKG103", "error", 2)
    ]
    assert name in problems[0].message


def test_a_misspelt_graph_is_a_warning(file: Path) -> None:
    found = compile_rules(
        text=f"{RULE}rule r for ?m where {{ GRAPH <urn:fedkg:vocabulary:qudd> {{ ?m a ?k }} }}"
        " require torque <= 5 N.m",
        graphs=[file],
    )
    said = {item.code: str(item.help) for item in found.diagnostics}
    assert said["FKG112"] == "did you mean `<urn:fedkg:vocabulary:qudt>`?"


def test_a_variable_that_names_a_graph_of_a_shape_is_bound(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only FKG310, the violation: nothing says that no condition on `?g` is true."""
    shapes = tmp_path / "shapes.ttl"
    shapes.write_text(
        PREFIXES
        + f"""p:Shape a sh:NodeShape ; sh:targetClass p:Mill ; sh:sparql [ sh:select
  "SELECT $this {{ GRAPH ?g {{ $this <{P}maxTorque> ?t }} FILTER(isIRI(?g)) }}" ] ."""
    )
    done = call(capsys, "check", shapes, file, "--json")
    assert [item["code"] for item in done.json["diagnostics"]] == ["FKG310"]


@pytest.mark.slow
def test_violation_queries_and_shapes_address_graphs(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """M3 is a machine that the survey lacks."""
    query = tmp_path / "unmeasured.rq"
    query.write_text(
        f"PREFIX p: <{P}> SELECT ?m WHERE {{ ?m a p:Machine"
        " FILTER NOT EXISTS { GRAPH p:survey { ?m p:maxTorque ?t } } }"
    )
    shapes = tmp_path / "shapes.ttl"
    shapes.write_text(
        PREFIXES
        + f"""p: sh:declare [ sh:prefix "p" ; sh:namespace "{P}"^^xsd:anyURI ] .
p:Shape a sh:NodeShape ; sh:targetClass p:Machine ; sh:sparql [ sh:prefixes p: ; sh:select
  "SELECT $this {{ FILTER NOT EXISTS {{ GRAPH p:survey {{ $this p:maxTorque ?t }} }} }}" ] ."""
    )
    for rules, code in ((query, "FKG348"), (shapes, "FKG310")):
        done = call(capsys, "check", rules, file, "--json")
        said = [(item["code"], item["message"]) for item in done.json["diagnostics"]]
        assert [one for one, _ in said] == [code]
        assert "M3" in said[0][1]
        assert "M1" not in said[0][1]


def test_shapes_conform_by_all_graphs_and_target_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That unit:BAR is a unit is known from QUDT alone."""
    data, shapes = tmp_path / "g.ttl", tmp_path / "shapes.ttl"
    data.write_text(PREFIXES + "p:M1 a p:Mill ; p:in unit:BAR . p:M2 a p:Mill ; p:in p:M1 .")
    shapes.write_text(
        PREFIXES + "p:S a sh:NodeShape ; sh:targetClass p:Mill ;"
        " sh:property [ sh:path p:in ; sh:class qudt:Unit ] .\n"
        "p:T a sh:NodeShape ; sh:targetClass qudt:Unit ;"
        " sh:property [ sh:path p:x ; sh:minCount 1 ] ."
    )
    done = call(capsys, "check", shapes, data, "--json")
    said = [item["message"] for item in done.json["diagnostics"] if item["code"] == "FKG310"]
    assert said == ["S.in.class is violated by M2 (M1)"]


@pytest.mark.slow
def test_a_private_pack_sees_no_other_client_in_any_graph(tmp_path: Path) -> None:
    path = tmp_path / "plant.trig"
    path.write_text(
        PREFIXES + 'p:a a p:Mill ; fkg:client "A" . p:b a p:Mill ; fkg:client "B" .\n'
        "p:Mill rdfs:subClassOf p:Machine .\n"
        f"p:g {{ p:a p:maxTorque 1 . p:b p:maxTorque 2 . }} <{RUN}> {{ p:b p:found p:a }}"
    )
    for where, public in (
        ("GRAPH ?g { ?m p:maxTorque ?t }", 2),
        ("GRAPH <file:///plant.trig> { ?m a p:Mill }", 2),
        ("GRAPH <urn:fedkg:inferred> { ?m a p:Machine }", 2),
    ):
        assert rows(path, where) == public
        assert rows_of_client(path, where) == 1
    assert rows_of_client(path, f"GRAPH <{RUN}> {{ ?m p:found ?x }}") == 0


def rows_of_client(file: Path, where: str) -> int:
    graph, _, _ = load_graph([], {"p": (P, HERE)}, [file], client="A")
    found, problems = graph.select(where, ["m"], span=HERE)
    assert [item for item in problems if item.severity == "error"] == []
    return len(found)


def test_a_row_names_the_graph_of_its_triples(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "r.fkg"
    rules.write_text(
        f"{RULE}rule r for ?m, ?t where {{ ?m a p:Machine ; p:maxTorque ?t }}"
        " require torque <= ?t * 1 N.m"
    )
    load_files(tmp_path / "plant.store", [file])
    for graph in (file, tmp_path / "plant.store"):
        done = call(capsys, "explain", "r", rules, graph, "--entity", "M2", "--json")
        facts = done.json["from"]
        named = {fact["triple"].split()[1]: fact["graph"] for fact in facts}
        assert named == {"a": INFERRED, "p:maxTorque": P + "survey"}
        inference = next(fact for fact in facts if fact["rule"])
        assert {one["graph"] for one in inference["premises"]} == {
            "file:///plant.trig",
            P + "survey",
        }


def test_a_row_names_the_line_of_what_a_run_has_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules, graph = tmp_path / "r.fkg", tmp_path / "run.trig"
    rules.write_text(
        f"{RULE}rule r for ?m, ?t where {{ GRAPH <{RUN}> {{ ?m p:maxTorque ?t }} }}"
        " require torque <= ?t * 1 N.m"
    )
    graph.write_text(f"{PREFIXES}<{RUN}> {{\n p:M3 a p:Mill ; p:maxTorque 10 . }}")
    [fact] = call(capsys, "explain", "r", rules, graph, "--entity", "M3", "--json").json["from"]
    line = PREFIXES.count("\n") + 2
    assert (fact["place"], fact["graph"]) == (f"{graph}:{line}", RUN)


def test_an_inference_from_vocabularies_alone_is_theirs() -> None:
    assert inferred_graph(["urn:fedkg:vocabulary:qudt", VOCABULARY_INFERRED]) == VOCABULARY_INFERRED
    assert inferred_graph(["urn:fedkg:vocabulary:qudt", "file:///a.ttl"]) == INFERRED
    assert inferred_graph(["urn:fedkg:vocabulary:qudt", INFERRED]) == INFERRED


@pytest.mark.parametrize(
    ("name", "iri"),
    [
        ("plants/a b.ttl", "file:///a%20b.ttl"),
        ("https://graphs.example.org/query", "https://graphs.example.org/query"),
    ],
)
def test_a_graph_is_named_after_its_source(name: str, iri: str) -> None:
    assert file_graph(name) == iri


def test_the_command_lists_and_queries_graphs(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = call(capsys, "graph", "list", file, "--json").json["graphs"]
    kinds = [(item["kind"], item["triples"]) for item in listed if item["kind"] != "vocabulary"]
    assert kinds[:2] == [("data", 6), ("data", 5)]
    assert [kind for kind, _ in kinds[2:]] == ["inferred", "inferred", "learned"]
    query = tmp_path / "q.rq"
    query.write_text("SELECT ?g ?t { GRAPH ?g { p:M2 p:maxTorque ?t } }")
    for asked in (query, query.read_text()):
        done = call(capsys, "graph", "query", asked, file, "--json")
        number = '"40"^^<http://www.w3.org/2001/XMLSchema#integer>'
        assert done.json == {"variables": ["g", "t"], "rows": [[f"<{P}survey>", number]]}


@pytest.mark.parametrize(
    ("query", "lines", "facts"),
    [
        ("ASK { p:M2 p:maxTorque 40 }", ["true"], {"boolean": True}),
        ("ASK { p:M2 p:maxTorque 41 }", ["false"], {"boolean": False}),
        ("ASK { GRAPH p:survey { p:M1 a p:Mill } }", ["false"], {"boolean": False}),
        (
            "CONSTRUCT { p:M2 p:in ?g } { GRAPH ?g { p:M2 p:maxTorque ?t } ?m a p:Mill }",
            [f"<{P}M2> <{P}in> <{P}survey> ."],
            {"triples": [[f"<{P}M2>", f"<{P}in>", f"<{P}survey>"]]},
        ),
        (
            "DESCRIBE p:survey",
            [f'<{P}survey> <{P}made> "2025" .'],
            {"triples": [[f"<{P}survey>", f"<{P}made>", '"2025"']]},
        ),
    ],
)
def test_other_forms_of_queries(
    query: str,
    lines: list[str],
    facts: dict[str, Any],
    file: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = call(capsys, "graph", "query", query, file)
    assert (done.code, done.out.splitlines()) == (0, lines)
    assert call(capsys, "graph", "query", query, file, "--json").json == facts


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("INSERT DATA {}", "the query is not SPARQL at line 1"),
        ("SELECT * {", "the query is not SPARQL at line 1"),
        ("SELECT * { SERVICE <http://localhost:1/> { ?s ?p ?o } }", "SERVICE asks another server"),
        ("none.rq", "there is no file none.rq"),
    ],
)
def test_a_wrong_query_is_a_usage_error(
    query: str, said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(capsys, "graph", "query", query, file)
    assert done.code == 2
    assert said in done.err


def test_an_error_in_a_graph_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.trig"
    path.write_text("<a> {")
    for words in (("list",), ("query", "SELECT * {}")):
        done = call(capsys, "graph", *words, path)
        assert done.code == 1
        assert "FKG103" in done.err
