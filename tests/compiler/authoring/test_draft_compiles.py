"""Drafts check clean, compile, and hold on the data they were drafted from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import SHARED, needs_shared
from tries import tries

from fedkg.evaluation import Evaluation, evaluate
from fedkg.tables import Table, read_bytes, read_table
from fedkg_compiler.authoring import draft_rules
from fedkg_compiler.pipeline import compile_rules

DATA = read_bytes(
    "Zeit;Druck [bar];Zähler;fest\n01.02.2024 10:00;1,5;10;7\n01.02.2024 10:05;2,5;10;7\n01.02.2024"
    " 10:10;1,25;12;7\n01.02.2024 10:15;2,0;13;7\n01.02.2024 10:20;2,0;13;7\n01.02.2024"
    " 10:25;Bad;15;7\n".encode(),
    "daten.csv",
)


def evaluate_draft(folder: Path, sheet: str | None, table: Table) -> Evaluation:
    """The evaluation of a draft on its table; the draft must check clean."""
    limits = None
    if sheet is not None:
        (folder / "limits.csv").write_bytes(sheet.encode("cp1252"))
        limits = read_table(folder / "limits.csv")
    rules = folder / "rules.fkg"
    rules.write_text(draft_rules(limits, table), encoding="utf-8")
    compiled = compile_rules([rules])
    assert [item for item in compiled.diagnostics if item.severity != "info"] == []
    assert compiled.pack is not None
    return evaluate(compiled.pack, table)


@pytest.mark.parametrize(
    ("sheet", "violated", "unit"),
    [
        ("tag,low,high\nDruck [bar],0,2\nfest,1,9\n", 1, "bar"),
        ("Messstelle;Einheit;Max;Min\nDruck [bar];bar;2,0;0\nfest;°C;9;1\n", 1, "bar"),
        ("Max. [bar];Messstelle;Min. [bar]\n2,25;Druck [bar];0,5\n", 1, "bar"),
        ("Messstelle;Max;Min\nDruck [bar];2;\nfest;;8\n", 7, ""),
        ("Tag\tHigh\nDruck [bar]\t2.25\n", 1, "bar"),
        ("tag,unit,low,high\nDruck [bar],Kringel,0,2\n", 1, "bar"),
        ("tag,unit,low,high\nDruck [bar],kPa,0,200\n", 1, "bar"),
        ("tag,EU,low,high\nDruck [bar],kPa,0,200\n", 1, "bar"),
        ("tag,unit,low,high\nDruck [bar],kPa,0,200\nfest,Kringel,1,9\n", 1, "bar"),
        ("tag,low [kPa],high [kPa]\nDruck [bar],0,200\n", 1, "bar"),
    ],
)
def test_drafts_from_sheets(sheet: str, violated: int, unit: str, tmp_path: Path) -> None:
    found = evaluate_draft(tmp_path, sheet, DATA)
    assert sum(rule.violated for rule in found.rules) == violated
    worst = next(rule.worst for rule in found.rules if rule.worst is not None)
    assert worst.unit == unit


def test_a_draft_from_data(tmp_path: Path) -> None:
    found = evaluate_draft(tmp_path, None, DATA)
    assert [rule.rule for rule in found.rules] == ["range_druck_bar", "trend_zähler"]
    assert found.violation_rate == 0.0
    assert [rule.unknown for rule in found.rules] == [1, 1]


words = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12).map(
    lambda text: " ".join(text.split())
)


@tries(30)
@given(headers=st.lists(words.filter(bool), min_size=1, max_size=5, unique=True), data=st.data())
def test_any_headers_and_numbers_give_a_draft_that_holds(
    headers: list[str], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    numbers = st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=7, max_size=7)
    table = Table.of(
        "t.csv", {header: np.array([0.5, 3.0, 1.5, *data.draw(numbers)]) for header in headers}
    )
    found = evaluate_draft(tmp_path_factory.mktemp("draft"), None, table)
    assert len(found.rules) == len(headers)
    assert found.violation_rate == 0.0


@needs_shared
@pytest.mark.parametrize("name", ["ai4i2020/ai4i2020.csv.gz", "skab/valve1/0.csv.gz"])
def test_drafts_of_real_tables_hold(name: str, tmp_path: Path) -> None:
    found = evaluate_draft(tmp_path, None, read_table(SHARED / "data" / name))
    assert len(found.rules) >= 5
    assert found.violation_rate == 0.0
