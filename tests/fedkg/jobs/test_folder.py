"""The files of a run folder."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fedkg.errors import JobError, UsageError
from fedkg.jobs.folder import ENVIRONMENT, RunFolder, next_free_folder
from fedkg.jobs.schema.job_differences import list_differences


@pytest.fixture
def folder(tmp_path):
    made = RunFolder(tmp_path / "run")
    made.create()
    return made


def row(number: int, **more):
    return {
        "trial": "a",
        "round": number,
        "client": "graz",
        "samples": 3,
        "validity": 0.1 + 0.2,
        **more,
    }


def test_lines_are_kept_to_the_bit(folder):
    folder.append("clients.csv", [row(1)])
    folder.append("clients.csv", [row(2, alpha=float("nan"))])
    first, second = folder.rows("clients.csv")
    assert float(first["validity"]) == 0.1 + 0.2
    assert second["alpha"] == ""


def test_lines_that_are_not_logged_do_not_count(folder):
    folder.append("clients.csv", [row(1)])
    folder.write_json("trials.json", [])
    folder.append("clients.csv", [row(2)])
    path = folder.path / "clients.csv"
    path.write_bytes(path.read_bytes() + b"a,3,gr")
    other = RunFolder(folder.path)
    assert [line["round"] for line in other.rows("clients.csv")] == ["1"]
    assert [line["round"] for line in other.rows("clients.csv", unlogged=True)] == ["1", "2"]
    assert other.damage() == ()
    other.recover()
    other.append("clients.csv", [row(2)])
    assert [line["round"] for line in other.rows("clients.csv")] == ["1", "2"]


def test_first_lines_that_are_not_logged_are_not_damage(folder):
    """A process may die after it appended the first line of a file and before the log has it."""
    folder.write_json("trials.json", [])
    folder.append("privacy.csv", [{"trial": "a", "noise": 1.0}])
    other = RunFolder(folder.path)
    assert other.rows("privacy.csv") == []
    assert len(other.rows("privacy.csv", unlogged=True)) == 1
    assert other.damage() == ()
    other.recover()
    assert not (folder.path / "privacy.csv").exists()
    other.write_json("results.json", {})
    (folder.path / "privacy.csv").write_text("trial\na\n")
    assert [damage.file for damage in RunFolder(folder.path).damage()] == ["privacy.csv"]


def test_a_line_that_is_cut_off_is_damage(folder):
    folder.append("clients.csv", [row(1), row(2)])
    folder.write_json("trials.json", [])
    path = folder.path / "clients.csv"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(JobError, match=r"clients\.csv is damaged"):
        RunFolder(folder.path).rows("clients.csv")


def test_line_breaks_in_a_cell_become_blanks(folder):
    folder.append("clients.csv", [row(1, status='a\n"b",c')])
    assert folder.rows("clients.csv")[0]["status"] == 'a "b",c'


def test_json_is_whole_or_said_to_be_damaged(folder):
    folder.write_json("trials.json", [1])
    assert folder.read_json("trials.json") == [1]
    (folder.path / "trials.json").write_text("[1")
    with pytest.raises(JobError, match="damaged"):
        folder.read_json("trials.json")
    with pytest.raises(JobError, match="missing"):
        folder.read_json("results.json")


def test_something_else_in_its_place_is_rejected(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="cannot make the run folder") as refused:
        RunFolder(tmp_path / "file").create()
    assert refused.value.help == "choose another --out"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "job.yaml").write_text("x: 1")
    with pytest.raises(UsageError, match="do not belong to a run"):
        RunFolder(tmp_path / "other").create()


@pytest.mark.slow
def test_a_second_process_is_kept_out(folder):
    code = (
        "from fedkg.jobs.folder import RunFolder; from pathlib import Path\nwith "
        f"RunFolder(Path({str(folder.path)!r})).locked(): pass"
    )
    with folder.locked():
        other = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
    assert "another process is working" in other.stderr
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
        == 0
    )


def test_the_next_free_folder(tmp_path):
    assert next_free_folder("milling", tmp_path).name == "milling-001"
    (tmp_path / "milling-001").mkdir()
    assert next_free_folder("milling", tmp_path).name == "milling-002"


def test_differences_name_fields():
    before = {"a": {"b": 1, "c": [1]}, "d": {}}
    assert list_differences(before, json.loads(json.dumps(before))) == []
    assert list_differences(before, {"a": {"b": 2, "c": [1]}, "e": 1}) == [
        "a.b: 1 -> 2",
        "d: {} -> (missing)",
        "e: (missing) -> 1",
    ]
    assert len(list_differences({}, {str(i): i for i in range(50)})) == 21


def test_a_folder_is_a_run_once_its_environment_is_written(folder):
    assert not folder.exists()
    folder.write_json(ENVIRONMENT, {})
    assert folder.exists()
