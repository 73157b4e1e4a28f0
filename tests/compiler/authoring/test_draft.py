"""Drafted rule files are well formed for any headers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import SHARED, needs_shared
from tries import tries

from fedkg.errors import TableError
from fedkg.tables import Table, read_bytes, read_table
from fedkg_compiler.authoring import draft_rules, find_limit_columns, missing_tags
from fedkg_compiler.authoring.from_sheet import variable
from fedkg_compiler.frontends.fkg.syntax import parse
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Comparison,
    InTable,
    Monotone,
    Rule,
    Signal,
    Timeline,
)
from fedkg_compiler.pipeline import compile_rules

DATA = (
    "Zeit;Druck [bar];Zähler;Maschine;ok;fest\n01.02.2024 10:00;1,5;10;M1;1;7\n01.02.2024"
    " 10:05;2,5;10;M2;0;7\n01.02.2024 10:10;1,25;12;M1;1;7\n01.02.2024"
    " 10:15;2,0;13;M1;1;7\n01.02.2024 10:20;2,0;13;M1;1;7\n01.02.2024 10:25;Bad;15;M1;1;7\n"
)
LIMITS = "Messstelle;Einheit;Max;Min\nDruck [bar];bar;16;0\nDruk;bar;4;1\n"


def rules_of(text: str) -> list[Rule]:
    tree, problems = parse(text, "draft.fkg")
    assert problems == ()
    return [statement for statement in tree.statements if isinstance(statement, Rule)]


def test_from_the_data_alone() -> None:
    text = draft_rules(None, read_bytes(DATA.encode(), "werk/daten.csv"))
    assert text.startswith("# A first draft")
    assert 'timeline time column "Zeit" step 5 min' in text
    ranged, trend = rules_of(text)
    assert "require 1.1 <= `Druck [bar]` <= 2.7    # found: 1.25 .. 2.5" in text
    assert isinstance(ranged.formula, Comparison)
    assert (trend.name.text, type(trend.formula)) == ("trend_zähler", Monotone)
    assert "require `Zähler` never falls" in text
    for remark in ("#   Maschine: text, M1, M2", "#   ok: 0 or 1", "#   fest: always 7"):
        assert remark in text


def test_from_a_sheet_in_german_with_near_misses() -> None:
    table = read_bytes(DATA.encode(), "daten.csv")
    text = draft_rules(
        read_bytes(LIMITS.encode(), "grenzen.csv"), table, limits_name="../grenzen.csv"
    )
    assert "# 1 of 2 tags of ../grenzen.csv are columns of daten.csv." in text
    assert "#   missing: Druk; did you mean Druck [bar]?" in text
    (rule,) = rules_of(text)
    assert rule.quantifier is not None
    assert [variable.text for variable in rule.quantifier.variables] == ["Messstelle", "Min", "Max"]
    assert isinstance(rule.quantifier.source, InTable)
    assert rule.quantifier.source.path.text == "../grenzen.csv"
    assert "require ?Min <= value(?Messstelle) <= ?Max" in text


def test_limits_on_one_side_of_all_tags() -> None:
    table = read_bytes(DATA.encode(), "d.csv")
    assert "require ?Low <= value(?tag)\n" in draft_rules(
        read_bytes(b"tag,Low\nDruck [bar],0\n", "limits.csv"), table
    )
    text = draft_rules(read_bytes(b"Max. [bar],tag\n3,Druck [bar]\n", "limits.csv"), table)
    assert "for ?tag, ?Max in table" in text
    assert "require value(?tag) <= ?Max\n" in text
    assert len(rules_of(text)) == 1


def test_a_sheet_with_gaps_is_one_rule_all_the_same() -> None:
    sheet = read_bytes(
        "tag,low,high\nDruck [bar],0.5,\nZähler,,20\nfest,1,9\nok,,\nnicht da,1,2\n".encode(),
        "limits.csv",
    )
    text = draft_rules(sheet, read_bytes(DATA.encode(), "d.csv"))
    assert (
        "# 3 of 5 rows of the sheet lack a limit, first row 1 (line 2): what is not given does not"
        " limit." in text
    )
    assert [rule.name.text for rule in rules_of(text)] == ["tag_limits"]


def test_what_is_drafted_from_a_sheet_with_gaps_checks_clean_and_limits_what_is_given(
    tmp_path: Path,
) -> None:
    body = (
        "tag,unit,low,high\nDruck [bar],bar,0.5,\nZähler,,,20\nfest,,1,9\nok,,,\n,,1,2\n".encode()
    )
    (tmp_path / "limits.csv").write_bytes(body)
    text = draft_rules(read_bytes(body, "limits.csv"), read_bytes(DATA.encode(), "d.csv"))
    (tmp_path / "rules.fkg").write_text(text, encoding="utf-8")
    compilation = compile_rules([tmp_path / "rules.fkg"])
    assert compilation.pack is not None
    assert {problem.severity for problem in compilation.diagnostics} <= {"info"}
    assert compilation.pack.rows == 3


def test_a_sheet_without_any_limit_says_so() -> None:
    sheet = read_bytes(b"tag,low,high\nDruck [bar],,\n,1,2\n", "limits.csv")
    text = draft_rules(sheet, read_bytes(DATA.encode(), "d.csv"))
    assert "# No row of the sheet has a tag and a limit." in text
    assert not rules_of(text)


def test_a_sheet_of_odd_units_with_gaps_is_a_rule_per_tag() -> None:
    sheet = read_bytes(
        "tag,unit,low,high\nDruck [bar],Kringel,0.5,\nZähler,,,20\nfest,,1,9\n".encode(),
        "limits.csv",
    )
    text = draft_rules(sheet, read_bytes(DATA.encode(), "d.csv"))
    assert [rule.name.text for rule in rules_of(text)] == [
        "limit_druck_bar",
        "limit_zähler",
        "limit_fest",
    ]
    for formula in (
        "require 0.5 <= `Druck [bar]`\n",
        "require `Zähler` <= 20\n",
        "require 1 <= `fest` <= 9\n",
    ):
        assert formula in text


def test_units_nobody_knows_are_reported() -> None:
    sheet = read_bytes(b"tag,unit,low,high\nDruck [bar],bar,0,4\nfest,Kringel,1,9\n", "limits.csv")
    text = draft_rules(sheet, read_bytes(DATA.encode(), "d.csv"))
    assert "# Units that are not known: Kringel." in text
    assert len(rules_of(text)) == 2


@pytest.mark.parametrize(
    ("headers", "names"),
    [
        (["Max. [bar]", "Min. [bar]"], ["Max", "Min"]),
        (["Limit [low]", "Limit [high]"], ["Limit_low", "Limit_high"]),
        (["Min", "Min [bar]"], ["Min", "Min_bar"]),
        (["[bar]", "1. Grenze"], ["bar", "c_1_Grenze"]),
    ],
)
def test_variables_are_distinguished(headers: list[str], names: list[str]) -> None:
    sheet = Table.of("t", {header: np.array([1.0]) for header in headers})
    assert [variable(header, sheet) for header in headers] == names


def test_remarks_on_doubtful_sheets() -> None:
    sheet = read_bytes(b"tag,low,high\na,5,1\na,0,1\n", "limits.csv")
    text = draft_rules(sheet, read_bytes(b"a,b\n1,2\n", "d.csv"))
    assert "#   row 1 (line 2): the lower limit of a is above the upper" in text
    assert "# More than one row: a" in text


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("Tag,Unit,Low,High", ("Tag", "Low", "High", "Unit")),
        ("Max. [bar];Min. [bar];Messstelle", ("Messstelle", "Min. [bar]", "Max. [bar]", None)),
        (
            "Bezeichnung;KKS;untere Grenze;obere Grenze;Einheit",
            ("KKS", "untere Grenze", "obere Grenze", "Einheit"),
        ),
        ("name,lower_limit,upper limit", ("name", "lower_limit", "upper limit", None)),
        ("Signal;von;bis", ("Signal", "von", "bis", None)),
        ("Tag Name,LO,HI,LOLO,HIHI,EU", ("Tag Name", "LO", "HI", "EU")),
    ],
)
def test_headers_in_two_tongues_and_any_order(
    headers: str, expected: tuple[str, str, str, str | None]
) -> None:
    separator = ";" if ";" in headers else ","
    sheet = read_bytes(
        (headers + "\n" + separator.join("1" for _ in headers.split(separator)) + "\n").encode(),
        "l.csv",
    )
    found = find_limit_columns(sheet)
    assert (found.tag, found.low, found.high, found.unit) == expected


@pytest.mark.parametrize(
    ("sheet", "message"),
    [
        ("a,b\n1,2\n", "no header says which column names the tag"),
        ("tag,b\nx,2\n", "no header says which column holds a limit"),
        ("tag,low,high\nx,viel,2\ny,1,2\n", '"viel" in row 1'),
    ],
)
def test_sheets_that_are_none(sheet: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        draft_rules(read_bytes(sheet.encode(), "limits.csv"), read_bytes(DATA.encode(), "d.csv"))


words = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12).map(
    lambda text: " ".join(text.split())
)
headers = st.lists(words.filter(bool), min_size=1, max_size=5, unique=True)


@tries(40)
@given(headers=headers, data=st.data())
def test_any_header_gives_a_rule_that_parses(headers: list[str], data: st.DataObject) -> None:
    values = st.lists(st.floats(-1e12, 1e12, allow_subnormal=False), min_size=7, max_size=7)
    columns = {header: np.array(data.draw(values)) for header in headers}
    rules = rules_of(draft_rules(None, Table.of("t.csv", columns)))
    plain = [
        column
        for column in columns.values()
        if np.ptp(column) == 0 or (np.diff(column) == 1).all() or set(column) <= {0.0, 1.0}
    ]
    assert len(rules) == len(columns) - len(plain)
    for rule in rules:
        assert isinstance(rule.formula, Comparison | Monotone)


@tries(25)
@given(values=st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=20))
def test_a_drafted_range_holds_on_the_data_it_was_drafted_from(values: list[float]) -> None:
    text = draft_rules(
        None, Table.of("t.csv", {"x": np.array([*values, values[0]])})
    )  # it ends where it began, so it is not monotone
    rules = rules_of(text)
    assert len(rules) == (0 if len(set(values)) == 1 or set(values) <= {0.0, 1.0} else 1)
    for rule in rules:
        assert isinstance(rule.formula, Comparison)
        low, _, high = text.split("require ")[1].split("#")[0].split("<=")
        assert float(low) <= min(values)
        assert max(values) <= float(high)


def test_a_backtick_in_a_header_is_declared_by_a_signal() -> None:
    text = draft_rules(None, Table.of("t.csv", {'we`ird "x"': np.array([1.0, 3.0, 2.0])}))
    tree, problems = parse(text, "draft.fkg")
    assert problems == ()
    assert any(isinstance(statement, Signal) for statement in tree.statements)


@needs_shared
@pytest.mark.parametrize(
    "name",
    [
        "ai4i2020/ai4i2020.csv.gz",
        "skab/valve1/0.csv.gz",
        pytest.param(
            "traffic-norway-hourly/volume_hourly_95stations.csv.gz", marks=pytest.mark.slow
        ),
    ],
)
def test_drafts_of_real_tables(name: str) -> None:
    text = draft_rules(None, read_table(SHARED / "data" / name))
    tree, problems = parse(text, "draft.fkg")
    assert problems == ()
    assert len([statement for statement in tree.statements if isinstance(statement, Rule)]) >= 5
    assert any(isinstance(statement, Timeline) for statement in tree.statements) == (
        not name.startswith("ai4i")
    )


def test_the_units_of_the_sheet_are_held_against_those_of_the_table() -> None:
    table = read_bytes(b"Tool wear [min];PT-1;Torque [Nm];P [bar]\n1;2;3;4\n", "t.csv")
    sheet = "tag,unit,high\nTool wear [min],h,4\nPT-1,bar,8\nTorque [Nm],bar,3\nP [bar],bar,3\n"
    text = draft_rules(read_bytes(sheet.encode(), "limits.csv"), table)
    assert "#   Tool wear [min]: limits in h are converted, since the header says min" in text
    assert (
        "#   PT-1: taken to be in bar in the table too, because its header states no unit" in text
    )
    assert (
        "#   Torque [Nm]: the sheet's bar cannot be converted to the header's Nm: correct one of"
        " them" in text
    )
    assert "P [bar]:" not in text


def test_rules_of_single_tags_keep_their_units() -> None:
    table = read_bytes(b"Tool wear [min];x\n1;2\n", "t.csv")
    text = draft_rules(
        read_bytes(b"tag,unit,low,high\nTool wear [min],h,0,4\nx,Kringel,1,\n", "limits.csv"), table
    )
    assert "require 0 h <= `Tool wear [min]` <= 4 h" in text
    assert "require 1 <= `x`" in text


def test_tags_that_are_missing_are_counted_and_named() -> None:
    table = read_bytes(b"Volume Flow RateRMS;x\n1;2\n", "t.csv")
    assert missing_tags(read_bytes(b"tag,high\nVolume Flow,4\nx,1\n", "l.csv"), table) == (
        2,
        {"Volume Flow": "Volume Flow RateRMS"},
    )
