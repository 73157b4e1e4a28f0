"""RDF files as tables, and shapes over them: the same results as pySHACL, value for value."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedkg.authoring import compile_for_rdf, is_rdf_data
from fedkg.cli.main import run
from fedkg.evaluation import evaluate
from fedkg.evaluation.evaluate import violations
from fedkg_compiler.rdf_data_tables import FOCUS, class_table, read_subjects

HEAD = """@prefix ex: <http://ex/> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
SHAPES = """
ex:S a sh:NodeShape ; sh:targetClass ex:Node ;
  sh:property [ sh:path ex:a ; sh:datatype xsd:double ;
    sh:minInclusive 0.0e0 ; sh:maxInclusive 10.0e0 ; sh:lessThan ex:b ; sh:minCount 1 ] ;
  sh:property [ sh:path ex:b ; sh:datatype xsd:integer ; sh:maxCount 1 ] ;
  sh:property [ sh:path ex:c ; sh:in ( "x" "y" ) ; sh:nodeKind sh:Literal ] ;
  sh:property [ sh:path ex:d ; sh:nodeKind sh:IRI ; sh:hasValue ex:n1 ] .
"""
DATA = """
ex:n1 a ex:Node ; ex:a 1.0e0 ; ex:b 2 ; ex:c "x" ; ex:d ex:n1 .
ex:n2 a ex:Node ; ex:a "abc" ; ex:b 2 ; ex:c "z" ; ex:d ex:n2 .
ex:n3 a ex:Sub ; ex:a -1.0e0 ; ex:b 0 , 5 ; ex:c "y" ; ex:d ex:n1 .
ex:n4 a ex:Node ; ex:b 2 .
ex:n5 a ex:Node ; ex:a 3.0e0 ; ex:b 2 ; ex:c "x"@en ; ex:d ex:n1 .
ex:n6 a ex:Node ; ex:a 3 ; ex:b 4 ; ex:d ex:n1 .
ex:other a ex:Else ; ex:a 99.0e0 .
ex:Sub <http://www.w3.org/2000/01/rdf-schema#subClassOf> ex:Node .
"""

TEXTS = """
ex:S a sh:NodeShape ; sh:targetClass ex:Node ; sh:closed true ;
    sh:ignoredProperties ( rdf:type ex:e ) ;
  sh:property [ sh:path ex:a ; sh:pattern "^A" ; sh:minLength 2 ; sh:maxLength 3 ;
      sh:languageIn ( "en" ) ; sh:uniqueLang true ] ;
  sh:property [ sh:path ex:b ; sh:class ex:Node ; sh:pattern "n[12]$" ;
      sh:not [ sh:class ex:Sub ] ] ;
  sh:property [ sh:path ex:c ; sh:lessThan ex:d ; sh:disjoint ex:d ;
      sh:minInclusive "2020-01-01"^^xsd:date ; sh:datatype xsd:date ] ;
  sh:property [ sh:path ex:d ; sh:equals ex:c ] .
"""
TEXT_DATA = """
ex:n1 a ex:Node ; ex:a "Abc"@en , "Abd"@en ; ex:b ex:n2 ; ex:c "2020-02-01"^^xsd:date ;
    ex:d "2020-03-01"^^xsd:date .
ex:n2 a ex:Node ; ex:a "A"@de , "bcde"@en ; ex:b ex:n3 ; ex:c "2019-02-01"^^xsd:date ;
    ex:d "2019-02-01"^^xsd:date ; ex:e 1 .
ex:n3 a ex:Sub ; ex:b ex:other ; ex:c "2021-02-01"^^xsd:date ; ex:d "2020-03-01"^^xsd:date ;
    ex:f 1 .
ex:n4 a ex:Node ; ex:a "Ab"@en ; ex:d "2020-03-01"^^xsd:date ; ex:f "x" ; ex:g ex:n1 .
ex:n5 a ex:Node .
ex:other a ex:Else ; ex:h 99.0e0 .
ex:Sub <http://www.w3.org/2000/01/rdf-schema#subClassOf> ex:Node .
"""

