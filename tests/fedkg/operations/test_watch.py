"""`fedkg watch`: one frame, a growing folder, rotated logs, runs that start later or fail."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command import call
from rich.console import Console

from fedkg.jobs import Event, run_job
from fedkg.jobs.events import EVENTS
from fedkg.operations.run_follower import LineFollower, RunView


def test_a_frame_shows_trials_figures_both_counts_and_sites(
    recorded: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(capsys, "watch", recorded.folder, "--once")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert [line[:2] for line in lines[1:3]] == [["fedavg-s0", "3/3"], ["scfa-s0", "3/3"]]
    last = [event for event in recorded.events if event.kind == "round"][-1]
    violated, evaluated = last.values["violated"], last.values["evaluated"]
    assert f"({violated:,} of {evaluated:,})" in done.out
    assert f"({last.values['zone']})" in done.out
    for row in recorded.rows("clients.csv")[-3:]:
        [shown] = [line for line in lines if line[:1] == [row["client"]]]
        assert shown[1] == row["samples"]
        assert shown[2:4] == ["round", "3,"]
        assert shown[5:] == [f"{float(row['validity']):.3f}", f"{float(row['alpha']):.3f}", "0"]
    assert done.out.rstrip().endswith("1 of 1 run done")


def test_without_a_terminal_each_event_is_a_line(
    recorded: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(capsys, "watch", recorded.folder)
    assert done.code == 0
    lines = done.out.splitlines()
    assert len(lines) == len((recorded.folder / EVENTS).read_bytes().splitlines()) + 1
    assert sum("scfa-s0 round " in line for line in lines) == 3
    assert lines[-1] == "1 of 1 run done"


def test_a_terminal_shows_the_view_and_the_watch_ends_with_the_run(
    recorded: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr("fedkg.cli.watch.stdout_console", lambda: console)
    assert call(capsys, "watch", recorded.folder).code == 0
    assert "1 of 1 run done" in screen.getvalue()
    assert "wien" in screen.getvalue()


def test_a_folder_without_a_run_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(capsys, "watch", tmp_path / "none", "--once")
    assert done.code == 2
    assert "there is no run in" in done.err


@pytest.mark.slow
def test_a_watch_that_starts_before_the_run_follows_it_to_its_end(
    recorded: Any, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "fedkg", "watch", "run"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting for a run in run\n"
        run_job(recorded.fields, out=tmp_path / "run", report=False)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    lines = out.splitlines()
    assert [
        sum(f"{name} round " in line for line in lines) for name in ("fedavg-s0", "scfa-s0")
    ] == [3, 3]
    assert lines[-1] == "1 of 1 run done"


def test_a_run_that_failed_ends_the_watch_with_an_error(
    recorded: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(event: Event) -> None:
        if event.kind == "round":
            raise RuntimeError("no memory")

    with pytest.raises(RuntimeError):
        run_job(recorded.fields, out=tmp_path / "run", on_event=fail, report=False)
    done = call(capsys, "watch", tmp_path / "run")
    assert done.code == 1
    assert "failed: no memory" in done.out
    assert done.out.rstrip().endswith("0 of 1 run done, 1 begun")


def test_excluded_sites_come_first_with_the_reason(recorded: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded.folder, tmp_path / "run")
    view = RunView(folder=folder)
    view.update()
    with (folder / "clients.csv").open("a") as file:
        for number in (4, 5):
            file.write(f"scfa-s0,{number},wien,9,,0.0,0.1,excluded: a number is not finite\n")
        file.write("scfa-s0,6,wien,9,,0.0,0.1,excl")  # a line that another process still writes
    view.update()
    view.close()
    wien = view.sites["wien"]
    assert (wien.round, wien.exclusions, wien.reason) == (3, 2, "a number is not finite")


def test_lines_are_read_once_through_rotation_and_truncation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    follower = LineFollower(path)
    assert follower.read() == ([], False)
    path.write_text("a\nb\nunfin")
    assert follower.read() == (["a", "b"], True)
    with path.open("a") as file:
        file.write("ished\n")
    assert follower.read() == (["unfinished"], False)
    with path.open("a") as file:
        file.write("last\n")
    path.rename(tmp_path / "log.1")
    assert follower.read() == (["last"], False)
    path.write_text("new\n")
    assert follower.read() == (["new"], True)
    os.truncate(path, 0)
    assert follower.read() == ([], True)
    path.write_text("more\n")
    assert "more" in follower.read()[0]
    follower.close()


def test_damaged_lines_are_passed_over(recorded: Any, tmp_path: Path) -> None:
    lines = (recorded.folder / EVENTS).read_text().splitlines()
    (tmp_path / EVENTS).write_text(
        "\n".join([lines[0], "{broken", "[1]", '{"kind": 1}', *lines[1:]])
    )
    view = RunView(folder=tmp_path)
    found = view.update()
    view.close()
    assert found == [json.loads(line) for line in lines[:-1]]


def test_the_options_reach_the_run(
    recorded: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = {**recorded.fields, "compare": {}, "algorithm": "fedavg"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(fields))
    (tmp_path / "sink.py").write_text(
        "import json, sys\nprint(json.load(sys.stdin)['reason'], file=open(sys.argv[1], 'a'))\n"
    )
    done = call(
        capsys,
        *("run", tmp_path / "job.yaml", "--out", tmp_path / "run", "--set", "training.rounds=1"),
        *("--track", "tensorboard", "--metrics-port", "0"),
        *("--notify", f"{sys.executable} {tmp_path / 'sink.py'} {tmp_path / 'sent'}"),
    )
    assert done.code == 0
    assert "metrics: http://127.0.0.1:" in done.err
    assert (tmp_path / "sent").read_text().splitlines()[-1] == "finished"
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    assert call(capsys, "verify", tmp_path / "run").code == 0
