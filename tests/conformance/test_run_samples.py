"""`fedkg run` on windows of series, classes and measurements against the naive loops.

The cases are FedSTL, injected knowledge and Granger learning. The product supplies the scaled
samples of each site, the initial models, what each site shares, and the filters of the clients of a
plant.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import plain_granger
import plain_loops
import pytest
import yaml
from command import Command, call
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tries import tries

import fedkg
from fedkg.federated import ServerState
from fedkg.federated.conformance import Array, Federation, Knowledge
from fedkg.federated.randomness import model_seed
from fedkg.jobs.causes.discovery import discover_causes
from fedkg.jobs.causes.job_file import read_causes_job
from fedkg.jobs.causes.measurements import read_measurements
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.job_reader import read_job
from fedkg.jobs.trial_expansion import expand_trials

FEW = settings(
    tries(8),
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking a job takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`fedkg` without drawing reports, which has separate tests."""
    monkeypatch.setattr("fedkg.report.write_report", lambda folder: Path(folder) / "report.html")
    return partial(call, capsys)


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished run: the product's trial, its last state, and cohort and weights of each round."""

    trial: Trial
    state: ServerState
    cohorts: list[list[int]]
    weights: list[dict[int, float]]

    def federation(self, job: Mapping[str, Any], **fields: Any) -> Federation:
        """The trial's samples and settings as plain arrays."""
        clients, training = self.trial.problem.clients, job["training"]
        return Federation(
            x=tuple(x.double().flatten(1).numpy() for x in clients.x),
            y=tuple(y.double().flatten(1).numpy() if y.ndim > 1 else y.numpy() for y in clients.y),
            server=(np.zeros((0, 1)), np.zeros(0)),
            hidden=job["model"]["hidden"][0],
            activation="relu",
            rounds=training["rounds"],
            participation=training["participation"],
            epochs=training["local_epochs"],
            batch=training["batch"],
            rate=training["learning_rate"],
            dtype="float32",
            **fields,
        )


def run(cli: Command, folder: Path, job: Mapping[str, Any], rules: str, table: str) -> Finished:
    """Run the job by `fedkg run`."""
    (folder / "rules.fkg").write_text(rules)
    (folder / "table.csv").write_text(table)
    (folder / "job.yaml").write_text(yaml.safe_dump(dict(job)))
    done = cli("run", folder / "job.yaml", "--out", folder / "run")
    assert done.code == 0, done.err
    pack = fedkg.load(folder / "run" / "pack.fkgpack")
    read = read_job(folder / "job.yaml")
    experiment = create_experiment(read, pack)
    [config] = expand_trials(read)
    experiment.prepare([config])
    trial = experiment.build_trial(config)
    assert isinstance(trial, Trial)
    files = RunFolder(folder / "run")
    [checkpoint] = (folder / "run" / "checkpoints").glob("*.safetensors")
    state = load_state(files, checkpoint.stem)
    assert state is not None
    names, rows = trial.problem.clients.names, files.rows("clients.csv")
    rounds = [
        [row for row in rows if int(row["round"]) == number]
        for number in range(1, job["training"]["rounds"] + 1)
    ]
    return Finished(
        trial=trial,
        state=state,
        cohorts=[[names.index(row["client"]) for row in one] for one in rounds],
        weights=[
            {names.index(row["client"]): float(row["alpha"]) for row in one} for one in rounds
        ],
    )


def initial(federation: Federation, models: int = 1) -> Array:
    """The models of the server before the first round, [G, P]."""
    first = [federation.model.init(model_seed(0, place)) for place in range(models)]
    return np.concatenate(
        [federation.flat({name: one[name][None] for name in federation.shapes}) for one in first]
    )


def same(found: Array, expected: Array) -> None:
    size = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-5 * size)


