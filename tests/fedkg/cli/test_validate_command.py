"""`fedkg validate`: reports in every format, messages, exit codes, imports and tables."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import NoReturn

import pyshacl
import pytest
from command import call
from rdflib import RDF, RDFS, Graph, Literal, Namespace
from rdflib.compare import isomorphic

SH = Namespace("http://www.w3.org/ns/shacl#")
HEAD = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix ex: <http://example.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
SHAPES = (
    HEAD
    + """
ex:prefixes sh:declare [ sh:prefix "ex" ; sh:namespace "http://example.org/"^^xsd:anyURI ] .
ex:PumpShape a sh:NodeShape ; sh:targetClass ex:Pump ;
    sh:property [ sh:path ex:pressure ; sh:maxInclusive 10.50 ; sh:severity sh:Warning ;
        sh:message "{$this}: {?value} at {?path} is above {$maxInclusive}; {?other}" ] ;
    sh:property [ sh:path ( ex:feeds [ sh:inversePath ex:in ] ) ; sh:minCount 1 ] ;
    sh:sparql [ sh:prefixes ex:prefixes ; sh:message "{?low} is below {?value}"@en ;
        sh:select \"\"\"SELECT $this ?value ?low WHERE {
            $this ex:pressure ?value ; ex:low ?low FILTER(?low < ?value) }\"\"\" ] .
