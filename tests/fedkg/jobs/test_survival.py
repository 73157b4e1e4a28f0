"""Survival: the Cox loss, the concordance index, the data set and jobs."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import call

from fedkg.data.sets import DataSet, data_set
from fedkg.errors import JobError
from fedkg.federated import Clients, CoxLoss, Problem, Settings, fedavg, train
from fedkg.federated.metrics import concordant_pairs
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.jobs import run_job
from fedkg.models import MLP

DRAW = torch.Generator().manual_seed(1)
RISK = torch.randn(2, 9, 1, dtype=torch.float64, generator=DRAW)
TIME = torch.randint(1, 6, (2, 9), generator=DRAW).double()  # many equal times
EVENT = (torch.rand(2, 9, generator=DRAW) > 0.4).double()
TARGET = torch.stack([TIME, EVENT], -1)


def cox(risk: list[float], time: list[float], event: list[float]) -> list[float]:
    """Breslow's negative log partial likelihood of each sample, sample by sample."""
    losses = []
    for i, own in enumerate(risk):
        at_risk = [math.exp(r) for r, t in zip(risk, time, strict=True) if t >= time[i]]
        losses.append(event[i] * (math.log(sum(at_risk)) - own))
    return losses


def concordance(risk: list[float], time: list[float], event: list[float]) -> tuple[int, float]:
    """Harrell's pairs, pair by pair."""
    pairs, right = 0, 0.0
    for i in range(len(risk)):
        for j in range(len(risk)):
            first = time[i] < time[j] or (time[i] == time[j] and not event[j])
            if i != j and event[i] and first:
                pairs += 1
                right += 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0
    return pairs, right


def test_the_loss_is_the_partial_likelihood_with_tied_times() -> None:
    leaf = RISK.clone().requires_grad_()
    value = CoxLoss().value(leaf, TARGET)
    expected = [cox(RISK[k, :, 0].tolist(), *TARGET[k].T.tolist()) for k in range(2)]
    torch.testing.assert_close(value.detach(), torch.tensor(expected, dtype=torch.float64))
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    again, closed = CoxLoss().value_and_slope(RISK, TARGET)
    torch.testing.assert_close(again, value.detach())
    torch.testing.assert_close(closed, slope)


def test_padding_and_minibatches_without_events_change_nothing() -> None:
    padded = torch.cat([TARGET, torch.zeros(2, 3, 2, dtype=torch.float64)], 1)
    risk = torch.cat([RISK, torch.full((2, 3, 1), 7.0, dtype=torch.float64)], 1)
    plain, slope = CoxLoss().value_and_slope(RISK, TARGET)
    value, more = CoxLoss().value_and_slope(risk, padded)
    torch.testing.assert_close(value[:, :9], plain)
    torch.testing.assert_close(more[:, :9], slope)
    assert not value[:, 9:].any()
    assert not more[:, 9:].any()
    censored = TARGET * torch.tensor([1.0, 0.0])
    assert not torch.stack([*CoxLoss().value_and_slope(RISK, censored)[1]]).any()


def test_concordance_counts_pairs_and_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    risk = (RISK[0, :, 0] * 2).round()  # ties
    expected = concordance(risk.tolist(), TIME[0].tolist(), EVENT[0].tolist())
    assert concordant_pairs(risk, TIME[0], EVENT[0]) == expected
    monkeypatch.setattr("fedkg.federated.metrics.PAIRS_AT_ONCE", 10)
    assert concordant_pairs(risk, TIME[0], EVENT[0]) == expected


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
def test_a_federated_step_is_that_of_a_loop(executor: str) -> None:
    sizes = (6, 4)
    x = tuple(torch.randn(size, 3, dtype=torch.float64, generator=DRAW) for size in sizes)
    y = (TARGET[0, :6], TARGET[1, :4])
    model = MLP(inputs=3, hidden=(), outputs=1)
    clients = Clients(names=("a", "b"), x=x, y=y)
    chosen = Settings(rounds=1, local_epochs=1, batch=8, learning_rate=0.5, executor=executor)  # type: ignore[arg-type]
    problem = Problem(model=model, loss=CoxLoss(), clients=clients)
    [(state, _)] = train(problem, fedavg(), chosen)
    start = model.init(0, torch.float64)
    mean = torch.zeros_like(start["layers.0.weight"])
    for rows, target in zip(x, y, strict=True):
        weight = start["layers.0.weight"].clone().requires_grad_()
        risk = rows @ weight[0] + start["layers.0.bias"]
        time, event = target.T
        loss = sum(
            event[i] * (risk[time >= time[i]].exp().sum().log() - risk[i]) for i in range(len(rows))
        )
        assert isinstance(loss, torch.Tensor)
        (slope,) = torch.autograd.grad(loss / len(rows), weight)
        mean += (weight.detach() - 0.5 * slope) * (len(rows) / sum(sizes))
    torch.testing.assert_close(state.models["layers.0.weight"][0], mean)


