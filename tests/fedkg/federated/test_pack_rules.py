"""A pack's rules in the federation: for the server's scores and in the clients' objective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import largest_difference

from fedkg.constraints import ConstraintModule, columns, logit
from fedkg.errors import JobError
from fedkg.federated import BinaryCrossEntropy, Clients, Problem, Settings, fedavg, scfa, train
from fedkg.federated.client.constraint_penalty import ConstraintPenalty
from fedkg.federated.round_steps import Step
from fedkg.federated.server.pack_scorer import PackScorer
from fedkg.models import MLP
from fedkg.pack import (
    Bank,
    Column,
    Compare,
    DataContract,
    Implies,
    Manifest,
    Pack,
    Param,
    Provenance,
    RuleRecord,
    Section,
    Slot,
    View,
)

F64 = torch.float64


def bank(
    skeleton: object,
    slots: list[list[int]],
    views: list[list[int]],
    params: list[list[float]],
    rule: int,
    key: bool,
) -> Bank:
    count = len(slots)
    return Bank(
        skeleton=skeleton,
        slots=np.array(slots, np.int32),
        views=np.array(views, np.int32),
        params=np.array(params),
        keys=np.full((count, 1), 2 if key else -1, np.int32),
        codes=np.arange(count, dtype=np.int32).reshape(-1, 1)
        if key
        else np.full((count, 1), -1, np.int32),
        weight=np.full(count, 1.0 / count),
        rule=np.full(count, rule, np.int32),
        entity=np.arange(count, dtype=np.int32) + 1 if key else np.zeros(count, np.int32),
        unit=np.zeros(count, np.int32),
    )


def plant() -> Pack:
    """Three rules about risk, wear and torque.

    Risk never falls as wear rises; above a limit by machine the risk is at least a half; torque is
    positive (data only).
    """
    wear, torque, failure = 0, 1, 3
    contract = DataContract(
        columns=(
            Column(name="wear", source="wear"),
            Column(name="torque", source="torque"),
            Column(name="machine", source="machine", type="category", vocabulary=("M1", "M2")),
            Column(name="failure", source="failure", role="output", span=(0.0, 1.0)),
        ),
        views=(View(), View(kind="raised", column=wear, delta=0.5)),
    )
    rising = Compare(
        op="le", left=Slot(index=0, role="output"), right=Slot(index=1, role="output"), scale=0
    )
    above = Compare(op="lt", left=Param(index=1), right=Slot(index=0), scale=0)
    half = Compare(op="le", left=Param(index=2), right=Slot(index=1, role="output"), scale=0)
    positive = Compare(op="lt", left=Param(index=1), right=Slot(index=0), scale=0)
    limits = bank(
        Implies(antecedent=above, consequent=half),
        [[torque, failure]] * 2,
        [[0, 0]] * 2,
        [[1, 0.3, 0.5], [1, 0.6, 0.5]],
        1,
        True,
    )
    return Pack(
        manifest=Manifest(
            sections={"constraints": Section(version=1)},
            contract=contract,
            rules=(
                RuleRecord(name="risk_rises", kind="temporal", hard=True, output=True),
                RuleRecord(name="overload", kind="capacity", weight=2.0, output=True),
                RuleRecord(name="torque_positive", kind="physical"),
            ),
            skeletons=(rising, limits.skeleton, positive),
            entities=("", "M1", "M2"),
            provenance=Provenance(compiler="test"),
        ),
        banks=(
            bank(rising, [[failure, failure]], [[0, 1]], [[1.0]], 0, False),
            limits,
            bank(positive, [[torque]], [[0]], [[1.0, 0.0]], 2, False),
        ),
    )


def module() -> ConstraintModule:
    return ConstraintModule(
        plant(), x=columns(["wear", "torque"], mean=[1.0, 0.0], std=[2.0, 1.0]), y=logit("failure")
    )


def problem(dropout: float = 0.0) -> Problem:
    generator = torch.Generator().manual_seed(0)
    sizes = (13, 8, 21)
    xs = [torch.randn(size, 2, generator=generator, dtype=F64) for size in sizes]
    clients = Clients(
        names=("graz", "linz", "wien"),
        x=tuple(xs),
        y=tuple((x.sum(1) > 0).to(F64) for x in xs),
        keys={
            "machine": tuple(torch.randint(0, 2, (size,), generator=generator) for size in sizes)
        },
    )
    return Problem(
        model=MLP(inputs=2, hidden=(6,), outputs=1, dropout=dropout),
        loss=BinaryCrossEntropy(),
        clients=clients,
    )


def probe() -> tuple[torch.Tensor, list[str]]:
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    return x, ["M1", "M2"] * 25


def test_a_pack_judges_updates_as_counting_by_hand_does() -> None:
    task = problem()
    x, machine = probe()
    scorer = PackScorer(task.model, module(), x, keys={"machine": machine})
    assert scorer.rows.names == ("risk_rises", "overload[M1]", "overload[M2]")
    assert scorer.rows.families == ("temporal", "capacity", "capacity")
    assert scorer.rows.weight.tolist() == [1.0, 0.5, 0.5]
    assert scorer.rows.hard.tolist() == [True, False, False]

    several = [task.model.init(seed, F64) for seed in range(5)]
    stack = {name: 3 * torch.stack([params[name] for params in several]) for name in several[0]}
    scores = scorer.score(stack)
    raised = x + torch.tensor([0.25, 0.0], dtype=F64)  # 0.5 in units of the column
    p, q = (torch.sigmoid(task.model.apply(stack, rows)).squeeze(-1) for rows in (x, raised))
    torch.testing.assert_close(scores.violation[:, 0], (q < p).double().mean(1))
    for row, (name, limit) in enumerate((("M1", 0.3), ("M2", 0.6)), 1):
        open_rows = (x[:, 1] > limit) & torch.tensor([text == name for text in machine])
        expected = (p[:, open_rows] < 0.5).double().mean(1)
        torch.testing.assert_close(scores.violation[:, row], expected)
    assert not scores.violation.isnan().any()


def test_scfa_runs_on_a_pack() -> None:
    task = problem()
    x, machine = probe()
    task = replace(task, scorer=PackScorer(task.model, module(), x, keys={"machine": machine}))
    settings = Settings(rounds=5, local_epochs=1, batch=8, learning_rate=0.2, executor="stacked")
    *_, (state, record) = train(task, scfa(graded=True), settings)
    assert record.validity is not None
    assert sum(record.alpha) == pytest.approx(1.0)
    *_, (other, again) = train(task, scfa(graded=True), replace(settings, executor="sequential"))
    assert again.validity == pytest.approx(record.validity, abs=1e-12)
    assert again.alpha == pytest.approx(record.alpha, abs=1e-12)
    assert min(record.alpha) > 0
    assert 0 <= min(record.validity) < max(record.validity) <= 1
    assert largest_difference(state.params, other.params) < 1e-12


def test_the_penalty_of_one_client_is_the_modules_penalty() -> None:
    task, rules = problem(), module()
    params = {name: value.unsqueeze(0) for name, value in task.model.init(3, F64).items()}
    x, y, machine = task.clients.x[0], task.clients.y[0], task.clients.keys["machine"][0]
    step = Step(
        model=task.model,
        loss=task.loss,
        params=params,
        x=x.unsqueeze(0),
        y=y.unsqueeze(0),
        share=None,
        noise=None,
        clients=torch.tensor([0]),
        start=params,
        keys={"machine": machine.unsqueeze(0)},
    )
    expected = rules(
        x, lambda rows: task.model.apply(params, rows.unsqueeze(0))[0], keys={"machine": machine}
    ).penalty
    assert float(expected) > 0
    assert float(ConstraintPenalty(rules=rules, weight=0.5).value(step)) == pytest.approx(
        0.5 * float(expected), rel=1e-12
    )


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_penalty_trains_alike_in_all_executors_and_changes_the_model(dropout: float) -> None:
    task = problem(dropout)
    settings = Settings(rounds=3, local_epochs=2, batch=8, learning_rate=0.1)
    ends = {}
    for executor in ("sequential", "stacked"):
        algorithm = fedavg().with_terms(ConstraintPenalty(rules=module(), weight=2.0))
        *_, (state, _) = train(task, algorithm, replace(settings, executor=executor))
        ends[executor] = state.params
    *_, (plain, _) = train(task, fedavg(), replace(settings, executor="stacked"))
    assert largest_difference(ends["stacked"], ends["sequential"]) < 1e-12
    assert largest_difference(ends["stacked"], plain.params) > 1e-3


def test_a_negative_weight_is_rejected() -> None:
    with pytest.raises(JobError, match="negative"):
        ConstraintPenalty(rules=module(), weight=-1.0)
