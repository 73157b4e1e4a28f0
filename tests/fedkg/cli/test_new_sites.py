"""`fedkg new --sites`: drafts of a sites file."""

from __future__ import annotations

import gzip
import shlex
from functools import partial
from pathlib import Path

import pytest
from command import Command, Done, call
from three_sites import write_sites

LIMITS = """\
tag,unit,low,high
TIC101,°C,0,80
PIC7,bar(ü),0,7
"""

GRAZ = """\
Bericht Kessel;;;;
Erstellt am 4.7.2016;;;;

Zeit;Kessel;;Ventil;Bemerkung
;TIC101 [°C];PIC7 bar(ü);;
04.07.2016 00:00;81,5;1.005,2;AUF;alles gut
04.07.2016 01:00;79,5;5,2;ZU;
04.07.2016 02:00;79,5;Wartung;ZU;Pumpe getauscht
04.07.2016 03:00;79,5;5,3;ZU;
04.07.2016 04:00;78;5,3;ZU;
"""

OHIO = """\
when,TIC101 [degF],PIC7 [psig],XV,note
04/07/16 00,176.9,75.5,open,ok
04/07/16 01,140.1,75.5,closed,ok
05/07/16 02,140.1,175.5,closed,late
14/07/16 02,140.1,75.5,closed,ok
"""


