"""`fedkg run` on a table against a naive NumPy loop of FedAvg, SCFA and PC-FedAvg, over drawn job files.

The model is logistic regression and every minibatch is a whole site, so that a local epoch is one step of gradient
descent. From the product come the rows of each site, their scaling, the initial model and the cohort of each round.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import fedkg
from fedkg.jobs import run_job
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.tables.table_data import prepare_tables
from fedkg.models import MLP

Array = NDArray[np.float64]
FEW = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # to shrink a job takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
RULES = """
signal load span 0 .. 10
signal heat span 0 .. 10
output failure in probability span 0 .. 1
rule overload  kind capacity weight {w0} {h0} require if load > 6 then failure >= {p}
rule calm      kind causal   weight {w1} {h1} require if load < 4 then failure < {p}
rule hot       kind capacity weight {w2} {h2} require if heat > 7 then failure >= 0.4
set ball keep parameters in l2_ball(radius = 0.3)
"""


@st.composite
def jobs(draw: st.DrawFn, *, whole: bool = False) -> tuple[str, str, dict[str, Any]]:
    """Rules, a table and a job: sites of unequal size, rule weights, hard flags, epochs, executors."""
    stream = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(12, 80), min_size=2, max_size=4))
    lines = ["site,load,heat,failure"]
    for k, size in enumerate(sizes):
        x = stream.uniform(0, 10, (size, 2))
        bent = stream.choice([-1, 1])
        y = stream.uniform(size=size) < 1 / (1 + np.exp(-bent * (x[:, 0] + x[:, 1] / 2 - 7)))
        lines += [f"s{k},{a:.4f},{b:.4f},{int(c)}" for (a, b), c in zip(x, y, strict=True)]
    numbers: dict[str, Any] = {f"w{i}": draw(st.sampled_from([1, 2, 5])) for i in range(3)}
    numbers |= {f"h{i}": draw(st.sampled_from(["", "hard"])) for i in range(3)}
    rules = RULES.format(p=draw(st.sampled_from([0.45, 0.5, 0.55])), **numbers)
    fields = {
        "sites": [f"s{k}" for k in range(len(sizes))],
        "data": {"label": "failure", "split": "column", "min_samples": 1, "server": 0.3},
        "model": {"hidden": []},
        "training": {
            "rounds": draw(st.integers(1, 4)),
            "participation": 1.0 if whole else draw(st.sampled_from([0.5, 0.75, 1.0])),
            "local_epochs": draw(st.integers(1, 3)),
            "batch": 1000,
            "schedule": "constant",
            "positive_weight": 1,
            "learning_rate": draw(st.sampled_from([0.1, 1.0])),
            "executor": draw(st.sampled_from(["stacked", "sequential"])),
        },
        "scoring": {
            "probe": "plain",
            "probe_rows": 100_000,
            "soft_tolerance": draw(st.sampled_from([0.0, 0.05, 0.5])),
        },
        "evaluation": {"local_baseline": False},
    }
    return rules, "\n".join(lines) + "\n", fields


class Loop:
    """The job's data and model in NumPy."""

    def __init__(self, fields: Mapping[str, Any], pack: fedkg.Pack, folder: Path) -> None:
        job = parse_job(dict(fields), name="j", base=folder)
        prepared = prepare_tables(job, pack)
        self.job, self.server = job, prepared.server
        (frame,) = prepared.train.values()
        self.x, self.y = {}, {}
        for site in job.sites:
            own = frame.take(np.flatnonzero(np.array(frame.texts("site"), dtype=object) == site))
            self.x[site] = prepared.inputs(own).double().numpy()
            self.y[site] = own.numbers("failure")
        self.probe = prepared.inputs(prepared.server).double().numpy()
        start = MLP(inputs=self.probe.shape[1], hidden=()).init(0)
        self.start: Array = np.concatenate(
            [start["layers.0.weight"].double().numpy().ravel(), start["layers.0.bias"].numpy()]
        )

    def chance(self, w: Array, x: Array) -> Array:
        """Probabilities [B] of rows [B, F] under parameters [F + 1]."""
        return 1 / (1 + np.exp(-(x @ w[:-1] + w[-1])))

    def gradient(self, site: str, w: Array) -> Array:
        """The gradient of a site's mean loss, [F + 1]."""
        away = (self.chance(w, self.x[site]) - self.y[site]) / len(self.y[site])
        return np.append(away @ self.x[site], away.sum())

    def trained(self, site: str, w: Array) -> Array:
        """A site's parameters after its local epochs."""
        for _ in range(self.job.training.local_epochs or 1):
            w = w - self.job.training.learning_rate * self.gradient(site, w)
        return w

    def validity(self, w: Array, rules: str) -> float:
        """Sum of the weights of satisfied rules over that of evaluated ones, on the server's rows; NaN for none."""
        p, columns = (
            self.chance(w, self.probe),
            {n: self.server.numbers(n) for n in ("load", "heat")},
        )
        good = total = 0.0
        for line in rules.splitlines():
            if not line.startswith("rule"):
                continue
            words = line.split()
            weight, hard = float(words[words.index("weight") + 1]), "hard" in words
            where = words.index("if")
            value, limit = columns[words[where + 1]], float(words[where + 3])
            applies = value > limit if words[where + 2] == ">" else value < limit
            asked = float(words[-1])
            violated = p < asked if words[-2] == ">=" else p >= asked
            if applies.any():
                share = (violated & applies).sum() / applies.sum()
                tolerance = 0.0 if hard else self.job.scoring.soft_tolerance
                good, total = good + weight * (share <= tolerance), total + weight
        return good / total if total else float("nan")


