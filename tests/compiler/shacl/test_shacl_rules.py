"""Rules of shapes: order, conditions, fixed points, and the triples that pySHACL adds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pyshacl
import pytest
from rdflib import Graph, Namespace, URIRef
from rdflib.compare import isomorphic

from fedkg_compiler import compile_rules
from fedkg_compiler.frontends.shacl import prebound_query_execution
from fedkg_compiler.frontends.shacl.prebound_query_execution import (
    Functions,
    construct,
    predicate_variables,
    with_closures_last,
    with_constant,
    with_focus_nodes,
)
from fedkg_compiler.frontends.shacl.validation import Validation, validate_graph

EX = Namespace("http://example.org/")
HEAD = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix ex: <http://example.org/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
ex:prefixes sh:declare [ sh:prefix "ex" ; sh:namespace "http://example.org/"^^xsd:anyURI ] .
"""
DATA = """
ex:a a ex:Pump ; ex:feeds ex:b ; ex:size 3 .
ex:b a ex:Pump ; ex:feeds ex:c .
ex:c a ex:Tank .
"""


def validated(folder: Path, shapes: str, data: str = DATA) -> Validation:
    (folder / "shapes.ttl").write_text(HEAD + shapes, encoding="utf-8")
    (folder / "data.ttl").write_text(HEAD + data, encoding="utf-8")
    return validate_graph([folder / "data.ttl"], [folder / "shapes.ttl"])


def focus_nodes(validation: Validation) -> list[str]:
    assert validation.report is not None, validation.diagnostics
    return [str(result.focus).rsplit("/", 1)[-1] for result in validation.report.results]


MARKED = """
ex:Check a sh:NodeShape ; sh:targetSubjectsOf ex:marked ;
    sh:property [ sh:path ex:marked ; sh:maxCount 0 ] .
"""


def triple_rule(options: str = "") -> str:
    return (
        f"""
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ;
    sh:rule [ a sh:TripleRule ; sh:subject sh:this ; sh:predicate ex:marked ; sh:object true
        {options} ] .
"""
        + MARKED
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ["a", "b"]),
        ("; sh:deactivated true", []),
        ("; sh:deactivated false", ["a", "b"]),
        ("; sh:condition [ sh:property [ sh:path ex:size ; sh:minCount 1 ] ]", ["a"]),
        (
            (
                "; sh:condition [ sh:property [ sh:path ex:size ; sh:minCount 1 ] ], "
                "[ sh:property [ sh:path ex:size ; sh:minInclusive 4 ] ]"
            ),
            [],
        ),
        ("; sh:condition [ sh:class ex:Pump ]", ["a", "b"]),
    ],
)
def test_a_triple_rule(tmp_path: Path, options: str, expected: list[str]) -> None:
    assert focus_nodes(validated(tmp_path, triple_rule(options))) == expected


def test_a_class_that_a_rule_adds_has_its_focus_nodes_and_members(tmp_path: Path) -> None:
    """The conditions of rules ask for members of classes before rules add others: then `ex:a`
    becomes a fast pump, and so a checked thing, and `ex:b` feeds nothing fast before.
    """
    shapes = """
ex:Checked a rdfs:Class, sh:NodeShape ; sh:property [ sh:path ex:size ; sh:minInclusive 4 ] .
ex:Fast a rdfs:Class ; rdfs:subClassOf ex:Checked .
ex:Sized a sh:NodeShape ; sh:property [ sh:path ex:size ; sh:minCount 1 ] ; sh:class ex:Pump .
ex:FedByFast a sh:NodeShape ;
    sh:property [ sh:path [ sh:inversePath ex:feeds ] ; sh:minCount 1 ; sh:class ex:Fast ] .
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule
    [ a sh:TripleRule ; sh:order 1 ; sh:condition ex:FedByFast ; sh:subject sh:this ;
        sh:predicate ex:marked ; sh:object true ],
    [ a sh:TripleRule ; sh:order 2 ; sh:condition ex:Sized ; sh:subject sh:this ;
        sh:predicate <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> ; sh:object ex:Fast ] .
"""
    assert focus_nodes(validated(tmp_path, shapes + MARKED)) == ["a", "b"]


