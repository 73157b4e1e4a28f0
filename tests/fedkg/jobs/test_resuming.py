"""Runs that stop, are killed, or find their folder changed: bytewise resume, and errors."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml
from killed_run import run_and_die
from run_figures import figures
from warm_processes import CONTEXT

from fedkg.errors import JobError, Stopped, UsageError
from fedkg.jobs import Event, resume, run_job
from fedkg.jobs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.mark.slow
@pytest.mark.parametrize("stop_at", [1, 4, 8])
def test_ctrl_c_stops_and_resume_goes_on_to_the_bit(job_fields, tmp_path, stop_at):
    whole = figures(run_job(job_fields, out=tmp_path / "whole").folder)
    seen = 0

    def interrupt(event: Event) -> None:
        nonlocal seen
        seen += event.kind == "round"
        if seen == stop_at and event.kind == "round":
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match="fedkg run --resume") as caught:
        run_job(job_fields, out=tmp_path / "run", on_event=interrupt)
    assert caught.value.exit_code == 130
    assert figures(resume(tmp_path / "run").folder) == whole


def test_running_the_same_job_into_its_folder_goes_on(job_fields, tmp_path):
    run_job(job_fields, out=tmp_path / "run")
    events: list[Event] = []
    run_job(job_fields, out=tmp_path / "run", on_event=events.append)
    assert [e.kind for e in events] == ["prepared", "note", "finished"]
    assert "is finished: fedkg only rewrites its table and report" in events[1].message


@pytest.mark.slow
def test_lines_beyond_the_last_checkpoint_are_trained_again(job_fields, tmp_path):
    fields = {**job_fields, "corrupt": None}
    fields["training"] = {**fields["training"], "rounds": 5, "checkpoint_every": 2}
    whole = figures(run_job(fields, out=tmp_path / "whole").folder)
    seen = 0

    def interrupt(event: Event) -> None:
        nonlocal seen
        seen += event.kind == "round"
        if seen == 4:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_job(fields, out=tmp_path / "run", on_event=interrupt)
    path = tmp_path / "run" / "rounds.csv"
    path.write_bytes(path.read_bytes() + b"fedavg-s0,5,0.1,0.")
    assert figures(resume(tmp_path / "run").folder) == whole


def killed(job: Path, out: Path, moment: int, part: float) -> int | None:
    """The exit code of a run that kills itself."""
    process = CONTEXT.Process(target=run_and_die, args=(job, out, moment, part))
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.slow
def test_kill_9_at_any_moment_resumes_to_the_bit(job_fields, tmp_path):
    whole = figures(run_job(job_fields, out=tmp_path / "whole").folder)
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(job_fields))
    out = tmp_path / "run"
    for moment, part in ((3, 1.0), (28, 0.5), (14, 0.4), (17, 1.0), (5, 1.0)):
        assert killed(job, out, moment, part) == -signal.SIGKILL
    assert figures(resume(out).folder) == whole


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("first", [1, 2, 3, 4, 5, 6])
def test_kill_9_at_every_write_resumes_or_says_why_not(job_fields, tmp_path, first, part):
    fields = {**job_fields, "corrupt": None, "training": {**job_fields["training"], "rounds": 2}}
    whole = figures(run_job(fields, out=tmp_path / "whole").folder)
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(fields))
    for moment in range(first, 60, 6):
        out = tmp_path / f"run{moment}"
        if killed(job, out, moment, part) == 0:
            break
        if RunFolder(out).exists():
            resume(out)
        else:
            with pytest.raises(UsageError, match="start again"):
                resume(out)
            run_job(job, out=out)
        assert figures(out) == whole


def test_a_changed_job_is_shown_as_a_difference_and_refused(job_fields, tmp_path):
    folder = run_job({**job_fields, "corrupt": None}, out=tmp_path / "run").folder
    document = yaml.safe_load((folder / "job.yaml").read_text())
    document["training"]["rounds"] = 9
    (folder / "job.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(JobError, match=r"training\.rounds: 3 -> 9") as caught:
        resume(folder)
    assert "job.yaml was changed" in str(caught.value)
    changed = {**job_fields, "corrupt": None, "model": {"hidden": [9]}}
    with pytest.raises(JobError, match=r"model\.hidden: \[8\] -> \[9\]"):
        run_job(changed, out=folder)


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(UsageError, match="is not a run folder"):
        resume(tmp_path)
