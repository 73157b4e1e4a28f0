"""`events.jsonl`: complete lines in a documented form, whatever ends the process."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, FormatChecker

from fedkg.jobs import Event, run_job
from fedkg.jobs.events import EVENTS, EventLog
from fedkg.jobs.runner import resume

pytestmark = pytest.mark.usefixtures("no_report")

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "reference" / "events.schema.json"


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """All complete lines; each must fit the schema."""
    check = Draft202012Validator(json.loads(SCHEMA.read_text()), format_checker=FormatChecker())
    found = [json.loads(line) for line in (folder / EVENTS).read_bytes().split(b"\n")[:-1]]
    for line in found:
        check.validate(line)
    return found


@pytest.mark.slow
def test_a_run_logs_its_events_in_the_documented_form(job_fields, tmp_path):
    before = datetime.now(UTC)
    told: list[Event] = []
    run = run_job(job_fields, out=tmp_path / "run", on_event=told.append)
    lines = lines_of(run.folder)
    assert [line["kind"] for line in lines] == [event.kind for event in told]
    assert {event.folder for event in told} == {run.folder}
    times = [datetime.fromisoformat(line["time"]) for line in lines]
    assert times == sorted(times)
    assert before.replace(microsecond=0) <= times[0] <= datetime.now(UTC)
    with (run.folder / "rounds.csv").open() as file:
        rows = list(csv.DictReader(file))
    rounds = [line for line in lines if line["kind"] == "round"]
    assert [(line["trial"], line["round"]) for line in rounds] == [
        (row["trial"], int(row["round"])) for row in rows
    ]
    for line, row in zip(rounds, rows, strict=True):
        measured = {
            name: value for name, value in row.items() if value and name not in ("trial", "notes")
        }
        values = {
            name: value
            for name, value in line["values"].items()
            if name not in ("violated", "evaluated")
        }
        assert values == {
            name: value if name == "zone" else float(value) for name, value in measured.items()
        }


@pytest.mark.slow
def test_the_counts_of_a_round_are_those_of_the_scores(job_fields, tmp_path):
    """All bound rows weigh the same here, so 1 - s_k is the violated share of a site's verdicts."""
    told: list[Event] = []
    run_job(job_fields, out=tmp_path / "run", on_event=told.append)
    rounds = [event for event in told if event.kind == "round"]
    assert rounds
    for event in rounds:
        assert set(event.sites) == {"graz", "linz", "wien"}
        for site in event.sites.values():
            violated, evaluated = float(site["violated"]), float(site["evaluated"])
            assert evaluated > 0
            assert math.isclose(1 - float(site["validity"]), violated / evaluated, abs_tol=1e-12)
        for name in ("violated", "evaluated"):
            by_site = sum(int(site[name]) for site in event.sites.values())
            by_rule = sum(int(rule[name]) for rule in event.rules.values())
            assert event.values[name] == by_site == by_rule
    done = [event for event in told if event.kind == "trial_done"]
    with (tmp_path / "run" / "rules.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {
        (event.trial, rule, counts["violated"], counts["evaluated"])
        for event in done
        for rule, counts in event.rules.items()
    } == {
        (row["trial"], row["rule"], int(row["violated"]), int(row["evaluations"]))
        for row in rows
        if int(row["evaluations"])
    }


def test_private_runs_count_no_verdicts(job_fields, tmp_path):
    fields = {
        **job_fields,
        "compare": {"algorithm": ["fedavg"]},
        "corrupt": None,
        "privacy": {"unit": "example", "clip": 1.0, "noise": 1.0, "delta": 1e-5},
        "training": {**job_fields["training"], "rounds": 1},
    }
    del fields["training"]["positive_weight"]
    told: list[Event] = []
    run_job(fields, out=tmp_path / "run", on_event=told.append)
    [event] = [event for event in told if event.kind == "round"]
    assert event.rules == {}
    assert "violated" not in event.values
    assert all("violated" not in site for site in event.sites.values())


def test_unmeasured_figures_are_absent_and_infinite_ones_are_text(tmp_path):
    EventLog(tmp_path)(
        Event(
            kind="round",
            trial="a",
            round=1,
            rounds=2,
            values={"f1": math.nan, "loss": math.inf, "mse": 0.1 + 0.2},
        )
    )
    [line] = lines_of(tmp_path)
    assert line["values"] == {"loss": "inf", "mse": 0.1 + 0.2}


def test_an_unfinished_line_is_removed_before_the_next_one(tmp_path):
    EventLog(tmp_path)(Event(kind="note", message="first"))
    with (tmp_path / EVENTS).open("ab") as file:
        file.write(b'{"time": "2026-')
    EventLog(tmp_path)(Event(kind="note", message="second"))
    assert [line["message"] for line in lines_of(tmp_path)] == ["first", "second"]


def test_a_log_that_is_moved_away_starts_anew(tmp_path):
    log = EventLog(tmp_path)
    log(Event(kind="note", message="first"))
    (tmp_path / EVENTS).rename(tmp_path / f"{EVENTS}.1")
    log(Event(kind="note", message="second"))
    assert [line["message"] for line in lines_of(tmp_path)] == ["second"]


def test_a_failure_and_a_stop_are_logged(job_fields, tmp_path):
    def interrupt(event: Event) -> None:
        if event.kind == "round":
            raise KeyboardInterrupt

    def fail(event: Event) -> None:
        if event.kind == "round":
            raise RuntimeError("the disk burns")

    fields = {**job_fields, "compare": {}, "corrupt": None, "algorithm": "fedavg", "seeds": 1}
    with pytest.raises(Exception, match="stopped"):
        run_job(fields, out=tmp_path / "run", on_event=interrupt)
    with pytest.raises(RuntimeError):
        resume(tmp_path / "run", on_event=fail)
    resume(tmp_path / "run")
    ends = [
        (line["kind"], line["message"])
        for line in lines_of(tmp_path / "run")
        if line["kind"] in ("stopped", "failed", "finished")
    ]
    assert [kind for kind, _ in ends] == ["stopped", "failed", "finished"]
    assert ends[1][1] == "the disk burns"


@pytest.mark.slow
def test_a_killed_run_leaves_complete_lines_and_continues_the_log(job_fields, tmp_path):
    fields = {**job_fields, "compare": {}, "corrupt": None, "algorithm": "fedavg", "seeds": 1}
    fields["training"] = {**fields["training"], "rounds": 300}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(fields))
    command = [sys.executable, "-m", "fedkg", "run", "job.yaml", "--out", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (
            (tmp_path / "run" / EVENTS).is_file() and len(lines_of(tmp_path / "run")) > 5
        ):
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    before = lines_of(tmp_path / "run")
    assert before[-1]["kind"] != "finished"
    resume(tmp_path / "run")
    after = lines_of(tmp_path / "run")
    assert after[: len(before)] == before
    assert after[-1]["kind"] == "finished"
