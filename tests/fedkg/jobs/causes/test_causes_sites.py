"""Causal discovery over a sites file: the results of plain tables, and errors with their places."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import call

STEPS = 400
SITES = """\
sites:
  graz:
    url: graz.csv
    dialect: {delimiter: ";", skipRows: 2}
    datatype: {decimalChar: ",", groupChar: "."}
    timezone: Europe/Vienna
    null: [defekt]
    tableSchema:
      columns:
        - {name: time, titles: Zeit, datatype: {base: datetime, format: "dd.MM.yyyy HH:mm"}}
        - {name: pressure, titles: [Druck, "Kessel 1 Druck"], unit: mbar}
        - {name: temp, titles: "Temp [°C]"}
        - {name: note, titles: Notiz, datatype: string}
  ohio:
    url: ohio.csv
    timezone: America/New_York
    tableSchema:
      columns:
        - {name: when, titles: stamp, datatype: {base: datetime, format: "MM/dd/yy hh:mm a"}}
        - {name: temp, titles: TI7, unit: UNIT}
        - {name: speed, titles: SI1, unit: rpm}
"""
JOB = """\
kind: causes
name: plant
data: {sites_file: sites.yaml}
states: 1
shifts: 99
learning: {mode: closed_form, lags: choose}
"""
PLAIN = JOB.replace("sites_file: sites.yaml", "path: plain.csv") + (
    "clients: {graz: [graz pressure, graz temp], ohio: [ohio temp, ohio speed]}\n"
)
START = datetime(2016, 3, 26)


KEY = "[{columnReference: note, reference: {resource: vessels.csv, columnReference: id}}]"
PLANT = """\
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:graz fkg:client "graz" ; plant:feeds plant:ohio .
plant:ohio fkg:client "ohio" .
"""
RULES = """\
prefix plant: <https://example.org/plant#>
timeline time column "time" step 1 h
signal pressure in bar column "Pressure"
rule low require pressure <= 9 bar
cause along for ?a, ?b where { ?a plant:feeds ?b } allow ?a drives ?b
"""


def approximate(value: Any) -> Any:
    """JSON whose numbers are compared up to rounding. `Any`: JSON."""
    if isinstance(value, dict):
        return {key: approximate(item) for key, item in value.items()}
    return pytest.approx(value, rel=1e-7) if isinstance(value, float) else value


def german(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}".replace(",", "_").replace(".", ",").replace("_", ".")


def write_tables(folder: Path, *, unit: str = "degC") -> None:
    """Write a plain table, and the same numbers as two sites write them. Ohio begins two hours
    before Graz, and Graz ends an hour after Ohio; a day with a change of the clocks is inside.
    """
    stream = np.random.default_rng(0)
    slow = np.zeros(STEPS)
    for t in range(1, STEPS):
        slow[t] = 0.95 * slow[t - 1] + stream.standard_normal()
    late = np.roll(slow, 1)
    noise = stream.standard_normal((4, STEPS)) / 10
    columns = {
        "graz pressure": np.round(5000 + 200 * slow + 100 * noise[0]),
        "graz temp": 80 + 2 * slow + noise[1],
        "ohio temp": 60 + late + noise[2],
        "ohio speed": np.round(1500 - 40 * late + noise[3]),
    }
    rows = [[round(float(values[t]), 3) for values in columns.values()] for t in range(STEPS)]
    with (folder / "plain.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ["time", *columns],
                *([f"{START + timedelta(hours=t)}Z", *row] for t, row in enumerate(rows)),
            ]
        )
    graz = ["Werk Graz", "", "Zeit;Notiz;Druck;Temp [°C]"]
    ohio = ["stamp,TI7,SI1"]
    for t in range(-2, STEPS + 1):
        pressure, temp, other, speed = rows[min(max(t, 0), STEPS - 1)]
        at = START + timedelta(hours=t)
        local = at + timedelta(hours=2 if at >= datetime(2016, 3, 27, 1) else 1)
        if t >= 0:
            graz.append(f"{local:%d.%m.%Y %H:%M};ok;{german(pressure, 0)};{german(temp, 3)}")
        if t < STEPS:
            other = other if unit == "degC" else other * 1.8 + 32
            local = at - timedelta(hours=4)
            ohio.append(f"{local:%m/%d/%y %I:%M %p},{other!r},{speed!r}")
    (folder / "graz.csv").write_text("\n".join([*graz, ""]), encoding="utf-8")
    (folder / "ohio.csv").write_text("\n".join([*ohio, ""]), encoding="utf-8")
    (folder / "sites.yaml").write_text(SITES.replace("UNIT", unit), encoding="utf-8")
    (folder / "job.yaml").write_text(JOB)
    (folder / "plain.yaml").write_text(PLAIN)


def test_sites_in_their_own_formats_give_the_results_of_a_plain_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(tmp_path)
    assert call(capsys, "run", tmp_path / "plain.yaml", "--out", tmp_path / "plain").code == 0
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert done.code == 0
    assert "graz: 1 row lies outside the times of the other sites" in done.out
    assert "ohio: 2 rows lie outside the times of the other sites" in done.out
    for name in ("edges.csv", "losses.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    learned = json.loads((tmp_path / "run/learned.json").read_text())
    plain = json.loads((tmp_path / "plain/learned.json").read_text())
    assert learned["edges"] == plain["edges"]
    assert learned["window"] == plain["window"]
    assert learned["edges"][0]["precedence"]["leads"].startswith("graz ")
    assert [one["name"] for one in learned["files"]] == ["sites.yaml", "graz.csv", "ohio.csv"]
    again = call(capsys, "run", tmp_path / "run/job.yaml", "--out", tmp_path / "again")
    assert again.code == 0
    assert json.loads((tmp_path / "again/learned.json").read_text())["edges"] == plain["edges"]
    (tmp_path / "vessels.csv").write_text("id\n80\n")
    edit("sites.yaml", ("tableSchema:\n", f"tableSchema:\n      foreignKeys: {KEY}\n"))(tmp_path)
    reads = call(capsys, "inspect", tmp_path / "job.yaml", "--json")
    assert reads.json["reads"] == [
        str(tmp_path / name) for name in ("sites.yaml", "graz.csv", "vessels.csv", "ohio.csv")
    ]


def test_a_converted_unit_gives_the_results_up_to_rounding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(tmp_path, unit="degF")
    edit("job.yaml", ("states: 1", "states: 1\nclients: {graz: [temp], ohio: [temp]}"))(tmp_path)
    edit("plain.yaml", ("graz pressure, ", ""), (", ohio speed", ""))(tmp_path)
    edges = []
    for name in ("plain", "job"):
        done = call(capsys, "run", tmp_path / f"{name}.yaml", "--out", tmp_path / name)
        assert done.code == 0, done.err
        edges.append(json.loads((tmp_path / name / "learned.json").read_text())["edges"])
    assert edges[1] == [approximate(edge) for edge in edges[0]]
    assert edges[0][0]["precedence"]["follows"] == "ohio temp"


def test_signals_have_the_unit_and_steps_of_the_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(tmp_path)
    (tmp_path / "plant.ttl").write_text(PLANT)
    (tmp_path / "rules.fkg").write_text(RULES)
    edit("job.yaml", ("states: 1", "states: 1\nrules: [rules.fkg, plant.ttl]"))(tmp_path)
    edit("sites.yaml", ("name: when", "name: time"))(tmp_path)
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    learned = json.loads((tmp_path / "run/learned.json").read_text())
    assert [(edge["driver"], edge["driven"]) for edge in learned["edges"]] == [("graz", "ohio")]
    assert learned["step"] == 3600
    assert call(capsys, "run", tmp_path / "plain.yaml", "--out", tmp_path / "plain").code == 0
    plain = json.loads((tmp_path / "plain/learned.json").read_text())["edges"]
    found, expected = learned["edges"][0]["precedence"], plain[0]["precedence"]
    unit = {"graz pressure": 1000, "graz temp": 1}[found["leads"]]
    assert found["leads"] == expected["leads"] == "graz pressure"
    assert found["rise"] == pytest.approx(expected["rise"] / unit, rel=1e-9)
    edit("rules.fkg", ("step 1 h", "step 2 h"))(tmp_path)
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "two")
    assert "the time lies between the steps of 2 h" in done.err
    edit("rules.fkg", ("pressure in bar", "pressure in degC"), ("9 bar", "9 degC"))(tmp_path)
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "two")
    assert "`unit: mbar` does not convert to the unit that the rules or other" in done.err


def test_a_job_selects_sites_and_signals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(tmp_path)
    results = {}
    for name, change in {
        "all": "clients=[graz, ohio]",
        "one": "clients={graz: [pressure], ohio: [temp]}",
        "other": f"data.sites_file={tmp_path / 'sites.yaml'}",
    }.items():
        done = call(
            capsys,
            "run",
            tmp_path / "job.yaml",
            "--out",
            tmp_path / name,
            "--set",
            change,
            "--json",
        )
        results[name] = {
            site: one["measurements"] for site, one in done.json["results"]["clients"].items()
        }
    assert results["all"] == results["other"] == {"graz": 2, "ohio": 2}
    assert results["one"] == {"graz": 1, "ohio": 1}


def edit(name: str, *changes: tuple[str, str]) -> Callable[[Path], None]:
    """Replace texts of a file."""

    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (folder / name).write_text(text, encoding="utf-8")

    return change


def drop_lines(name: str, first: int, count: int) -> Callable[[Path], None]:
    """Remove lines of a file, from line `first` (from 1)."""

    def change(folder: Path) -> None:
        lines = (folder / name).read_text(encoding="utf-8").split("\n")
        del lines[first - 1 : first - 1 + count]
        (folder / name).write_text("\n".join(lines), encoding="utf-8")

    return change


WRONG = {
    "an unknown signal": (
        edit("job.yaml", ("states: 1", "states: 1\nclients: {graz: [presure], ohio: [temp]}")),
        ("no column `presure`, which clients.graz of the job names", "did you mean `pressure`?"),
    ),
    "an unknown site": (
        edit("job.yaml", ("states: 1", "states: 1\nclients: [graz, ohoi]")),
        ("sites.yaml has no site `ohoi`", "did you mean `ohio`?"),
    ),
    "a single site": (
        edit("job.yaml", ("states: 1", "states: 1\nclients: [graz]")),
        ("`clients` names only one client, graz", "two or more"),
    ),
    "a signal of texts": (
        edit("job.yaml", ("states: 1", "states: 1\nclients: {graz: [note], ohio: [temp]}")),
        ("graz.csv", "column `note`", '"ok"'),
    ),
    "a signal of lists": (
        edit("sites.yaml", ("unit: mbar", "unit: mbar, separator: ' '")),
        ("sites.yaml:11: column `pressure`.separator of site graz", "column `Druck`", "are lists"),
    ),
    "a foreign key without its table": (
        edit("sites.yaml", ("tableSchema:\n", f"tableSchema:\n      foreignKeys: {KEY}\n")),
        ("`foreignKeys` of site graz", "the table of `reference` does not exist", "vessels.csv"),
    ),
    "a missing column": (
        edit("ohio.csv", ("TI7", "TI8")),
        ("ohio.csv: no column `TI7`", "sites.yaml:20: column `temp` of site ohio describes"),
    ),
    "a wrong number": (edit("graz.csv", (";ok;", ";ok;1,5e;")), ("graz.csv",)),
    "a unit that does not convert": (
        edit("sites.yaml", ("titles: TI7, unit: degC", "titles: TI7, unit: bar")),
        (
            "sites.yaml:20: column `temp`.unit of site ohio: `unit: bar` does not convert",
            "column `TI7`",
            "a unit that converts to °C",
            "help: state the unit",
        ),
    ),
    "a repeated time": (
        edit("ohio.csv", ("03/25/16 11:00 PM", "03/25/16 10:00 PM")),
        (
            "ohio.csv, row 6 (line 7): the time in `when` repeats",
            "received: 2016-03-26 02:00:00Z",
            "correct or remove the row",
        ),
    ),
    "a decreasing time": (
        edit("ohio.csv", ("03/25/16 11:00 PM", "03/25/16 01:00 PM")),
        ("ohio.csv, row 6 (line 7): the time in `when` decreases", "later than that of the row"),
    ),
    "a row without a time": (
        edit("graz.csv", ("26.03.2016 02:00", "defekt")),
        ("graz.csv, row 2 (line 5): column `time` has no time", "complete the time or remove"),
    ),
    "a row between the steps": (
        edit("ohio.csv", ("03/25/16 11:00 PM", "03/25/16 11:20 PM")),
        (
            "ohio.csv, row 6 (line 7): the time lies between the steps of 1 h",
            "received: 2016-03-26T03:20:00Z",
            "resample the table",
        ),
    ),
    "a gap": (
        drop_lines("graz.csv", 20, 4),
        ("graz.csv, no row for 2016-03-26T19:00:00Z: column `graz pressure` has a gap of more",),
    ),
    "no common times": (
        drop_lines("graz.csv", 4, STEPS),
        ("no time in common", "graz 2016-04-11T16:00:00Z to 2016-04-11T16:00:00Z"),
    ),
    "few common times": (drop_lines("graz.csv", 13, STEPS), ("8 of 9 steps",)),
    "times at one site": (
        edit("sites.yaml", ('base: datetime, format: "MM/dd/yy hh:mm a"', "base: string")),
        ("site ohio describes no time column, and other sites do", "describe the time column"),
    ),
    "a zone at one site": (
        edit("sites.yaml", ("    timezone: America/New_York\n", "")),
        ("the times of site ohio name no zone", "state `timezone` of site ohio"),
    ),
    "a path too": (
        edit("job.yaml", ("sites_file:", "path: plain.csv, sites_file:")),
        ("`data` (line 3): `path` and `sites_file` exclude each other",),
    ),
    "a data set too": (
        edit("job.yaml", ("sites_file:", "set: traffic, sites_file:")),
        ("`set` and `sites_file` exclude each other",),
    ),
    "a plant too": (
        edit("job.yaml", ("sites_file:", "plant: {steps: 9}, sites_file:")),
        ("`plant` and `sites_file` exclude each other",),
    ),
    "no sites file": (
        edit("job.yaml", ("sites.yaml", "none.yaml")),
        ("cannot read sites file", "none.yaml"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_with_place_value_and_remedy(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(tmp_path)
    change, said = WRONG[case]
    change(tmp_path)
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert done.code in (1, 2)
    assert all(text in done.err for text in said), done.err
    assert not (tmp_path / "run").exists()


def test_sites_without_times_are_aligned_by_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tables(tmp_path)
    lines = (tmp_path / "plain.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines]
    for site, places in {"graz": (1, 2), "ohio": (3, 4)}.items():
        rows = [",".join(row[place] for place in places) for row in cells]
        (tmp_path / f"{site}.csv").write_text(
            "\n".join([rows[0].replace(f"{site} ", ""), *rows[1:], ""])
        )
    (tmp_path / "sites.yaml").write_text("sites: {graz: graz.csv, ohio: ohio.csv}\n")
    assert call(capsys, "run", tmp_path / "plain.yaml", "--out", tmp_path / "plain").code == 0
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert "no site describes a time column: row n is the same step at all sites" in done.out
    for name in ("edges.csv", "losses.csv"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
    drop_lines("ohio.csv", 9, 2)(tmp_path)
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "short")
    assert "graz: 400 rows, ohio: 398" in done.err


TIMED = """\
tableSchema: {columns: [{name: time, datatype: datetime}]}
sites: {graz: graz.csv, ohio: ohio.csv}
"""


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (
            [*(f"2024-01-01 00:00:{t:02d}" for t in range(60)), "9024-01-01 00:00:00"],
            ("2.21e+11 steps of 1 s", "10,000,000 at most"),
        ),
        ([*map(str, range(60)), "1e300"], ("1e+300 steps of 1 s",)),
        ([f"{t}e-9" for t in range(60)], ("row 2 (line 3): the time lies in the same step of",)),
    ],
)
def test_impossible_steps_are_rejected(
    times: list[str], said: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{time},{t % 7}\n" for t, time in enumerate(times))
    for site in ("graz", "ohio"):
        (tmp_path / f"{site}.csv").write_text(f"time,x\n{rows}")
    (tmp_path / "sites.yaml").write_text(TIMED)
    (tmp_path / "job.yaml").write_text(JOB)
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert done.code == 1
    assert all(text in done.err for text in said), done.err


def test_times_with_their_zones_are_aligned_in_utc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hours = [START + timedelta(hours=t) for t in range(60)]
    for site, zone in {"graz": "+01:00", "ohio": "Z"}.items():
        rows = "".join(f"{at.isoformat()}{zone},{(5 * t) % 7}\n" for t, at in enumerate(hours))
        (tmp_path / f"{site}.csv").write_text(f"time,x\n{rows}")
    (tmp_path / "sites.yaml").write_text(TIMED)
    (tmp_path / "job.yaml").write_text(JOB.replace("choose", "1") + "correlation: 0\n")
    done = call(capsys, "run", tmp_path / "job.yaml", "--out", tmp_path / "run")
    assert "graz: 1 row lies outside the times of the other sites" in done.out
    learned = json.loads((tmp_path / "run/learned.json").read_text())
    assert learned["window"][0] == "2016-03-26T00:00:00Z"
