"""Models with injected knowledge under federated algorithms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from algorithm_contracts import CONTRACTS, made, settings_for
from federations import classes, largest_difference
from safetensors.torch import load, save
from test_pack_rules import bank, plant
from torch import Tensor, nn

import fedkg
from fedkg.constraints import ConstraintModule, columns, logit
from fedkg.errors import JobError, KnowledgeError
from fedkg.federated import (
    BinaryCrossEntropy,
    Clients,
    Problem,
    Settings,
    fedavg,
    initial_state,
    train,
)
from fedkg.federated.executors import Sequential, Stacked, Work
from fedkg.federated.model.constrained_outputs import Informed, Projected
from fedkg.federated.problem import pool
from fedkg.models import MLP, Params
from fedkg.pack import (
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
SHOWN = ("fedavg", "fedprox", "scaffold", "fedrep", "ditto", "ifca", "local_only", "median")


def limits() -> Pack:
    """Above a torque of 0.3 the risk is at least a half; it is never above 0.9."""
    torque, failure = 0, 1
    contract = DataContract(
        columns=(
            Column(name="torque", source="torque"),
            Column(name="failure", source="failure", role="output", span=(0.0, 1.0)),
        ),
        views=(View(),),
    )
    above = Compare(op="lt", left=Param(index=1), right=Slot(index=0), scale=0)
    half = Compare(op="le", left=Param(index=2), right=Slot(index=1, role="output"), scale=0)
    most = Compare(op="le", left=Slot(index=0, role="output"), right=Param(index=1), scale=0)
    guarded = bank(
        Implies(antecedent=above, consequent=half),
        [[torque, failure]],
        [[0, 0]],
        [[1, 0.3, 0.5]],
        0,
        False,
    )
    capped = bank(most, [[failure]], [[0]], [[1, 0.9]], 1, False)
    return Pack(
        manifest=Manifest(
            sections={"constraints": Section(version=1)},
            contract=contract,
            rules=(
                RuleRecord(name="overload", kind="capacity", output=True),
                RuleRecord(name="capped", kind="capacity", output=True),
            ),
            skeletons=(guarded.skeleton, capped.skeleton),
            entities=("",),
            provenance=Provenance(compiler="test"),
        ),
        banks=(guarded, capped),
    )


def rules() -> ConstraintModule:
    return ConstraintModule(limits(), x=columns(("torque", "wear")), y=logit("failure"))


def machines(sizes: tuple[int, ...] = (14, 9, 22, 5)) -> Problem:
    dice = torch.Generator().manual_seed(3)
    xs = tuple(torch.rand(size, 2, generator=dice, dtype=F64) for size in sizes)
    clients = Clients(
        names=tuple(f"site_{i}" for i in range(len(sizes))),
        x=xs,
        y=tuple((x[:, 0] > 0.5).double() for x in xs),
    )
    model = Projected(model=MLP(inputs=2, hidden=(5, 3), outputs=1), rules=rules())
    return Problem(model=model, loss=BinaryCrossEntropy(), clients=clients)


def ends(problem: Problem, name: str) -> tuple[Params, Params]:
    settings = settings_for(name, rounds=2)
    *_, (one, _) = train(problem, made(name), replace(settings, executor="sequential"))
    *_, (other, _) = train(problem, made(name), replace(settings, executor="stacked", chunk=3))
    return one.models, other.models


@pytest.mark.parametrize("name", SHOWN)
def test_projected_answers_are_learnt_under_any_algorithm(name: str) -> None:
    assert name in CONTRACTS
    problem = machines()
    one, other = ends(problem, name)
    assert largest_difference(one, other) < 1e-12
    x = torch.rand(50, 2, dtype=F64, generator=torch.Generator().manual_seed(9))
    said = torch.sigmoid(problem.model.apply(one, x)).squeeze(-1)
    assert bool((said[:, x[:, 0] > 0.3] >= 0.5 - 1e-12).all())
    assert bool((said <= 0.9 + 1e-12).all())
    assert bool(torch.isfinite(said).all())


def test_answers_that_keep_the_rules_are_left_alone() -> None:
    problem = machines()
    assert isinstance(problem.model, Projected)
    params = {name: value.unsqueeze(0) for name, value in problem.model.init(0, F64).items()}
    params["layers.2.bias"] -= 1
    x = torch.tensor([[0.1, 0.5], [0.9, 0.5]], dtype=F64)
    plain, moved = problem.model.model.apply(params, x), problem.model.apply(params, x)
    assert float(plain[0, 1]) < 0.0
    torch.testing.assert_close(moved[0, 0], plain[0, 0], rtol=0, atol=1e-12)
    assert abs(float(moved[0, 1])) < 1e-12


def test_rules_by_category_read_codes_at_the_end_of_the_rows() -> None:
    """Above 0.3 on machine 0 and above 0.6 on machine 1, the risk is at least a half.

    Other machines have no rule.
    """
    coded = ConstraintModule(
        plant(), x=columns(("wear", "torque", "machine (code)")), y=logit("failure")
    )
    with pytest.raises(JobError, match="read categories that the rows do not contain"):
        Projected(model=MLP(inputs=2), rules=coded)
    model = Projected(model=MLP(inputs=2, hidden=()), rules=coded, keys=("machine",))
    params = {
        name: torch.zeros_like(value).unsqueeze(0) - 1 for name, value in model.init(0, F64).items()
    }
    x = torch.tensor([[0.0, 0.5, code] for code in (0.0, 1.0, -1.0)], dtype=F64)
    assert model.apply(params, x).flatten().tolist() == pytest.approx([0.0, -1.5, -1.5])
    assert model.apply(params, x.unsqueeze(0)).flatten().tolist() == pytest.approx(
        [0.0, -1.5, -1.5]
    )


def by_sign(x: Tensor) -> Tensor:
    """Classes 0 and 1 for a positive first feature, the others for a negative one."""
    low = (x[:, :1] > 0) & (torch.arange(4) < 2)
    return low | ((x[:, :1] <= 0) & (torch.arange(4) >= 2))


def first_of_range(x: Tensor) -> Tensor:
    return by_sign(x).int().argmax(1)


@pytest.mark.parametrize("name", SHOWN)
def test_knowledge_is_kept_under_any_algorithm(name: str) -> None:
    problem = classes((14, 9, 22, 5))
    known = replace(
        problem,
        model=Informed(model=problem.model, range=by_sign, prediction=first_of_range, trust=0.3),
    )
    one, other = ends(known, name)
    assert largest_difference(one, other) < 1e-12
    x = torch.randn(40, 6, dtype=F64, generator=torch.Generator().manual_seed(9))
    said = torch.softmax(known.model.apply(one, x), -1)[0]
    assert bool((said[~by_sign(x)] == 0).all())
    assert bool((said.gather(1, first_of_range(x)[:, None]) >= 0.3 - 1e-12).all())


@pytest.mark.parametrize("trust", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.filterwarnings("ignore:with a trust of 1")
def test_the_answer_is_that_of_inject(trust: float) -> None:
    """Values and gradients are those of the module with the same weights."""
    torch.manual_seed(0)
    net = nn.Linear(6, 4).double()
    x, label = torch.randn(30, 6, dtype=F64), torch.randint(4, (30,))
    label = torch.where(by_sign(x).gather(1, label[:, None])[:, 0], label, first_of_range(x))
    module = fedkg.inject(net, first_of_range, by_sign, trust)
    leaves = {
        name: value.detach().clone().unsqueeze(0).requires_grad_()
        for name, value in net.named_parameters()
    }
    linear = MLP(inputs=6, hidden=(), outputs=4)
    model = Informed(model=linear, range=by_sign, prediction=first_of_range, trust=trust)
    output = model.apply({f"layers.0.{name}": value for name, value in leaves.items()}, x)[0]
    torch.testing.assert_close(torch.softmax(output, -1), module(x))
    own = label if trust < 1 else first_of_range(x)
    nn.functional.cross_entropy(output, own).backward()
    module.loss(x, own).mean().backward()
    for name, value in net.named_parameters():
        torch.testing.assert_close(leaves[name].grad[0], value.grad, rtol=1e-9, atol=1e-12)


def test_knowledge_that_contradicts_itself_is_not_used() -> None:
    model = MLP(inputs=6, hidden=(), outputs=4)
    params = {name: value.unsqueeze(0) for name, value in model.init(0, F64).items()}
    x = torch.randn(5, 6, dtype=F64)
    nothing = Informed(model=model, range=lambda rows: torch.zeros(len(rows), 4, dtype=torch.bool))
    torch.testing.assert_close(
        torch.softmax(nothing.apply(params, x), -1), torch.softmax(model.apply(params, x), -1)
    )
    outside = Informed(
        model=model,
        range=by_sign,
        prediction=lambda rows: (~by_sign(rows)).int().argmax(1),
        trust=0.5,
    )
    inside = Informed(model=model, range=by_sign)
    torch.testing.assert_close(outside.apply(params, x), inside.apply(params, x))


def test_a_label_that_is_ruled_out_costs_much_and_teaches_nothing() -> None:
    problem = classes((6, 6))
    wrong = replace(
        problem.clients, y=tuple((~by_sign(x)).int().argmax(1) for x in problem.clients.x)
    )
    known = replace(problem, clients=wrong, model=Informed(model=problem.model, range=by_sign))
    settings = Settings(rounds=1, local_epochs=1, executor="stacked")
    [(state, record)] = train(known, fedavg(), settings)
    assert record.excluded == {}
    assert record.train_loss == pytest.approx(10_000, rel=1e-2)
    start = known.model.init(settings.seed, F64)
    assert largest_difference(state.params, start) == 0.0


@pytest.mark.parametrize(
    ("options", "said"),
    [({"trust": 2.0, "range": by_sign}, "0 .. 1"), ({}, "no knowledge to inject")],
)
def test_wrong_options_are_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(KnowledgeError, match=said):
        Informed(model=MLP(inputs=2), **options)


UNEQUAL = (14, 9, 22, 5)
STEPS = Settings(rounds=4, local_epochs=2, batch=8, learning_rate=0.2, executor="stacked")


def everything(rows: Tensor) -> Tensor:
    """All classes are allowed."""
    return torch.ones(len(rows), 4, dtype=torch.bool)


def test_7_without_knowledge_the_trajectory_is_fedavgs_and_with_full_trust_nothing_moves() -> None:
    """Acceptance test 7, through `train` with clients of unequal size."""
    problem = classes(UNEQUAL)
    neutral = Informed(model=problem.model, range=everything, prediction=first_of_range, trust=0.0)
    informed = train(replace(problem, model=neutral), fedavg(), STEPS)
    for (state, _), (plain, _) in zip(informed, train(problem, fedavg(), STEPS), strict=True):
        assert largest_difference(state.params, plain.params) < 1e-12
    certain = Informed(model=problem.model, range=by_sign, prediction=first_of_range, trust=1.0)
    start = certain.init(STEPS.seed, torch.float64)
    for state, _ in train(replace(problem, model=certain), fedavg(), STEPS):
        assert all(torch.equal(state.params[name], start[name]) for name in start)


def last_of_range(rows: Tensor) -> Tensor:
    return 3 - by_sign(rows).flip(1).int().argmax(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("prediction", [first_of_range, last_of_range])
@pytest.mark.parametrize("trust", [0.5, 0.6])
def test_9_a_trusted_prediction_is_the_answer_of_trained_models(
    trust: float, prediction: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    """Acceptance test 9; models that are certain of another class tie at a trust of 0.5."""
    problem = classes(UNEQUAL, dtype=dtype)
    model = Informed(model=problem.model, range=by_sign, prediction=prediction, trust=trust)
    *_, (state, _) = train(replace(problem, model=model), fedavg(), STEPS)
    for scale in (1, 20, 1000):
        params = {name: scale * value[None] for name, value in state.params.items()}
        for x in problem.clients.x:
            answer = model.apply(params, x)[0]
            assert torch.equal(answer.argmax(1), prediction(x))
            assert torch.allclose(answer.exp().sum(1), torch.ones(len(x), dtype=dtype), atol=1e-6)


def test_13_sites_send_nothing_but_parameters() -> None:
    """Acceptance test 13: the written and re-read uploads, and the bytes that a run counts."""
    problem = classes(UNEQUAL)
    model = Informed(model=problem.model, range=by_sign, prediction=first_of_range)
    with_knowledge = list(train(replace(problem, model=model), fedavg(), STEPS))
    for (state, record), (_, plain) in zip(
        with_knowledge, train(problem, fedavg(), STEPS), strict=True
    ):
        assert (record.bytes_up, record.bytes_down) == (plain.bytes_up, plain.bytes_down)
        numbers = sum(value.numel() for value in state.params.values())
        assert record.bytes_up == len(UNEQUAL) * (8 * numbers + 8)
        assert state.params.keys() == problem.model.init(0).keys()
    informed = replace(problem, model=model)
    work = Work(problem=informed, algorithm=fedavg(), settings=STEPS, pool=pool(problem.clients))
    begun = initial_state(informed, fedavg(), STEPS)
    for executor in (Stacked(chunk=2), Sequential()):
        for updates in executor.train(work, begun, torch.arange(len(UNEQUAL))):
            assert not updates.shared
            assert not updates.client_memory
            sent = load(save({name: one.contiguous() for name, one in updates.update.items()}))
            shapes = {name: tuple(one.shape[1:]) for name, one in sent.items()}
            start = problem.model.init(0)
            assert shapes == {name: tuple(one.shape) for name, one in start.items()}
