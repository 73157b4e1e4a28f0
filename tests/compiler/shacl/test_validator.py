"""Parts of the validator that neither the W3C suite nor random shapes reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdflib import XSD

from fedkg_compiler import compile_rules
from fedkg_compiler.frontends.shacl.validation import Validation, validate_graph
from fedkg_compiler.frontends.shacl.xsd_lexical_forms import is_well_formed

HEAD = """
@prefix ex: <http://example.org/> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<http://example.org/> sh:declare [ sh:prefix "ex" ;
    sh:namespace "http://example.org/"^^xsd:anyURI ] .
ex:double a sh:SPARQLFunction ; sh:parameter [ sh:path ex:n ; sh:datatype xsd:integer ] ;
    sh:returnType xsd:integer ; sh:select "SELECT ($n * 2 AS ?r) WHERE {}" .
"""
LATE = '"2024-01-02T00:00:00Z"^^xsd:dateTime'
DATA = """
ex:a a ex:Pump ; ex:low 2 ; ex:high 4 ; ex:ok true ; ex:next ex:b .
ex:b a ex:Pump ; ex:low 3 ; ex:high 5 ; ex:next ex:c .
ex:c a ex:Pump ; ex:low 1 ; ex:high 2 ; ex:ok true , false .
"""


def validated(folder: Path, shapes: str, data: str = DATA) -> Validation:
    (folder / "data.ttl").write_text(HEAD + data, encoding="utf-8")
    (folder / "shapes.ttl").write_text(HEAD + shapes, encoding="utf-8")
    return validate_graph([folder / "data.ttl"], [folder / "shapes.ttl"])


def violating(found: Validation) -> list[str]:
    assert found.report is not None, found.diagnostics
    return sorted(str(result.focus).rsplit("/", 1)[-1] for result in found.report.results)


def test_queries_may_call_functions_of_the_shapes_graph(tmp_path: Path) -> None:
    """Twice `low` is not `high` for ex:b alone: 2 * 3 is not 5."""
    shapes = """
ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; sh:sparql [ sh:prefixes <http://example.org/> ;
    sh:select "SELECT $this WHERE { $this ex:low ?l ; ex:high ?h FILTER(ex:double(?l) != ?h) }" ] .
"""
    assert violating(validated(tmp_path, shapes)) == ["b"]


def test_rules_and_targets_may_call_functions_of_the_shapes_graph(tmp_path: Path) -> None:
    """The first rule runs again, because its function reads what the second one adds for ex:a."""
    shapes = """
ex:fed a sh:SPARQLFunction ; sh:parameter [ sh:path ex:n ] ; sh:returnType xsd:boolean ;
    sh:prefixes <http://example.org/> ; sh:ask "ASK { ?x ex:marked true ; ex:next $n }" .
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ; sh:order 1 ;
    sh:prefixes <http://example.org/> ;
    sh:construct "CONSTRUCT { $this ex:fed true } WHERE { $this ex:low ?l FILTER(ex:fed($this)) }"
] , [ a sh:SPARQLRule ; sh:order 2 ; sh:prefixes <http://example.org/> ; sh:construct
    "CONSTRUCT { $this ex:marked true } WHERE { $this ex:low ?l FILTER(ex:double(?l) = 4) }" ] .
ex:S a sh:NodeShape ; sh:property [ sh:path ex:fed ; sh:maxCount 0 ] ;
    sh:target [ a sh:SPARQLTarget ; sh:prefixes <http://example.org/> ;
        sh:select "SELECT ?this WHERE { ?this ex:low ?l FILTER(ex:double(?l) > 3) }" ] .
