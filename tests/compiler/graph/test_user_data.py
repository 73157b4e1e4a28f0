"""Shapes, queries and quantifiers find what the user's graphs describe, not the terms of the
vocabularies that fedkg loads.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import Done, call

from fedkg_compiler.graph import load_catalog

PREFIXES = """@prefix t: <https://example.org/tools#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
"""
TOOLS = 't:drill rdfs:label "drill" ; t:serial 1 .\nt:reamer rdfs:label "reamer" ; t:serial 2 .\n'
QUERY_PREFIXES = PREFIXES.replace("@prefix", "PREFIX").replace(" .\n", "\n")
RULE_PREFIXES = PREFIXES.replace("@prefix", "prefix").replace(" .\n", "\n")


class Folder:
    """Calls `fedkg check` in a folder with a graph and a file of rules, shapes or queries."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def check(self, name: str, text: str, graph: str = TOOLS, *options: str) -> Done:
        before = {".ttl": PREFIXES, ".rq": QUERY_PREFIXES, ".fkg": RULE_PREFIXES}
        rules, data = self.folder / name, self.folder / "tools.ttl"
        rules.write_text(before[rules.suffix] + text)
        data.write_text(PREFIXES + graph)
        return call(self.capsys, "check", rules, data, *options)

    def findings(self, name: str, text: str, graph: str = TOOLS) -> list[str]:
        done = self.check(name, text, graph, "--json")
        return [item["message"] for item in done.json["diagnostics"]]

    def rows(self, text: str, graph: str = TOOLS) -> int:
        """The number of bound rows of a rule over a pattern."""
        rule = f"signal torque in N.m\nrule r for {text} require torque <= 5 N.m"
        done = self.check("r.fkg", rule, graph)
        text = done.out + done.err
        found = re.search(r"(\d+) bound row", text)
        if found is None:
            assert "nothing in the graph fits this quantifier" in text
            return 0
        return int(found[1])


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Folder:
    return Folder(tmp_path, capsys)


def test_a_target_selects_no_terms_of_vocabularies(folder: Folder) -> None:
    """QUDT labels hundreds of units, and no unit has a serial number."""
    shape = """t:Serial a sh:NodeShape ; sh:targetSubjectsOf rdfs:label ;
        sh:property [ sh:path t:serial ; sh:minCount 1 ] ."""
    assert folder.findings("shapes.ttl", shape) == []
    unmarked = TOOLS + 't:tap rdfs:label "tap" .'
    assert folder.findings("shapes.ttl", shape, unmarked) == [
        "Serial.serial.minCount is violated by tap"
    ]


@pytest.mark.parametrize(
    "target",
    [
        "sh:targetClass owl:Class",
        "sh:targetSubjectsOf rdfs:label",
        "sh:targetObjectsOf t:measuredBy",
        """sh:target [ a sh:SPARQLTarget ; sh:prefixes t: ;
            sh:select "SELECT ?this WHERE { ?this rdfs:label ?l }" ]""",
    ],
)
def test_each_kind_of_target_selects_own_nodes(folder: Folder, target: str) -> None:
    shape = f"""t:Shape a sh:NodeShape ; {target} ;
        sh:property [ sh:path t:serial ; sh:minCount 1 ] ."""
    own = """t:Gauge a owl:Class ; rdfs:label "gauge" .
        t:Device a owl:Class ; rdfs:label "device" ; t:serial 3 .
        t:speed t:measuredBy t:Gauge , t:Device ."""
    found = folder.findings("shapes.ttl", shape, own)
    assert found == ["Shape.serial.minCount is violated by Gauge"]


def test_a_named_target_may_be_a_term_of_a_vocabulary(folder: Folder) -> None:
    shape = """t:Shape a sh:NodeShape ; sh:targetNode unit:BAR ;
        sh:property [ sh:path t:serial ; sh:minCount 1 ] ."""
    assert folder.findings("shapes.ttl", shape) == ["Shape.serial.minCount is violated by BAR"]


def test_a_query_finds_no_terms_of_vocabularies(folder: Folder) -> None:
    query = "SELECT ?x WHERE { ?x rdfs:label ?l . FILTER NOT EXISTS { ?x t:serial ?s } }"
    assert folder.findings("unmarked.rq", query) == []
    assert "tap" in "".join(folder.findings("unmarked.rq", query, 't:tap rdfs:label "tap" .'))