def test_node_expressions(tmp_path: Path) -> None:
    """The object is the size of what a pump feeds, through a path; `ex:c` gets nothing."""
    shapes = """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ;
    sh:rule [ a sh:TripleRule ; sh:subject [ sh:path ex:feeds ] ; sh:predicate ex:marked ;
        sh:object [ sh:path ex:size ] ] .
"""
    found = validated(tmp_path, shapes + MARKED)
    assert focus_nodes(found) == ["b"]
    assert found.report is not None
    assert found.report.inferred == 1


RULES = {
    "a chain through two rules": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ; sh:order 2 ;
    sh:prefixes ex:prefixes ;
    sh:construct "CONSTRUCT { $this ex:reaches ?y } WHERE { $this ex:feeds ?y }" ], [
    a sh:SPARQLRule ; sh:order 1 ; sh:prefixes ex:prefixes ; sh:construct
    "CONSTRUCT { $this ex:reaches ?z } WHERE { $this ex:reaches ?y . ?y ex:reaches ?z }" ] .""",
    "this in a filter of a nested group": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct '''CONSTRUCT { $this ex:label ?name } WHERE {
        { BIND(STRAFTER(STR($this), "org/") AS ?name) } FILTER NOT EXISTS { $this ex:size ?s } }'''
    ] .""",
    "this in a union and an optional": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump, ex:Tank ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct '''CONSTRUCT { $this ex:near ?y ; ex:of ?s } WHERE {
        { $this ex:feeds ?y } UNION { ?y ex:feeds $this } OPTIONAL { ?y ex:size ?s } }''' ] .""",
    "a property as focus node": """
ex:feeds rdfs:subPropertyOf ex:touches .
ex:R a sh:NodeShape ; sh:targetSubjectsOf rdfs:subPropertyOf ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct
    "CONSTRUCT { ?s ex:touches ?o } WHERE { ?s $this ?o }" ] .""",
    "counts for each focus node": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct '''CONSTRUCT { $this ex:count ?n } WHERE {
        SELECT $this (COUNT(?y) AS ?n) WHERE { $this ex:feeds ?y } GROUP BY $this }''' ] .""",
    "the short form": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct "CONSTRUCT WHERE { $this ex:size ?s }" ] .""",
    "new blank nodes": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct
    "CONSTRUCT { $this ex:has [ ex:value ?y ] } WHERE { $this ex:feeds ?y }" ] .""",
    "patterns without this that match": """
ex:feeds a ex:Symmetric .
ex:R a sh:NodeShape ; sh:targetClass ex:Pump, ex:Tank ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct '''CONSTRUCT { ?y ?p $this } WHERE {
        { $this ?p ?y } UNION { ?y ?p $this } . ?p a ex:Symmetric . }''' ] .""",
    "patterns without this that do not match": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump, ex:Tank ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct '''CONSTRUCT { ?y ?p $this } WHERE {
        { $this ?p ?y } UNION { ?y ?p $this } . ?p a ex:Symmetric . }''' ] .""",
    "patterns without this among other parts": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct '''CONSTRUCT { $this ex:near ?t } WHERE {
        OPTIONAL { ?no ex:none ?n } ?z a ?kind , ex:Tank FILTER (?kind != ex:Pump) ?x a ex:Tank .
        $this ex:feeds ?y . # not a pattern . ?q ex:none ?q .
        BIND (?z AS ?t) ?y a ?c MINUS { ?z ex:none 1.5 } VALUES ?x { ex:c } ?t a ex:Tank
        FILTER NOT EXISTS { ?z ex:none [ ex:none ?m ] } }''' ] .""",
    "a count of what does not exist": """
ex:R a sh:NodeShape ; sh:targetNode ex:a ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct '''CONSTRUCT { $this ex:count ?n } WHERE {
        { SELECT (COUNT(?y) AS ?n) WHERE { ?y a ex:None } } $this a ex:Pump }''' ] .""",
    "a condition on what another rule adds": """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:TripleRule ; sh:subject sh:this ;
    sh:predicate rdfs:label ; sh:object "big" ; sh:order 1 ;
    sh:condition [ a sh:NodeShape ; sh:class ex:Big ] ], [ a sh:TripleRule ; sh:subject sh:this ;
    sh:predicate <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> ; sh:object ex:Big ;
    sh:order 0 ; sh:condition [ a sh:NodeShape ;
        sh:property [ sh:path ex:size ; sh:minInclusive 2 ] ] ] .""",
}