"""
    assert violating(validated(tmp_path, shapes)) == ["b"]


def test_the_current_shape_of_a_query_needs_a_name(tmp_path: Path) -> None:
    query = "SELECT $this WHERE { FILTER(STRENDS(STR($currentShape), 'S')) }"
    shapes = f"""ex:S a sh:NodeShape ; sh:targetNode ex:a ; sh:sparql [ sh:select "{query}" ] ."""
    assert violating(validated(tmp_path, shapes)) == ["a"]
    shapes = f"""ex:T sh:targetNode ex:a ; sh:node [ sh:sparql [ sh:select "{query}" ] ] ."""
    (problem,) = validated(tmp_path, shapes).diagnostics
    assert "$currentShape is a blank node, which a query cannot name" in problem.message


@pytest.mark.parametrize(
    ("constraint", "value", "conforms"),
    [
        ('sh:minInclusive "2024-01-01Z"^^xsd:date', '"2024-01-01+02:00"^^xsd:date', False),
        ('sh:minInclusive "2024-01-01Z"^^xsd:date', '"2024-01-01-02:00"^^xsd:date', True),
        ('sh:minInclusive "2000-01-01Z"^^xsd:date', '"2024-01-01"^^xsd:date', True),
        (f"sh:maxInclusive {LATE}", '"2024-01-01T24:00:00Z"^^xsd:dateTime', True),
        (f"sh:minInclusive {LATE}", '"12024-01-01T00:00:00Z"^^xsd:dateTime', True),
        ("sh:minInclusive 0.1e0", '"0.1"^^xsd:float', True),
        ("sh:maxInclusive 0.1e0", '"0.1"^^xsd:float', False),
        ("sh:maxInclusive 0.1", '"0.1"^^xsd:float', True),
        ("sh:maxInclusive 2000", '"1_000"^^xsd:integer', False),
        ("sh:maxInclusive true", "false", True),
        ('sh:maxInclusive "b"', '"a"', True),
        ('sh:maxInclusive "P2D"^^xsd:duration', '"P1D"^^xsd:duration', False),
        ("sh:datatype xsd:double", '"-INF"^^xsd:double', True),
        ("sh:datatype xsd:decimal", '"1e5"^^xsd:decimal', False),
        ("sh:datatype xsd:integer", '"1_000"^^xsd:integer', False),
        ("sh:datatype xsd:dateTime", '"2024-01-01"^^xsd:dateTime', False),
        ("sh:datatype xsd:date", '"2023-02-29"^^xsd:date', False),
    ],
)
def test_literals_of_a_graph_and_of_a_compilation_are_judged_alike(
    tmp_path: Path, constraint: str, value: str, conforms: bool
) -> None:
    shape = f"ex:S sh:targetNode ex:a ; sh:property [ sh:path ex:x ; {constraint} ] ."
    found = violating(validated(tmp_path, shape, f"ex:a ex:x {value} ."))
    assert found == ([] if conforms else ["a"])
    (tmp_path / "rules.fkg").write_text("signal x\nrule r require x > 0\n", encoding="utf-8")
    files = [tmp_path / name for name in ("rules.fkg", "data.ttl", "shapes.ttl")]
    codes = [item.code for item in compile_rules(files).diagnostics]
    assert codes == ([] if conforms else ["FKG310"])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # true alone; ex:b has no value and ex:c has two
        ("[ sh:path ex:ok ]", ["b", "c"]),
        # ex:c alone has false too
        ("[ sh:intersection ( [ sh:path ex:ok ] true ) ]", ["b"]),
        ("[ sh:union ( [ sh:path ex:ok ] true ) ]", ["c"]),
        # values that are true: ex:b has none
        ("[ sh:nodes [ sh:path ex:ok ] ; sh:filterShape [ sh:in ( true ) ] ]", ["b"]),
    ],
)
def test_node_expressions(tmp_path: Path, expression: str, expected: list[str]) -> None:
    shapes = f"ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; sh:expression {expression} ."
    assert violating(validated(tmp_path, shapes)) == expected


def test_a_recursive_shape_ends_with_the_data(tmp_path: Path) -> None:
    """Every pump up to the last must have `ok` without false: ex:c breaks it for all before it."""
    shapes = """
ex:S a sh:NodeShape ; sh:targetNode ex:a ; sh:not [ sh:path ex:ok ; sh:hasValue false ] ;
    sh:property ex:Next .
ex:Next sh:path ex:next ; sh:node ex:S .
"""
    assert violating(validated(tmp_path, shapes)) == ["a"]


@pytest.mark.parametrize("broken", ["", "a", "b", "c"])
def test_nodes_in_a_circle_conform_unless_one_is_broken(tmp_path: Path, broken: str) -> None:
    """Each node of the circle a, b, c demands that the next one conforms."""
    shapes = """
ex:S a sh:NodeShape ; sh:targetNode ex:a, ex:b, ex:c ;
    sh:property [ sh:path ex:after ; sh:node ex:S ] ;
    sh:not [ sh:path ex:broken ; sh:hasValue true ] .
"""
    data = "ex:a ex:after ex:b . ex:b ex:after ex:c . ex:c ex:after ex:a .\n"
    data += f"ex:{broken} ex:broken true ." if broken else ""
    found = violating(validated(tmp_path, shapes, data))
    assert sorted({*found}) == (["a", "b", "c"] if broken else [])


@pytest.mark.parametrize("value", ["NaN", "INF"])
def test_decimals_are_compared_with_numbers_that_are_not_finite(tmp_path: Path, value: str) -> None:
    """No number is above or below NaN, so NaN violates every bound."""
    shapes = """
ex:S a sh:NodeShape ; sh:targetNode ex:a ; sh:property [ sh:path ex:x ; sh:minInclusive 1.5 ] .
"""
    data = f'ex:a ex:x "{value}"^^xsd:double .'
    assert violating(validated(tmp_path, shapes, data)) == (["a"] if value == "NaN" else [])


def test_an_ill_typed_number_is_compared_with_nothing(tmp_path: Path) -> None:
    shapes = """
