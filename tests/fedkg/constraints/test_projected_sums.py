"""Hard rules that are linear in several outputs: `project` satisfies every one of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from strategies import bank_of, pack_of
from torch import Tensor

import fedkg
from fedkg.constraints import ConstraintModule
from fedkg.pack import Column, Compare, DataContract, Pack, Param, Product, Slot, Sum

pytestmark = pytest.mark.filterwarnings("ignore::fedkg.authoring.RuleWarning")
PLANT = """
signal feed  in kg/h span 0 .. 100
signal share in dimensionless span 0 .. 1
output oil   in kg/h
output gas   in kg/h
output water in kg/h
rule all_are_read require oil >= -900 kg/h and gas >= -900 kg/h and water >= -900 kg/h
"""
OUTPUTS = ["oil", "gas", "water"]


def plant(*rules: str, **layout: object) -> ConstraintModule:
    text = PLANT + "\n".join(f"rule rule_{i} {rule}" for i, rule in enumerate(rules))
    return fedkg.compile(text=text).constraints(
        x=fedkg.columns(["feed", "share"]), y=fedkg.columns(OUTPUTS, **layout)
    )  # type: ignore[arg-type]


def batch(count: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(count)
    x = torch.rand(count, 2, generator=dice, dtype=torch.float64) * torch.tensor([100.0, 1.0])
    return x.to(dtype), (torch.randn(count, 3, generator=dice, dtype=torch.float64) * 30 + 30).to(
        dtype
    )


RULES = {
    "balance": "hard require oil + gas + water == feed",
    "balance within": "hard require oil + gas + water == feed +/- 0.5 kg/h",
    "order": "hard require oil <= gas",
    "strict order": "hard require oil < gas",
    "guarded": "hard require if feed > 50 kg/h then 2 * oil - 3 * gas >= 1 kg/h",
    "guarded by what must not be": "hard require if oil + gas > 40 kg/h then feed > 50 kg/h",
    "conjunction": "hard require oil - gas <= 5 kg/h and gas - water <= 5 kg/h and water >= 2 kg/h",
    "negated": "hard require not oil + gas > 60 kg/h",
    "coefficients of the sample": "hard require share * oil - 2 * gas <= feed / 4",
    "mean": "hard require (oil + gas) / 2 <= water",
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RULES)
def test_every_shape_is_kept(name: str, dtype: torch.dtype) -> None:
    rules = plant(RULES[name], mean=[30, 20, 10], std=[10, 20, 5])
    assert rules.not_projected == ()
    x, y = batch(200, dtype)
    y = (y - 30) / 15
    moved = rules.project(x, y)
    before, after = rules(x, y), rules(x, moved)
    assert bool(before.violated.any())
    slack = 1e-4 if dtype == torch.float32 else 1e-9
    assert float(after.robustness.nan_to_num(1).min()) >= -slack
    if "==" not in RULES[name]:
        assert not bool(after.violated.any())
    kept = before.satisfied.all(1)
    torch.testing.assert_close(moved[kept], y[kept], atol=10 * slack, rtol=0)
    torch.testing.assert_close(rules.project(x, moved), moved, atol=slack, rtol=0)


def test_all_rules_at_once_and_the_nearest_answers() -> None:
    rules = plant(
        RULES["balance"],
        "hard require oil >= 5 kg/h",
        "require gas >= 1 kg/h",
        RULES["guarded"],
        "hard require water >= 1 kg/h",
    )
    x, y = batch(300)
    x[:, 0] += 30
    moved = rules.project(x, y)
    assert not bool((rules(x, moved).robustness < -1e-9).any())
    others = rules.project(x[:1].expand(300, -1), y)
    towards = ((y[:1] - moved[:1]) * (others - moved[:1])).sum(1)
    assert float(towards.max()) <= 1e-6 * 1e4


def test_the_gradient_runs_along_the_rows_that_hold() -> None:
    rules = plant("hard require oil + gas + water == feed")
    x, y = batch(4)
    moved = rules.project(x, y.requires_grad_())
    moved[:, 0].sum().backward()
    assert y.grad is not None
    torch.testing.assert_close(
        y.grad, torch.tensor([2.0, -1, -1], dtype=torch.float64).expand(4, -1) / 3
    )
    assert torch.autograd.gradcheck(lambda y: plant(RULES["order"]).project(x, y), y, atol=1e-4)


def test_what_is_kept_serves_other_batches_dtypes_and_gradients() -> None:
    fixed = "hard require oil + gas + water == 60 kg/h"
    kept = plant(fixed, "hard require 2 * oil <= gas", "hard require oil - water <= 9 kg/h")
    assert kept.bounds.sums.same_ends
    with torch.inference_mode():
        kept.project(*batch(7))
    for count, dtype in ((3, torch.float64), (200, torch.float64), (20, torch.float32)):
        x, y = batch(count, dtype)
        fresh = plant(fixed, "hard require 2 * oil <= gas", "hard require oil - water <= 9 kg/h")
        torch.testing.assert_close(kept.project(x, y), fresh.project(x, y), atol=0, rtol=0)
    x, y = batch(5)
    assert torch.autograd.gradcheck(lambda y: kept.project(x, y), y.requires_grad_(), atol=1e-4)


def test_ends_of_the_sample_are_read_anew_and_so_are_its_coefficients() -> None:
    for rule, factors in (
        (RULES["balance"], True),
        (RULES["guarded"], True),
        (RULES["coefficients of the sample"], False),
    ):
        rules = plant(rule)
        assert (rules.bounds.sums.same_factors, rules.bounds.sums.same_ends) == (factors, False)
        for seed in (3, 30):
            x, y = batch(seed)
            assert float(rules(x, rules.project(x, y)).robustness.nan_to_num(1).min()) >= -1e-9


def test_unknown_inputs_switch_their_rows_off() -> None:
    rules = plant(RULES["balance"], RULES["order"])
    x, y = batch(2)
    x[0, 0] = torch.nan
    moved = rules.project(x, torch.tensor([[1.0, 2.0, 3.0]] * 2, dtype=torch.float64))
    assert moved[0].tolist() == [1.0, 2.0, 3.0]
    assert float(moved[1].sum()) == pytest.approx(float(x[1, 0]))
    y[1] = torch.nan
    assert bool(rules.project(x, y)[1].isnan().all())


@pytest.mark.parametrize(
    "more", [[], ["hard require water >= 0 kg/h"], ["hard require water <= gas + 900 kg/h"]]
)
def test_answers_that_are_not_finite_keep_their_own_bounds(more: list[str]) -> None:
    rules = plant(
        "hard require oil <= gas", "hard require oil <= 5 kg/h", "hard require gas >= 1 kg/h", *more
    )
    inf, nan = torch.inf, torch.nan
    y = torch.tensor(
        [[9.0, 2, 3], [inf, 0, 3], [nan, 0, 3], [2, -inf, 3]], dtype=torch.float64
    ).requires_grad_()
    moved = rules.project(torch.zeros(4, 2, dtype=torch.float64), y)
    wanted = torch.tensor([[5.0, 5, 3], [5, 1, 3], [nan, 1, 3], [2, 1, 3]], dtype=torch.float64)
    torch.testing.assert_close(moved, wanted, equal_nan=True)
    [slope] = torch.autograd.grad(moved.sum(), y)
    assert slope[1:, 2].tolist() == [1.0, 1.0, 1.0]
    assert slope[1].tolist()[:2] == [0.0, 0.0]
    assert slope[3].tolist()[:2] == [1.0, 0.0]


def test_answers_that_keep_all_rules_stay_and_so_do_their_slopes() -> None:
    text = (
        PLANT.split("rule")[0]
        + "rule first hard require oil <= gas\nrule then hard require gas <= water"
    )
    rules = fedkg.compile(text=text).constraints(
        x=fedkg.columns(["feed", "share"]), y=fedkg.columns(OUTPUTS)
    )
    y = torch.tensor([[1.0, 2, 3], [2, 4, 9]], requires_grad=True)
    moved = rules.project(torch.zeros(2, 2), y)
    assert torch.equal(moved, y)
    moved.sum().backward()
    assert y.grad is not None
    assert torch.equal(y.grad, torch.ones_like(y))


def test_coefficients_that_no_sample_knows_move_nothing() -> None:
    x, y = batch(3)
    x[:] = torch.nan
    moved = plant("hard require share * oil <= share * gas").project(x, y)
    torch.testing.assert_close(moved, y, atol=0, rtol=0)


def test_soft_sums_are_named_and_left_alone() -> None:
    rules = plant(
        "require oil <= gas",
        "hard require gas <= water",
        "hard require oil * gas <= 4 * water * 1 kg/h",
    )
    assert rules.not_projected == ("rule_0", "rule_2")
    x, y = torch.zeros(1, 2), torch.tensor([[9.0, 1.0, 5.0]])
    assert torch.equal(rules.project(x, y), y)


def test_probabilities_and_logits_are_kept_as_shares() -> None:
    pack = fedkg.compile(
        text="""