@pytest.mark.parametrize("name", RULES)
def test_rules_add_what_pyshacl_adds(tmp_path: Path, name: str) -> None:
    """pySHACL repeats the rules of each shape until nothing changes with `iterate_rules`; in these
    cases all rules belong to one shape, so that this is the fixed point.
    """
    shapes, data = Graph().parse(data=HEAD + RULES[name]), Graph().parse(data=HEAD + DATA)
    before = set(data)
    if name == "new blank nodes":  # pySHACL makes other blank nodes each time, without end
        pyshacl.shacl_rules(data, shacl_graph=shapes, advanced=True, inplace=True)
    else:
        merged = data + shapes
        before = set(merged)
        pyshacl.shacl_rules(
            merged, shacl_graph=shapes, advanced=True, inplace=True, iterate_rules=True
        )
        data = merged
    expected = Graph()
    for triple in set(data) - before:
        expected.add(triple)
    (tmp_path / "s.ttl").write_text(HEAD + RULES[name], encoding="utf-8")
    (tmp_path / "d.ttl").write_text(HEAD + DATA, encoding="utf-8")
    adds_nothing = ("the short form", "patterns without this that do not match")
    assert bool(expected) == (name not in adds_nothing)
    assert isomorphic(added(tmp_path / "d.ttl", tmp_path / "s.ttl"), expected)


def added(data: Path, shapes: Path) -> Graph:
    """The triples that the rules add."""
    from fedkg_compiler.frontends.shacl.inference_rules import RuleRun, read_rules
    from fedkg_compiler.frontends.shacl.shapes_graph_reader import Data, memory_graph, read_shapes
    from fedkg_compiler.frontends.shacl.validator import Validator
    from fedkg_compiler.graph.rdf_reader import read_file

    store = ox.Store()
    for path in (data, shapes):
        document, _ = read_file(path)
        assert document is not None
        store.extend(document.triples)
    graph = memory_graph(list(store))
    known, _ = read_shapes(shapes)
    assert known is not None
    validator = Validator(known, Data(graph), store, {})
    run = RuleRun(read_rules(known), store, graph, validator)
    run.run()
    return memory_graph(run.new)


@pytest.mark.parametrize(
    ("pattern", "evaluated"),
    [
        ("?p a ex:None .", False),
        ("?p a ex:None ; ex:b ?c .", False),
        ("?p ex:b/ex:c ?q . BIND (1 AS ?n) ?q ex:b ?r .", False),
        ("?p ex:b ?q .", True),
        ("FILTER (?o = 1) ?p a ex:None .", True),
        ("$this a ex:None .", True),
    ],
)
def test_focus_nodes_are_not_tried_without_the_other_patterns(
    monkeypatch: pytest.MonkeyPatch, pattern: str, evaluated: bool
) -> None:
    """A query with a pattern that no triple matches is not evaluated for its focus nodes."""
    store = ox.Store()
    store.add(ox.Quad(*(ox.NamedNode(EX[name]) for name in "abc")))
    found: list[str] = []
    query = prebound_query_execution._constructed

    def noted(store: ox.Store, text: str, functions: Functions | None) -> list[ox.Quad]:
        found.append(text)
        return query(store, text, functions)

    monkeypatch.setattr(prebound_query_execution, "_constructed", noted)
    text = f"PREFIX ex: <{EX}> CONSTRUCT {{ $this ex:d ?o }} WHERE {{ $this ?x ?o . {pattern} }}"
    assert len(construct(store, text, [EX.a])) == (pattern == "?p ex:b ?q .")
    assert bool(found) == evaluated


def test_rules_of_different_shapes_reach_a_fixed_point(tmp_path: Path) -> None:
    """The first shape needs what the second one adds; one pass in order would miss it."""
    shapes = """
ex:A a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ; sh:order 0 ;
    sh:prefixes ex:prefixes ;
    sh:construct "CONSTRUCT { $this ex:marked true } WHERE { $this ex:late true }" ] .
ex:B a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:TripleRule ; sh:order 1 ;
    sh:subject sh:this ; sh:predicate ex:late ; sh:object true ] .
"""
    assert focus_nodes(validated(tmp_path, shapes + MARKED)) == ["a", "b"]