MIXED = """
ex:S a sh:NodeShape ; sh:targetClass ex:Node ;
  sh:property [ sh:path ex:a ; sh:datatype xsd:double ; sh:maxInclusive 10 ; sh:minCount 1 ;
      sh:maxCount 2 ] ;
  sh:property [ sh:path ex:b ; sh:nodeKind sh:Literal ; sh:maxCount 1 ; sh:datatype xsd:string ] .
"""
MIXED_DATA = """
ex:n1 a ex:Node ; ex:a 11.5e0 ; ex:b "x" .
ex:n2 a ex:Node ; ex:b ex:n1 , "y" .
ex:n3 a ex:Node ; ex:a 9 , 12.0e0 ; ex:b "z"@en , "z" , ex:n3 .
ex:n4 a ex:Node ; ex:a 9 , 9.0e0 , 9.5 .
"""


def write(folder: Path, suffix: str, shape: str = SHAPES, facts: str = DATA) -> tuple[Path, Path]:
    from rdflib import Graph

    shapes, data = folder / "shapes.ttl", folder / f"data{suffix}"
    shapes.write_text(HEAD + shape, encoding="utf-8")
    graph = Graph().parse(data=HEAD + facts, format="turtle")
    data.write_text(graph.serialize(format="nt" if suffix == ".nt" else "turtle"), encoding="utf-8")
    return shapes, data


