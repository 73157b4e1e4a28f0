"""A small plant of vessels and pipes for tests of members and clients; compiles rules over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation import table_values
from fedkg.pack import Pack
from fedkg.tables import read_bytes
from fedkg_compiler import compile_rules
from fedkg_compiler.diagnostics.record import Diagnostic

GRAPH = """@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
plant:flow a sosa:ObservableProperty . plant:heat a sosa:ObservableProperty .
plant:V1 a plant:Vessel ; plant:max 10 ; plant:in plant:A .
plant:V2 a plant:Vessel ; plant:max 20 ; plant:in plant:A .
plant:V3 a plant:Vessel ; plant:max 5 ; plant:in plant:A . plant:A a plant:Area .
plant:P1 a plant:Pipe ; plant:into plant:V1 ; plant:share 0.5 ; plant:top 4 ; plant:low 1 .
plant:P2 a plant:Pipe ; plant:into plant:V1 ; plant:share 0.25 ; plant:low 2 .
plant:P3 a plant:Pipe ; plant:into plant:V2 ; plant:share 1 ; plant:top 6 .
plant:s1 sosa:observes plant:flow ; sosa:isHostedBy plant:P1 ;
    fkg:column "F1" ; qudt:unit unit:KiloGM-PER-HR .
plant:s2 sosa:observes plant:flow ; sosa:isHostedBy plant:P2 ;
    fkg:column "F2" ; qudt:unit unit:TONNE-PER-HR .
plant:s3 sosa:observes plant:flow ; sosa:isHostedBy plant:P3 ;
    fkg:column "F3" ; qudt:unit unit:KiloGM-PER-HR .
plant:h1 sosa:observes plant:heat ; sosa:isHostedBy plant:P1 ;
    fkg:column "H1" ; qudt:unit unit:DEG_C .
plant:h2 sosa:observes plant:heat ; sosa:isHostedBy plant:P2 ; fkg:column "H2" ; qudt:unit unit:K .
"""
HEAD = """prefix plant: <https://example.org/plant#>
signal flow(?p) is plant:flow in kg/h
signal heat(?p) is plant:heat in degC
signal cap in kg/h
"""
VESSELS = "for ?v, ?max where { ?v a plant:Vessel ; plant:max ?max } require "
INTO = "over ?p where { ?p plant:into ?v }"
TABLE = "F1;F2;F3;H1;H2;cap\n1;0.002;3;20;293.15;2\n5;0.1;50;30;283.15;60\n"


def compile_rule(
    text: str, folder: Path, *, graph: str = GRAPH, client: str = ""
) -> tuple[Pack | None, Sequence[Diagnostic]]:
    """The pack of a rule after `HEAD`, and the diagnostics."""
    place = folder / "pipes.ttl"
    place.write_text(graph, encoding="utf-8")
    compilation = compile_rules(text=HEAD + text, graphs=[place], client=client, reason=False)
    return compilation.pack, compilation.diagnostics


def codes(text: str, folder: Path, **more: str) -> list[str]:
    """The codes of errors and warnings."""
    return [
        problem.code
        for problem in compile_rule(text, folder, **more)[1]
        if problem.severity != "info"
    ]


def margins(
    text: str, folder: Path, *, table: str = TABLE, graph: str = GRAPH
) -> dict[str, list[float]]:
    """Robustness on each table row by the entity of the bank row."""
    pack, problems = compile_rule(text, folder, graph=graph)
    assert pack is not None, [problem.message for problem in problems]
    values = table_values(pack.manifest.contract, read_bytes(table.encode(), "table.csv")).values
    found: dict[str, list[float]] = {}
    for bank in pack.banks:
        result = evaluate_bank(bank, values)
        for i in range(bank.rows):
            found[pack.manifest.entities[int(bank.entity[i])]] = np.asarray(
                result.robustness[:, i]
            ).tolist()
    return found