def test_new_nodes_of_rules_are_validated(tmp_path: Path) -> None:
    shapes = """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct
    "CONSTRUCT { $this ex:has [ ex:marked ?y ] } WHERE { $this ex:feeds ?y }" ] .
"""
    assert len(focus_nodes(validated(tmp_path, shapes + MARKED))) == 2


def test_random_names_end(tmp_path: Path) -> None:
    """A rule with UUID() runs once; else it would make another name in each pass."""
    shapes = """
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:SPARQLRule ;
    sh:prefixes ex:prefixes ; sh:construct
    "CONSTRUCT { $this ex:has ?n } WHERE { $this ex:feeds ?y BIND(UUID() AS ?n) }" ] .
"""
    found = validated(tmp_path, shapes + MARKED)
    assert found.report is not None
    assert found.report.inferred == 2


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            'a sh:SPARQLRule ; sh:construct "SELECT * WHERE { $this ?p ?o }"',
            "not a CONSTRUCT query",
        ),
        (
            (
                "a sh:SPARQLRule ; sh:construct "
                '"CONSTRUCT { $this ?p ?o } WHERE { SERVICE <http://x:9/> { $this ?p ?o } }"'
            ),
            "SERVICE",
        ),
        ("a sh:TripleRule ; sh:subject sh:this ; sh:object 1", "one sh:predicate"),
        ('a sh:JSRule ; sh:jsFunctionName "f"', "neither a sh:TripleRule nor a sh:SPARQLRule"),
        (
            (
                "a sh:SPARQLRule ; sh:prefixes ex:prefixes ; sh:construct "
                '"CONSTRUCT { $this ex:n ?m } WHERE { $this ex:size ?s OPTIONAL { $this ex:n ?n } '
                'BIND(COALESCE(?n, ?s) + 1 AS ?m) }"'
            ),
            "still add triples after 100 passes",
        ),
    ],
)
def test_a_wrong_rule_is_an_error_at_its_place(tmp_path: Path, rule: str, expected: str) -> None:
    shapes = f"""
ex:R a sh:NodeShape ; sh:targetClass ex:Pump ;
    sh:rule [ {rule} ] .
"""
    found = validated(tmp_path, shapes + MARKED)
    assert found.report is None
    (problem,) = found.diagnostics
    assert problem.code == "FKG316"
    assert expected in problem.message
    assert (problem.span.line, problem.span.column) == (HEAD.count("\n") + 3, 5)


@pytest.mark.parametrize(
    ("query", "word", "expected"),
    [
        ("CONSTRUCT { $this ex:p 1 } WHERE {", "{", "the query ends too early: `}` is expected"),
        (
            "CONSTRUCT { $this ex:p 1 }\nWHERE { ?s a ex:None . $this ex:p }",
            "}",
            "the query is not SPARQL at `}`: an object is expected",
        ),
        ("CONSTRUCT { $this ex:p } WHERE {}", "}", "the query is not SPARQL at `}`"),
        ("CONSTRUCT { $this no:p 1 } WHERE {}", "no:p", "the prefix `no:` is not known"),
    ],
)
def test_a_mistake_in_the_query_of_a_rule_is_reported_where_it_stands(
    tmp_path: Path, query: str, word: str, expected: str
) -> None:
    rule = f'a sh:SPARQLRule ; sh:prefixes ex:prefixes ; sh:construct """{query}"""'
    shapes = f"ex:R a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ {rule} ] .\n"
    (problem,) = validated(tmp_path, shapes + MARKED).diagnostics
    assert expected in problem.message
    rows, span = (HEAD + shapes).split("\n"), problem.span
    assert rows[span.line - 1][span.column - 1 : span.end_column - 1] == word


def test_rules_apply_to_the_graph_of_a_compilation(tmp_path: Path) -> None:
    (tmp_path / "s.ttl").write_text(HEAD + triple_rule(), encoding="utf-8")
    (tmp_path / "d.ttl").write_text(HEAD + DATA, encoding="utf-8")
    found = compile_rules([tmp_path / "s.ttl", tmp_path / "d.ttl"])
    (violation,) = (item for item in found.diagnostics if item.code == "FKG310")
    assert "Check.marked.maxCount is violated by a; b" in violation.message


