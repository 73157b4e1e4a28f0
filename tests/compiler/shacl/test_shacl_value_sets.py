"""Paths to several columns: all are numbers if a shape uses numbers.

Equal values are one value node, as in pySHACL.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyshacl
import pytest
from rdflib import Graph, Literal, Namespace, URIRef

from fedkg.evaluation import evaluate
from fedkg.evaluation.evaluate import violations
from fedkg.pack import Pack
from fedkg.pack.formula_text import row_text
from fedkg.tables import Table
from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation

P, SH = Namespace("https://ex.org/p#"), Namespace("http://www.w3.org/ns/shacl#")
HEAD = """
@prefix p: <https://ex.org/p#> . @prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix qudt: <http://qudt.org/schema/qudt/> . @prefix unit: <http://qudt.org/vocab/unit/> .
"""
FACTS = """
p:line1 p:has p:P1, p:P2 . p:line2 p:has p:P3 .
p:P1 a p:Pump ; p:most 3.0e0 ; p:feeds p:P2 . p:P2 a p:Pump ; p:most 4.0e0 ; p:feeds p:P3 .
p:P3 a p:Pump .
"""
STATES = 'p:state fkg:category "on", "off" . p:mode fkg:category "off", "on", "slow" .'
WORDS = (
    'p:word fkg:category "ok"@en, "fine"@en, "gut"@de . p:note fkg:category "ok"@en, "fine"@en,'
    ' "gut"@de .'
)
NUMBERS = [Literal(float(i)) for i in range(1, 5)]
TEXTS = {
    "state": [Literal("on"), Literal("off")],
    "mode": [Literal("on"), Literal("off"), Literal("slow")],
    "word": [Literal("ok", lang="en"), Literal("fine", lang="en"), Literal("gut", lang="de")],
    "note": [Literal("ok", lang="en"), Literal("fine", lang="en"), Literal("gut", lang="de")],
}
COLUMN_OF_NAMES = (
    'p:name fkg:column "name" . p:title fkg:column "title" . p:Pump fkg:keyColumn "pump" .'
)
PUMPS = ("P1", "P2", "P3")
COLUMNS = [f"{name} {pump}" for name in ("press", "temp", *TEXTS) for pump in PUMPS]
EITHER = "[ sh:alternativePath ( p:press p:temp ) ]"
PUMP = "sh:targetClass p:Pump"
LINE = "sh:targetNode p:line1, p:line2"
LATER = f"( [ sh:zeroOrOnePath p:feeds ] {EITHER} )"
SHAPES = {
    "bound": (PUMP, f"{EITHER} ; sh:maxInclusive 3.5e0"),
    "bound in a sequence": (PUMP, f"{LATER} ; sh:maxInclusive 3.5e0"),
    "members": (PUMP, f"{EITHER} ; sh:in ( 1.0e0 2.0e0 )"),
    "a value": (LINE, f"( p:has {EITHER} ) ; sh:hasValue 2.0e0"),
    "nested": (PUMP, f"{EITHER} ; sh:or ( [ sh:maxInclusive 1.0e0 ] [ sh:minInclusive 4.0e0 ] )"),
    "pair": (PUMP, f"{EITHER} ; sh:lessThan p:most"),
    "most": (LINE, "( p:has p:press ) ; sh:maxCount 1"),
    "least": (PUMP, f"{EITHER} ; sh:minCount 2"),
    "two of four": (LINE, f"( p:has {EITHER} ) ; sh:maxCount 2"),
    "three of four": ("sh:targetNode p:line1", f"( p:has {EITHER} ) ; sh:minCount 3"),
    "a fact beside": (PUMP, "[ sh:alternativePath ( p:press p:most ) ] ; sh:maxCount 1"),
    "qualified most": (
        PUMP,
        f"{EITHER} ; sh:qualifiedValueShape [ sh:minInclusive 2.0e0 ] ; sh:qualifiedMaxCount 1",
    ),
    "qualified least": (
        LINE,
        (
            f"( p:has {EITHER} ) ; sh:qualifiedValueShape [ sh:minInclusive 3.0e0 ] ; "
            "sh:qualifiedMinCount 2"
        ),
    ),
    "qualified entities": (
        LINE,
        (
            "p:has ; sh:qualifiedValueShape [ sh:path p:press ; sh:hasValue 2.0e0 ] ; "
            "sh:qualifiedMaxCount 1"
        ),
    ),
    "texts": (PUMP, "[ sh:alternativePath ( p:state p:mode ) ] ; sh:maxCount 1"),
    "qualified texts": (
        LINE,
        (
            "( p:has [ sh:alternativePath ( p:state p:mode ) ] ) ; sh:qualifiedValueShape [ "
            "sh:pattern '^o' ] ; sh:qualifiedMaxCount 1"
        ),
    ),
    "languages": (PUMP, "[ sh:alternativePath ( p:word p:note ) ] ; sh:uniqueLang true"),
    "numbers and texts": (
        PUMP,
        "[ sh:alternativePath ( p:press p:state p:temp ) ] ; sh:maxCount 2",
    ),
}


def compiled(folder: Path, target: str, path: str, extra: str = "") -> Compilation:
    sensors = "\n".join(
        f"p:s{i} sosa:isHostedBy p:{name.split()[1]} ; sosa:observes p:{name.split()[0]} ;"
        f' fkg:column "{name}" .'
        for i, name in enumerate(COLUMNS)
    )
    shape = f"p:S a sh:NodeShape ; {target} ; sh:property [ sh:path {path} ] ."
    (folder / "all.ttl").write_text(
        HEAD + FACTS + STATES + WORDS + sensors + extra + shape, encoding="utf-8"
    )
    return compile_rules(graphs=[folder / "all.ttl"])


def pack_of(compilation: Compilation) -> Pack:
    assert compilation.pack is not None, compilation.diagnostics
    assert [item.message for item in compilation.diagnostics if item.code == "FKG312"] == []
    return compilation.pack


def dealt(rows: int) -> list[dict[str, Literal]]:
    dice = np.random.default_rng(3)
    terms = {name: TEXTS.get(name.split()[0], NUMBERS) for name in COLUMNS}
    return [
        {
            name: some[int(dice.integers(len(some)))]
            for name, some in terms.items()
            if dice.random() < 0.8
        }
        for _ in range(rows)
    ]


def cell(term: Literal | None) -> str:
    """The table cell of a value: whole numbers without a fraction."""
    return "" if term is None else str(term).removesuffix(".0")


def ours(pack: Pack, rows: Sequence[dict[str, Literal]]) -> set[tuple[int, str]]:
    table = Table.of("t", {name: [cell(row.get(name)) for row in rows] for name in COLUMNS})
    return {
        (item["row"] - 1, item["entity"])
        for item in violations(pack, table).to_json(pack, table, most=100_000)
    }


def theirs(target: str, path: str, rows: Sequence[dict[str, Literal]]) -> set[tuple[int, str]]:
    shapes = Graph().parse(
        data=f"{HEAD} p:S a sh:NodeShape ; {target} ; sh:property [ sh:path {path} ] .",
        format="turtle",
    )
    found = set()
    for number, row in enumerate(rows):
        data = Graph().parse(data=HEAD + FACTS, format="turtle")
        for name, term in row.items():
            data.add((P[name.split()[1]], P[name.split()[0]], term))
        _, report, _ = pyshacl.validate(data, shacl_graph=shapes, inference="none", advanced=True)
        assert isinstance(report, Graph), report
        found |= {
            (number, str(focus).removeprefix(str(P)))
            for focus in report.objects(None, SH.focusNode)
            if isinstance(focus, URIRef)
        }
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_each_row_violates_what_pyshacl_finds(tmp_path: Path, name: str) -> None:
    rows = dealt(25)
    expected = theirs(*SHAPES[name], rows)
    assert 0 < len(expected) < 75
    assert ours(pack_of(compiled(tmp_path, *SHAPES[name])), rows) == expected


@pytest.mark.parametrize(
    "path",
    [
        "( [ sh:inversePath sosa:isHostedBy ] sosa:hasSimpleResult )",
        "[ sh:alternativePath ( p:press p:temp ) ]",
    ],
)
def test_what_ends_in_one_of_several_columns_is_read_as_a_number(tmp_path: Path, path: str) -> None:
    pack = pack_of(compiled(tmp_path, "sh:targetNode p:P1", f"{path} ; sh:maxInclusive 3"))
    texts = {row_text(pack, bank, row) for bank in pack.banks for row in range(bank.rows)}
    assert {"press[P1] <= 3", "temp[P1] <= 3"} <= texts


def test_one_column_is_counted_as_it_was(tmp_path: Path) -> None:
    """A text without further information stays a text and need not be a number."""
    pack = pack_of(compiled(tmp_path, PUMP, "p:press ; sh:minCount 1 ; sh:maxCount 1"))
    assert {row_text(pack, bank, row) for bank in pack.banks for row in range(bank.rows)} == {
        f"press[{pump}] is known" for pump in PUMPS
    }
    table = Table.of("t", {name: ["low", ""] for name in COLUMNS})
    assert {rule.rule: rule.violated for rule in evaluate(pack, table).rules} == {
        "S.press.minCount": 3
    }


def test_a_sensor_with_a_unit_has_numbers(tmp_path: Path) -> None:
    pack = pack_of(
        compiled(
            tmp_path, "sh:targetNode p:P1", f"{EITHER} ; sh:minCount 1", "p:s0 qudt:unit unit:BAR ."
        )
    )
    assert {column.name: column.type for column in pack.manifest.contract.columns} == {
        "press[P1]": "real",
        "temp[P1]": "category",
    }


def test_counting_tells_nothing_of_units(tmp_path: Path) -> None:
    """Equal values in kilopascal and bar count as one.

    A temperature never equals a pressure, and no column gets a unit by this.
    """
    units = "p:s0 qudt:unit unit:BAR . p:s1 qudt:unit unit:KiloPA . p:s3 qudt:unit unit:DEG_C ."
    found = compiled(
        tmp_path, "sh:targetNode p:line1", f"( p:has {EITHER} ) ; sh:maxCount 2", units
    )
    assert [item.code for item in found.diagnostics] == []
    table = {name: [""] * 3 for name in COLUMNS}
    table |= {
        "press P1": ["2", "2", "2"],
        "press P2": ["200", "201", "200"],
        "temp P1": ["2", "2", "2"],
        "temp P2": ["", "", "3"],
    }
    assert [rule.violated for rule in evaluate(pack_of(found), Table.of("t", table)).rules] == [2]


def test_texts_in_languages_need_categories(tmp_path: Path) -> None:
    found = compiled(
        tmp_path,
        PUMP,
        "[ sh:alternativePath ( p:name p:title ) ] ; sh:uniqueLang true",
        COLUMN_OF_NAMES,
    )
    assert any(
        "fkg:category" in item.message for item in found.diagnostics if item.code == "FKG312"
    )
    one = compiled(tmp_path, PUMP, "p:name ; sh:uniqueLang true", COLUMN_OF_NAMES)
    assert [item.message for item in one.diagnostics if item.code == "FKG312"] == []
