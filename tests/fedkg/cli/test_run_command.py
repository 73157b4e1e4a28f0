"""`fedkg run`: a small job from its file to its report, stopped and resumed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

Command = Callable[..., Any]

JOB = {
    "name": "small",
    "rules": ["rules.fkg"],
    "sites": ["north", "south"],
    "data": {"rows": 800, "min_samples": 20},
    "model": {"hidden": [4]},
    "training": {"rounds": 2, "participation": 1.0},
    "evaluation": {"local_baseline": False},
    "compare": {"algorithm": ["fedavg", "scfa"]},
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    return tmp_path / "job.yaml"


def test_run_prints_results_and_the_report(fedkg: Command, job: Path, tmp_path: Path) -> None:
    done = fedkg("run", "job.yaml")
    assert done.code == 0
    assert done.out.rstrip().endswith("report: runs/small-001/report.html")
    assert "[2/2]" in done.err
    assert (tmp_path / "runs" / "small-001" / "report.html").stat().st_size > 100_000


def test_run_as_json_then_resumed_says_the_same(fedkg: Command, job: Path) -> None:
    done = fedkg("run", "job.yaml", "--out", "here", "--set", "training.rounds=1", "--json")
    assert [row["algorithm"] for row in done.json["results"]] == ["fedavg", "scfa"]
    assert fedkg("run", "--resume", "here", "--json").json == done.json


def test_a_changed_job_is_shown_and_refused(fedkg: Command, job: Path) -> None:
    fedkg("run", "job.yaml", "--out", "here", "--set", "training.rounds=1")
    done = fedkg("run", "job.yaml", "--out", "here")
    assert done.code == 1
    assert "training.rounds: 1 -> 2" in done.err


def test_a_wrong_field_is_named(fedkg: Command, job: Path) -> None:
    done = fedkg("run", "job.yaml", "--set", "training.rouns=3")
    assert done.code == 1
    assert "rouns" in done.err
    assert "rounds" in done.err


@pytest.fixture
def stopped_by_ctrl_c() -> Iterator[None]:
    """Child processes handle SIGINT.

    In a shell's background this process and they may ignore it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_by_ctrl_c")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_so_and_goes_on(
    how: signal.Signals, fedkg: Command, job: Path, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "fedkg",
        "run",
        "job.yaml",
        "--out",
        "here",
        "--set",
        "training.rounds=400",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("[1/2]"):
            assert process.poll() is None
        process.send_signal(how)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "fedkg run --resume here" in err
    assert fedkg("run", "--resume", "here").code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_by_ctrl_c")
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups are POSIX")
def test_ctrl_c_reaches_worker_processes_too_and_the_run_goes_on_to_the_bit(
    fedkg: Command, job: Path, tmp_path: Path
) -> None:
    """A terminal sends SIGINT to the whole group: the parent prints advice, the workers nothing."""
    given = (
        "--set",
        "training.rounds=10",
        "--set",
        "training.executor=processes",
        "--set",
        "training.workers=2",
    )
    command = [sys.executable, "-m", "fedkg", "run", "job.yaml", "--out", "here", *given]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("the sites of a round are trained "):
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopped; finished rounds are in here" in err
    assert "fedkg run --resume here" in err
    assert "Traceback" not in out + err
    assert list((tmp_path / "here" / "checkpoints").iterdir())
    assert fedkg("run", "--resume", "here").code == 0
    assert fedkg("run", "job.yaml", "--out", "whole", *given).code == 0

    def figures(name: str) -> list[list[str]]:
        return [
            line.split(",")[:6]
            for line in (tmp_path / name / "rounds.csv").read_text().splitlines()
        ]

    assert figures("here") == figures("whole")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), ""),
        (("-o", "here"), " --out here"),
        (("--seeds", "2", "-o", "here"), " --out here --seeds 2"),
        (
            ("--set", "name=a b", "--grid", "data.alpha=1,2", "training.rounds=1,2"),
            " --set 'name=a b' --grid data.alpha=1,2 training.rounds=1,2",
        ),
    ],
)
def test_ctrl_c_before_the_folder_is_made_says_that_nothing_is_written(
    more: tuple[str, ...],
    said: str,
    fedkg: Command,
    job: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fedkg.jobs.runner.create_experiment", stop)
    monkeypatch.setattr("fedkg.jobs.sweep.sweep.expand_grid", stop)
    done = fedkg("run", "job.yaml", *more)
    assert done.code == 130
    assert "stopped before the run folder was created: nothing was written" in done.err
    assert f"to start again: fedkg run job.yaml{said}\n" in done.err
    assert not (tmp_path / "here").exists()
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_while_the_folder_is_made_says_that_no_training_is_in_it(
    fedkg: Command, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fedkg.jobs.runner.write_initial_files", stop)
        done = fedkg("run", "job.yaml", "-o", "here")
    assert done.code == 130
    assert "stopped while creating the run folder here, which contains no results" in done.err
    assert fedkg("run", "job.yaml", "-o", "here", "--set", "training.rounds=1").code == 0


def test_a_table_that_is_nowhere_is_reported_by_its_field(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "rules.fkg").write_text(
        "output failure in probability span 0 .. 1\nrule rare require failure <= 0.9\n"
    )
    (tmp_path / "job.yaml").write_text(
        "pack: p.fkgpack\nsites: [a, b]\ndata: {path: none.csv}\nalgorithm: fedavg\n"
    )
    assert fedkg("compile", "rules.fkg", "-o", "p.fkgpack").code == 0
    done = fedkg("run", "job.yaml", "--out", "here")
    assert done.code == 1
    assert "data.path: the file does not exist" in done.err
    assert not (tmp_path / "here").exists()


def test_columns_that_nothing_stands_in_are_left_out(fedkg: Command, tmp_path: Path) -> None:
    """Without rules and target the table has no columns for them and no legend."""
    (tmp_path / "job.yaml").write_text(
        "data: {set: mnist, size: 60, split: iid, min_samples: 5}\nsites: 2\nmodel: "
        "{kind: softmax}\ntraining: {rounds: 1, executor: sequential}\nevaluation: "
        "{local_baseline: false}\n"
    )
    done = fedkg("run", "job.yaml", "--out", "here")
    assert done.code == 0
    header, key = (
        next(line for line in done.out.splitlines() if word in line)
        for word in ("setting", "of the last round")
    )
    assert header.split() == ["setting", "algorithm", "Accuracy", "worst", "sent"]
    assert not any(word in key for word in ("target", "breaks", "95 %"))


def test_a_folder_in_place_of_a_job_is_told_how_to_go_on(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "tuesday").mkdir()
    done = fedkg("run", "tuesday")
    assert done.code == 2
    assert "tuesday is a folder, not a job file" in done.err
    assert "give the job file" in done.err
    (tmp_path / "tuesday" / "environment.json").write_text("{}")
    assert "fedkg run --resume tuesday" in fedkg("run", "tuesday").err


def test_text_that_is_no_job_is_named_in_words(fedkg: Command, tmp_path: Path) -> None:
    for text, received in (("signal x in K", "text without fields"), ("- a", "a list")):
        (tmp_path / "odd.yaml").write_text(text)
        assert f"received: {received}" in fedkg("run", "odd.yaml").err


def test_a_full_disk_says_where_and_how_to_go_on(
    fedkg: Command, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("fedkg.jobs.folder.RunFolder.write_bytes", full)
    done = fedkg("run", "job.yaml", "--out", "tuesday")
    assert done.code == 1
    assert f"cannot write to tuesday: {os.strerror(errno.ENOSPC)}" in done.err
    assert "free some space, then continue: fedkg run --resume tuesday" in done.err


def test_a_run_names_what_it_detects(fedkg: Command, tmp_path: Path) -> None:
    """HAI labels attacks; a table labels the events in its column name."""
    job = {
        "name": "testbed",
        "sites": ["a", "b", "c", "d"],
        "data": {"set": "hai", "size": 3, "split": "iid", "min_samples": 3, "server": 0.2},
        "model": {"kind": "mlp", "hidden": [4]},
        "training": {"rounds": 1, "participation": 1.0},
        "evaluation": {"local_baseline": False},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    done = fedkg("run", "job.yaml", "--out", "here")
    assert "found: attacks found" in " ".join(done.out.split())
    report = (tmp_path / "here" / "report.html").read_text()
    assert "of the attacks, and" in report
    assert ">attacks</th>" in report
    assert "failures" not in report


@pytest.mark.parametrize(("sites", "shown"), [(4, False), (10, True)])
def test_tenths_of_sites_are_shown_for_ten_sites_and_more(
    fedkg: Command, job: Path, tmp_path: Path, sites: int, shown: bool
) -> None:
    fields = JOB | {
        "sites": [f"s{i}" for i in range(sites)],
        "data": {"rows": 8000, "min_samples": 20, "split": "iid"},
        "training": {"rounds": 1, "participation": 1.0},
        "compare": {},
    }
    job.write_text(yaml.safe_dump(fields))
    assert fedkg("run", "job.yaml", "--out", "here").code == 0
    report = (tmp_path / "here" / "report.html").read_text()
    assert "half of the sites have more than" in report
    assert ("9 of 10 sites have more than" in report) == shown
    assert ("1 of 10 sites has more than" in report) == shown