ex:S a sh:NodeShape ; sh:targetNode ex:a, ex:b ; sh:property [ sh:path ex:x ; sh:minInclusive 1 ] .
"""
    data = 'ex:a ex:x "300"^^xsd:byte . ex:b ex:x "30"^^xsd:byte .'
    assert violating(validated(tmp_path, shapes, data)) == ["a"]


def test_each_value_of_the_parameter_of_a_component_is_a_constraint(tmp_path: Path) -> None:
    """7 is below 8 and not below 5, and 9 is below neither; each result has its value."""
    shapes = """
ex:Below a sh:ConstraintComponent ; sh:parameter [ sh:path ex:below ] ;
    sh:validator [ a sh:SPARQLAskValidator ; sh:message "{$value} is not below {$below}" ;
        sh:ask "ASK { FILTER($value < $below) }" ] .
ex:S a sh:NodeShape ; sh:targetNode ex:a ; sh:property [ sh:path ex:x ; ex:below 5, 8 ] .
"""
    found = validated(tmp_path, shapes, "ex:a ex:x 3, 7, 9 .").report
    assert found is not None
    assert sorted((str(one.value), str(one.messages[0])) for one in found.results) == [
        ("7", "7 is not below 5"),
        ("9", "9 is not below 5"),
        ("9", "9 is not below 8"),
    ]


def test_a_rule_reads_named_graphs_in_a_validation_alone(tmp_path: Path) -> None:
    """Only ex:a is in a graph of the data or the shapes; fedkg's own graphs are hidden."""
    shapes = """
ex:S a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ; sh:construct '''
        PREFIX ex: <http://example.org/> CONSTRUCT { $this ex:in ?g }
        { GRAPH ?g { { $this ex:x 1 } UNION { ?other ?p $this } } }''' ] ;
    sh:property [ sh:path ex:in ; sh:maxCount 0 ] .
"""
    found = validated(tmp_path, shapes, "ex:a a ex:Pump ; ex:x 1 . ex:b a ex:Pump .")
    assert violating(found) == ["a"]
    (tmp_path / "rules.fkg").write_text("signal x\nrule r require x > 0\n", encoding="utf-8")
    files = [tmp_path / name for name in ("rules.fkg", "data.ttl", "shapes.ttl")]
    (problem,) = compile_rules(files).diagnostics
    assert (problem.code, "it has GRAPH" in problem.message) == ("FKG312", True)


def test_a_long_circle_ends(tmp_path: Path) -> None:
    """Only the node at which a circle closes is evaluated again, not every node on the way."""
    shapes = """
ex:S a sh:NodeShape ; sh:targetNode ex:n0 ; sh:property [ sh:path ex:after ; sh:node ex:S ] ;
    sh:not [ sh:path ex:broken ; sh:hasValue true ] .
"""
    circle = "\n".join(f"ex:n{i} ex:after ex:n{(i + 1) % 22} ." for i in range(22))
    assert violating(validated(tmp_path, shapes, circle)) == []
    assert "n0" in violating(validated(tmp_path, shapes, f"{circle}\nex:n18 ex:broken true ."))


def test_a_shape_that_denies_itself_is_an_error(tmp_path: Path) -> None:
    shapes = "ex:S a sh:NodeShape ; sh:targetNode ex:a ; sh:not ex:S ."
    found = validated(tmp_path, shapes)
    assert found.report is None
    assert "requires its own violation" in found.diagnostics[0].message


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("integer", "1 +1 -0 007", "1_000 1.0 1e3 one"),
        ("long", "9223372036854775807 -9223372036854775808", "9223372036854775808"),
        ("unsignedByte", "0 255 -0", "-1 256"),
        ("nonNegativeInteger", f"0 {'9' * 5000}", f"-1 -{'9' * 5000}"),
        ("decimal", "1 1. .5 -1.5", "1e5 . INF"),
        ("double", "1e5 -INF NaN .5E-3 1.", "infinity nan 1e"),
        ("boolean", "true 0", "True yes"),
        (
            "dateTime",
            """2024-02-29T00:00:00 2024-01-01T24:00:00 -0001-01-01T00:00:00Z
            12024-01-01T10:00:00.5+14:00""",
            """2024-01-01 2023-02-29T00:00:00 2024-01-01T24:00:01 2024-01-01T10:00
            1900-02-29T00:00:00 02024-01-01T00:00:00 2024-01-01T00:00:00+15:00""",
        ),
        ("date", "2024-01-31 2000-02-29Z", "2024-1-1 2024-04-31 2024-01-01T00:00:00"),
        ("time", "23:59:59.9 24:00:00", "24:00:01 9:00:00"),
    ],
)
def test_data_types_have_the_literals_of_xml_schema(kind: str, good: str, bad: str) -> None:
    found = {text: is_well_formed(text, XSD[kind]) for text in (good + " " + bad).split()}
    assert found == dict.fromkeys(good.split(), True) | dict.fromkeys(bad.split(), False)
