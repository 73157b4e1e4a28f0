"""Columns of texts with known categories: every component on a value is decided for each
category.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.evaluation import evaluate
from fedkg.evaluation.evaluate import violations
from fedkg.tables import Table
from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation

HEAD = """
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
PLANT = """
plant:Pump a owl:Class .
plant:state fkg:column "state" ; fkg:category "on", "off", "stuck" .
plant:other fkg:column "other" ; fkg:category "on", "off" .
plant:material fkg:column "material" ; rdfs:range plant:Material .
plant:size fkg:column "size" ; rdfs:range [ a rdfs:Datatype ; owl:oneOf ( "S" "XL" ) ] .
plant:note fkg:column "note" . plant:pressure fkg:column "p" .
plant:Steel a plant:Metal .
plant:Pine a plant:Wood ; fkg:keyColumn "material" ; fkg:keyValue "pine wood" .
plant:Metal rdfs:subClassOf plant:Material . plant:Wood rdfs:subClassOf plant:Material .
"""
RULES = "prefix plant: <https://example.org/plant#>\nrows are plant:Pump\n"


def compiled(folder: Path, body: str) -> Compilation:
    (folder / "plant.ttl").write_text(
        f"{HEAD}{PLANT}plant:S a sh:NodeShape ; sh:targetClass plant:Pump ; {body} .",
        encoding="utf-8",
    )
    return compile_rules(text=RULES, graphs=[folder / "plant.ttl"])


@pytest.mark.parametrize(
    ("shape", "column", "cells", "violated"),
    [
        ("sh:path plant:state ; sh:pattern '^o'", "state", ["on", "off", "stuck", "other", ""], 2),
        ("sh:path plant:state ; sh:minLength 3", "state", ["on", "off", "stuck", ""], 1),
        (
            "sh:path plant:state ; sh:not [ sh:pattern '^o' ]",
            "state",
            ["on", "off", "stuck", ""],
            2,
        ),
        ("sh:path plant:state ; sh:nodeKind sh:IRI", "state", ["on", ""], 1),
        ("sh:path plant:state ; sh:languageIn ( 'en' )", "state", ["on", ""], 1),
        (
            "sh:path plant:material ; sh:class plant:Metal",
            "material",
            ["Steel", "pine wood", "Pine", ""],
            2,
        ),
        ("sh:path plant:material ; sh:nodeKind sh:IRI", "material", ["Steel", "pine wood", ""], 0),
        ("sh:path plant:size ; sh:maxLength 1", "size", ["S", "XL", ""], 1),
        (
            "sh:path plant:pressure ; sh:datatype xsd:double ; sh:class plant:Metal",
            "p",
            ["1", ""],
            1,
        ),
        ("sh:path plant:pressure ; sh:minInclusive 0 ; sh:languageIn ( 'en' )", "p", ["1", ""], 1),
    ],
)
def test_texts_are_judged_one_by_one(
    tmp_path: Path, shape: str, column: str, cells: list[str], violated: int
) -> None:
    found = compiled(tmp_path, f"sh:property [ {shape} ]")
    assert found.pack is not None, found.diagnostics
    assert not [item.message for item in found.diagnostics if item.code == "FKG312"]
    assert (
        sum(rule.violated for rule in evaluate(found.pack, Table.of("t", {column: cells})).rules)
        == violated
    )


@pytest.mark.parametrize(
    ("word", "violated"), [("equals", [1, 2]), ("disjoint", [0]), ("lessThan", [0, 1])]
)
def test_two_columns_of_texts_are_compared(tmp_path: Path, word: str, violated: list[int]) -> None:
    found = compiled(tmp_path, f"sh:property [ sh:path plant:state ; sh:{word} plant:other ]")
    assert found.pack is not None, found.diagnostics
    table = Table.of("t", {"state": ["on", "on", "off", ""], "other": ["on", "off", "on", ""]})
    assert sorted(set(violations(found.pack, table).row.tolist())) == violated


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ("sh:path plant:note ; sh:pattern '^o'", "fkg:category"),
        ("sh:path plant:note ; sh:class plant:Metal", "fkg:category"),
        ("sh:path plant:pressure ; sh:minInclusive 1 ; sh:pattern '^1'", "read as a number"),
    ],
)
def test_an_undecidable_shape_is_rejected_with_the_reason(
    tmp_path: Path, shape: str, reason: str
) -> None:
    found = compiled(tmp_path, f"sh:property [ {shape} ]")
    assert [reason in item.message for item in found.diagnostics if item.code == "FKG312"] == [True]


def test_a_closed_shape_leaves_other_columns_empty(tmp_path: Path) -> None:
    allowed = (
        "sh:closed true ; sh:ignoredProperties ( rdf:type plant:state plant:other "
        "plant:size ) ; sh:property [ sh:path plant:note ]"
    )
    found = compiled(tmp_path, allowed)
    assert found.pack is not None, found.diagnostics
    table = Table.of(
        "t", {"material": ["Steel", "", ""], "p": ["1", "2", ""], "note": ["a", "b", "c"]}
    )
    assert [rule.violated for rule in evaluate(found.pack, table).rules] == [2]
    assert len(violations(found.pack, table)) == 3
    assert [
        item.code
        for item in compiled(tmp_path, "sh:closed true").diagnostics
        if item.severity == "error"
    ] == ["FKG310"]