@pytest.fixture
def draft(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    """The command in a folder with a sheet of limits and the tables of two sites."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("limits.csv", LIMITS), ("graz.csv", GRAZ), ("ohio plant.csv", OHIO)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return partial(call, capsys)


def suggested(done: Done) -> list[list[str]]:
    """The commands that are suggested next, as a shell would split them."""
    _, _, block = done.out.partition("next:\n")
    return [shlex.split(line)[1:] for line in block.strip().split("\n")]


def test_a_draft_for_two_sites_and_the_commands_that_it_suggests(
    draft: Command, tmp_path: Path
) -> None:
    done = draft(
        "new", "limits.csv", "graz.csv", "ohio plant.csv", "-o", "r.fkg", "--sites", "my sites.yaml"
    )
    assert done.code == 0, done.err
    assert done.out.startswith("my sites.yaml: 2 sites\nr.fkg: 1 rule for my sites.yaml\nnext:\n")
    text = (tmp_path / "my sites.yaml").read_text("utf-8")
    for line in (
        'dialect: {delimiter: ";", skipRows: 3, headerRowCount: 2}',
        'datatype: {decimalChar: ",", groupChar: "."}',
        '{name: Zeit, titles: Zeit, datatype: {base: datetime, format: "dd.MM.yyyy HH:mm"}}',
        '{name: TIC101, titles: "Kessel TIC101 [°C]", unit: "°C"}',
        '{name: PIC7, titles: "Kessel PIC7 bar(ü)", unit: "bar(ü)", null: [Wartung]}',
        '{name: Ventil, titles: Ventil, datatype: {base: boolean, format: "AUF|ZU"}}',
        "{name: Bemerkung, titles: Bemerkung, datatype: {base: string}}  # text: alles gut",
        '{name: Zeit, titles: when, datatype: {base: datetime, format: "dd/MM/yy HH"}}',
        '{name: TIC101, titles: "TIC101 [degF]", unit: degF}',
        'url: "ohio plant.csv"',
    ):
        assert line in text
    commands = suggested(done)
    assert [one[0] for one in commands] == ["check", "eval"]
    for command in commands:
        assert draft(*command).code == 0
    found = draft(*commands[1], "--json").json["sites"]
    counts = {
        site: (
            one["rules"][0]["satisfied"],
            one["rules"][0]["violated"],
            one["rules"][0]["unknown"],
        )
        for site, one in found.items()
    }
    assert counts == {"graz": (7, 2, 1), "ohio plant": (6, 2, 0)}


def test_the_units_of_the_sites_file_are_those_of_short_tags(
    draft: Command, tmp_path: Path
) -> None:
    (tmp_path / "limits.csv").write_text("tag,unit,high\nPT1,psi,120\n", encoding="utf-8")
    (tmp_path / "h.csv").write_text("PT1 [bar],T\n8,1\n9,2\n", encoding="utf-8")
    draft("new", "limits.csv", "h.csv", "-o", "r.fkg", "--sites", "s.yaml")
    assert "PT1: limits in psi are converted, since the header says bar" in (
        tmp_path / "r.fkg"
    ).read_text("utf-8")


def test_a_missing_tag_leaves_commands_that_succeed(draft: Command, tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text(f"{LIMITS}FI9,m3/h,1,5\n", encoding="utf-8")
    done = draft("new", "limits.csv", "graz.csv", "-o", "r.fkg", "--sites", "s.yaml")
    assert "2 of 3 tags found; `FI9` is not a column" in done.out
    commands = suggested(done)
    assert commands[1][-1] == "--skip-missing"
    assert [draft(*command).code for command in commands] == [0, 0]


def test_a_draft_for_a_plain_table_suggests_commands_that_succeed(
    draft: Command, tmp_path: Path
) -> None:
    (tmp_path / "limits.csv").write_text("tag,low,high\nTIC101,0,80\nx,0,1\n", encoding="utf-8")
    (tmp_path / "my table.csv").write_text("x,TIC101 [°C]\n1,2\n2,3\n", encoding="utf-8")
    done = draft("new", "limits.csv", "my table.csv", "-o", "r.fkg")
    assert "tags that are the start of a header need a sites file: add --sites FILE" in done.out
    commands = suggested(done)
    assert commands == [["check", "r.fkg"], ["eval", "r.fkg", "my table.csv", "--skip-missing"]]
    assert [draft(*command).code for command in commands] == [0, 0]


def test_ranges_of_all_sites_in_the_units_of_the_first(draft: Command, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p [bar],n\n1,a\n2,b\n1.5,c\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("P [kPa];m\n300;4\n900;2\n150;3\n", encoding="utf-8")
    done = draft("new", "a.csv", "b.csv", "-o", "r.fkg", "--sites", "s.yaml")
    assert done.code == 0, done.err
    assert "# found: 1 .. 9" in (tmp_path / "r.fkg").read_text("utf-8")
    assert [draft(*command).code for command in suggested(done)] == [0, 0]
    assert "# no counterpart at the sites above" in (tmp_path / "s.yaml").read_text("utf-8")


def test_a_workbook_with_merged_header_cells(draft: Command, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["Report"],
        [],
        ["Time", "Line 1", None, "Line 2", None],
        [None, "speed", "load", "speed", "load"],
        ["2024-01-01 00:00", 1.5, 2, 3, 4],
        ["2024-01-01 01:00", 2.5, 3, 1, 5],
        ["2024-01-01 02:00", 1.25, 1, 2, 3],
    ):
        sheet.append(row)
    sheet.merge_cells("B3:C3")
    book.save(tmp_path / "w.xlsx")
    done = draft("new", "w.xlsx", "-o", "r.fkg", "--sites", "s.yaml")
    assert done.code == 0, done.err
    text = (tmp_path / "s.yaml").read_text("utf-8")
    assert "dialect: {skipRows: 2, headerRowCount: 2}" in text
    assert '{name: "Line 2 load", titles: "Line 2 load"}' in text
    assert [draft(*command).code for command in suggested(done)] == [0, 0]


@pytest.mark.slow
def test_a_long_compressed_table_is_drafted_from_all_its_rows(
    draft: Command, tmp_path: Path
) -> None:
    rows = "".join(f"{i % 28 + 1:02}.0{i % 9 + 1}.2024,{i % 7}.5,x{i}\n" for i in range(20_000))
    for name in ("long.csv", "long.csv.gz"):
        body = f"t,p [bar],note\n{rows}".encode()
        (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)
        done = draft("new", name, "-o", "r.fkg", "--sites", "s.yaml", "--force")
        assert done.code == 0, done.err
        text = (tmp_path / "s.yaml").read_text("utf-8")
        assert "format: dd.MM.yyyy" in text
        assert "and 19996 more" in text
        assert [draft(*command).code for command in suggested(done)] == [0, 0]


def test_an_existing_sites_file_gives_the_tables(draft: Command, tmp_path: Path) -> None:
    write_sites(tmp_path)
    done = draft("new", "-o", "drafted.fkg", "--sites", "sites.yaml", "--site", "ohio")
    assert done.code == 0, done.err
    assert "rule range_pressure " in (tmp_path / "drafted.fkg").read_text("utf-8")
    assert [draft(*command).code for command in suggested(done)] == [0, 0]
    assert suggested(done)[1][2:] == ["--sites", "sites.yaml", "--site", "ohio"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--sites", "s.yaml"], 2, "there is no sites file s.yaml"),
        ([], 2, "a table is missing"),
        (["graz.csv", "--sites", "limits.csv"], 2, "limits.csv already exists"),
        (
            ["limits.csv", "--sites", "limits.csv", "--force"],
            2,
            "is also one of the tables of this command",
        ),
        (["graz.csv", "--sites", "none/s.yaml"], 2, "does not exist"),
        (["graz.csv", "none.csv", "--sites", "s.yaml"], 1, "cannot read table none.csv"),
        (["graz.csv", "--site", "graz"], 2, "--site requires --sites"),
        (["graz.csv", "--sites", "s.yaml", "--site", "linz"], 2, "has no site `linz`"),
    ],
)
def test_wrong_arguments_write_nothing(
    arguments: list[str], code: int, said: str, draft: Command, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = draft("new", *arguments, "-o", "r.fkg")
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
