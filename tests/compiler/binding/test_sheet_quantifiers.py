"""Sheets as people write them.

Headers in any spelling, units in cells, in headers and in columns, decimal commas.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.pack import Pack
from fedkg.pack.formula_text import row_text
from fedkg_compiler import compile_rules


def compiled(folder: Path, sheet: str, rule: str, more: str = "") -> Pack:
    (folder / "limits.csv").write_text(sheet, encoding="utf-8")
    (folder / "r.fkg").write_text(f"{more}rule r for {rule}\n", encoding="utf-8")
    compilation = compile_rules([folder / "r.fkg"])
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


def rows(pack: Pack) -> list[str]:
    return [row_text(pack, bank, i) for bank in pack.banks for i in range(bank.rows)]


RULE = '?tag, ?low, ?high in table "limits.csv" require ?low <= value(?tag) <= ?high'


@pytest.mark.parametrize(
    ("sheet", "expected"),
    [
        ("tag,low,high\nT1,1,2\n", ["1 <= T1 and T1 <= 2"]),
        ("HIGH;Low;TAG\n2,5;1;T1\n", ["1 <= T1 and T1 <= 2.5"]),
        ("tag,low [bar],high (bar)\nT1,1,2\n", ["1 <= T1 and T1 <= 2  (in bar)"]),
        (
            "tag,low,high\nT1,1 bar,200 kPa\nT2,5 degC,300 K\n",
            ["1 <= T1 and T1 <= 2  (in bar)", "5 <= T2 and T2 <= 26.85  (margin in K)"],
        ),
        (
            "tag\tunit\tlow\thigh\nT1\tbar\t1\t2\nT2\t\t3\t4\n",
            ["1 <= T1 and T1 <= 2  (in bar)", "3 <= T2 and T2 <= 4"],
        ),
        ("tag;Einheit;low;high\nT1;m3/h;1;2\n", ["1 <= T1 and T1 <= 2  (in m3/h)"]),
        ("tag,low,high\n204,1,2\n", ["1 <= 204 and 204 <= 2"]),
        (
            "tag,unit,low,high\nTool wear [min],h,0,4\n",
            ["0 <= Tool wear [min] and Tool wear [min] <= 240  (in min)"],
        ),
        (
            "tag,unit,low,high\nTorque [Nm],Nm,0,75\n",
            ["0 <= Torque [Nm] and Torque [Nm] <= 75  (in Nm)"],
        ),
        ("tag,low,high\nP (bar),1 bar,200 kPa\n", ["1 <= P (bar) and P (bar) <= 2  (in bar)"]),
        ("tag,low,high\nT1,,2\nT2,1,\nT3,n/a,No Data\n", ["T1 <= 2", "1 <= T2"]),
    ],
)
def test_sheets(tmp_path: Path, sheet: str, expected: list[str]) -> None:
    assert rows(compiled(tmp_path, sheet, RULE)) == expected


def test_declared_signals_are_found_by_name_and_by_header(tmp_path: Path) -> None:
    more = 'signal steam in bar column "PT-204" span 0 .. 20\nsignal heat in degC\n'
    pack = compiled(tmp_path, "tag,low,high\nPT-204,1,2\nheat,3,4\n", RULE, more)
    assert rows(pack) == [
        "1 <= steam and steam <= 2  (in bar)",
        "3 <= heat and heat <= 4  (margin in K)",
    ]
    assert [column.source for column in pack.manifest.contract.columns] == ["heat", "PT-204"]


def test_numbers_take_the_unit_of_the_sheet_where_the_signal_has_another(tmp_path: Path) -> None:
    pack = compiled(tmp_path, "tag,unit,low,high\nsteam,bar,1,2\n", RULE, "signal steam in mbar\n")
    assert rows(pack) == ["1000 <= steam and steam <= 2000  (in mbar)"]


def test_a_unit_that_contradicts_the_declaration(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("tag,unit,low,high\nsteam,degC,1,2\n", encoding="utf-8")
    found = compile_rules(
        text=(
            "signal steam in mbar\nrule r for"
            f" {RULE.replace('limits.csv', str(tmp_path / 'limits.csv'))}\n"
        )
    ).diagnostics
    assert [problem.code for problem in found] == ["FKG213"]


def test_the_path_counts_from_the_rule_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "limits.csv").write_text("tag,low,high\nT1,1,2\n", encoding="utf-8")
    (tmp_path / "sub" / "r.fkg").write_text(f"rule r for {RULE}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert compile_rules([Path("sub/r.fkg")]).pack is not None
    assert compile_rules(text=f"rule r for {RULE}\n").pack is None


def test_a_sheet_that_is_a_folder_or_noise(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").mkdir()
    (tmp_path / "r.fkg").write_text(f"rule r for {RULE}\n", encoding="utf-8")
    assert [problem.code for problem in compile_rules([tmp_path / "r.fkg"]).diagnostics] == [
        "FKG170"
    ]
    (tmp_path / "limits.csv").rmdir()
    (tmp_path / "limits.csv").write_bytes(bytes(range(256)) * 20)
    assert compile_rules([tmp_path / "r.fkg"]).pack is None


def test_a_unit_that_contradicts_the_header(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text(
        "tag,unit,low,high\nTool wear [min],bar,0,4\n", encoding="utf-8"
    )
    (tmp_path / "r.fkg").write_text(f"rule r for {RULE}\n", encoding="utf-8")
    found = compile_rules([tmp_path / "r.fkg"]).diagnostics
    assert [problem.code for problem in found] == ["FKG213", "FKG242"]
    assert (
        found[0].message
        == "the sheet gives `Tool wear [min]` the unit `bar`, but it is in `min`, as its header"
        " says"
    )


def test_units_from_headers_and_from_the_sheet_are_reported_once(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text(
        "tag,unit,low,high\nA [min],h,0,4\nB [bar],bar,0,1\nC,K,0,1\n", encoding="utf-8"
    )
    (tmp_path / "r.fkg").write_text(f"rule r for {RULE}\nrule s for {RULE}\n", encoding="utf-8")
    found = compile_rules([tmp_path / "r.fkg"], reason=False).diagnostics
    assert [(problem.severity, problem.code, problem.message) for problem in found] == [
        (
            "info",
            "FKG242",
            (
                "`A [min]` is taken to be in min, as its header says; so is 1 more, each as its own"
                " says"
            ),
        ),
        ("info", "FKG243", "`C` is taken to be in K, as its row of the sheet says"),
    ]


def test_a_declaration_goes_before_the_header(tmp_path: Path) -> None:
    pack = compiled(
        tmp_path, "tag,unit,low,high\nP [bar],bar,1,2\n", RULE, "signal `P [bar]` in mbar\n"
    )
    assert rows(pack) == ["1000 <= P [bar] and P [bar] <= 2000  (in mbar)"]


@pytest.mark.parametrize("escape", ["\\u0000", "\\ud800"])
def test_a_path_with_a_character_that_no_text_has(tmp_path: Path, escape: str) -> None:
    path = tmp_path / "one.fkg"
    path.write_text(f'rule a for ?a in table "a{escape}.csv" require x <= ?a\n', encoding="utf-8")
    codes = [problem.code for problem in compile_rules([path]).diagnostics]
    assert codes == ["FKG170", "FKG036"]
