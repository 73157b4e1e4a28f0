"""`fedkg run` on a table against the naive NumPy loop of each algorithm, on random job files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import plain_loops
import pytest
from command import Command, call
from generated_jobs import DrawnJob, Finished, drawn_jobs, run_drawn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tries import tries

from fedkg.federated.conformance import Array, Federation, Round

FEW = settings(
    tries(6),
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking a job takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
TOLERANCE = 2e-5
"""Tolerance of float32, relative to the largest parameter.

Adaptive steps divide by small numbers; there the tolerance is a hundred times as large.
"""


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`fedkg` without drawing reports, which has separate tests."""
    monkeypatch.setattr("fedkg.report.write_report", lambda folder: Path(folder) / "report.html")
    return partial(call, capsys)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An algorithm section, and the loop that must give the same rounds.

    Attributes:
        section: of the job file.
        loop: of the finished run.
        scoring: of the job.
        rules: text after the generated ones.
        models: how many the server holds.
        simulation: of the job.
        home: where the state stores private parts of clients.
        tolerance: relative to the largest parameter.
    """

    section: Mapping[str, Any]
    loop: Callable[[Finished], list[Round]]
    scoring: Mapping[str, Any] = field(default_factory=dict)
    simulation: Mapping[str, Any] = field(default_factory=dict)
    rules: str = ""
    models: int = 1
    home: str = ""
    tolerance: float = TOLERANCE


Make = Callable[[st.DrawFn, DrawnJob], Case]


def fedavg(draw: st.DrawFn, job: DrawnJob) -> Case:
    return Case(
        section={"preset": "fedavg"},
        loop=lambda run: plain_loops.fedavg(run.federation, run.start, run.cohorts),
    )


def fedprox(draw: st.DrawFn, job: DrawnJob) -> Case:
    mu = draw(st.sampled_from([0.05, 1.0]))
    return Case(
        section={"preset": "fedprox", "proximal": mu},
        loop=lambda run: plain_loops.fedavg(run.federation, run.start, run.cohorts, mu),
    )


def fedopt(kind: str, draw: st.DrawFn, job: DrawnJob) -> Case:
    options = {"rate": 0.1, "beta1": draw(st.sampled_from([0.0, 0.9])), "tau": 0.01}
    section = options if kind == "adagrad" else {**options, "beta2": 0.9}
    return Case(
        section={"preset": f"fed{kind}", "server": {kind: section}},
        loop=lambda run: plain_loops.fedopt(
            run.federation, run.start, run.cohorts, kind, beta2=0.9, **options
        ),
        tolerance=100 * TOLERANCE,
    )


def scaffold(draw: st.DrawFn, job: DrawnJob) -> Case:
    rate = draw(st.sampled_from([0.5, 1.0]))
    return Case(
        section={"preset": "scaffold", "server": {"add": {"rate": rate}}},
        loop=lambda run: plain_loops.scaffold(run.federation, run.start, run.cohorts, rate),
    )


def scaffnew(draw: st.DrawFn, job: DrawnJob) -> Case:
    return Case(
        section={"preset": "scaffnew"},
        loop=lambda run: plain_loops.scaffnew(run.federation, run.start, run.cohorts),
    )


def fedrep(draw: st.DrawFn, job: DrawnJob) -> Case:
    first = draw(st.sampled_from([0.3, 0.5]))
    return Case(
        section={"preset": "fedrep", "private": {"first": first}},
        loop=lambda run: plain_loops.fedrep(run.federation, run.start, run.cohorts, first),
        home="start/",
    )


def ditto(draw: st.DrawFn, job: DrawnJob) -> Case:
    strength = draw(st.sampled_from([0.2, 1.0]))
    return Case(
        section={"preset": "ditto", "personal": {"strength": strength}},
        loop=lambda run: plain_loops.ditto(run.federation, run.start, run.cohorts, strength),
        home="own/",
    )


def ifca(draw: st.DrawFn, job: DrawnJob) -> Case:
    models = draw(st.sampled_from([2, 3]))
    return Case(
        section={"preset": "ifca", "grouping": {"ifca": {"models": models}}},
        loop=lambda run: plain_loops.ifca(run.federation, run.start, run.cohorts),
        models=models,
    )


def local_only(draw: st.DrawFn, job: DrawnJob) -> Case:
    return Case(
        section={"preset": "local_only"},
        loop=lambda run: plain_loops.local_only(run.federation, run.start, run.cohorts),
        home="start/",
    )


def centralised(draw: st.DrawFn, job: DrawnJob) -> Case:
    return Case(
        section={"preset": "centralised"},
        loop=lambda run: plain_loops.fedavg(run.federation, run.start, run.cohorts),
    )


def trimmed(draw: st.DrawFn, job: DrawnJob) -> Case:
    trim = draw(st.sampled_from([0.34, 0.5]))
    aggregate: dict[str, Any] = {"median": {}} if trim == 0.5 else {"trimmed_mean": {"trim": trim}}
    return Case(
        section={"aggregate": aggregate},
        loop=lambda run: plain_loops.trimmed_mean(run.federation, run.start, run.cohorts, trim),
    )


def krum(draw: st.DrawFn, job: DrawnJob) -> Case:
    attackers, keep = draw(st.sampled_from([(0, 1), (1, 1), (0, 2), (1, 3), (1, None)]))
    aggregate: dict[str, Any] = {"krum": {"attackers": attackers}}
    if keep != 1:
        aggregate = {"multi_krum": {"attackers": attackers, "keep": keep}}
    return Case(
        section={"aggregate": aggregate},
        loop=lambda run: plain_loops.krum(run.federation, run.start, run.cohorts, attackers, keep),
    )


def fltrust(draw: st.DrawFn, job: DrawnJob) -> Case:
    return Case(
        section={"preset": "fltrust"},
        loop=lambda run: plain_loops.fltrust(run.federation, run.start, run.cohorts),
    )


def local_optimiser(draw: st.DrawFn, job: DrawnJob) -> Case:
    kind = draw(st.sampled_from(["sgd", "adam"]))
    if kind == "sgd":
        section, walk = {"momentum": 0.5, "weight_decay": 0.1}, plain_loops.momentum_descent
        local = walk(0.5, 0.1)
    else:
        section = {"beta1": 0.8, "beta2": 0.9, "tau": 0.01}
        local = plain_loops.adam(0.8, 0.9, 0.01)
    return Case(
        section={"local": {kind: section}},
        loop=lambda run: plain_loops.fedavg(run.federation, run.start, run.cohorts, walk=local),
        tolerance=TOLERANCE if kind == "sgd" else 100 * TOLERANCE,
    )


def scfa(draw: st.DrawFn, job: DrawnJob) -> Case:
    scoring: dict[str, Any] = {
        "combine": draw(st.sampled_from(["mean", "product", "min"])),
        "beta": draw(st.sampled_from([1.0, 2.5])),
        "graded": draw(st.booleans()),
        "hard_tolerance": draw(st.sampled_from([0.0, 0.3])),
        "soft_tolerance": draw(st.sampled_from([0.0, 0.05, 0.5])),
        "on_all_invalid": draw(st.sampled_from(["skip", "fedavg"])),
        "relative": draw(st.booleans()),
    }
    return Case(
        section={"preset": "scfa"},
        scoring=scoring,
        loop=lambda run: plain_loops.scfa(
            run.federation, run.start, run.cohorts, run.rules, plain_loops.Scoring(**scoring)
        ),
    )


ROBUST: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "krum": ({"krum": {"attackers": 1}}, {"robust": "krum", "attackers": 1, "keep": 1}),
    "multi-Krum": (
        {"multi_krum": {"attackers": 1, "keep": 3}},
        {"robust": "krum", "attackers": 1, "keep": 3},
    ),
    "FLTrust": ({"fltrust": {}}, {"robust": "fltrust"}),
}


def robust_scfa(draw: st.DrawFn, job: DrawnJob) -> Case:
    aggregate, options = ROBUST[draw(st.sampled_from(sorted(ROBUST)))]
    scoring: dict[str, Any] = {
        "combine": draw(st.sampled_from(["mean", "product", "min"])),
        "graded": draw(st.booleans()),
        "relative": draw(st.booleans()),
        "on_all_invalid": draw(st.sampled_from(["skip", "fedavg"])),
    }
    return Case(
        section={"weighting": "scfa", "aggregate": aggregate},
        scoring=scoring,
        loop=lambda run: plain_loops.robust_scfa(
            run.federation,
            run.start,
            run.cohorts,
            run.rules,
            plain_loops.Scoring(**scoring),
            **options,
        ),
    )


LEVELS = (-8.0, -3.0, -1.0, 0.0, 1.0, 3.0, 8.0)
"""Answers of the constant models among which an attacker that knows the rules chooses."""


def attacked(draw: st.DrawFn, job: DrawnJob) -> Case:
    """Some sites send something else, under each aggregate."""
    kind = draw(
        st.sampled_from(
            [
                *("flipped_labels", "constant_label", "scaled_update", "sign_flipped_update"),
                *("replayed_update", "constant_model", "rule_satisfying_model"),
            ]
        )
    )
    first = draw(st.integers(1, job.fields["training"]["rounds"]))
    attackers = sorted(draw(st.sets(st.integers(0, job.sites - 1), min_size=1, max_size=2)))
    name = draw(st.sampled_from(["mean", "median", *ROBUST, "robust SCFA"]))

    def loop(run: Finished) -> list[Round]:
        f, scoring = run.federation, plain_loops.Scoring()
        send = plain_loops.honest
        if kind in ("flipped_labels", "constant_label"):
            wrong = {
                k: 1 - f.y[k] if kind == "flipped_labels" else 0 * f.y[k] + 1 for k in attackers
            }
            f = replace(f, y=tuple(wrong.get(k, y) for k, y in enumerate(f.y)))
        else:
            models = np.zeros((len(LEVELS), f.parameters))
            models[:, -1] = LEVELS  # without weights, the last bias is the answer
            best = len(LEVELS) - 1
            if kind == "rule_satisfying_model":
                shares = [run.rules.shares(model) for model in models]
                valid = [np.nan_to_num(scoring.score(run.rules, one), nan=1.0) for one in shares]
                less = [-np.nan_to_num(np.nanmean(one)) for one in shares]
                best = max(range(len(LEVELS)), key=lambda i: (valid[i], less[i], i))
            send = plain_loops.attack(kind, attackers, first, models[best])
        if name == "mean":
            return plain_loops.fedavg(f, run.start, run.cohorts, send=send)
        if name == "median":
            return plain_loops.trimmed_mean(f, run.start, run.cohorts, 0.5, send)
        if name == "FLTrust":
            return plain_loops.fltrust(f, run.start, run.cohorts, send)
        if name == "robust SCFA":
            return plain_loops.robust_scfa(
                f, run.start, run.cohorts, run.rules, scoring, **ROBUST["multi-Krum"][1], send=send
            )
        options = ROBUST[name][1]
        return plain_loops.krum(f, run.start, run.cohorts, 1, options["keep"], send)

    if kind in ("flipped_labels", "constant_label"):
        first = 1
    section: dict[str, Any] = {"aggregate": ROBUST[name][0]} if name in ROBUST else {}
    if name in ("mean", "median"):
        section = {"aggregate": {name: {}}}
    if name == "robust SCFA":
        section = {"weighting": "scfa", "aggregate": ROBUST["multi-Krum"][0]}
    sites = [f"s{k}" for k in attackers]
    return Case(
        section=section,
        simulation={"attacks": {"kind": kind, "sites": sites, "first_round": first}},
        loop=loop,
    )


def joints_together(draw: st.DrawFn, job: DrawnJob) -> Case:
    """Weights by the rules, a proximal term, momentum at the sites, and a server step of half the
    update.
    """
    walk = plain_loops.momentum_descent(0.5, 0.0)
    return Case(
        section={
            "weighting": "scfa",
            "proximal": 0.3,
            "local": {"sgd": {"momentum": 0.5}},
            "server": {"add": {"rate": 0.5}},
        },
        loop=lambda run: plain_loops.scfa(
            run.federation,
            run.start,
            run.cohorts,
            run.rules,
            plain_loops.Scoring(),
            mu=0.3,
            walk=walk,
            step=lambda w, update: w + 0.5 * update,
        ),
    )


BALL = "set ball keep parameters in l2_ball(radius = {radius})\n"


def onto_ball(radius: float) -> plain_loops.Project:
    return lambda k, x: x * min(1.0, radius / float(np.linalg.norm(x)))


def sets_as_a_penalty(draw: st.DrawFn, job: DrawnJob) -> Case:
    penalty, growing = draw(st.sampled_from([0.3, 1.0])), draw(st.booleans())
    project = onto_ball(0.3)

    def pull(number: int, k: int, v: Array) -> Array:
        return penalty * (np.sqrt(number) if growing else 1) * (v - project(k, v))

    kept = {"sets": {"penalty": penalty, "growing": growing}}
    if draw(st.booleans()):
        return Case(
            section={"preset": "scaffold", **kept},
            rules=BALL.format(radius=0.3),
            loop=lambda run: plain_loops.scaffold(
                run.federation, run.start, run.cohorts, 1.0, pull
            ),
        )
    return Case(
        section={"proximal": 0.2, **kept},
        rules=BALL.format(radius=0.3),
        loop=lambda run: plain_loops.fedavg(run.federation, run.start, run.cohorts, 0.2, pull),
    )


def pcfedavg(draw: st.DrawFn, job: DrawnJob) -> Case:
    strength = draw(st.sampled_from([0.0, 0.5]))
    penalty = draw(st.sampled_from([None, 0.7]))
    growing = penalty is not None and draw(st.booleans())
    smooth = draw(st.sampled_from([None, 4.0]))
    given = draw(st.booleans())
    agents: dict[str, Any] = {
        "strength": strength,
        "penalty": penalty,
        "growing": growing,
        "form": draw(st.sampled_from(["two", "all"])),
        "smooth": smooth,
        "by_rule": smooth is not None,
        "given": {"radius": 0.3} if given else {},
    }

    def loop(run: Finished) -> list[Round]:
        f, m = run.federation, len(run.federation.x)

        def rho(number: int) -> float:
            first = np.sqrt(f.rounds) if penalty is None else penalty
            return float(first * (np.sqrt(number) if growing else 1))

        def step(number: int) -> float:
            if smooth is None:
                return f.rate_of(number, -1)
            total = smooth / m + rho(number) + strength * (1 - 1 / m)
            local = max(len(f.minibatches(number, i)) for i in range(m))
            return min(1 / (4 * total), 1 / (8 * total * (local - 1)) if local > 1 else np.inf)

        start = np.repeat(run.start, m, 0)
        project = onto_ball(0.3)
        return plain_loops.pcfedavg(f, start, run.cohorts, project, [strength] * m, rho, step)[0]

    return Case(
        section={"preset": "pcfedavg", "agents": agents},
        rules=BALL.format(radius="job" if given else 0.3),
        loop=loop,
    )


ALL = {"whole": True, "own": False}
CASES: dict[str, tuple[Make, dict[str, Any]]] = {
    "FedAvg": (fedavg, {}),
    "FedProx": (fedprox, {}),
    "adaptive steps of Adam": (partial(fedopt, "adam"), {}),
    "adaptive steps of Yogi": (partial(fedopt, "yogi"), {}),
    "adaptive steps of Adagrad": (partial(fedopt, "adagrad"), {}),
    "SCAFFOLD": (scaffold, {}),
    "Scaffnew": (scaffnew, {**ALL, "counted_steps": True}),
    "FedRep": (fedrep, {"deep": True}),
    "Ditto": (ditto, {}),
    "IFCA": (ifca, {}),
    "local training alone": (local_only, {}),
    "training at one place": (centralised, ALL),
    "median and trimmed mean": (trimmed, {"least": 3, "whole": True}),
    "Krum and multi-Krum": (krum, {"least": 5, "whole": True}),
    "FLTrust": (fltrust, {}),
    "robust SCFA": (robust_scfa, {"least": 5, "whole": True}),
    "attacks": (attacked, {"least": 5, "whole": True}),
    "local optimisers": (local_optimiser, {}),
    "SCFA": (scfa, {}),
    "joints together": (joints_together, {}),
    "sets as a penalty": (sets_as_a_penalty, {}),
    "PC-FedAvg": (pcfedavg, ALL),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@FEW
def test_run_is_the_plain_loop(name: str, data: st.DataObject, cli: Command) -> None:
    make, how = CASES[name]
    compare(make, data, cli, data.draw(drawn_jobs(**how)))


@pytest.mark.slow
@given(data=st.data())
@settings(FEW, max_examples=1)
def test_worker_processes_do_the_same(data: st.DataObject, cli: Command) -> None:
    """The workers of a job take seconds to start, so this is tried once."""
    job = data.draw(drawn_jobs(least=4, whole=True))
    training = {**job.fields["training"], "executor": "processes", "workers": 2, "chunk": 1}
    compare(joints_together, data, cli, replace(job, fields={**job.fields, "training": training}))


def compare(make: Make, data: st.DataObject, cli: Command, job: DrawnJob) -> None:
    """Run a random job and the loop of its algorithm."""
    case = make(data.draw, job)
    job = replace(job, fields={**job.fields, "simulation": case.simulation})
    with tempfile.TemporaryDirectory() as place:
        run = run_drawn(
            cli,
            Path(place),
            job,
            case.section,
            more_rules=case.rules,
            models=case.models,
            **case.scoring,
        )
    expected = case.loop(run)
    for found, wanted in zip(run.weights, expected, strict=True):
        assert found == pytest.approx(wanted.alpha, abs=1e-5)
    last, f = expected[-1], run.federation
    same(f, f.flat(run.state.models), last.models, case.tolerance)
    if case.home:
        kept = [one for one in f.shapes if f"{case.home}{one}" in run.state.clients]
        assert kept
        spoken = np.concatenate([np.full(np.prod(f.shapes[one]), one in kept) for one in f.shapes])
        everybody = list(range(len(f.x)))
        rows = [run.state.clients[case.home + one][everybody].double().flatten(1) for one in kept]
        found_rows = np.concatenate([one.numpy() for one in rows], 1)
        same(f, found_rows, np.stack([last.own[k][spoken] for k in everybody]), case.tolerance)


def same(f: Federation, found: Array, expected: Array, tolerance: float) -> None:
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size)