signal load in dimensionless span 0 .. 1
output stop in probability span 0 .. 1
output slow in % span 0 .. 100
rule together hard require stop + slow <= load
rule order hard require stop <= slow
"""
    )
    for y in (
        fedkg.logit("stop") + fedkg.probability("slow"),
        fedkg.logit("stop") + fedkg.logit("slow"),
    ):
        rules = pack.constraints(x=fedkg.columns(["load"]), y=y)
        x = (
            torch.rand(100, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            * 0.9
            + 0.05
        )
        given = torch.rand(100, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        moved = rules.project(x, given)
        assert bool(moved.isfinite().all())
        assert float(rules(x, moved).robustness.min()) >= -1e-9
        assert bool(rules(x, given).violated.any())


def test_sums_that_contradict_each_other_give_way_evenly() -> None:
    rules = plant(
        "hard require oil + gas <= 10 kg/h",
        "hard require oil + gas >= 30 kg/h",
        "hard require water <= gas",
    )
    moved = rules.project(torch.zeros(1, 2), torch.tensor([[7.0, 7.0, 3.0]]))
    torch.testing.assert_close(moved, torch.tensor([[10.0, 10.0, 3.0]]), atol=1e-3, rtol=0)


def mixed_signs(count: int) -> ConstraintModule:
    """Rules over three of 50 outputs each, with random signs and sizes, in one bank.

    One point satisfies all of them.
    """
    dice = np.random.default_rng(count)
    inside = dice.normal(size=50) * 0.5
    chosen = np.stack([dice.choice(50, 3, replace=False) for _ in range(count)])
    factors = dice.uniform(0.5, 2, (count, 3)) * dice.choice([-1, 1], (count, 3))
    ends = (factors * inside[chosen]).sum(1) - dice.uniform(0.2, 1.0, count)
    terms = tuple(Product(args=(Param(index=i), Slot(index=i, role="output"))) for i in range(3))
    bank = bank_of(
        Compare(op="le", left=Param(index=3), right=Sum(args=terms), scale=4),
        [0.0] * 5,
        [0] * 3,
        rows=count,
    )
    numbers = np.concatenate([factors, ends[:, None], np.ones((count, 1))], 1)
    contract = DataContract(
        columns=(
            Column(name="x", source="x"),
            *(Column(name=f"y_{i}", source=f"y_{i}", role="output") for i in range(50)),
        )
    )
    pack = pack_of(
        [dataclasses.replace(bank, slots=chosen.astype(np.int32) + 1, params=numbers)],
        rules=1,
        contract=contract,
    )
    [rule] = pack.manifest.rules
    manifest = pack.manifest.model_copy(update={"rules": (rule.model_copy(update={"hard": True}),)})
    read = sorted(set(chosen.flatten().tolist()))
    return ConstraintModule(
        Pack(manifest=manifest, banks=pack.banks),
        x=fedkg.columns(["x"]),
        y=fedkg.columns([f"y_{i}" for i in read]),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [20, 30, 40, 60, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_random_family_of_mixed_signs_is_violated(count: int, dtype: torch.dtype) -> None:
    rules = mixed_signs(count)
    assert rules.not_projected == ()
    dice = torch.Generator().manual_seed(count)
    x, y = (
        torch.zeros(256, 1, dtype=dtype),
        (torch.randn(256, len(rules.plan.y), generator=dice) * 2).to(dtype),
    )
    moved = rules.project(x, y)
    assert bool(rules(x, y).violated.any(1).all() if count >= 60 else rules(x, y).violated.any())
    assert float(rules(x, moved).robustness.min()) >= (-1e-5 if dtype == torch.float32 else -1e-9)
    assert float(rules(x, moved).violated.float().mean()) < 1e-3
