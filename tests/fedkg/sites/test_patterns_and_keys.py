"""Number patterns, cells with lists and foreign keys of CSV on the Web, by `fedkg eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command, call

from fedkg.sites import load_sites, read_site
from fedkg.sites.cell_formats import NumberFormat, PatternError, number_pattern

RULES = """\
signal load in kN
signal share in %
rule limit require load <= 2 kN
rule part  require share <= 30 %
"""


@pytest.fixture
def evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """`fedkg eval` with `rules.fkg` and a sites file or metadata file."""
    (tmp_path / "rules.fkg").write_text(RULES)

    def run(*words: object) -> Any:
        return call(capsys, "eval", tmp_path / "rules.fkg", "--skip-missing", "--sites", *words)

    return run


def write(folder: Path, columns: str, table: str, *, more: str = "", common: str = "") -> Path:
    """Write `a.csv` and `sites.yaml`; return the sites file."""
    (folder / "a.csv").write_text(table, encoding="utf-8")
    (folder / "sites.yaml").write_text(
        f"{common}\nsites: {{a: {{url: a.csv, tableSchema: {{columns: [{columns}]{more}}}}}}}\n",
        encoding="utf-8",
    )
    return folder / "sites.yaml"


GERMAN = (",", ".")
ENGLISH = (".", ",")

PATTERNS: list[tuple[str, tuple[str, str], dict[str, float], list[str]]] = [
    ("0", ENGLISH, {"1": 1, "-1": -1, "12": 12}, ["1.2", "1,234", "1 "]),
    ("00", ENGLISH, {"12": 12, "123": 123}, ["1", "1,2"]),
    ("#0.#", ENGLISH, {"1": 1, "1.2": 1.2, "1234.5": 1234.5}, ["12.34", "1,234.5", "1."]),
    ("#0.0#", ENGLISH, {"1.2": 1.2, "−1.23": -1.23}, ["1", "1.234"]),
    (
        "#,##0.00",
        ENGLISH,
        {"1,234.50": 1234.5, "0.00": 0, "1,234,567.89": 1234567.89, "-12.30": -12.3},
        ["1234.50", "1,23.50", "1,234.5", "12,34.00", ",123.00", "1,,234.00", ".50"],
    ),
    ("#,##,##0.0", ENGLISH, {"1,23,456.7": 123456.7, "12,34,567.8": 1234567.8}, ["123,456.7"]),
    ("#.##0,00", GERMAN, {"1.234,50": 1234.5, "4,50": 4.5}, ["1,234.50", "1234,50"]),
    ("# ##0,0", (",", " "), {"1 234,5": 1234.5, "1\u00a0234,5": 1234.5}, ["1234,5"]),
    ("#'##0", (".", "'"), {"1'234": 1234, "1’234": 1234}, ["1234"]),
    ("000,000", ENGLISH, {"001,234": 1234}, ["1,234"]),
    (".00", ENGLISH, {".50": 0.5}, ["50"]),
    ("0.0#E0", ENGLISH, {"1.2E3": 1200, "1.23E-4": 0.000123}, ["1.2", "1.2E+3"]),
    ("0E+00", ENGLISH, {"1E+06": 1e6, "1e-10": 1e-10}, ["1E6"]),
    ("+0", ENGLISH, {"+1": 1, "-2": -2}, ["1"]),
    ("0.#%", ENGLISH, {"25%": 0.25, "-0.7%": -0.007}, ["25", "25‰"]),
    ("0.0 ‰", ENGLISH, {"1.5 ‰": 0.0015}, ["1.5%", "1.5"]),
]


@pytest.mark.parametrize(("pattern", "marks", "right", "wrong"), PATTERNS)
def test_cells_have_the_form_of_the_pattern(
    pattern: str, marks: tuple[str, str], right: dict[str, float], wrong: list[str]
) -> None:
    form = NumberFormat(*marks, pattern)
    values, odd = form.parse([*right, *wrong, "n/a", ""])
    assert values[: len(right)].tolist() == list(right.values())
    assert odd == list(range(len(right), len(right) + len(wrong)))
    assert np.isnan(values[len(right) :]).all()
    assert not form.parse([number_pattern(form)[1]])[1]


@pytest.mark.parametrize(
    "pattern", ["¤0", "#,", ",0", "0#", "abc", "#,,##0", "0.#0", "0E0%", ".", "+", "E0", "0;(0)"]
)
def test_an_unknown_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(PatternError, match="write a number pattern"):
        number_pattern(NumberFormat(".", ",", pattern))


def test_a_pattern_gives_the_marks_and_percent_is_a_share(
    evaluate: Command, tmp_path: Path
) -> None:
    sites = write(
        tmp_path,
        "{name: load, titles: L, unit: N, datatype: {base: decimal, format: '#.##0,00'}},"
        "{name: share, titles: 'S [%]', datatype: {base: number, format: {pattern: '0%'}}}",
        'L;S [%]\n"1.250,50";25%\n3.000,00;31%\nn/a;-4%\n',
        common="datatype: {decimalChar: ',', groupChar: '.'}",
    )
    rules = evaluate(sites, "--json").json["sites"]["a"]["rules"]
    assert [(rule["satisfied"], rule["violated"]) for rule in rules] == [(1, 1), (2, 1)]
    table = read_site(load_sites(sites), "a").table
    assert table.numbers("share").tolist() == [0.25, 0.31, -0.04]


WRONG_NUMBERS = {
    "a cell": (
        "{name: load, titles: L, datatype: {base: number, format: '#,##0.00'}}",
        (
            'a.csv: row 3, column `L`: "1250.5" is not a number in the stated format',
            "expected: a number of the form `#,##0.00`, such as 234,567.50",
            'received: "1250.5"',
            "correct column `load` of site a in",
        ),
    ),
    "a format without type": (
        "{name: load, titles: L, datatype: {format: '#,##0.00'}}",
        ("expected: a number of the form `#,##0.00`",),
    ),
    "a pattern": (
        "{name: load, titles: L, datatype: {base: number, format: '#.##0,00'}}",
        (
            "sites.yaml:2: column `load`.datatype.format of site a: write a number pattern with 0",
            "decimalChar `.`, groupChar `,`",
            "received: #.##0,00",
        ),
    ),
    "a mark that is missing": (
        "{name: load, titles: L, datatype: {base: number, format: '#.##0,00', decimalChar: ','}}",
        ("decimalChar `,`, E, +",),
    ),
    "a digit as mark": (
        "{name: load, titles: L, datatype: {base: number, decimalChar: '0'}}",
        ("datatype`: `0` cannot be a mark in numbers", "(line 2)"),
    ),
    "a unit beside percent": (
        "{name: share, titles: L, unit: '%', datatype: {base: number, format: '0%'}}",
        ("column `share`.unit of site a: `%` in the format makes 25% a plain number", "remove"),
    ),
    "percent of a load": (
        "{name: load, titles: L, datatype: {base: number, format: '0%'}}",
        ("`%` in the format does not convert", "to kN", "received: a plain number"),
    ),
}


@pytest.mark.parametrize("case", WRONG_NUMBERS)
def test_a_wrong_number_is_named_with_place_value_and_pattern(
    case: str, evaluate: Command, tmp_path: Path
) -> None:
    columns, said = WRONG_NUMBERS[case]
    done = evaluate(write(tmp_path, columns, 'L\n"1,250.50"\n1250.5\n'))
    assert done.code == 1
    assert all(text in done.err for text in said), done.err


def test_lists_are_rejected_where_something_reads_them(evaluate: Command, tmp_path: Path) -> None:
    table = "L,T\n1;2,a|b\n3,c\n"
    tags = "{name: tags, titles: T, separator: '|', datatype: number}"
    done = evaluate(write(tmp_path, f"{{name: load, titles: L, separator: ';'}}, {tags}", table))
    assert done.code == 1
    assert "sites.yaml:2: column `load`.separator of site a: the cells of column `L` of" in done.err
    assert 'received: "1;2"' in done.err
    assert "write a column for each value of the list; or remove `separator`" in done.err
    sites = write(tmp_path, f"{{name: load, titles: L, unit: kN}}, {tags}", "L,T\n1,a|b\n3,c\n")
    assert evaluate(sites).code == 0
    assert read_site(load_sites(sites), "a").table.texts("tags") == ["a|b", "c"]


GROUP = {
    "@context": "http://www.w3.org/ns/csvw",
    "tables": [
        {
            "url": "machines.csv",
            "suppressOutput": True,
            "tableSchema": {"columns": [{"name": "id", "titles": "code"}], "primaryKey": "id"},
        },
        {
            "url": "mill.csv",
            "tableSchema": {
                "columns": [
                    {"name": "machine", "titles": "M"},
                    {"name": "load", "titles": "L", "schema:unitText": "N"},
                ],
                "foreignKeys": [
                    {
                        "columnReference": "machine",
                        "reference": {"resource": "machines.csv", "columnReference": "id"},
                    }
                ],
            },
        },
    ],
}


def write_group(folder: Path, mill: str, machines: str) -> Path:
    (folder / "mill.csv").write_text(mill)
    (folder / "machines.csv").write_text(machines)
    (folder / "group.json").write_text(json.dumps(GROUP))
    return folder / "group.json"


def test_a_value_without_partner_is_reported(evaluate: Command, tmp_path: Path) -> None:
    right = write_group(tmp_path, "M,L\n1,1250\n2,980\nn/a,990\n", "code\n1\n2\n3\n")
    done = evaluate(right, "--json")
    assert list(done.json["sites"]) == ["mill"]
    done = evaluate(write_group(tmp_path, "M,L\n1,1250\n7,980\n8,980\n", "code\n1\n2\n"))
    assert done.code == 1
    assert 'mill.csv: row 3, column `M`: "7" is not in column `id` of ' in done.err
    assert "machines.csv has `1`, `2`" in done.err
    assert 'received: "7", and 1 more such row\n' in done.err
    assert "remove `foreignKeys` of site mill in" in done.err
    done = evaluate(write_group(tmp_path, "M,L\n1,1250\n", "code\n2\n1\n1\n"))
    assert 'row 2, column `M`: "1" is in rows 3 and 4 of ' in done.err
    (tmp_path / "sub").mkdir()
    for name in ("mill.csv", "machines.csv", "group.json"):
        (tmp_path / name).rename(tmp_path / "sub" / name)
    (tmp_path / "sites.yaml").write_text(
        "sites: {a: {url: sub/mill.csv, metadata: sub/group.json}}\n"
    )
    (tmp_path / "sub/machines.csv").write_text("id\n5\n")
    done = evaluate(tmp_path / "sites.yaml")
    assert 'mill.csv: row 2, column `M`: "1" is not in column `id` of ' in done.err
    assert "sub/machines.csv" in done.err


KEYS = ", foreignKeys: [{columnReference: %s, reference: {resource: %s, columnReference: %s}}]"
WRONG_KEYS = {
    "two columns": (
        KEYS % ("[M, N]", "b.csv", "[m, n]"),
        ('a.csv: row 3, columns `M`, `N`: "x 2" is not in columns `m`, `n` of', "`x 1`, `y 2`"),
    ),
    "a missing table": (
        KEYS % ("M", "c.csv", "m"),
        ("`foreignKeys` of site a in", "the table of `reference` does not exist", "c.csv"),
    ),
    "an address": (
        KEYS % ("M", "https://example.org/c.csv", "m"),
        ("sites.a.tableSchema.foreignKeys is an address (line 2)", "download the file"),
    ),
    "a missing column": (
        KEYS % ("O", "b.csv", "m"),
        ("a.csv: no column `O`, which `foreignKeys` of site a in",),
    ),
    "a missing column there": (
        KEYS % ("M", "b.csv", "mm"),
        ("b.csv: no column `mm`, which `foreignKeys` of site a in", "a described column"),
    ),
    "different numbers of columns": (
        KEYS % ("[M, N]", "b.csv", "m"),
        ("`columnReference` has 2 columns, and that of `reference` has 1",),
    ),
    "a schema": (
        KEYS.replace("resource: %s", "schemaReference: s") % ("M", "m"),
        ("fedkg does not read `schemaReference`; name the table in `resource`",),
    ),
    "an unknown field": (
        ", foreignKeys: [{columnReference: M, refrence: {resource: b.csv, columnReference: m}}]",
        ("unknown field; did you mean `reference`?",),
    ),
}


@pytest.mark.parametrize("case", WRONG_KEYS)
def test_a_wrong_foreign_key_is_named(case: str, evaluate: Command, tmp_path: Path) -> None:
    more, said = WRONG_KEYS[case]
    (tmp_path / "b.csv").write_text("m,n\nx,1\ny,2\n")
    done = evaluate(write(tmp_path, "", "M,N,load\nx,1,3\nx,2,3\n", more=more))
    assert done.code == 1
    assert all(text in done.err for text in said), done.err


def test_a_file_without_sites_is_rejected(evaluate: Command, tmp_path: Path) -> None:
    sites = tmp_path / "sites.yaml"
    sites.write_text("sites: {a: {url: a.csv, suppressOutput: true}}\n")
    assert "no table is a site" in evaluate(sites).err