def compare(
    made: tuple[str, str, dict[str, Any]],
    algorithm: Mapping[str, Any],
    expected: Callable[[Loop, list[list[str]], str], tuple[Array, list[dict[str, float]]]],
) -> None:
    """Run the job, run the loop on the same cohorts, and compare the models [G, F + 1] and the weights of all rounds."""
    rules, table, fields = made
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "rules.fkg").write_text(rules)
        (folder / "table.csv").write_text(table)
        fields = {
            **fields,
            "rules": [str(folder / "rules.fkg")],
            "data": {**fields["data"], "path": str(folder / "table.csv")},
            "algorithm": dict(algorithm),
        }
        run = run_job(fields, out=folder / "run", report=False)
        files = RunFolder(run.folder)
        (trial,) = files.read_json("trials.json")
        rows = files.rows("clients.csv")
        state = load_state(files, trial["id"])
        assert state is not None
        loop = Loop(fields, fedkg.load(run.folder / "pack.fkgpack"), folder)
    rounds = [
        [row for row in rows if int(row["round"]) == number]
        for number in range(1, loop.job.training.rounds + 1)
    ]
    models, weights = expected(loop, [[row["client"] for row in one] for one in rounds], rules)
    for found, wanted in zip(rounds, weights, strict=True):
        assert {row["client"]: float(row["alpha"]) for row in found} == pytest.approx(
            wanted, abs=1e-9
        )
    found = np.concatenate(
        [
            state.models[f"layers.0.{name}"].double().flatten(1).numpy()
            for name in ("weight", "bias")
        ],
        1,
    )
    np.testing.assert_allclose(found, models, rtol=0, atol=2e-5 * max(1.0, np.abs(models).max()))


def weighted(
    loop: Loop, cohorts: list[list[str]], score: Callable[[Array], float]
) -> tuple[Array, list[dict[str, float]]]:
    """FedAvg with the weights n_k s_k; a site without a score counts by n_k."""
    w, weights = loop.start, []
    for cohort in cohorts:
        ends = {site: loop.trained(site, w) for site in cohort}
        raw = {}
        for site, end in ends.items():
            s = score(end)
            raw[site] = len(loop.y[site]) * (1.0 if np.isnan(s) else s)
        total = sum(raw.values())
        weights.append({site: one / total if total else 0.0 for site, one in raw.items()})
        w = w + sum(weights[-1][site] * (ends[site] - w) for site in cohort)
    return w[None], weights


@given(made=jobs())
@FEW
def test_fedavg(made: tuple[str, str, dict[str, Any]]) -> None:
    compare(
        made, {"preset": "fedavg"}, lambda loop, cohorts, _: weighted(loop, cohorts, lambda w: 1.0)
    )


@given(made=jobs())
@FEW
def test_scfa(made: tuple[str, str, dict[str, Any]]) -> None:
    compare(
        made,
        {"preset": "scfa"},
        lambda loop, cohorts, rules: weighted(loop, cohorts, lambda w: loop.validity(w, rules)),
    )


@given(
    made=jobs(whole=True),
    strength=st.sampled_from([0.0, 0.5]),
    form=st.sampled_from(["two", "all"]),
)
@FEW
def test_pcfedavg(made: tuple[str, str, dict[str, Any]], strength: float, form: str) -> None:
    penalty, radius = 0.7, 0.3

    def expected(
        loop: Loop, cohorts: list[list[str]], rules: str
    ) -> tuple[Array, list[dict[str, float]]]:
        sites, step = list(loop.job.sites), loop.job.training.learning_rate
        m = len(sites)
        blocks = np.repeat(loop.start[None], m, 0)
        for _ in cohorts:
            sent = []
            for i, site in enumerate(sites):
                x = blocks.copy()
                for _ in range(loop.job.training.local_epochs or 1):
                    z = x.mean(0)
                    e, length = x[i] - z, np.linalg.norm(x[i])
                    outside = x[i] * (1 - min(1.0, radius / length))
                    g = loop.gradient(site, z)
                    move = np.repeat((g / m - strength / m * e)[None], m, 0)
                    move[i] = g / m + strength * (1 - 1 / m) * e + penalty * outside
                    x = x - step * move
                sent.append(x)
            blocks = np.mean(sent, 0)
        return blocks, [dict.fromkeys(cohort, 1 / m) for cohort in cohorts]

    section = {"strength": strength, "penalty": penalty, "form": form}
    compare(made, {"preset": "pcfedavg", "agents": section}, expected)
