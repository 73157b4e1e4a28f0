"""Code that a job imports runs only with consent, in every command that reads jobs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import Command

from fedkg.errors import UsageError
from fedkg.jobs import run_job
from fedkg.jobs.code_trust import list_imports
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.rank_protocol import follow_rank_zero
from fedkg.jobs.schema.job import Job

NET = """from pathlib import Path

from torch import nn

Path(__file__).with_name("imported").touch()


def Net():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
"""
JOB = """name: foreign
sites: 2
data: {set: mnist, size: 60, split: iid, min_samples: 5}
model: {kind: module, path: 'net.py:Net'}
training: {rounds: 1, participation: 1.0, executor: stacked}
evaluation: {local_baseline: false}
"""
REFUSED = "this job runs Python code"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path / "job.yaml"


def imported(job: Path) -> bool:
    return (job.parent / "imported").exists()


def test_run_refuses_code_without_consent(job: Path, tmp_path: Path, fedkg: Command) -> None:
    done = fedkg("run", job, "--out", tmp_path / "run")
    assert done.code == 2
    assert REFUSED in done.err
    assert "--trust-code" in done.err
    assert f"{job.parent / 'net.py'}:Net" in done.err
    assert not imported(job)
    assert not (tmp_path / "run").exists()


def test_a_job_that_names_an_installed_function_runs_nothing(
    job: Path, tmp_path: Path, fedkg: Command
) -> None:
    mark = tmp_path / "mark"
    job.write_text(
        JOB.replace("net.py:Net", "os:system").replace(
            "'os:system'}", f"'os:system', options: {{command: 'touch {mark}'}}}}"
        )
    )
    assert fedkg("run", job, "--out", tmp_path / "run").code == 2
    assert not mark.exists()


def test_a_sweep_and_its_resume_refuse_code_without_consent(
    job: Path, tmp_path: Path, fedkg: Command
) -> None:
    for words in (("--seeds", "2"), ("--grid", "training.batch=8,16"), ("--set", "seeds=[4]")):
        done = fedkg("run", job, "--out", tmp_path / "sweep", *words)
        assert (done.code, REFUSED in done.err) == (2, True), words
    plan = {
        "format": 1,
        "axes": {},
        "cells": [
            {
                "id": "s0",
                "setting": {},
                "seed": 0,
                "job": {"sites": 2, "model": {"kind": "module", "path": "os:system"}},
            }
        ],
    }
    # a mapping as written above
    plan["cells"][0]["job"]["data"] = {"set": "mnist"}  # type: ignore[index]
    (tmp_path / "foreign").mkdir()
    RunFolder(tmp_path / "foreign").write_json("sweep.json", plan)
    done = fedkg("run", "--resume", tmp_path / "foreign")
    assert (done.code, REFUSED in done.err) == (2, True)
    assert not imported(job)


def test_code_in_a_comparison_needs_consent_too(job: Path, tmp_path: Path, fedkg: Command) -> None:
    place = job.parent / "net.py"
    job.write_text(JOB + f"compare: {{model.path: ['{place}:Net', '{place}:Other']}}\n")
    assert REFUSED in fedkg("run", job, "--out", tmp_path / "run").err
    shown = fedkg("inspect", job, "--json").json
    assert [code["path"] for code in shown["imports"]] == [f"{place}:Net", f"{place}:Other"]
    assert not imported(job)


def test_a_foreign_run_folder_is_inspected_but_not_imported(
    job: Path, tmp_path: Path, fedkg: Command
) -> None:
    done = fedkg("run", job, "--out", tmp_path / "run", "--trust-code")
    assert done.code == 0, done.err
    assert imported(job)
    (job.parent / "imported").unlink()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    for words in (("run", "--resume"), ("reproduce",)):
        refused = fedkg(*words, tmp_path / "copy")
        assert (refused.code, REFUSED in refused.err) == (2, True), words
    for shown in (fedkg("inspect", tmp_path / "copy"), fedkg("inspect", job)):
        assert f"imports  {job.parent / 'net.py'}:Net" in shown.out
        assert "sha256" in shown.out
        assert "--trust-code" in shown.out
    assert fedkg("status", tmp_path / "copy").code == 0
    assert not imported(job)


def test_every_process_of_a_joint_training_asks_for_consent(job: Path) -> None:
    document = Job.model_validate(
        {
            "sites": 2,
            "data": {"set": "mnist"},
            "model": {"kind": "module", "path": f"{job.parent / 'net.py'}:Net"},
        }
    ).model_dump(mode="json")

    class Ranks:
        def first(self, what: object) -> object:
            return ("job", document, b"")

    with pytest.raises(UsageError, match=REFUSED):
        # what rank 0 says, without other processes
        follow_rank_zero(Ranks())  # type: ignore[arg-type]
    assert not imported(job)


def test_a_job_without_code_needs_no_consent(tmp_path: Path, fedkg: Command) -> None:
    place = tmp_path / "job.yaml"
    place.write_text(JOB.replace("{kind: module, path: 'net.py:Net'}", "softmax"))
    # pydantic reads it
    assert list_imports(Job(model={"kind": "softmax"})) == ()  # type: ignore[arg-type]
    place.write_text(JOB.replace("model: {kind: module, path: 'net.py:Net'}\n", ""))
    assert "imports no code" in fedkg("inspect", place).out
    assert fedkg("inspect", place, "--json").json["imports"] == []


def test_python_callers_give_consent_by_an_argument(job: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trust_code=True"):
        run_job(job, out=tmp_path / "run")
    assert not imported(job)


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".", "..", 3])
def test_a_foreign_sweep_cannot_write_outside_its_folder(
    name: object, tmp_path: Path, fedkg: Command
) -> None:
    plan = {"cells": [{"id": name, "setting": {}, "seed": 0, "job": {"sites": 2}}]}
    (tmp_path / "sweep").mkdir()
    RunFolder(tmp_path / "sweep").write_json("sweep.json", plan)
    done = fedkg("run", "--resume", tmp_path / "sweep")
    assert done.code == 1
    assert "is damaged" in done.err
