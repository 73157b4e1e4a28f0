"""`fedkg monitor` counts what `fedkg eval` counts, continues from its state, and follows a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command import Command, Done, call
from three_sites import write_sites


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    """The command in a folder with `rules.fkg`, `sites.yaml` and the files of three sites."""
    monkeypatch.chdir(tmp_path)
    write_sites(tmp_path)
    return partial(call, capsys)


def lines(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def counts(rules: dict[str, dict[str, int]]) -> dict[str, tuple[int, int, int]]:
    return {
        name: (one["satisfied"], one["violated"], one["unknown"]) for name, one in rules.items()
    }


def evaluated(cli: Command, *arguments: str) -> dict[str, tuple[int, int, int]]:
    done = cli("eval", "rules.fkg", *arguments, "--json")
    return counts({one["rule"]: one for one in done.json["rules"]})


def test_a_file_gets_the_counts_of_eval_and_a_line_for_each_violation(cli: Command) -> None:
    done = cli("monitor", "rules.fkg", "plain/ohio.csv", "--every", "20")
    assert done.code == 0, done.err
    *events, end = lines(done)
    expected = evaluated(cli, "plain/ohio.csv")
    assert counts(end["rules"]) == expected
    assert (end["event"], end["rows"], end["waiting"]) == ("end", 60, 0)
    violated = [one["rule"] for one in events if one["event"] == "violated"]
    assert {rule: violated.count(rule) for rule in expected} == {
        rule: count for rule, (_, count, _) in expected.items()
    }
    assert any(one["event"] == "rates" for one in events)


def test_rules_that_need_all_rows_leave_a_stream_without_verdicts(
    cli: Command, tmp_path: Path
) -> None:
    (tmp_path / "all.fkg").write_text("signal q in bar\nrule c require eventually q <= 5 bar\n")
    (tmp_path / "q.csv").write_text("q\n1\n9\n")
    done = cli("monitor", "all.fkg", "q.csv")
    assert (done.code, "c is not evaluated on a stream" in done.err) == (0, True)
    [end] = lines(done)
    assert (end["rows"], end["waiting"], counts(end["rules"])) == (2, 0, {"c": (0, 0, 0)})


@pytest.mark.parametrize(("site", "file"), [("ohio", "data/ohio.txt"), ("lyon", "data/lyon.tsv")])
def test_rows_are_read_as_the_sites_file_says(cli: Command, site: str, file: str) -> None:
    done = cli("monitor", "rules.fkg", "--sites", "sites.yaml", "--site", site, file)
    assert done.code == 0, done.err
    assert counts(lines(done)[-1]["rules"]) == evaluated(cli, f"plain/{site}.csv")


def test_a_stream_continues_from_its_state(cli: Command, tmp_path: Path) -> None:
    whole = (tmp_path / "plain" / "graz.csv").read_text().splitlines(keepends=True)
    growing = tmp_path / "growing.csv"
    growing.write_text("".join(whole[:25]) + whole[25][:9])  # the last row is not complete
    first = cli("monitor", "rules.fkg", "growing.csv", "--state", "state.json")
    assert lines(first)[-1]["rows"] == 24
    growing.write_text("".join(whole))
    again = cli("monitor", "rules.fkg", "growing.csv", "--state", "state.json")
    end = lines(again)[-1]
    assert end["rows"] == 60
    assert end["waiting"] == 1  # the last row, whose step may get another row
    expected = evaluated(cli, "plain/graz.csv")
    decided = counts(end["rules"])
    assert sum(map(sum, expected.values())) - sum(map(sum, decided.values())) == 1
    growing.write_text(whole[0])
    done = cli("monitor", "rules.fkg", "growing.csv", "--state", "state.json")
    assert done.code == 1
    assert "became shorter, or was replaced" in done.err
    kept = json.loads((tmp_path / "state.json").read_text())
    for damaged in (-5, float("inf")):
        kept["stream"]["consumed"] = damaged
        (tmp_path / "state.json").write_text(json.dumps(kept))
        done = cli("monitor", "rules.fkg", "growing.csv", "--state", "state.json")
        assert (done.code, "does not hold the state of this stream" in done.err) == (2, True)
    (tmp_path / "rules.fkg").write_text("signal x in bar\nrule other require x <= 1 bar\n")
    done = cli("monitor", "rules.fkg", "growing.csv", "--state", "state.json")
    assert done.code == 2
    assert "does not hold the state of this stream with these rules" in done.err


def test_rows_with_too_many_cells_are_noted_once(cli: Command, tmp_path: Path) -> None:
    header, *rows = (tmp_path / "plain/graz.csv").read_text().splitlines()
    (tmp_path / "wide.csv").write_text("\n".join([header, *(f"{row},5" for row in rows)]))
    done = cli("monitor", "rules.fkg", "wide.csv", "--verdicts", "none")
    assert done.code == 0
    assert done.err.count("note: wide.csv: line 2 has ") == 1
    assert "decimal comma" in done.err


def test_drift_compares_with_an_evaluation(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(cli("eval", "rules.fkg", "plain/graz.csv", "--json").out)
    same = cli("monitor", "rules.fkg", "plain/graz.csv", "--baseline", "old.json")
    assert same.code == 0
    assert {one["drift"]["state"] for one in lines(same)[-1]["rules"].values()} == {"none"}
    text = (tmp_path / "plain" / "graz.csv").read_text().splitlines()
    hot = [text[0], *(line.replace(line.split(",")[2], "99") for line in text[1:])]
    (tmp_path / "hot.csv").write_text("\n".join(hot))
    done = cli("monitor", "rules.fkg", "hot.csv", "--baseline", "old.json", "--verdicts", "none")
    assert done.code == 1
    (end,) = lines(done)
    drift = end["rules"]["hot"]["drift"]
    assert drift["state"] == "higher"
    assert 0 < drift["interval"][0] < drift["difference"] < drift["interval"][1]
    assert "Newcombe" in end["interval"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["none.csv"], 2, "table none.csv does not exist"),
        (["plain/graz.csv", "--every", "often"], 2, "--every takes a number of rows or a time"),
        (["plain/graz.csv", "--sites", "sites.yaml"], 2, "--sites requires --site"),
        (["-", "--follow"], 2, "--follow requires a file"),
        (["data/lyon.tsv"], 1, "is not text in `utf-8`"),
        (["--sites", "sites.yaml", "--site", "graz", "data/graz.csv"], 1, "one header row"),
        (["data/ohio.txt"], 1, "columns are missing"),
    ],
)
def test_wrong_input_is_a_clear_error(
    cli: Command, arguments: list[str], code: int, said: str
) -> None:
    done = cli("monitor", "rules.fkg", *arguments)
    assert done.code == code
    assert said in done.err
    assert not done.out


@pytest.mark.parametrize("encoding", ["ansi", "hex"])
def test_an_unknown_encoding_is_a_clear_error(cli: Command, tmp_path: Path, encoding: str) -> None:
    sites = (tmp_path / "sites.yaml").read_text()
    known = "url: data/ohio.txt\n"
    (tmp_path / "sites.yaml").write_text(
        sites.replace(known, f"{known}    dialect: {{encoding: {encoding}}}\n")
    )
    done = cli("monitor", "rules.fkg", "--sites", "sites.yaml", "--site", "ohio", "data/ohio.txt")
    assert done.code == 1
    assert f"encoding `{encoding}` is unknown" in done.err


@pytest.mark.slow
def test_a_growing_file_is_followed_until_a_signal(cli: Command, tmp_path: Path) -> None:
    whole = (tmp_path / "plain" / "graz.csv").read_text().splitlines(keepends=True)
    growing = tmp_path / "growing.csv"
    growing.write_text("".join(whole[:10]))
    words = ["monitor", "rules.fkg", "growing.csv", "--follow", "--every", "9"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedkg", *words, "--verdicts", "none", "--state", "state.json"],
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert json.loads(process.stdout.readline())["rows"] == 9
        with growing.open("a") as file:
            file.write("".join(whole[10:]))
        assert json.loads(process.stdout.readline())["rows"] == 60
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.stdout.close()
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["evaluation"]["rows"] == 60
