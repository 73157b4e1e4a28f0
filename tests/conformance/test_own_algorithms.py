"""The algorithms of the tutorial against naive loops from their papers, and own code in jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_loops import Cohorts, by_samples, descend

from fedkg._internal.user_code import load_file
from fedkg.errors import JobError, UsageError
from fedkg.federated import WorkerPool
from fedkg.federated.conformance import (
    Array,
    Federation,
    Round,
    federations,
    run,
    same_rounds,
    start_of,
)
from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.runner import resume
from fedkg.jobs.schema.job import Job

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
from blocks import ROOT, blocks

PAGE = ROOT / "docs" / "tutorial" / "own-algorithms.md"
FEW = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def crew() -> Iterator[WorkerPool]:
    with WorkerPool(1) as workers:
        yield workers


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    """The modules of the tutorial, by file name."""
    folder, found = tmp_path_factory.mktemp("own"), {}
    for block in blocks(PAGE):
        if block.language == "python":
            lines = [line for line in block.text.splitlines() if line.strip()]
            imports = sum(line.startswith(("from ", "import ")) for line in lines)
            assert len(lines) - imports <= 40
            (folder / block.title).write_text(block.text)
            found[block.title] = load_file(folder / block.title, "the tutorial")
    return found  # type: ignore[return-value]


def plain_fednova(f: Federation, models: Array, cohorts: Cohorts) -> list[Round]:
    """Wang et al. 2020, equations 5 and 6, with plain descent: a_i = (1, ..., 1)."""
    [w], rounds = models, []
    for number, cohort in enumerate(cohorts, 1):
        p = by_samples(f, cohort)
        steps = {k: len(f.minibatches(number, k)) for k in cohort}
        effective = sum(p[k] * steps[k] for k in cohort)
        mean = sum(p[k] * (descend(f, number, k, w) - w) / steps[k] for k in cohort)
        w = w + effective * mean
        rounds.append(Round(models=w[None], alpha=p))
    return rounds


def plain_feddyn(f: Federation, models: Array, cohorts: Cohorts, alpha: float) -> list[Round]:
    """Acar et al. 2021, algorithm 1, with m = N devices."""
    [w], rounds = models, []
    g = {k: np.zeros_like(w) for k in range(len(f.x))}
    h = np.zeros_like(w)
    for number, cohort in enumerate(cohorts, 1):
        ends = {}
        for k in cohort:
            ends[k] = descend(f, number, k, w, lambda v, k=k, w=w: alpha * (v - w) - g[k])
            g[k] = g[k] - alpha * (ends[k] - w)
        h = h - alpha / len(f.x) * sum(ends[k] - w for k in cohort)
        w = sum(ends.values()) / len(cohort) - h / alpha
        rounds.append(Round(models=w[None], alpha={k: 1 / len(cohort) for k in cohort}))
    return rounds


def plain_moon(
    f: Federation, models: Array, cohorts: Cohorts, mu: float, tau: float
) -> list[Round]:
    """Li, He and Song 2021, algorithm 1; the contrastive loss by central differences."""
    [w], rounds = models, []
    past = dict.fromkeys(range(len(f.x)), w)

    def cosine(a: Array, b: Array) -> Array:
        return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    def body(v: Array, x: Array) -> Array:
        weight, bias, *_ = f.parts(v)
        return x @ weight.T + bias

    def contrast(v: Array, x: Array, common: Array, old: Array) -> float:
        z = body(v, x)
        near, far = np.exp(cosine(z, body(common, x)) / tau), np.exp(cosine(z, body(old, x)) / tau)
        return float(mu * -np.log(near / (near + far)).mean())

    for number, cohort in enumerate(cohorts, 1):
        ends = {}
        for k in cohort:
            v = w
            for x, y in f.minibatches(number, k):
                slope, step = np.zeros_like(v), 1e-6
                for i in range(len(v)):
                    e = np.eye(len(v))[i] * step
                    up, down = (contrast(v + s * e, x, w, past[k]) for s in (1, -1))
                    slope[i] = (up - down) / (2 * step)
                v = v - f.rate_of(number, k) * (f.gradient(v, x, y) + slope)
            ends[k] = past[k] = v
        p = by_samples(f, cohort)
        w = sum(p[k] * ends[k] for k in cohort)
        rounds.append(Round(models=w[None], alpha=p))
    return rounds


@given(federation=federations())
@FEW
def test_fednova(federation: Federation, code: dict[str, Any], crew: WorkerPool) -> None:
    start = start_of(federation)
    made = code["fednova.py"].fednova()
    states, cohorts, weights = run(federation, made, start, crew)
    same_rounds(federation, states, weights, plain_fednova(federation, start, cohorts))


@pytest.mark.slow
@given(federation=federations(), alpha=st.sampled_from([0.1, 1.0]))
@FEW
def test_feddyn(
    federation: Federation, alpha: float, code: dict[str, Any], crew: WorkerPool
) -> None:
    start = start_of(federation)
    made = code["feddyn.py"].feddyn(alpha)
    states, cohorts, weights = run(federation, made, start, crew)
    same_rounds(federation, states, weights, plain_feddyn(federation, start, cohorts, alpha))


@pytest.mark.parametrize("executor", ["stacked", "sequential", "processes"])
def test_moon(executor: str, code: dict[str, Any], crew: WorkerPool) -> None:
    dice = np.random.default_rng(5)
    sizes = (4, 9, 6)
    federation = Federation(
        x=tuple(dice.normal(size=(n, 2)) for n in sizes),
        y=tuple(dice.normal(size=(n, 1)) for n in sizes),
        server=(dice.normal(size=(2, 2)), dice.normal(size=(2, 1))),
        rounds=3,
        participation=0.6,
        batch=4,
        executor=executor,  # type: ignore[arg-type]
    )
    start = start_of(federation)
    made = code["moon.py"].moon(2, [2], weight=0.7, temperature=0.5)
    states, cohorts, _ = run(federation, made, start, crew)
    for state, one in zip(states, plain_moon(federation, start, cohorts, 0.7, 0.5), strict=True):
        np.testing.assert_allclose(federation.flat(state.models), one.models, atol=1e-7)


OWN = """
from dataclasses import dataclass
import numpy as np
import torch
from fedkg.data.sets import DataSet
from fedkg.federated import Algorithm
from fedkg.federated.round_steps import ReadsContext
from fedkg.federated.server.weighted_mean import WeightedMean