def job(**changes: Any) -> dict[str, Any]:
    return {
        "name": "survival",
        "data": {"set": "tcga-brca", "size": 200, "server": 0, "min_samples": 2},
        "model": {"kind": "softmax"},
        "training": {"rounds": 2, "batch": 16, "participation": 1.0, "executor": "stacked"},
        "evaluation": {"local_baseline": False},
        **changes,
    }


def test_a_job_reports_the_concordance_of_each_site(tmp_path: Path) -> None:
    done = run_job(job(), out=tmp_path / "run", report=True)
    with (Path(done.folder) / "sites.csv").open() as file:
        sites = list(csv.DictReader(file))
    assert [site["client"] for site in sites][:2] == ["Northeast", "South"]
    values = [
        float(site["concordance"]) for site in sites if site["concordance"] not in ("", "nan")
    ]
    assert values
    assert all(0 <= value <= 1 for value in values)
    page = (Path(done.folder) / "report.html").read_text()
    assert "Concordance index" in page


def test_features_can_stay_in_their_units(tmp_path: Path) -> None:
    data = {**job()["data"], "standardise": False}
    plain, scaled = (
        run_job(fields, out=tmp_path / name, report=False)
        for name, fields in (("plain", job(data=data)), ("scaled", job()))
    )
    rows = [(Path(one.folder) / "rounds.csv").read_text() for one in (plain, scaled)]
    assert rows[0] != rows[1]
    with pytest.raises(JobError, match="standardise"):
        run_job({"name": "x", "data": {"standardise": False}}, out=tmp_path / "wrong")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"privacy": {"unit": "example", "noise": 1.0}},
            "privacy.unit: example does not apply to survival",
        ),
        ({"model": {"kind": "softmax", "inject": {}}}, "model.inject"),
        ({"simulation": {"attacks": {"kind": "flipped_labels", "share": 0.2}}}, "no opposite"),
    ],
)
def test_settings_for_other_tasks_are_rejected(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(JobError, match=said):
        run_job(job(**changes), out=tmp_path / "run")


def test_gradients_are_not_clipped_by_sample() -> None:
    data = data_set("tcga-brca", size=40)
    x, y = torch.from_numpy(data.x).float(), torch.from_numpy(data.y).float()
    clients = Clients(names=("a", "b"), x=(x[:20], x[20:]), y=(y[:20], y[20:]))
    chosen = Settings(rounds=1, local_epochs=1, batch=5, learning_rate=0.1, executor="stacked")
    protection = Protection(unit="example", clip=1.0, noise=1.0, delta=1e-5)
    problem = Problem(model=MLP(inputs=39, hidden=(), outputs=1), loss=CoxLoss(), clients=clients)
    with pytest.raises(JobError, match="Cox loss of a sample depends on all"):
        list(train(problem, protected(fedavg(), protection, (20, 20), chosen), chosen))


@pytest.mark.parametrize("y", [[[0.0, 1.0]], [[-1.0, 0.0]], [[3.0, 2.0]], [[math.inf, 0.0]]])
def test_impossible_times_and_events_are_rejected(y: list[list[float]]) -> None:
    with pytest.raises(JobError, match="time or the event of sample 1 is wrong"):
        DataSet(
            name="mine", source="here", x=np.ones((1, 1)), y=np.array(y), features=("a",),
            units=("",), task="survival",
        )  # fmt: skip


def test_the_example_runs_on_generated_patients(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    example = Path(__file__).parents[3] / "examples" / "survival" / "job.yaml"
    small = ["--set", "training.rounds=1", "--set", "training.local_steps=20"]
    done = call(capsys, "run", example, "--out", tmp_path / "run", *small)
    assert done.code == 0, done.err
    with (tmp_path / "run" / "rules.csv").open() as file:
        rules = list(csv.DictReader(file))
    assert {row["rule"] for row in rules} >= {"older", "stage_3a"}