def by_pyshacl(shapes: Path, data: Path) -> set[tuple[str, str, str]]:
    import pyshacl
    from rdflib import Graph, Namespace

    sh = Namespace("http://www.w3.org/ns/shacl#")
    _, report, _ = pyshacl.validate(
        Graph().parse(data), shacl_graph=Graph().parse(shapes), inference="none"
    )
    assert isinstance(report, Graph)
    found = set()
    for result in report.objects(None, sh.result):
        name = (
            str(report.value(result, sh.sourceConstraintComponent))
            .rsplit("#", 1)[1]
            .removesuffix("ConstraintComponent")
        )
        path = (
            "" if name == "Closed" else str(report.value(result, sh.resultPath)).rsplit("/", 1)[1]
        )
        found.add((str(report.value(result, sh.focusNode)), path, name[0].lower() + name[1:]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nt", ".ttl"])
@pytest.mark.parametrize(
    ("shape", "facts"), [(SHAPES, DATA), (TEXTS, TEXT_DATA), (MIXED, MIXED_DATA)]
)
def test_the_results_are_those_of_pyshacl(
    tmp_path: Path, suffix: str, shape: str, facts: str
) -> None:
    shapes, data = write(tmp_path, suffix, shape, facts)
    assert is_rdf_data([shapes], data)
    parts, diagnostics = compile_for_rdf([shapes], data)
    assert not [
        item for item in diagnostics if item.severity == "warning" and item.code.startswith("FKG3")
    ], diagnostics
    [(kind, pack, table)] = parts
    assert kind == "http://ex/Node"
    found, focus = violations(pack, table), table.texts(FOCUS)
    names = [("", *rule.name.split(".")[1:])[-2:] for rule in pack.manifest.rules]
    ours = {
        (focus[row], *names[rule])
        for rule, row in zip(found.rule.tolist(), found.row.tolist(), strict=True)
    }
    assert ours == by_pyshacl(shapes, data)
    assert len(ours) > 8


def test_violations_are_what_evaluate_counts(tmp_path: Path) -> None:
    shapes, data = write(tmp_path, ".nt")
    [(_, pack, table)] = compile_for_rdf([shapes], data)[0]
    found = violations(pack, table)
    counts = np.bincount(found.rule, minlength=len(pack.manifest.rules))
    assert counts.tolist() == [rule.violated for rule in evaluate(pack, table).rules]
    assert found.to_json(pack, table)[0]["row"] >= 1


def test_a_broken_line_is_reported_with_its_number(tmp_path: Path) -> None:
    data = tmp_path / "data.nt"
    data.write_text(
        '<http://ex/a> <http://ex/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\nrubbish'
        " here .\n",
        encoding="utf-8",
    )
    found, problems = read_subjects(data, ["http://ex/p"], {})
    assert found is None
    assert (problems[0].code, problems[0].span.line) == ("FKG320", 2)


@pytest.mark.parametrize("suffix", [".nq", ".trig"])
def test_named_graphs_of_a_file_count_as_one_graph(tmp_path: Path, suffix: str) -> None:
    data = tmp_path / f"data{suffix}"
    graph = "<http://ex/g>"
    line = '<http://ex/n1> <http://ex/a> "1" '
    data.write_text(f"{line} {graph} ." if suffix == ".nq" else f"{graph} {{ {line} }}")
    found, problems = read_subjects(data, ["http://ex/a"], {})
    assert problems == ()
    assert found is not None
    assert list(found.names) == ["http://ex/n1"]


def test_a_file_in_another_syntax_than_rdf_is_reported(tmp_path: Path) -> None:
    data = tmp_path / "data.ofn"
    data.write_text("Ontology()")
    found, problems = read_subjects(data, [], {})
    assert found is None
    assert [one.code for one in problems] == ["FKG320"]


def test_numbers_that_xml_schema_does_not_write_are_none(tmp_path: Path) -> None:
    data = tmp_path / "data.nt"
    texts = ["1_0", " 1", "nan", "1e3", "0x1", "+1.5", ".5", "1.", "1-2"]
    lines = (
        f'<http://ex/s{i}> <http://ex/p> "{text}"^^<http://www.w3.org/2001/XMLSchema#double> .\n'
        for i, text in enumerate(texts)
    )
    data.write_text("".join(lines), encoding="utf-8")
    found, _ = read_subjects(
        data, ["http://ex/p"], {"http://ex/p": "http://www.w3.org/2001/XMLSchema#double"}
    )
    assert found is not None
    part = class_table(found, "", np.arange(len(texts)), "t")
    known = ~np.isnan(part.table.numbers("p"))
    assert [text for text, is_known in zip(texts, known.tolist(), strict=True) if is_known] == [
        "1e3",
        "+1.5",
        ".5",
        "1.",
    ]


def test_eval_takes_an_rdf_file_where_there_are_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes, data = write(tmp_path, ".nt")
    assert not is_rdf_data([data], data)
    with pytest.raises(SystemExit) as ended:
        run(["eval", str(shapes), str(data), "--json"])
    assert ended.value.code in (0, None)
    assert '"class": "http://ex/Node"' in capsys.readouterr().out


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    with pytest.raises(SystemExit) as ended:
        run(["eval", *map(str, arguments)])
    assert ended.value.code in (0, None)
    told = capsys.readouterr()
    return told.out, told.err


def test_violations_name_their_focus_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes, data = write(tmp_path, ".nt", MIXED, MIXED_DATA)
    text, _ = shown(capsys, shapes, data)
    assert "S.a.minCount is violated by http://ex/n2" in text
    [part] = json.loads(shown(capsys, shapes, data, "--json")[0])["evaluations"]
    assert {
        (item["entity"], item["where"])
        for item in part["results"]
        if item["rule"] == "S.a.minCount"
    } == {("http://ex/n2",) * 2}
    assert {rule["rule"]: rule["worst"]["entity"] for rule in part["rules"]}[
        "S.a.maxInclusive"
    ] == "http://ex/n3"


def test_a_class_that_nothing_in_the_data_has_is_reported_with_the_near_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes, data = write(tmp_path, ".nt", MIXED.replace("ex:Node", "ex:Nodde"), MIXED_DATA)
    [said] = compile_for_rdf([shapes], data)[1]
    assert (said.code, said.severity, said.help) == ("FKG321", "warning", "did you mean `Node`?")
    assert (
        (HEAD + MIXED.replace("ex:Node", "ex:Nodde"))
        .split("\n")[said.span.line - 1][said.span.column - 1 :]
        .startswith("ex:Nodde")
    )
    assert "nothing was evaluated" in shown(capsys, shapes, data)[1]


def test_a_subject_with_too_many_values_is_named_and_other_properties_are_judged(
    tmp_path: Path,
) -> None:
    values = " , ".join(f"'v{i}'" for i in range(9))
    many = f"ex:n5 a ex:Node ; ex:a 1.0e0 ; ex:b {values} ."
    parts, diagnostics = compile_for_rdf(
        write(tmp_path, ".nt", MIXED, MIXED_DATA + many)[:1], tmp_path / "data.nt"
    )
    [said] = [item for item in diagnostics if item.code == "FKG322"]
    assert said.message == "`b` has no columns: n5 has more than 8 values of it"
    assert not [item for item in diagnostics if item.code == "FKG318"]
    [(_, pack, _)] = parts
    assert {rule.name.split(".")[1] for rule in pack.manifest.rules} == {"a"}


@pytest.mark.parametrize("suffix", [".ttl", ".nt"])
def test_a_node_with_fewer_values_than_another_is_judged_by_those_it_has(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four tanks, one of them with two levels: one of four is too low, three are too high.

    A fifth has no level.
    """
    (tmp_path / "shapes.ttl").write_text(
        """@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix t: <https://example.org/t#> .
t:Levels a sh:NodeShape ; sh:targetClass t:Tank ; sh:property
  [ sh:path t:level ; sh:minInclusive 1 ; sh:maxInclusive 10 ] .
"""
    )
    levels = {"a": [11], "b": [5], "c": [0.5, 20.5], "d": [99], "e": []}
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    decimal = "http://www.w3.org/2001/XMLSchema#decimal"
    lines = [f"<t:{name}> <{rdf}type> <https://example.org/t#Tank> ." for name in levels]
    lines += [
        f'<t:{name}> <https://example.org/t#level> "{value:.1f}"^^<{decimal}> .'
        for name, values in levels.items()
        for value in values
    ]
    data = tmp_path / f"data{suffix}"
    data.write_text("\n".join(lines) + "\n")
    text, _ = shown(capsys, tmp_path / "shapes.ttl", data, "--json")
    [found] = json.loads(text)["evaluations"]
    counts = {
        rule["rule"].rpartition(".")[2]: (rule["satisfied"], rule["violated"], rule["unknown"])
        for rule in found["rules"]
    }
    assert counts == {"minInclusive": (3, 1, 1), "maxInclusive": (1, 3, 1)}


def test_a_rule_is_reported_once_before_any_class_is_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ontology such as Brick has hundreds of classes that are shapes, each below the last, and
    rules. Compiling every class of a building only to reject the same rule took minutes.
    """
    head = f"{HEAD}@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
    head += "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    classes = [
        f"ex:C{i} a owl:Class , sh:NodeShape ; rdfs:subClassOf ex:C{i - 1} ;\n"
        f"  sh:property [ sh:path ex:p{i} ; sh:maxCount 1 ] .\n"
        for i in range(1, 301)
    ]
    rule = (
        "ex:C0 a owl:Class , sh:NodeShape ;\n  sh:rule [ a sh:TripleRule ; sh:subject sh:this ;"
        " sh:predicate ex:q ; sh:object ex:x ] .\n"
    )
    shapes, data = tmp_path / "ontology.ttl", tmp_path / "building.ttl"
    shapes.write_text(head + "".join(classes) + rule, encoding="utf-8")
    facts = "@prefix ex: <http://ex/> .\nex:a a ex:C300 ; ex:p300 1 , 2 .\n"
    data.write_text(facts, encoding="utf-8")
    compiled: list[object] = []
    monkeypatch.setattr(
        "fedkg_compiler.pipeline.compile_rules", lambda *files, **_: compiled.append(files)
    )
    monkeypatch.setattr("sys.argv", ["fedkg", "eval", str(shapes), str(data)])
    with pytest.raises(SystemExit) as end:
        run()
    said = capsys.readouterr()
    assert end.value.code == 1
    assert said.err.count("error[FKG312]") == 1
    assert "ontology.ttl:608:3" in said.err, "the line of sh:rule"
    assert "`fedkg validate`" in said.err
    assert compiled == []