def test_a_rule_about_the_table_is_rejected(tmp_path: Path) -> None:
    columns = "@prefix fkg: <https://w3id.org/fedkg/ns#> . ex:marked fkg:column 'm' ."
    (tmp_path / "s.ttl").write_text(HEAD + columns + triple_rule(), encoding="utf-8")
    (tmp_path / "d.ttl").write_text(HEAD + DATA, encoding="utf-8")
    found = compile_rules([tmp_path / "s.ttl", tmp_path / "d.ttl"])
    (problem,) = (item for item in found.diagnostics if item.code == "FKG312")
    assert "which is a property of the table" in problem.message
    assert problem.severity == "error"


def test_each_group_with_this_is_bound() -> None:
    query = with_focus_nodes(
        "CONSTRUCT { $this a ?t } WHERE { $this ?p ?t { BIND($this AS ?x) } { ?a ?b ?c } "
        "FILTER EXISTS { $this ?q ?r } VALUES ?p { <http://p> } }"
    )
    assert query.count("GRAPH <urn:fedkg:focus>") == 2


def test_variables_in_the_place_of_a_property() -> None:
    from fedkg_compiler.graph.sparql_syntax.tokens import tokens

    text = "?s $this ?o ; ?p 1 . [] ?q ( 1 2 ) FILTER(?o > ?s) BIND(?x + 1 AS ?y)"
    assert predicate_variables(tokens(text)) == {"this", "p", "q"}
    bound = with_constant("FILTER(bound($g) && $g != ?x)", "g", URIRef(EX.a))
    assert bound == "FILTER((true) && <http://example.org/a> != ?x)"


CLOSURES = {
    "?a ex:is ?x . ?b ex:is ?y . { ?x ex:sub* ?y } UNION { ?y ex:sub* ?x }": True,
    "?a ex:is/ex:is ?x ; ex:is ?y { ?x ex:sub+ ?y . } .": True,
    "?a ex:is ?x, ?y . FILTER (?x != ?y) . ?a ex:is ?z . { ?x ex:sub* ?y }": True,
    "?a ex:is ?x OPTIONAL { ?a ex:sub ?y } ?b ex:is ?y { ?y ex:sub* ?x }": True,
    "?a ex:is ?x . { ?x ex:sub* ?y } UNION { ?y ex:sub* ?x } ?b ex:is ?y .": False,
    "?a ex:is ?x . ?b ?y ex:n1 . { ?x ex:sub* ?y } UNION { ?y ex:sub* ?x }": False,
    "?a ex:is ?x . ?b ex:is ?y OPTIONAL { ?x ex:sub* ?y }": False,
    "?a ex:is ?x . ?b ex:is ?y MINUS { ?x ex:sub* ?y } .": False,
    "?a ex:is ?x . ?b ex:is ?y . { ?x ex:sub* ?y } UNION { ?y ex:is ?x }": False,
    "?a ex:is ?x . ?b ex:is ?y . { ?x ex:sub* ?y . ?y ex:is ?z }": False,
    "{ ?x ex:sub* ?y } UNION { ?y ex:sub* ?x } . ?a ex:is ?x .": False,
}
"""Patterns in EXISTS: whether their closures can be compared in a filter."""


@pytest.mark.parametrize(("pattern", "changed"), CLOSURES.items())
@pytest.mark.parametrize("exists", ["EXISTS", "NOT EXISTS"])
def test_closures_in_filters_find_the_same(pattern: str, changed: bool, exists: str) -> None:
    """A query and its rewriting have the same solutions on random graphs."""
    text = (
        f"PREFIX ex: <{EX}> SELECT ?this ?x WHERE {{ ?this ex:is ?x FILTER {exists} {{"
        f" ?x ex:is ?c . {pattern} }} }}"
    )
    rewritten = with_closures_last(text)
    assert ("FILTER (EXISTS" in rewritten) == changed
    assert changed or rewritten == text
    for seed in range(10):
        random = np.random.default_rng(seed)
        store = ox.Store()
        for name in ("is", "is", "sub"):
            for subject, value in random.integers(0, 4, (2, 2)):
                one, other = (ox.NamedNode(f"{EX}n{number}") for number in (subject, value))
                store.add(ox.Quad(one, ox.NamedNode(EX + name), other))
        solutions = [sorted(str(one) for one in store.query(query)) for query in (text, rewritten)]
        assert solutions[0] == solutions[1]


