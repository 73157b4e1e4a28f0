"""The noise of a protected trial depends on the job and on every training sample."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedkg.errors import JobError
from fedkg.federated import Clients
from fedkg.jobs import run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.folder import CHECKSUM_KEY
from fedkg.jobs.job_privacy import client_data_digest
from fedkg.jobs.learned_knowledge_reader import read_learned
from fedkg.jobs.reproduce import reproduce
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.trial_expansion import expand_trials

EXAMPLE = {"unit": "example", "noise": 2.0, "delta": 1e-3}


def trial_of(fields: dict[str, Any], base: Path) -> Trial:
    job = parse_job(fields, name="j", base=base)
    experiment = create_experiment(job, load_rules(job)[0])
    (config, *_) = expand_trials(job)
    experiment.prepare([config])
    return experiment.build_trial(config)


def sites_of_numbers(last: float) -> Clients:
    """Two sites of three rows; `last` is the last number of the second."""
    x = torch.arange(12.0).view(2, 3, 2)
    x[1, 2, 1] = last
    return Clients(names=("a", "b"), x=tuple(x), y=(torch.zeros(3), torch.ones(3)))


def test_data_that_differ_in_one_number_share_no_noise():
    """The digest covers every name, shape, input, target, code and site."""
    first = sites_of_numbers(11.0)
    others = [
        sites_of_numbers(11.000001),
        replace(first, names=("a", "c")),
        replace(first, x=first.x[::-1]),
        replace(first, y=first.y[::-1]),
        replace(first, x=tuple(x.double() for x in first.x)),
        replace(first, keys={"m": (torch.zeros(3), torch.zeros(3))}),
        replace(first, keys={"m": (torch.zeros(3), torch.ones(3))}),
        Clients(
            names=("a", "b"),
            x=(torch.cat(first.x)[:4], first.x[1][1:]),
            y=(torch.tensor([0.0, 0, 0, 1]), torch.ones(2)),
        ),
    ]
    assert len({client_data_digest(one) for one in (first, *others)}) == 1 + len(others)
    assert client_data_digest(sites_of_numbers(11.0)) == client_data_digest(first)


@pytest.mark.slow
@pytest.mark.parametrize("columnar", [False, True], ids=["a table", "a data set"])
@pytest.mark.usefixtures("no_report")
def test_other_rows_at_the_same_path_are_trained_with_other_noise(tmp_path, columnar):
    """With equal noise, runs on data that differ in one row would differ by that row alone."""
    path = tmp_path / "t.csv"
    lines = [
        "x1,x2,bad,site",
        *(f"{i % 7},{i * 37 % 11},{int(i % 5 == 0)},{'ab'[i % 2]}" for i in range(120)),
    ]
    (tmp_path / "r.fkg").write_text(
        'signal one column "x1" span 0 .. 20\noutput bad in probability span 0 .. '
        "1\nrule r require bad never falls as one rises\n"
    )
    (tmp_path / "t.fkg").write_text(
        'signal one column "x1" span 0 .. 20\nsignal two column "x2" span 0 .. 20\n'
        'output bad column "bad" in probability span 0 .. 1\nrule r require bad never '
        "falls as one rises\n"
    )
    table = {"label": "bad", "features": ["x1", "x2"], "path": str(path)}
    of_set = {"set": "table", "path": str(path), "split": "iid", "min_samples": 3, "server": 0.1}
    job = {
        "rules": [str(tmp_path / ("t.fkg" if columnar else "r.fkg"))],
        "data": of_set if columnar else {**table, "split": "iid", "min_samples": 3, "server": 0.1},
        "sites": {"a": {}, "b": {}},
        "model": {"kind": "mlp", "hidden": [3]},
        "training": {"rounds": 1, "participation": 1.0, "batch": 16, "executor": "stacked"},
        "algorithm": "fedavg",
        "privacy": EXAMPLE,
    }

    def seed(privacy):
        return trial_of({**job, "privacy": privacy}, tmp_path).settings.seed

    def job_rows(text, privacy=EXAMPLE):
        path.write_text(text)
        return seed(privacy)

    first = job_rows("\n".join(lines))
    again = job_rows("\n".join(lines))
    changed = [
        job_rows("\n".join([*lines[:row], lines[row].replace(",", "9,", 1), *lines[row + 1 :]]))
        for row in (3, 50)
    ]
    assert first == again
    assert len({first, *changed}) == 3
    assert job_rows("\n".join(lines), None) == 0
    path.write_text("\n".join(lines))
    rules = tmp_path / ("t.fkg" if columnar else "r.fkg")
    text = rules.read_text()
    rules.write_text(text.replace("never falls", "never rises"))
    assert seed(EXAMPLE) not in (first, *changed)
    rules.write_text(text)
    assert seed(EXAMPLE) == first
    path.write_text("\n".join(lines))
    run = run_job(job, out=tmp_path / "run")
    told = b"".join(file.read_bytes() for file in run.folder.rglob("*") if file.is_file())
    assert client_data_digest(trial_of(job, tmp_path).problem.clients).encode() not in told
    assert str(first).encode() not in told
    assert hashlib.sha256(path.read_bytes()).hexdigest().encode() not in told
    assert (run.folder / CHECKSUM_KEY).stat().st_mode & 0o077 == 0
    assert read_learned(run.folder).files == ()
    assert not reproduce(run.folder).differences
    assert (tmp_path / "run-again-001" / CHECKSUM_KEY).read_bytes() != (
        run.folder / CHECKSUM_KEY
    ).read_bytes()
    path.write_text("\n".join([*lines, "1,1,0,a"]))
    with pytest.raises(JobError, match="has changed since the run started"):
        reproduce(run.folder)
    path.write_text("\n".join(lines))
    (run.folder / CHECKSUM_KEY).unlink()
    with pytest.raises(JobError, match=f"{CHECKSUM_KEY} is missing"):
        reproduce(run.folder)