@pytest.mark.parametrize(
    ("quantifier", "rows"),
    [
        ("?x, ?l where { ?x rdfs:label ?l }", 2),
        ("?x where { { ?x rdfs:label ?l } UNION { ?x t:serial ?s } }", 2),
        ("?x where { ?x t:serial ?s FILTER NOT EXISTS { ?u qudt:symbol ?m } }", 2),
        ("?x where { ?x t:serial ?s FILTER EXISTS { ?u qudt:symbol ?m } }", 0),
        ("?x where { ?x t:serial ?s MINUS { ?x ?p ?o } }", 0),
        ("?x, ?y where { ?x rdfs:label ?l . ?y rdfs:label ?m }", 4),
        ("?x, ?y where { ?x t:serial ?s OPTIONAL { ?y qudt:symbol ?m } }", 2),
        ("?n where { { SELECT (COUNT(?x) AS ?n) WHERE { ?x rdfs:label ?l } } FILTER(?n = 2) }", 1),
        ("?x where { ?x rdfs:label ?l MINUS { ?y qudt:symbol ?m } }", 2),
        # a path without steps leads from each of the 2 tools, 2 labels and 2 numbers to itself
        ("?x, ?y where { ?x rdfs:label* ?y }", 6 + 2),
        ("?x, ?y where { ?x rdfs:label? ?y FILTER(isLiteral(?x)) }", 4),
        ("?x, ?y where { ?x (rdfs:label|t:serial*)/t:serial? ?y FILTER(isLiteral(?x)) }", 4),
        ("?x in class owl:Class", 0),
        ("?x in class qudt:Unit", 0),
    ],
)
def test_rows_are_about_the_graph_of_the_user(folder: Folder, quantifier: str, rows: int) -> None:
    assert folder.rows(quantifier) == rows


@pytest.mark.slow
def test_a_pattern_names_the_graph_of_a_vocabulary_to_join_it(folder: Folder) -> None:
    """QUDT contains the label of a unit; the machine that names the unit makes the row."""
    own = "t:drill t:limit [ qudt:unit unit:BAR ] . t:reamer t:limit [ qudt:unit unit:K ] ."
    units = "?x t:limit ?q . ?q qudt:unit ?u"
    assert folder.rows(f"?x, ?u where {{ {units} }}", own) == 2
    assert folder.rows(f"?x, ?l where {{ {units} . ?u rdfs:label ?l }}", own) == 0
    label = "{ ?u rdfs:label ?l }"
    assert folder.rows(f"?x, ?l where {{ {units} . GRAPH ?g {label} }}", own) == 2
    graph = "<urn:fedkg:vocabulary:qudt>"
    assert folder.rows(f"?x, ?l where {{ {units} . GRAPH {graph} {label} }}", own) == 2
    assert folder.rows(f"?l where {{ GRAPH {graph} {{ unit:BAR rdfs:label ?l }} }}") == 1
    assert folder.rows(f"?l where {{ GRAPH <urn:fedkg:inferred> {label} }}", own) == 0


def test_a_graph_that_repeats_a_vocabulary_makes_it_own_data(folder: Folder) -> None:
    module = load_catalog().folder / "qudt-units.ttl"
    done = call(folder.capsys, "check", _units_rule(folder.folder), module)
    assert done.code == 0
    assert re.search(r"clean, 1 rule, [1-9]\d+ bound rows", done.out)


def _units_rule(folder: Path) -> Path:
    path = folder / "units.fkg"
    path.write_text(
        RULE_PREFIXES
        + "signal torque in N.m\nrule r for ?u where { ?u a qudt:Unit } require torque <= 5 N.m"
    )
    return path


def test_a_class_that_is_a_shape_too_may_be_empty(folder: Folder) -> None:
    """A class without members is a warning where other rules have rows.

    That it is a shape changes nothing.
    """
    own = """t:Alarm a owl:Class , sh:NodeShape . t:Quiet a owl:Class . t:Tool a owl:Class .
        t:drill a t:Tool ."""
    rules = """signal torque in N.m
rule a for ?x in class t:Alarm require torque <= 5 N.m
rule q for ?x in class t:Quiet require torque <= 5 N.m
rule d for ?x in class t:Tool require torque <= 5 N.m
"""
    done = folder.check("r.fkg", rules, own, "--json")
    told = [(item["code"], item["severity"], item["line"]) for item in done.json["diagnostics"]]
    first = RULE_PREFIXES.count("\n") + 2
    assert [item for item in told if item[1] != "info"] == [
        ("FKG173", "warning", first),
        ("FKG173", "warning", first + 1),
    ]
