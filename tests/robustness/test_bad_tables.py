"""Hostile or careless tables, packs and files for `fedkg eval`: one clear message, no traceback."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fedkg.cli import main

RULES = """\
timeline time column "Time" step 1 min
signal t in degC column "T [degC]"
signal p in bar column "P"
rule a require t <= 50 degC
rule b require if t > 3 degC then p <= 4 bar
rule c require t never falls
"""
GOOD = b"Time,T [degC],P\n2024-01-01 00:00,1,2\n2024-01-01 00:01,60,5\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.fkg").write_text(RULES, encoding="utf-8")
    Path("t.csv").write_bytes(GOOD)
    Path("folder").mkdir()


def fedkg(*arguments: str) -> int:
    """The exit code of a command; any exception fails the test."""
    try:
        main.run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


REFUSED = {
    "a missing column": (b"Time,T [degC]\n2024,1\n", "no column `P`, which rule `b` needs"),
    "a column spelled differently": (b"Time,T [degC],p\n2024,1,3\n", "`p`"),
    "text among numbers": (
        b"Time,T [degC],P\n2024,1,2\n2025,hot,3\n",
        'received: "hot" in row 2 (line 3)',
    ),
    "nothing at all": (b"", "is empty"),
    "blank lines": (b"\n\n\n", "is empty"),
    "a separator that is none": (b"Time^T [degC]^P\n2024^1^2\n", "columns are missing"),
    "bytes": (bytes(range(256)) * 100, "is not a table"),
    "a NUL in a cell": (b"Time,T [degC],P\n2024,1\0,2\n", "is not a table"),
    "a zip file that is none": (b"PK\x03\x04" + b"\0" * 100, "not a complete zip file"),
    "a Parquet file that is none": (b"PAR1" + b"\0" * 50 + b"PAR1", "not a complete Parquet file"),
    "a gzip file that is cut off": (gzip.compress(GOOD * 1000)[:60], "not a complete gzip file"),
    "two columns of one name": (
        b"Time,P,T [degC],P\n2024,1,2,3\n",
        "column `P` occurs more than once",
    ),
    "decimal points and commas in one column": (
        b"Time;T [degC];P\n2024;1,5;2\n2025;2.5;3\n",
        "column `T [degC]` has text",
    ),
    "a cell of a million digits": (
        b"Time,T [degC],P\n" + b"1" * 1_000_000 + b",2,3\n",
        "the row that begins in line 2 cannot be read",
    ),
    "a web page": (b"<html><table><tr><td>1</td></tr></table></html>", "columns are missing"),
    "a graph": (b"# plant\n@prefix : <http://x/> .\n:a a :B .\n", "received: a graph in Turtle"),
    "a zipped graph": (gzip.compress(b"<http://ex.org/a> a <http://ex.org/B> ."), "a graph"),
    "an ontology": (b"Prefix: : <http://ex.org/>\nClass: :A\n", "OWL in Manchester syntax"),
    "rows of unlike length": (b"Time,T [degC],P\n2024,1\n2025,1,2,3,4\n", "columns are missing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_is_rejected(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    body, said = REFUSED[name]
    Path("t.csv").write_bytes(body)
    assert fedkg("eval", "r.fkg", "t.csv") == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("error: t.csv")
    assert said in written.err


ACCEPTED = {
    "no value in any row": b"Time,T [degC],P\n2024,,\n2025,nan,Bad\n",
    "a header alone": b"Time,T [degC],P\n",
    "numbers beyond all numbers": (
        b"Time,T [degC],P\n2024,1" + b"0" * 400 + b",2\n2025," + b"9" * 30 + b",-1e999\n"
    ),
    "infinities": b"Time,T [degC],P\n2024,inf,-inf\n2025,Infinity,+Inf\n",
    "decimal commas in one column, points in another": (
        b"Time;T [degC];P\n2024;1,5;2.5\n2025;1.234,5;3\n"
    ),
    "UTF-16": GOOD.decode().encode("utf-16"),
    "line ends of an old Macintosh": GOOD.replace(b"\n", b"\r"),
    "a line break in a cell": b'Time,T [degC],P\n"20\n24",1,2\n',
    "a row of units below the header": b"Time,T [degC],P\n,degC,bar\n2024,1,2\n",
    "ten thousand columns": (
        b"Time,T [degC],P,"
        + b",".join(b"c%d" % i for i in range(10_000))
        + b"\n1,2,3,"
        + b",".join([b"0"] * 10_000)
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_table_that_is_taken_as_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_bytes(ACCEPTED[name])
    assert fedkg("eval", "r.fkg", "t.csv", "--json") == 0
    assert [rule["rule"] for rule in json.loads(capsys.readouterr().out)["rules"]] == [
        "a",
        "b",
        "c",
    ]


def test_a_column_without_any_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_bytes(ACCEPTED["no value in any row"])
    assert fedkg("eval", "r.fkg", "t.csv") == 0
    assert "column `P` has no known value in any row" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["eval", "r.fkg", "folder"], 2, "folder is a folder, not a table"),
        (["eval", "r.fkg", "none.csv"], 2, "table none.csv does not exist"),
        (["eval", "t.csv"], 2, "a table is missing"),
        (
            ["eval", "t.csv", "r.fkg"],
            2,
            "the last argument must be a table, and r.fkg is not a table",
        ),
        (["eval", "none.fkg", "t.csv"], 2, "none.fkg"),
        (["eval", "r.fkg", "t.csv", "--allow", "lots"], 2, "--allow must be a share from 0 to 1"),
        (["eval", "r.fkg", "t.csv", "--allow", "1e999%"], 2, "--allow must be a share from 0 to 1"),
        (["eval", "r.fkg", "t.csv", "--baseline", "none.json"], 2, "cannot read baseline"),
        (["eval", "r.fkg", "t.csv", "--baseline", "folder"], 2, "cannot read baseline"),
        (["eval", "r.fkg", "t.csv", "--baseline", "r.fkg"], 2, "is not JSON"),
        (["check", "folder"], 2, "is a folder"),
        (["check", "t.csv"], 1, "FKG045"),
        (["inspect", "t.csv"], 1, "not a complete constraint pack"),
        (["inspect", "folder"], 2, "is a folder"),
        (["compile", "r.fkg", "-o", "."], 2, ". is a folder"),
        (["compile", "r.fkg", "-o", "folder"], 2, "folder is a folder"),
        (
            ["compile", "r.fkg", "-o", "none/x.fkgpack"],
            2,
            "the folder none for x.fkgpack does not exist",
        ),
        (["compile", "r.fkg", "-o", "./r.fkg"], 2, "is one of the files to compile"),
        (["new", "t.csv", "-o", "t.csv", "--force"], 2, "is an input of this command"),
        (["new", "t.csv", "-o", "folder", "--force"], 2, "folder is a folder"),
        (["new", "none.csv", "-o", "x.fkg"], 1, "cannot read table none.csv"),
        (["new", "t.csv", "t.csv", "t.csv", "-o", "x.fkg"], 2, "too many files"),
        (["explain", "FKG999"], 2, "there is no code"),
        (["explain", ""], 2, "a code or a rule is missing"),
        (["ontology", "show", "none"], 2, "no ontology is called `none`, and none has such a term"),
        (["ontology", "add", "../x", "r.fkg"], 2, "cannot be the name"),
        (["ontology", "add", "x", "folder"], 1, "folder is a folder without an XML schema"),
        (["ontology", "add", "x", "ftp://a/b"], 1, "not fetched"),
        (
            ["data", "ai4i", "-o", "none/x.csv", "--rows", "10"],
            2,
            "the folder none for x.csv does not exist",
        ),
    ],
)
def test_a_wrong_call_gives_an_error_and_changes_no_file(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fedkg(*arguments) == code
    assert said in capsys.readouterr().err
    assert Path("r.fkg").read_text(encoding="utf-8") == RULES
    assert Path("t.csv").read_bytes() == GOOD


def test_a_pack_with_any_damage_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert fedkg("compile", "r.fkg", "-o", "r.fkgpack") == 0
    body = Path("r.fkgpack").read_bytes()
    for damaged in (
        b"",
        body[: len(body) // 2],
        body[:-1],
        b"\0" * 500,
        GOOD,
        *(body[:i] + bytes([body[i] ^ 255]) + body[i + 1 :] for i in range(60, 600, 45)),
    ):
        Path("x.fkgpack").write_bytes(damaged)
        capsys.readouterr()
        if fedkg("eval", "x.fkgpack", "t.csv") != 0:
            assert "x.fkgpack" in capsys.readouterr().err