@dataclass(frozen=True, kw_only=True)
class Half(ReadsContext):
    share: float = 0.5
    def begin(self, models):
        return {}
    def apply(self, models, update, memory):
        return {name: one + self.share * update[name] for name, one in models.items()}, memory

def halved(share=0.5):
    return Algorithm(name="halved", server=Half(share=share))

def plain_mean():
    return WeightedMean()

def rows(path, *, seed, size):
    dice = np.random.default_rng(seed)
    x = dice.normal(size=(size, 2))
    return DataSet(name="mine", source="drawn", x=x, y=(x[:, 0] > 0).astype(np.int64),
                   features=("a", "b"), units=("", ""), task="classes", classes=("no", "yes"))
"""


def job(folder: Path, **changes: Any) -> dict[str, Any]:
    """A job with an own data set, algorithm and aggregation rule."""
    path = folder / "mine.py"
    path.write_text(OWN)
    given: dict[str, Any] = {
        "name": "own",
        "sites": 2,
        "data": {
            "set": f"{path}:rows",
            "size": 60,
            "split": "quantity",
            "shares": [1, 2],
            "min_samples": 5,
        },
        "model": {"kind": "softmax"},
        "training": {"rounds": 2, "participation": 1.0, "executor": "sequential"},
        "evaluation": {"local_baseline": False},
        "algorithm": f"{path}:halved",
    }
    return {**given, **changes}


def test_own_code_needs_trust(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="runs Python code: it imports"):
        run_job(job(tmp_path), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_own_algorithms_are_compared_and_resumed(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    fields = job(
        tmp_path,
        compare={"algorithm": ["fedavg", f"{path}:halved", "whole", "mean"]},
        algorithms={
            "whole": {"path": f"{path}:halved", "options": {"share": 1.0}},
            "mean": {"aggregate": f"{path}:plain_mean"},
        },
    )
    run = run_job(fields, out=tmp_path / "run", report=False, trust_code=True)
    rows = {row["trial"]: row for row in RunFolder(run.folder).rows("rounds.csv")}
    losses = {name: rows[f"{name}-s0"]["loss"] for name in ("fedavg", "halved", "whole", "mean")}
    assert losses["fedavg"] == losses["whole"] == losses["mean"] != losses["halved"]
    again = resume(run.folder, report=False, trust_code=True)
    assert again.results == run.results
    path.write_text(OWN.replace("0.5", "0.25"))
    with pytest.raises(JobError, match=r"mine\.py"):
        resume(run.folder, report=False, trust_code=True)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithms": {"a": {"path": "x.py:f", "proximal": 0.1}}}, "remove proximal"),
        ({"algorithms": {"a": {"options": {"share": 1}}}}, "`options` requires `path`"),
        ({"algorithm": "mine.py:fedavg"}, "has the name of another algorithm"),
    ],
)
def test_wrong_sections(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Job.model_validate(job(tmp_path, **changes))


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        ("absent", "has no function or class `absent`"),
        ("plain_mean", "does not return an algorithm"),
    ],
)
def test_wrong_functions(tmp_path: Path, algorithm: str, said: str) -> None:
    fields = job(tmp_path, algorithm=f"{tmp_path / 'mine.py'}:{algorithm}")
    with pytest.raises(JobError, match=said):
        run_job(fields, out=tmp_path / "run", trust_code=True)
