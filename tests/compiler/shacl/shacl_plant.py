"""A plant of three pumps with a table of observed values, and the violations that fedkg and pySHACL
find in it.

pySHACL validates, for each row of the table, the graph with the values of the row written into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyshacl
from rdflib import Graph, Literal, Namespace, URIRef
from rdflib.term import Node

from fedkg.evaluation.evaluate import violations
from fedkg.pack import Pack
from fedkg.tables import Table
from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation

PLANT, SH = Namespace("https://example.org/plant#"), Namespace("http://www.w3.org/ns/shacl#")
HEAD = """
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<https://example.org/plant> sh:declare [ sh:prefix "p" ;
    sh:namespace "https://example.org/plant#"^^xsd:anyURI ] .
"""
STATIC = """
plant:P1 a plant:Pump ; plant:maxPressure 6 ; plant:feeds plant:P2 ; plant:serial "A1" .
plant:P2 a plant:Pump ; plant:maxPressure 4 ; plant:feeds plant:P3 .
plant:P3 a plant:Pump ; plant:maxPressure 8 ; plant:feeds plant:P1, plant:P2 .
plant:Steel a plant:Iron . plant:Brass a plant:Copper . plant:Iron rdfs:subClassOf plant:Metal .
plant:Copper rdfs:subClassOf plant:Metal .
plant:Pine a plant:Wood .
"""
CATEGORIES = """
plant:state fkg:category "on", "off", "stuck" . plant:note fkg:category "ok"@en, "gut"@de, "fine" .
plant:material fkg:category plant:Steel, plant:Brass, plant:Pine .
plant:pressure a rdf:Property . plant:level a rdf:Property .
"""
VALUES: dict[str, Sequence[Node]] = {
    "pressure": [Literal(float(i)) for i in range(1, 10)],
    "level": [Literal(float(i)) for i in range(1, 10)],
    "state": [Literal("on"), Literal("off"), Literal("stuck")],
    "note": [Literal("ok", lang="en"), Literal("gut", lang="de"), Literal("fine")],
    "material": [PLANT.Steel, PLANT.Brass, PLANT.Pine],
}
"""The possible table values of each property. No zero: rdflib treats an initial binding to zero as
unbound."""

PUMPS = ("P1", "P2", "P3")


def compile_shapes(folder: Path, shapes: str) -> Compilation:
    """The plant with a column for each property of each pump, under these shapes."""
    sensors = "\n".join(
        f"plant:{name}_{pump} sosa:observes plant:{name} ; sosa:isHostedBy plant:{pump} ;"
        f' fkg:column "{name} {pump}" .'
        for name in VALUES
        for pump in PUMPS
    )
    (folder / "plant.ttl").write_text(HEAD + STATIC + CATEGORIES + sensors, encoding="utf-8")
    (folder / "shapes.ttl").write_text(shapes, encoding="utf-8")
    return compile_rules(graphs=[folder / "plant.ttl", folder / "shapes.ttl"])


def dealt(seed: int, rows: int) -> list[dict[tuple[str, str], Node]]:
    """For each row the values that the table has, by property and pump."""
    dice = np.random.default_rng(seed)
    return [
        {
            (name, pump): terms[int(dice.integers(len(terms)))]
            for name, terms in VALUES.items()
            for pump in PUMPS
            if dice.random() < 0.8
        }
        for _ in range(rows)
    ]


def cell(term: Node | None) -> str:
    """The table cell of a term."""
    return "" if term is None else str(term).removeprefix(str(PLANT))


Found = set[tuple[int, str, str]]


def ours(pack: Pack, rows: Sequence[dict[tuple[str, str], Node]]) -> Found:
    """Row, shape and focus node of every violation."""
    table = Table.of(
        "t",
        {
            f"{name} {pump}": [cell(row.get((name, pump))) for row in rows]
            for name in VALUES
            for pump in PUMPS
        },
    )
    listed = violations(pack, table).to_json(pack, table, most=100_000)
    return {(item["row"] - 1, item["rule"].split(".")[0], item["entity"]) for item in listed}


def theirs(graph: Graph, rows: Sequence[dict[tuple[str, str], Node]]) -> Found:
    """The same by pySHACL on the graph of each row."""
    found: Found = set()
    for number, row in enumerate(rows):
        data = Graph().parse(data=HEAD + STATIC, format="turtle")
        for (name, pump), term in row.items():
            data.add((PLANT[pump], PLANT[name], term))
        _, report, _ = pyshacl.validate(data, shacl_graph=graph, inference="none", advanced=True)
        assert isinstance(report, Graph), report
        for result in report.objects(None, SH.result):
            shape, focus = report.value(result, SH.sourceShape), report.value(result, SH.focusNode)
            assert isinstance(shape, URIRef), shape
            found.add((number, cell(shape).rstrip("_"), cell(focus)))
    return found