def training(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "rounds": draw(st.integers(1, 3)),
        "participation": draw(st.sampled_from([0.5, 1.0])),
        "local_epochs": draw(st.integers(1, 2)),
        "batch": draw(st.sampled_from([2, 100])),
        "schedule": "constant",
        "learning_rate": draw(st.sampled_from([0.02, 0.1])),
        "executor": draw(st.sampled_from(["stacked", "sequential"])),
        "chunk": draw(st.sampled_from([None, 2])),
    }


STEPS = 4
"""Steps of a window and of its forecast."""
CAP = 1.2
MINED = {
    "ranges": (
        "infer a per client find ?low, ?high in operational_range(x, ?low, ?high, 0, 1)\n"
        "infer b per client find ?low, ?high in operational_range(x, ?low, ?high, 2, 3)\n"
    ),
    "eventualities": (
        "infer a per client find ?a, ?b in multiple_eventualities(x, ?a, 0, 1, ?b, 2, 3)\n"
    ),
}


@pytest.mark.parametrize("weight", [0.0, 3.0])
@given(data=st.data())
@FEW
def test_fedstl(
    weight: float, data: st.DataObject, cli: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = data.draw
    dice = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    windows = draw(st.lists(st.sampled_from([3, 5, 7, 9]), min_size=2, max_size=4, unique=True))
    lines = ["time,site,x"]
    for k, count in enumerate(windows):
        for hour in range(STEPS * (count + 1)):
            value = np.sin(hour / 3) + k / 2 + 0.3 * dice.normal()
            lines.append(f"2024-01-{1 + hour // 24:02d} {hour % 24:02d}:00,s{k},{value:.4f}")
    template, capped = draw(st.sampled_from([*MINED])), draw(st.booleans())
    rules = (
        'timeline step 1 h  time column "time"  trace column "site"  ends clip\n'
        "output x span -100 .. 100\n"
        "use rules templates.operational_range, templates.multiple_eventualities\n"
        + MINED[template]
    )
    rules += f"rule cap require x <= {CAP}\n" if capped and template == "ranges" else ""
    private = draw(st.booleans())
    fedstl = {
        "clusters": draw(st.integers(1, 3)),
        "weight": weight,
        "every": draw(st.integers(1, 2)),
        "assignment": draw(st.sampled_from(["capacity", "argmin"])),
        "share": draw(st.sampled_from([0.2, 0.6])),
        "cluster_epochs": draw(st.integers(0, 2)),
        "cluster_rate": draw(st.sampled_from([None, 0.05])),
    }
    section: dict[str, Any] = {"grouping": {"fedstl": fedstl}}
    job = {
        "name": "series",
        "rules": ["rules.fkg"],
        "data": {
            "set": "table",
            "path": "table.csv",
            "split": "sites",
            "min_samples": 1,
            "server": 0.0,
            "test": 0.25,
            "window": {"history": STEPS, "horizon": STEPS, "stride": STEPS, "targets": ["x"]},
        },
        "model": {"kind": "mlp", "hidden": [3]},
        "training": training(draw),
        "evaluation": {"local_baseline": False},
        "algorithms": {"drawn": section | ({"private": {}} if private else {})},
        "algorithm": "drawn",
    }
    folder = tmp_path_factory.mktemp("series")
    run_ = run(cli, folder, job, rules, "\n".join(lines) + "\n")
    federation = run_.federation(job, loss="squared", outputs=STEPS)
    assert len(set(federation.sizes)) > 1
    found = run_.trial.inferred
    assert found is not None
    shared = [  # which samples a site shares is drawn
        [int((own == row.double().flatten().numpy()).all(1).nonzero()[0][0]) for row in part]
        for own, part in zip(federation.x, found.shared.x, strict=True)
    ]
    scaling = run_.trial.samples.scaled.outputs
    assert scaling is not None
    cap = (CAP - float(scaling.mean[0])) / float(scaling.std[0])
    loops = {
        "ranges": plain_loops.capped_at(cap) if capped else plain_loops.RANGES,
        "eventualities": plain_loops.EVENTUALITIES,
    }
    start = initial(federation, fedstl["clusters"])
    rounds, _ = plain_loops.fedstl(
        federation,
        start,
        run_.cohorts,
        loops[template],
        shared,
        private=private,
        weight=fedstl["weight"],
        epochs=fedstl["cluster_epochs"],
        rate=fedstl["cluster_rate"],
        every=fedstl["every"],
        way=fedstl["assignment"],
    )
    for seen, wanted in zip(run_.weights, rounds, strict=True):
        assert seen == pytest.approx(wanted.alpha, abs=1e-6)
    same(federation.flat(run_.state.models), rounds[-1].models)
    if private:
        for k, own in rounds[-1].own.items():
            home = [
                run_.state.clients[f"start/{name}"][k].double().flatten().numpy()
                for name in ("layers.1.weight", "layers.1.bias")
            ]
            same(np.concatenate(home), own[federation.head])


KNOWN = """
signal heat span 0 .. 100
signal flow span 0 .. 10
label grade classes A, B, C
rule cold_is_a require if heat < 20 then grade is A
range knowledge by_heat of grade
  when heat > 70 allow B, C
  when heat < 20 allow A
  otherwise allow any
predict knowledge by_flow of grade
  when flow > 5 and heat > 70 predict C
  otherwise predict B
"""


@given(data=st.data())
@FEW
def test_injected_knowledge(
    data: st.DataObject, cli: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = data.draw
    dice = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sites = draw(st.lists(st.integers(12, 40), min_size=2, max_size=4))
    lines = ["heat,flow,grade,site"]
    for k, count in enumerate(sites):
        heat, flow = dice.integers(0, 100, count) + 0.5, dice.integers(0, 10, count) + 0.5
        grade = np.where(heat > 70, dice.choice(["B", "C"], count), dice.choice([*"ABC"], count))
        grade = np.where(heat < 20, "A", grade)
        lines += [f"{h},{f},{g},s{k}" for h, f, g in zip(heat, flow, grade, strict=True)]
    ranged, predicts = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    trust, mu = draw(st.sampled_from([0.0, 0.3, 0.9])), draw(st.sampled_from([0.0, 0.3]))
    job = {
        "name": "grades",
        "rules": ["rules.fkg"],
        "sites": [f"s{k}" for k in range(len(sites))],
        "data": {
            "set": "table",
            "path": "table.csv",
            "split": "column",
            "min_samples": 1,
            "server": 0.1,
            "test": 0.2,
        },
        "model": {
            "kind": "mlp",
            "hidden": [3],
            "inject": {"trust": trust, "range": ranged, "predict": predicts, "control": False},
        },
        "training": training(draw),
        "evaluation": {"local_baseline": False},
        "algorithms": {"drawn": {"preset": "fedprox", "proximal": mu}},
        "algorithm": "drawn",
    }
    folder = tmp_path_factory.mktemp("grades")
    run_ = run(cli, folder, job, KNOWN, "\n".join(lines) + "\n")
    scaling = run_.trial.samples.scaled.inputs

    def raw(x: Array) -> Array:
        values = x * scaling.std + scaling.mean
        return values[:, [scaling.names.index(name) for name in ("heat", "flow")]]

    def allowed(x: Array) -> Array:
        heat = raw(x)[:, :1]
        cold, hot = np.array([[1, 0, 0]]), np.array([[0, 1, 1]])
        found = np.where(heat > 70, hot, np.where(heat < 20, cold, 1)).astype(bool)
        return found if ranged else np.ones_like(found)

    def predicted(x: Array) -> Array:
        heat, flow = raw(x).T
        found = np.where((flow > 5) & (heat > 70), 2, 1)
        # A prediction outside its range is not used (the specification's K11).
        inside = np.take_along_axis(allowed(x), found[:, None], 1)[:, 0]
        return np.where(inside & predicts, found, -1)

    federation = run_.federation(
        job,
        loss="cross_entropy",
        outputs=3,
        known=Knowledge(allowed=allowed, predicted=predicted, trust=trust),
    )
    # The product appends knowledge about a sample to its features; the loop computes it.
    federation = replace(federation, x=tuple(x[:, :2] for x in federation.x))
    rounds = plain_loops.fedavg(federation, initial(federation), run_.cohorts, mu)
    for seen, wanted in zip(run_.weights, rounds, strict=True):
        assert seen == pytest.approx(wanted.alpha, abs=1e-6)
    same(federation.flat(run_.state.models), rounds[-1].models)


@pytest.mark.parametrize("normalised", [False, True])
@given(data=st.data())
@FEW
def test_granger(
    normalised: bool, data: st.DataObject, cli: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw = data.draw
    dice = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    widths = draw(st.lists(st.integers(2, 4), min_size=2, max_size=4))
    values = dice.normal(size=(120, sum(widths)))
    for t in range(1, len(values)):
        values[t] += 0.5 * values[t - 1] + 0.2 * np.roll(values[t - 1], 2)
    folder = tmp_path_factory.mktemp("plant")
    names = [f"m{i}" for i in range(sum(widths))]
    with (folder / "plant.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([[f"{cell:.5f}" for cell in row] for row in values])
    ends = np.cumsum(widths)
    clients = {
        f"unit {k}": names[end - width : end]
        for k, (width, end) in enumerate(zip(widths, ends, strict=True))
    }
    modes = ["sequential", "batch"] if normalised else ["sequential", "batch", "closed_form"]
    mode = draw(st.sampled_from(modes))
    learning = {
        "mode": mode,
        "epochs": draw(st.integers(1, 4)),
        "tolerance": 0,
        "client": 0.01 if normalised else 0.002,
        "server": draw(st.sampled_from([0.0, 0.001])),
        "causes": 0.01 if normalised else 0.001,
        "ridge": draw(st.sampled_from([0.0, 0.05])) or (0.05 if mode == "closed_form" else 0.0),
        "normalised": normalised,
        "lags": draw(st.sampled_from([1, 2, {"unit 0": 2}])),
    }
    job = {
        "kind": "causes",
        "name": "plant",
        "data": {"path": "plant.csv", "train": draw(st.sampled_from([0.7, 1]))},
        "clients": clients,
        "states": draw(st.integers(1, 2)),
        "correlation": 0,
        "shifts": 19,
        "learning": learning,
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    done = cli("run", folder / "job.yaml", "--out", folder / "run")
    assert done.code == 0, done.err
    read = read_causes_job(folder / "job.yaml")
    series = discover_causes(read, read_measurements(read), ()).series
    plants = list(series.clients)
    lags = learning["lags"]
    orders = [lags.get(one.name, 1) if isinstance(lags, dict) else lags for one in plants]
    steps = plain_granger.Steps(
        **{name: learning[name] for name in ("client", "server", "causes", "ridge")},
        normalised=1.0 if normalised else None,
        together=True,
    )
    everybody = np.ones((len(plants),) * 2, dtype=bool)
    if mode == "closed_form":
        found = plain_granger.at_rest(plants, everybody, orders, steps)
    else:
        loop = plain_granger.sequential if mode == "sequential" else plain_granger.on_averages
        found = loop(plants, everybody, orders, steps, learning["epochs"])
    with (folder / "run" / "losses.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, own, server in zip(rows, found.client_loss, found.server_loss, strict=True):
        assert float(row["server"]) == pytest.approx(server, rel=1e-6, abs=1e-12)
        assert [float(row[one.name]) for one in plants] == pytest.approx(list(own), rel=1e-6)
    place = {one.name: number for number, one in enumerate(plants)}
    with (folder / "run" / "edges.csv").open(newline="") as file:
        edges = list(csv.DictReader(file))
    assert len(edges) == len(plants) * (len(plants) - 1)
    for edge in edges:
        m, n = place[edge["driven"]], place[edge["driver"]]
        strength = np.sqrt(
            sum((found.causes[m, n, lag] ** 2).sum() for lag in range(1, orders[m] + 1))
        )
        assert float(edge["strength"]) == pytest.approx(strength, rel=1e-5, abs=1e-9)