"""
)
DATA = HEAD + "ex:p1 a ex:Pump ; ex:pressure 12.50 ; ex:low 2 . ex:p2 a ex:Pump .\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes.ttl").write_text(SHAPES, encoding="utf-8")
    (tmp_path / "data.ttl").write_text(DATA, encoding="utf-8")
    return tmp_path


def results(graph: Graph) -> Graph:
    """The results of a report without messages, types and descriptions of blank shapes."""
    found = Graph()
    for result in graph.objects(None, SH.result):
        for name in ("focusNode", "value", "resultSeverity", "sourceConstraintComponent"):
            for value in graph.objects(result, SH[name]):
                found.add((result, SH[name], value))
    return found


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph:DeprecationWarning")
@pytest.mark.parametrize(
    ("form", "name"), [("turtle", "turtle"), ("json-ld", "json-ld"), ("n-triples", "nt")]
)
def test_rdf_reports_say_what_pyshacl_says(
    folder: Path, capsys: pytest.CaptureFixture[str], form: str, name: str
) -> None:
    done = call(capsys, "validate", "data.ttl", "shapes.ttl", "--format", form)
    assert done.code == 1
    report = Graph().parse(data=done.out, format=name)
    (root,) = report.subjects(RDF.type, SH.ValidationReport)
    assert str(report.value(root, SH.conforms)) == "false"
    _, expected, _ = pyshacl.validate(
        Graph().parse(data=DATA), shacl_graph=Graph().parse(data=SHAPES), advanced=True
    )
    assert isinstance(expected, Graph)
    assert isomorphic(results(report), results(expected))
    again = call(capsys, "validate", "data.ttl", "shapes.ttl", "--format", form)
    assert again.out == done.out


def test_json_and_messages(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "validate", "data.ttl", "shapes.ttl", "--json")
    assert done.code == 1
    report = json.loads(done.out)
    assert report["conforms"] is False
    found = {
        (one["component"].rsplit("#")[-1], one["focus_node"]["value"]): one
        for one in report["results"]
    }
    high = found["MaxInclusiveConstraintComponent", "http://example.org/p1"]
    assert high["messages"] == [
        "http://example.org/p1: 12.50 at http://example.org/pressure is above 10.50; {?other}"
    ]
    assert high["value"] == {
        "type": "literal",
        "value": "12.50",
        "datatype": "http://www.w3.org/2001/XMLSchema#decimal",
    }
    assert (high["severity"], high["file"], high["line"]) == ("warning", "shapes.ttl", 8)
    query = found["SPARQLConstraintComponent", "http://example.org/p1"]
    assert query["messages"] == ["2 is below 12.50"]
    count = found["MinCountConstraintComponent", "http://example.org/p2"]
    assert count["path"] == "(<http://example.org/feeds>)/(^(<http://example.org/in>))"
    assert count["value"] is None


def test_text_and_exit_codes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "validate", "data.ttl", "shapes.ttl")
    assert done.code == 1
    assert "warning: ex:p1 pressure 12.50: MaxInclusive (PumpShape, shapes.ttl:8)\n" in done.out
    assert done.out.endswith("data.ttl does not conform: 3 violations, 1 warning; 2 focus nodes\n")
    shapes = SHAPES.replace("sh:Warning", "ex:Custom")
    (folder / "custom.ttl").write_text(shapes, encoding="utf-8")
    assert ": 1 custom, 3 violations; 2" in call(capsys, "validate", "data.ttl", "custom.ttl").out
    (folder / "good.ttl").write_text(HEAD + "ex:t a ex:Tank .", encoding="utf-8")
    good = call(capsys, "validate", "good.ttl", "shapes.ttl")
    assert good.code == 0
    assert good.out == "good.ttl conforms: 0 focus nodes (no shape has a focus node)\n"


@pytest.mark.parametrize(
    "name", ["data", "data.txt", "data.n3", "data.turtle", "data.json", "long.json"]
)
def test_the_content_shows_that_the_data_is_a_graph(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data = DATA.removeprefix("@prefix sh: <http://www.w3.org/ns/shacl#> .\n")
    if name.endswith(".json"):
        data = Graph().parse(data=data).serialize(format="json-ld", indent=None)
    if name == "long.json":
        data = data.replace(",", "," + " " * 70_000, 1)
    (folder / name).write_text(data, encoding="utf-8")
    done = call(capsys, "validate", name, "shapes.ttl")
    assert done.out.endswith(f"{name} does not conform: 3 violations, 1 warning; 2 focus nodes\n")
    assert "│" in call(capsys, "eval", "shapes.ttl", name).out


@pytest.mark.parametrize("name", ["onto.omn", "onto.txt"])
@pytest.mark.parametrize(
    "command",
    [("validate", "{}", "shapes.ttl"), ("eval", "shapes.ttl", "{}"), ("check", "r.fkg", "{}")],
)
def test_manchester_syntax_is_rejected_by_name(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, command: tuple[str, ...]
) -> None:
    (folder / "r.fkg").write_text("signal p in bar\nrule a require p <= 5\n", encoding="utf-8")
    (folder / name).write_text("Prefix: : <http://x/>\nOntology: <http://x>", encoding="utf-8")
    done = call(capsys, *(word.format(name) for word in command))
    assert done.code
    assert f"{name}:1:1: error" in done.err
    assert "OWL in Manchester syntax" in done.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("missing.ttl", "shapes.ttl"), "there is no file missing.ttl"),
        (("data.ttl", "data.ttl"), "data.ttl contains no SHACL shapes"),
        (("broken.ttl", "shapes.ttl"), "broken.ttl:1:1: error[FKG103]"),
        (("data.ttl", "wrong.ttl"), "wrong.ttl:5:77: error[FKG311]"),
        (("data.ttl", "query.ttl"), "query.ttl:5:1: error[FKG316]"),
        (("data.ttl", "path.ttl"), "evaluated: SHACL has no MINUS in the query of a constraint"),
        (("data.ttl", "this.ttl"), "must select `$this`"),
        (("data.ttl", "pattern.ttl"), "or has look-around or back-references beside a category"),
        (("table.csv",), "the shapes are missing"),
        (("data.ttl", "shapes.ttl", "--json", "--format", "turtle"), "--json cannot be combined"),
        (("data.ttl", "shapes.ttl", "-o", "no/report.ttl"), "the folder no"),
        (("data.ttl", "shapes.ttl", "-o", "report.rdf"), ".ttl, .jsonld, .nt, .json, .txt"),
    ],
)
def test_bad_input(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], expected: str
) -> None:
    (folder / "broken.ttl").write_text("ex:a a ex:Pump .", encoding="utf-8")
    shape = "ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; sh:property [ sh:path ex:p ; "
    (folder / "this.ttl").write_text(
        HEAD + shape + "sh:sparql [ sh:select 'SELECT (STR($this) AS ?x) { $this ex:p ?p }' ] ] .",
        encoding="utf-8",
    )
    (folder / "wrong.ttl").write_text(HEAD + shape + 'sh:minCount "x" ] .', encoding="utf-8")
    (folder / "pattern.ttl").write_text(
        HEAD + shape + r'sh:pattern "(?=\\p{Lu})a" ] .', encoding="utf-8"
    )
    query = 'sh:sparql [ sh:select "SELECT $this WHERE { MINUS { $this ex:p 1 } }" ] .'
    (folder / "query.ttl").write_text(
        f"{HEAD}ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; {query}", encoding="utf-8"
    )
    query = query.replace("this ex:p", "this $PATH/ex:p")
    (folder / "path.ttl").write_text(f"{HEAD}{shape}{query[:-2]} ] .", encoding="utf-8")
    (folder / "table.csv").write_text("a\n1\n", encoding="utf-8")
    done = call(capsys, "validate", *arguments)
    assert done.code == 2
    assert expected in done.err, done.err
    assert done.out == ""


@pytest.mark.parametrize(
    ("pattern", "conforming"),
    [
        (r"^\p{Lu}", {"É", "Ab"}),
        (r"^\p{L}+$", {"É", "Ab", "ß"}),
        (r"^\P{L}", {"٣", "!"}),
        (r"[^\p{Nd}]", {"É", "Ab", "ß", "!"}),
        (r"\p{P}|\pN", {"٣", "!"}),
        (r"^\\p", set()),  # a backslash, then p
    ],
)
def test_patterns_with_categories_of_characters(
    folder: Path, capsys: pytest.CaptureFixture[str], pattern: str, conforming: set[str]
) -> None:
    """`regex` of the store, in a query, finds the same."""
    texts = {"É", "Ab", "ß", "٣", "!"}
    data = " ".join(f'ex:p1 ex:name "{text}" .' for text in texts)
    (folder / "data.ttl").write_text(HEAD + data, encoding="utf-8")
    written = Literal(pattern).n3()
    query = f"""SELECT $this ?value WHERE {{
        $this <http://example.org/name> ?value FILTER(!regex(?value, {written})) }}"""
    shape = f"""ex:S a sh:NodeShape ; sh:targetSubjectsOf ex:name ;
    sh:property [ sh:path ex:name ; sh:pattern {written} ] ;
    sh:sparql [ sh:select {Literal(query).n3()} ] ."""
    (folder / "shapes.ttl").write_text(HEAD + shape, encoding="utf-8")
    report = call(capsys, "validate", "data.ttl", "shapes.ttl", "--json").json
    found: dict[str, set[str]] = {}
    for one in report["results"]:
        found.setdefault(one["component"], set()).add(one["value"]["value"])
    assert list(found.values()) == [texts - conforming] * 2


@pytest.mark.parametrize(
    ("pattern", "focus_nodes"),
    [
        ("GRAPH ex:survey { $this ex:pressure ?value }", {"ex:p1"}),
        ("GRAPH <file:///data.trig> { $this a ex:Pump }", {"ex:p1", "ex:p2"}),
        ("FILTER NOT EXISTS { GRAPH ex:survey { $this ?p ?o } }", {"ex:p2"}),
        ("GRAPH ?g { $this ex:pressure ?value } ?g ex:year 2025", {"ex:p1"}),
        # The graphs that the validator itself makes for queries are not the user's.
        ("GRAPH ?g { ?other ?p $this } GRAPH ?g { ?a ?b ?c }", {"ex:p2"}),
        ("GRAPH ex:survey { $this a/rdfs:subClassOf* ex:Pump }", set()),
    ],
)
def test_queries_address_named_graphs(
    folder: Path, capsys: pytest.CaptureFixture[str], pattern: str, focus_nodes: set[str]
) -> None:
    data = """ex:p1 a ex:Pump . ex:p2 a ex:Pump . ex:survey ex:year 2025 .
        ex:survey { ex:p1 ex:pressure 12 ; ex:feeds ex:p2 } ex:other { ex:p2 ex:pressure 12 }"""
    (folder / "data.trig").write_text(HEAD + data, encoding="utf-8")
    shape = f"""ex:prefixes sh:declare [ sh:prefix "ex" ; sh:namespace "http://example.org/" ] , [
        sh:prefix "rdfs" ; sh:namespace "http://www.w3.org/2000/01/rdf-schema#" ] .
    ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; sh:sparql [ sh:prefixes ex:prefixes ;
        sh:select "SELECT $this WHERE {{ $this a ex:Pump . {pattern} }}" ] ."""
    (folder / "graphs.ttl").write_text(HEAD + shape, encoding="utf-8")
    report = call(capsys, "validate", "data.trig", "graphs.ttl", "--json").json
    found = {one["focus_node"]["value"] for one in report["results"]}
    assert found == {f"http://example.org/{name[3:]}" for name in focus_nodes}


@pytest.mark.parametrize(
    ("shapes", "focus_nodes"),
    [
        (
            """sh:targetClass ex:Pump ; sh:sparql [ sh:prefixes ex:prefixes ; sh:select '''
            SELECT $this ?graph ?value { GRAPH ?graph { $this ex:pressure ?value } }''' ]""",
            {"ex:p1"},
        ),
        (
            """sh:targetClass ex:Pump ; sh:sparql [ sh:prefixes ex:prefixes ;
            sh:select "SELECT $this { $this a ex:Pump FILTER(ex:graphs($this) > 1) }" ]""",
            {"ex:p1"},
        ),
        (
            """sh:target [ a sh:SPARQLTarget ; sh:prefixes ex:prefixes ; sh:select '''
            SELECT ?this { GRAPH ?g { ?this ?p ?o }
                FILTER(?g NOT IN (<file:///data.trig>, <file:///graphs.ttl>)) }''' ] ;
            sh:class ex:Fan""",
            {"ex:p1"},
        ),
    ],
)
def test_graphs_of_fedkg_itself_are_hidden(
    folder: Path, capsys: pytest.CaptureFixture[str], shapes: str, focus_nodes: set[str]
) -> None:
    data = "ex:p1 a ex:Pump . ex:p2 a ex:Pump . ex:survey { ex:p1 ex:pressure 12 }"
    (folder / "data.trig").write_text(HEAD + data, encoding="utf-8")
    text = f"""ex:prefixes sh:declare [ sh:prefix "ex" ; sh:namespace "http://example.org/" ] , [
        sh:prefix "rdfs" ; sh:namespace "http://www.w3.org/2000/01/rdf-schema#" ] .
    ex:graphs a sh:SPARQLFunction ; sh:parameter [ sh:path ex:x ] ; sh:prefixes ex:prefixes ;
        sh:select "SELECT (COUNT(DISTINCT ?g) AS ?n) {{ GRAPH ?g {{ $x ?p ?o }} }}" .
    ex:A a sh:NodeShape ; sh:targetClass ex:Pump ; sh:sparql [ sh:prefixes ex:prefixes ;
        sh:select "SELECT $this {{ $this a/rdfs:subClassOf* ex:Fan }}" ] .
    ex:S a sh:NodeShape ; {shapes} ."""
    (folder / "graphs.ttl").write_text(HEAD + text, encoding="utf-8")
    report = call(capsys, "validate", "data.trig", "graphs.ttl", "--json").json
    found = {one["focus_node"]["value"] for one in report["results"]}
    assert found == {f"http://example.org/{name[3:]}" for name in focus_nodes}


def test_a_dataset_of_a_query_is_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = """ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; sh:sparql [ sh:select
        "SELECT $this FROM NAMED <file:///d.ttl> WHERE { GRAPH ?g { $this ?p 3 } }" ] ."""
    (folder / "from.ttl").write_text(HEAD + shape, encoding="utf-8")
    done = call(capsys, "validate", "data.ttl", "from.ttl")
    assert done.code == 2
    assert "FKG316" in done.err
    assert "FROM replaces the data that shapes read" in done.err


def test_names_that_nothing_knows_are_warnings(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "shapes.ttl").write_text(
        f"""{HEAD}ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; sh:node ex:Missing ;
    sh:property [ sh:path ex:low ; sh:minCnt 1 ; sh:nodeKind sh:Literall ] .
ex:Unused a sh:NodeShape ; sh:targetClass ex:Pum .""",
        encoding="utf-8",
    )
    done = call(capsys, "validate", "data.ttl", "shapes.ttl", "--json")
    found = [(one["code"], one["line"], one["help"]) for one in json.loads(done.out)["diagnostics"]]
    assert sorted(found) == [
        ("FKG312", 5, "state it in this file"),
        ("FKG312", 6, "did you mean `sh:Literal`?"),
        ("FKG312", 6, "did you mean `sh:minCount`?"),
        ("FKG313", 7, "did you mean `ex:Pump`?"),
    ]
    assert (done.code, done.json["unchecked_constraints"], done.json["conforms"]) == (2, 2, False)


def test_the_report_is_written_to_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "validate", "data.ttl", "shapes.ttl", "-o", "report.ttl")
    assert (done.code, done.out.count("\n")) == (1, 1)
    report = Graph().parse(folder / "report.ttl")
    assert len(set(report.objects(None, SH.result))) == 4


def test_classes_beside_the_shapes_are_known_but_not_validated(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rdfs = "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    (folder / "classes.ttl").write_text(
        f"{HEAD}{rdfs}ex:Fan rdfs:subClassOf ex:Pump . ex:sample a ex:Fan .", encoding="utf-8"
    )
    (folder / "fan.ttl").write_text(f"{HEAD}ex:f1 a ex:Fan .", encoding="utf-8")
    done = call(capsys, "validate", "fan.ttl", "shapes.ttl", "--ontology", "classes.ttl")
    assert done.code == 1
    assert "ex:f1" in done.out
    assert "ex:sample" not in done.out


IMPORTING = HEAD + "# owl:imports <parts.ttl> in a comment\nex:o a owl:Ontology ;\n    {} .\n"


def test_imported_files_are_read_and_nothing_is_fetched(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*arguments: object) -> NoReturn:
        raise AssertionError(f"a connection to {arguments}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    imports = "owl:imports <shapes.ttl>, <gone.ttl>, <http://example.org/far>, <../secret.ttl>"
    (folder / "all.ttl").write_text(IMPORTING.format(imports), encoding="utf-8")
    done = call(capsys, "validate", "data.ttl", "all.ttl")
    assert done.code == 1
    assert "3 violations, 1 warning" in done.out
    assert "all.ttl:7:32: warning[FKG105]: the imported file gone.ttl does not exist" in done.err
    assert "all.ttl:7:44: info[FKG105]: the import of <http://example.org/far> is not" in done.err


def test_a_cycle_of_imports_is_a_note_at_the_import(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "one.ttl").write_text(IMPORTING.format("owl:imports <two.ttl>"), encoding="utf-8")
    (folder / "two.ttl").write_text(
        IMPORTING.format("owl:imports <one.ttl>, <shapes.ttl>"), encoding="utf-8"
    )
    done = call(capsys, "validate", "data.ttl", "one.ttl")
    assert done.code == 1
    assert "two.ttl:7:18: info[FKG105]: the import of <file:///one.ttl>" in done.err
    assert done.err.count("FKG105") == 1


TABLE_SHAPES = """@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
plant:P1 a plant:Pump ; plant:maxPressure 6 ; plant:mode "on" .
plant:P1 fkg:keyColumn "pump" ; fkg:keyValue "P1" .
plant:P2 a plant:Pump ; fkg:keyColumn "pump" ; fkg:keyValue "P2" .
plant:pressure fkg:column "pressure" .
plant:limit fkg:column "limit" .
plant:state fkg:column "state" ; fkg:category "on", "off", "stuck" .
plant:wish fkg:column "wish" ; fkg:category "on", "off" .
plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
    sh:property [ sh:path plant:pressure ; sh:maxInclusive 5 ; sh:severity sh:Warning ;
        sh:message "{?value} is above {$maxInclusive}" ] ;
    sh:property [ sh:path plant:pressure ; sh:lessThan plant:maxPressure, plant:limit ] ;
    sh:property [ sh:path plant:maxPressure ; sh:lessThanOrEquals plant:limit ] ;
    sh:property [ sh:path plant:limit ; sh:equals plant:pressure ] ;
    sh:property [ sh:path plant:state ; sh:disjoint plant:wish ; sh:equals plant:mode ] ;
    sh:or ( [ sh:path plant:pressure ; sh:maxInclusive 6 ]
        [ sh:path plant:limit ; sh:minCount 1 ] ) ;
    sh:not [ sh:path plant:pressure ; sh:minInclusive 7 ] ;
    sh:sparql [ sh:select \"\"\"SELECT $this {
        $this <https://example.org/plant#pressure> ?p FILTER(?p > 8) }\"\"\" ] ;
    sh:property [ sh:path plant:state ; sh:in ( "on" "off" ) ; sh:minCount 1 ] ;
    sh:property [ sh:path plant:maxPressure ; sh:minCount 1 ] .
"""
TABLE = (
    ("P1", "5.5", "5.0", "on", "on"),
    ("P1", "7.0", "8.0", "stuck", ""),
    ("P2", "3.0", "", "", "off"),
    ("P2", "9.0", "", "off", "off"),
)


@pytest.mark.slow
def test_a_table_has_the_results_that_pyshacl_finds_row_by_row(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For each row pySHACL validates the graph with the values of the row written into it."""
    (folder / "plant.ttl").write_text(TABLE_SHAPES, encoding="utf-8")
    head = ("pump", "pressure", "limit", "state", "wish")
    rows = "\n".join(map(",".join, (head, *TABLE)))
    (folder / "t.csv").write_text(rows, encoding="utf-8")
    done = call(capsys, "validate", "t.csv", "plant.ttl", "--format", "turtle")
    assert done.code == 1
    expected: set[tuple[str, ...]] = set()
    messages: set[str] = set()
    for pump, *cells in TABLE:
        double = "^^<http://www.w3.org/2001/XMLSchema#double>"
        written = [f'"{cell}"{double if cell[:1].isdigit() else ""}' for cell in cells]
        pairs = zip(head[1:], written, strict=True)
        facts = " ".join(f"plant:{pump} plant:{p} {c} ." for p, c in pairs if c != '""')
        _, report, _ = pyshacl.validate(
            Graph().parse(data=TABLE_SHAPES + facts), shacl_graph=Graph().parse(data=TABLE_SHAPES)
        )
        assert isinstance(report, Graph)
        other = {"P1", "P2"} - {pump}
        expected |= {
            one
            for one in summary(report)
            if not any(one[0].endswith(name) for name in other) or "maxPressure" in one[1]
        }
        (folder / "row.ttl").write_text(TABLE_SHAPES + facts, encoding="utf-8")
        row = call(capsys, "validate", "row.ttl", "--format", "turtle")
        messages |= {
            str(text) for text in Graph().parse(data=row.out).objects(None, SH.resultMessage)
        }
    found = Graph().parse(data=done.out)
    assert summary(found) == expected
    assert {str(text) for text in found.objects(None, SH.resultMessage)} == messages


def test_values_of_nested_and_of_node_shapes_on_a_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "plant.ttl").write_text(
        '''@prefix plant: <https://example.org/plant#> .
        @prefix fkg: <https://w3id.org/fedkg/ns#> .
        @prefix sh: <http://www.w3.org/ns/shacl#> .
        @prefix sosa: <http://www.w3.org/ns/sosa/> .
        plant:P1 a plant:Pump ; fkg:keyColumn "pump" ; fkg:keyValue "P1" .
        plant:P1 plant:has plant:A, plant:B .
        plant:sa sosa:observes plant:temp ; sosa:isHostedBy plant:A ; fkg:column "t1" .
        plant:sb sosa:observes plant:temp ; sosa:isHostedBy plant:B ; fkg:column "t2" .
        plant:pressure fkg:column "pressure" .
        plant:Nested a sh:NodeShape ; sh:targetClass plant:Pump ;
            sh:property [ sh:path plant:has ;
                sh:property [ sh:path plant:temp ; sh:maxInclusive 80 ] ] .
        plant:Pressure a sh:NodeShape ; sh:targetObjectsOf plant:pressure ; sh:maxInclusive 5 .
        plant:Top a sh:ConstraintComponent ; sh:parameter [ sh:path plant:top ] ;
            sh:nodeValidator [ a sh:SPARQLAskValidator ;
                sh:ask """ASK {
                    $value <https://example.org/plant#pressure> ?p FILTER(?p <= $top) }""" ] .
        plant:Low a sh:NodeShape ; sh:targetClass plant:Pump ; plant:top 4 .
        ''',
        encoding="utf-8",
    )
    (folder / "t.csv").write_text("pump,pressure,t1,t2\nP1,7.5,85,90\n", encoding="utf-8")
    done = call(capsys, "validate", "t.csv", "plant.ttl", "--format", "turtle")
    found = {(one[-2].split("#")[-1], one[-1]) for one in summary(Graph().parse(data=done.out))}
    assert found == {
        ("MaxInclusiveConstraintComponent", "85.0"),
        ("MaxInclusiveConstraintComponent", "90.0"),
        ("MaxInclusiveConstraintComponent", "7.5"),
        ("Top", "https://example.org/plant#P1"),
    }


def test_a_table_with_an_unchecked_constraint_does_not_conform(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "plant.ttl").write_text(
        '''@prefix plant: <https://example.org/plant#> .
        @prefix fkg: <https://w3id.org/fedkg/ns#> .
        @prefix sh: <http://www.w3.org/ns/shacl#> .
        plant:P1 a plant:Pump ; fkg:keyColumn "pump" ; fkg:keyValue "P1" .
        plant:pressure fkg:column "pressure" .
        plant:S a sh:NodeShape ; sh:targetClass plant:Pump ; sh:sparql [ sh:select
            """SELECT $this FROM <file:///x> {
                $this <https://example.org/plant#pressure> ?p FILTER(?p > 5) }""" ] .
        ''',
        encoding="utf-8",
    )
    (folder / "t.csv").write_text("pump,pressure\nP1,7\n", encoding="utf-8")
    done = call(capsys, "validate", "t.csv", "plant.ttl")
    assert done.out == "t.csv was not fully checked: 1 focus node; 1 constraint not checked\n"
    assert done.code == 2
    facts = json.loads(call(capsys, "validate", "t.csv", "plant.ttl", "--json").out)
    assert (facts["conforms"], facts["unchecked_constraints"], facts["results"]) == (False, 1, [])
    turtle = call(capsys, "validate", "t.csv", "plant.ttl", "--format", "turtle")
    report = Graph().parse(data=turtle.out)
    (root,) = report.subjects(RDF.type, SH.ValidationReport)
    assert str(report.value(root, SH.conforms)) == "false"
    assert str(report.value(root, RDFS.comment)) == "constraints that were not checked: 1"


def test_rows_about_no_focus_node_are_noted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "plant.ttl").write_text(
        """@prefix plant: <https://example.org/plant#> .
        @prefix fkg: <https://w3id.org/fedkg/ns#> .
        @prefix sh: <http://www.w3.org/ns/shacl#> .
        plant:P1 a plant:Pump ; fkg:keyColumn "pump" ; fkg:keyValue "P1" .
        plant:pressure fkg:column "pressure" .
        plant:S a sh:NodeShape ; sh:targetClass plant:Pump ;
            sh:property [ sh:path plant:pressure ; sh:maxInclusive 5 ] .
        """,
        encoding="utf-8",
    )
    (folder / "t.csv").write_text("pump,pressure\nP1,3\nP9,7\n", encoding="utf-8")
    done = call(capsys, "validate", "t.csv", "plant.ttl")
    assert done.out == "t.csv conforms: 1 focus node\n"
    assert "note: 1 of 2 rows has a `pump` that no rule is bound to (P9)" in done.err
    (folder / "t.csv").write_text("pump,pressure\nP9,7\n", encoding="utf-8")
    done = call(capsys, "validate", "t.csv", "plant.ttl")
    assert done.out == "t.csv was not fully checked: 1 focus node; 1 constraint not checked\n"
    assert done.code == 2
    facts = json.loads(call(capsys, "validate", "t.csv", "plant.ttl", "--json").out)
    assert "P1: no row has pump = P1" in facts["notes"]


def test_a_table_may_have_an_alternative_header(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "plant.ttl").write_text(
        """@prefix plant: <https://example.org/plant#> .
        @prefix fkg: <https://w3id.org/fedkg/ns#> .
        @prefix sh: <http://www.w3.org/ns/shacl#> .
        plant:P1 a plant:Pump ; fkg:keyColumn "pump" ; fkg:keyValue "P1" .
        plant:pressure fkg:column "pressure" ; fkg:alternativeColumn "druck" .
        plant:S a sh:NodeShape ; sh:targetClass plant:Pump ;
            sh:property [ sh:path plant:pressure ; sh:maxInclusive 5 ] .
        """,
        encoding="utf-8",
    )
    (folder / "t.csv").write_text("pump,druck\nP1,7\n", encoding="utf-8")
    done = call(capsys, "validate", "t.csv", "plant.ttl")
    assert done.out.startswith("violation: plant:P1 pressure 7.0: MaxInclusive"), done.err


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("P1,3,1\n", (2, "1 constraint not checked")),
        ("P1,3,1\nP2,3,1\n", (0, "t.csv conforms")),
        ("P1,3,\nP2,3,\n", (0, "t.csv conforms")),
    ],
)
def test_each_constraint_without_a_row_is_unchecked(
    folder: Path, capsys: pytest.CaptureFixture[str], rows: str, found: tuple[int, str]
) -> None:
    (folder / "plant.ttl").write_text(
        """@prefix plant: <https://example.org/plant#> .
        @prefix fkg: <https://w3id.org/fedkg/ns#> .
        @prefix sh: <http://www.w3.org/ns/shacl#> .
        plant:P1 fkg:keyColumn "pump" ; fkg:keyValue "P1" .
        plant:P2 fkg:keyColumn "pump" ; fkg:keyValue "P2" .
        plant:pressure fkg:column "pressure" . plant:flow fkg:column "flow" .
        plant:S a sh:NodeShape ; sh:targetNode plant:P1 ; sh:property plant:T .
        plant:U a sh:NodeShape ; sh:targetNode plant:P2 ; sh:property plant:T .
        plant:V a sh:NodeShape ; sh:targetSubjectsOf plant:flow ; sh:property plant:T .
        plant:T sh:path plant:pressure ; sh:maxInclusive 5 .
        """,
        encoding="utf-8",
    )
    (folder / "t.csv").write_text(f"pump,pressure,flow\n{rows}", encoding="utf-8")
    done = call(capsys, "validate", "t.csv", "plant.ttl")
    assert done.code == found[0], done.out
    assert found[1] in done.out


def summary(report: Graph) -> set[tuple[str, ...]]:
    """Focus node, path, value as a number or text, severity and component of each result."""
    found = set()
    for result in report.objects(None, SH.result):
        value = report.value(result, SH.value)
        names = ("focusNode", "resultPath", "resultSeverity", "sourceConstraintComponent")
        parts = [str(report.value(result, SH[name])) for name in names]
        shown = "" if value is None else str(getattr(value, "value", value))
        found.add((*parts, shown))
    return found


def test_a_table_has_a_result_for_each_violated_constraint(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for constraints that the datatype of a column violates, whatever its rows contain."""
    (folder / "plant.ttl").write_text(
        """@prefix plant: <https://example.org/plant#> .
        @prefix fkg: <https://w3id.org/fedkg/ns#> .
        @prefix sh: <http://www.w3.org/ns/shacl#> .
        @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
        plant:P1 a plant:Pump ; fkg:keyColumn "pump" ; fkg:keyValue "P1" .
        plant:pressure fkg:column "pressure" ; fkg:datatype xsd:double .
        plant:S a sh:NodeShape ; sh:targetClass plant:Pump ;
            sh:not [ sh:path plant:pressure ; sh:minCount 1 ] ;
            sh:not [ sh:path plant:pressure ; sh:datatype xsd:double ] ;
            sh:not [ sh:path plant:pressure ; sh:minInclusive 1 ] .
        """,
        encoding="utf-8",
    )
    (folder / "t.csv").write_text("pump,pressure\nP1,3\nP1,3\n", encoding="utf-8")
    done = call(capsys, "validate", "t.csv", "plant.ttl")
    assert done.out.endswith("t.csv does not conform: 3 violations; 1 focus node\n")
    found = json.loads(call(capsys, "validate", "t.csv", "plant.ttl", "--json").out)["results"]
    assert [one["value"] for one in found] == [one["focus_node"] for one in found]