def test_conditions_of_rules_find_texts_in_a_graph_of_a_compilation(tmp_path: Path) -> None:
    condition = '; sh:condition [ sh:property [ sh:path ex:state ; sh:hasValue "on" ] ]'
    (tmp_path / "shapes.ttl").write_text(HEAD + MARKED + triple_rule(condition), encoding="utf-8")
    (tmp_path / "data.ttl").write_text(HEAD + DATA + 'ex:a ex:state "on" .', encoding="utf-8")
    found = compile_rules([tmp_path / "shapes.ttl", tmp_path / "data.ttl"]).diagnostics
    assert [one.code for one in found if one.severity == "error"] == ["FKG310"]


FAILING = """sh:targetNode ex:a ; sh:sparql [
    sh:select "SELECT $this ?failure WHERE { $this ?p ?o BIND(true AS ?failure) }" ]"""


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ('sh:target [ a sh:SPARQLTarget ; sh:selct "SELECT ?this WHERE {}" ]', "FKG316"),
        ("sh:target [ a ex:Unheard ]", "FKG316"),
        ('sh:targetClass "http://example.org/Pump"', "FKG311"),
        ("sh:targetClass [ ex:of ex:Pump ]", "FKG311"),
        ("sh:targetSubjectsOf ( ex:size )", "FKG311"),
        ("sh:in _:l . _:l rdf:first 1, 2 ; rdf:rest () . ex:S sh:targetNode ex:a", "FKG311"),
        ("sh:entailment <http://www.w3.org/ns/entailment/RDFS> ; sh:targetNode ex:a", "FKG316"),
        (FAILING, "FKG316"),
    ],
)
def test_shapes_that_cannot_be_evaluated_are_refused(
    tmp_path: Path, target: str, code: str
) -> None:
    shapes = f"ex:S {target} ; a sh:NodeShape ; sh:property [ sh:path ex:size ; sh:minCount 1 ] ."
    found = validated(tmp_path, shapes)
    assert found.report is None
    assert [(one.code, one.span.line) for one in found.diagnostics] == [(code, 7)]


@pytest.mark.parametrize(
    ("value", "shape", "conforms"),
    [
        ('"2024-01-01T00:00:00"^^xsd:dateTime', 'sh:minInclusive "2000-01-01T00:00:00Z"', True),
        ('"2000-01-01T12:00:00"^^xsd:dateTime', 'sh:minInclusive "2000-01-01T00:00:00Z"', False),
        (
            '"1999-01-01T00:00:00"^^xsd:dateTime',
            'sh:maxExclusive "2000-01-01T00:00:00+02:00"',
            True,
        ),
        ('"a"@en', "sh:lessThanOrEquals ex:size", False),
        ('"a"', 'sh:maxExclusive "b"@en', False),
        (
            '"0001-01-01T00:00:00+14:00"^^xsd:dateTime',
            'sh:maxInclusive "2000-01-01T00:00:00"',
            True,
        ),
        (f'"{"0" * 5000}1"^^xsd:integer', "sh:datatype xsd:integer", True),
        ('"a"@en', 'sh:languageIn ( "*" )', True),
        ('"a"@en-GB', 'sh:languageIn ( "en" )', True),
        ('"a"', 'sh:languageIn ( "*" )', False),
        ('"1\\n"', 'sh:pattern "^1$"', False),
        ('"1"', 'sh:pattern "^1$"', True),
    ],
)
def test_values_are_compared_as_sparql_does(
    tmp_path: Path, value: str, shape: str, conforms: bool
) -> None:
    if shape.endswith(('Z"', '00"')):
        shape += "^^xsd:dateTime"
    shapes = f"ex:S sh:targetNode ex:a ; sh:property [ sh:path ex:size ; {shape} ] ."
    found = validated(tmp_path, shapes, f"ex:a ex:size {value} .")
    assert focus_nodes(found) == ([] if conforms else ["a"])


def test_components_with_the_same_first_parameter_are_all_evaluated(tmp_path: Path) -> None:
    def component(name: str, limit: int) -> str:
        return f"""
        ex:{name} a sh:ConstraintComponent ;
            sh:parameter [ sh:path ex:of ] , [ sh:path ex:{name.lower()} ] ;
            sh:validator [ a sh:SPARQLAskValidator ; sh:ask "ASK {{ FILTER(?value < {limit}) }}" ] .
        """

    shapes = (
        component("Ratio", 2)
        + component("Sum", 9)
        + (
            "ex:S a sh:NodeShape ; sh:targetNode ex:a ; "
            "sh:property [ sh:path ex:size ; ex:of 1 ; ex:ratio 1 ; ex:sum 1 ] ."
        )
    )
    found = validated(tmp_path, shapes, "ex:a ex:size 3, 10 .")
    assert found.report is not None, found.diagnostics
    results = [(one.component, str(one.value)) for one in found.report.results]
    assert sorted(results) == [(EX.Ratio, "10"), (EX.Ratio, "3"), (EX.Sum, "10")]


def test_a_list_as_a_parameter_of_a_query_is_refused(tmp_path: Path) -> None:
    shapes = """
    ex:Among a sh:ConstraintComponent ; sh:parameter [ sh:path ex:among ] ;
        sh:validator [ a sh:SPARQLAskValidator ; sh:ask "ASK { FILTER($value IN ($among)) }" ] .
    ex:S a sh:NodeShape ; sh:targetNode ex:a ; sh:property [ sh:path ex:size ; ex:among ( 1 2 ) ] .
    """
    found = validated(tmp_path, shapes, "ex:a ex:size 3 .")
    assert [one.code for one in found.diagnostics] == ["FKG316"]
    assert "is a blank node, which a query cannot name" in found.diagnostics[0].message
    (tmp_path / "both.ttl").write_text(HEAD + shapes + "ex:a ex:size 3 .", encoding="utf-8")
    both = compile_rules([tmp_path / "both.ttl"]).diagnostics
    assert [one.code for one in both if one.severity == "error"] == ["FKG316"]


def test_variables_bound_beforehand_are_known_in_both_spellings_and_in_every_part(
    tmp_path: Path,
) -> None:
    shapes = '''
    ex:S a sh:NodeShape ; sh:targetNode ex:a ; sh:property [ sh:path ex:size ; sh:sparql [
        sh:select """SELECT $this ?value { { SELECT $this ?value { $this ?PATH ?value } }
            FILTER(?value > 2) }"""
    ] ] .
    '''
    found = validated(tmp_path, shapes, "ex:a ex:size 1, 3 ; ex:other 9 .")
    assert found.report is not None, found.diagnostics
    assert [str(one.value) for one in found.report.results] == ["3"]


def test_texts_that_a_rule_adds_are_found_by_the_next_one(tmp_path: Path) -> None:
    shapes = """
    ex:First a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:TripleRule ; sh:order 1 ;
        sh:subject sh:this ; sh:predicate ex:state ; sh:object "on" ] .
    ex:Second a sh:NodeShape ; sh:targetClass ex:Pump ; sh:rule [ a sh:TripleRule ; sh:order 2 ;
        sh:condition [ sh:property [ sh:path ex:state ; sh:hasValue "on" ] ] ;
        sh:subject sh:this ; sh:predicate ex:marked ; sh:object true ] .
    """
    (tmp_path / "both.ttl").write_text(HEAD + DATA + shapes + MARKED, encoding="utf-8")
    found = compile_rules([tmp_path / "both.ttl"]).diagnostics
    assert "FKG310" in [one.code for one in found if one.severity == "error"]


def test_an_unknown_target_beside_a_known_one_is_an_error_of_check(tmp_path: Path) -> None:
    shapes = "ex:S sh:target [ a ex:Unheard ] ; sh:targetNode ex:a ; sh:nodeKind sh:Literal ."
    (tmp_path / "both.ttl").write_text(HEAD + DATA + shapes, encoding="utf-8")
    found = compile_rules([tmp_path / "both.ttl"]).diagnostics
    assert [one.code for one in found if one.severity == "error"] == ["FKG314"]


@pytest.mark.parametrize("head", ["*", "(COUNT(*) AS ?n)"])
def test_a_nested_select_without_the_focus_node_is_refused(tmp_path: Path, head: str) -> None:
    shapes = f"""
    ex:S a sh:NodeShape ; sh:targetNode ex:a ; sh:sparql [
        sh:select "SELECT $this {{ {{ SELECT {head} {{ $this ex:size ?x }} }} }}" ] .
    """
    assert [one.code for one in validated(tmp_path, shapes).diagnostics] == ["FKG316"]
