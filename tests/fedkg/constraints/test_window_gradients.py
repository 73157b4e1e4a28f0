"""Gradients of penalties of rules over time, members and choices.

They equal finite differences and are means over known values; also tests padding and errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import CATEGORY, CONTRACT, X, Y, bank_of, pack_of, packs, tables
from test_torch_windows import answers_for, ending
from torch import Tensor
from tries import tries

from fedkg.constraints import ConstraintModule, ConstraintWarning, Probe, columns
from fedkg.errors import LayoutError
from fedkg.federated.client.constraint_penalty import ConstraintPenalty
from fedkg.federated.round_steps import Step
from fedkg.pack import (
    And,
    AtLeast,
    Bank,
    Choose,
    Coalesce,
    Column,
    Compare,
    DataContract,
    Formula,
    Implies,
    Initially,
    Known,
    MemberTable,
    Not,
    Pack,
    Param,
    Reduce,
    Slot,
    Sum,
    Temporal,
    Until,
    View,
)
from fedkg.pack.formulas import WindowReduce

F64 = torch.float64
OUT, OTHER, DATA = Slot(index=0, role="output"), Slot(index=1, role="output"), Slot(index=2)
LOW, HIGH, COUNT, LIMIT, SCALE = 2, 3, 4, Param(index=0), 1


def le(left: object, right: object) -> Compare:
    return Compare.model_validate({"op": "le", "left": left, "right": right, "scale": SCALE})


def over(op: str, arg: Formula) -> Temporal:
    return Temporal.model_validate({"op": op, "low": LOW, "high": HIGH, "arg": arg})


def until(op: str, *, closed: bool = False) -> Until:
    return Until.model_validate(
        {
            "op": op,
            "low": LOW,
            "high": HIGH,
            "left": le(OUT, LIMIT),
            "right": le(LIMIT, OTHER),
            "closed": closed,
        }
    )


def single(
    skeleton: Formula,
    low: float = 0,
    high: float = 2,
    limit: float = 0.3,
    end: str = "clip",
    members: bool = False,
) -> Pack:
    """One row over failure, quality and torque.

    With members a set of three: failure, quality, failure, each with its own limit.
    """
    bank = bank_of(skeleton, [limit, 2.0, low, high, 2.0], [4, 5, 0])
    if members:
        table = MemberTable(
            parent=-1,
            offsets=np.array([0, 3], dtype=np.int64),
            slots=np.array([[4, 5, 0], [5, 4, 0], [4, 5, 1]], dtype=np.int32),
            views=np.zeros((3, 3), dtype=np.int32),
            params=np.array([[0.2, 2.0, low, high], [-0.1, 1.0, low, high], [0.4, 0.5, low, high]]),
        )
        bank = Bank(
            **{name: getattr(bank, name) for name in bank.tensors()},
            skeleton=skeleton,
            members=(table,),
        )
    return ending(pack_of([bank]), end)


def each_of(arg: object, op: str, *, skip: bool = False) -> Reduce:
    return Reduce.model_validate({"op": op, "members": 0, "arg": arg, "skip": skip})


def change(of: object) -> Sum:
    """The current value minus the value at the far end of the window."""
    earlier = {"kind": "lag", "steps": HIGH, "arg": of}
    return Sum.model_validate({"args": [of, {"kind": "negate", "arg": earlier}]})


def over_steps(op: str, **window: object) -> Formula:
    """A limit on a number made of the values at several steps."""
    return le(WindowReduce.model_validate({"op": op, "arg": OUT, **window}), LIMIT)


OPERATORS: dict[str, tuple[Formula, bool]] = {
    **{
        op: (over(op, le(OUT, LIMIT)), False)
        for op in ("always", "eventually", "historically", "once")
    },
    "nested": (over("always", over("eventually", le(OUT, OTHER))), False),
    "until": (until("until"), False),
    "closed until": (until("until", closed=True), False),
    "since": (until("since"), False),
    "not until": (Not(arg=until("until")), False),
    "implies": (
        Implies(antecedent=le(LIMIT, OUT), consequent=over("eventually", le(OUT, OTHER))),
        False,
    ),
    "initially": (Initially(arg=over("always", le(OUT, LIMIT))), False),
    "inner initially": (And(args=(Initially(arg=le(OUT, LIMIT)), le(OUT, OTHER))), False),
    "all members": (AtLeast(count=None, members=0, arg=le(OUT, LIMIT)), True),
    "two members": (AtLeast(count=COUNT, members=0, arg=le(OUT, LIMIT)), True),
    "fewer members": (Not(arg=AtLeast(count=COUNT, members=0, arg=le(OUT, LIMIT))), True),
    "members over time": (AtLeast(count=None, members=0, arg=over("always", le(OUT, LIMIT))), True),
    **{op: (le(each_of(OUT, op), LIMIT), True) for op in ("sum", "mean", "min", "max")},
    "choose": (le(Choose(condition=le(DATA, LIMIT), then=OUT, otherwise=OTHER), LIMIT), False),
    "coalesce": (le(Coalesce(args=(Slot(index=2), OUT)), OTHER), False),
    "known": (Implies(antecedent=Known(slot=2), consequent=le(OUT, LIMIT)), False),
    "lag": (le(change(OUT), LIMIT), False),
    **{
        f"{op} over {'next' if ahead else 'last'} steps": (
            over_steps(op, count=HIGH, ahead=ahead),
            False,
        )
        for op in ("sum", "mean", "min", "max")
        for ahead in (False, True)
    },
    **{
        f"{op} since an event": (over_steps(op, since=le(DATA, LIMIT)), False)
        for op in ("sum", "mean", "min", "max")
    },
    "lag in a window": (over("always", le(change(OUT), LIMIT)), False),
    "lag of members": (le(each_of(change(OUT), "sum"), LIMIT), True),
}


def module_of(pack: Pack) -> ConstraintModule:
    return ConstraintModule(pack, x=X, y=Y)


def batch(seed: int = 0, count: int = 2, steps: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(count, steps, width, generator=generator, dtype=F64) for width in (4, 5))
    x[..., CATEGORY] = 0.0
    return x, y


@given(
    packs(max_banks=2, temporal=True, members=True),
    tables(max_rows=6),
    st.integers(0, 99),
    st.sampled_from(["exact", "smooth", "sound"]),
)
@tries(20)
def test_no_gradient_over_time_is_nan(
    pack: Pack, table: np.ndarray, seed: int, semantics: str
) -> None:
    module = module_of(pack)
    answers = torch.from_numpy(answers_for(seed, len(table), unknown=True)).requires_grad_()
    keys = {"Type": torch.from_numpy(table[:, CATEGORY]).long()}
    said = answers[list(module.plan.runs)]
    report = module(
        torch.from_numpy(table[:, :4]), said, previous="above", keys=keys, semantics=semantics
    )
    robustness = report.robustness
    total = (
        report.penalty
        + report.penalties.sum()
        + torch.where(robustness.isfinite(), robustness, 0.0).sum()
    )
    assert torch.isfinite(report.penalty)
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, answers)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("end", ["strict", "clip"])
def test_penalties_are_positive_exactly_where_violated_and_smooth_ones_approach_them(
    name: str, end: str
) -> None:
    skeleton, members = OPERATORS[name]
    module = module_of(single(skeleton, high=1, end=end, members=members))
    x, y = batch(3, count=4, steps=6)
    report = module(x, y).at_steps
    assert torch.equal(report.penalties > 0, report.violated)
    smooth = module(x, y, semantics="smooth", temperature=1e-6).at_steps.penalties
    assert torch.allclose(smooth, report.penalties, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_a_penalty_by_hand(scale: float) -> None:
    pack = single(over("always", le(OUT, LIMIT)), low=0, high=1, limit=0.0, end="strict")
    pack.banks[0].params[0, SCALE] = scale
    y = torch.zeros(1, 4, 5, dtype=F64)
    y[0, :, 0] = torch.tensor([-1.0, 2.0, -1.0, 5.0])
    report = module_of(pack)(torch.zeros(1, 4, 4, dtype=F64), y)
    assert report.at_steps.robustness[0, :, 0].tolist() == [
        -2.0,
        -2.0,
        -5.0,
        -5.0,
    ]  # the last one is violated in any case
    y[0, 3, 0] = -5.0
    report = module_of(pack)(torch.zeros(1, 4, 4, dtype=F64), y)
    assert report.at_steps.unknown[0, :, 0].tolist() == [False, False, False, True]
    assert report.at_steps.counted[0, :, 0].tolist() == [True, True, True, False]
    assert report.penalties.item() == pytest.approx(4.0 / 3 / scale)
    assert report.penalty.item() == pytest.approx(4.0 / 3 / scale)
    assert (report.robustness.item(), report.violated.item(), report.violation_rate) == (
        -2.0,
        True,
        1.0,
    )
    assert report.violations()[["row", "step"]].to_numpy().tolist() == [[0, 0], [0, 1]]


def test_padding_is_no_step() -> None:
    module = module_of(single(over("eventually", le(LIMIT, OUT)), end="clip"))
    x, y = batch(5, count=1, steps=4)
    padded_x = torch.cat(
        [torch.full((1, 2, 4), torch.nan, dtype=F64), x, torch.full((1, 3, 4), 7.0, dtype=F64)],
        dim=1,
    )
    padded_y = torch.cat(
        [torch.full((1, 2, 5), 9.0, dtype=F64), y, torch.full((1, 3, 5), -9.0, dtype=F64)], dim=1
    )
    weight = torch.tensor([[0.0, 0, 1, 1, 0, 1, 0, 0, 0]], dtype=F64)
    report, alone = (
        module(padded_x, padded_y, sample_weight=weight),
        module(x, y, sample_weight=weight[:, 2:6]),
    )
    assert torch.equal(report.robustness, alone.robustness)
    assert torch.equal(report.at_steps.robustness[:, 2:6], alone.at_steps.robustness)
    assert not report.at_steps.applicable[:, [0, 1, 6, 7, 8]].any()
    assert report.penalty.item() == pytest.approx(alone.penalty.item())
    assert torch.equal(
        module(x, y, sample_weight=torch.ones(1, dtype=F64)).penalty, module(x, y).penalty
    )
    with pytest.raises(LayoutError, match=r"\[1, 4\] or \[1\]"):
        module(x, y, sample_weight=torch.ones(3))


def test_windows_of_one_batch_and_rows_above_each_other_agree() -> None:
    module = module_of(single(until("until"), end="strict"))
    x, y = batch(1, count=1, steps=7)
    one, rows = module(x, y), module(x[0], y[0], previous="above")
    assert torch.equal(one.at_steps.robustness[0].nan_to_num(9.0), rows.robustness.nan_to_num(9.0))
    assert torch.equal(one.penalty, rows.penalty)
    assert torch.equal(one.outputs, y)
    many = module(x, lambda z: z.new_ones(*z.shape[:2], 5) * z.mean(-1, keepdim=True))
    assert many.outputs.shape == (1, 7, 5)


def test_rows_in_no_order_are_not_judged_over_time() -> None:
    timeless = bank_of(le(OUT, LIMIT), [0.0, 1.0], [4])
    pack = pack_of([*single(over("always", le(OUT, LIMIT))).banks, timeless])
    module = module_of(pack)
    x, y = batch(2, count=1, steps=6)
    with pytest.warns(ConstraintWarning, match=r"\[B, T, F\]"):
        report = module(x[0], y[0].requires_grad_())
    assert report.applicable.sum(0).tolist() == [0, 6]
    assert report.robustness[:, 0].isnan().all()
    report.penalty.backward()
    probe = Probe(module, x[0])
    scores = probe.score(y.detach())
    assert scores.violation[0].isnan().tolist() == [True, False]
    assert "over time" in probe.inactive["rule_0"]
    assert module.not_projected == ("rule_0",)
    assert module.project(x, y.detach()).shape == y.shape


def test_windows_too_short_for_a_rule_are_rejected() -> None:
    pack = single(over("always", le(OUT, LIMIT)), high=5, end="strict")
    x, y = batch(0, count=2, steps=5)
    with pytest.raises(
        LayoutError, match=r"rule `rule_0` cannot be decided at any step of windows of 5 steps"
    ):
        module_of(pack)(x, y)
    longer = module_of(pack)(*batch(0, count=2, steps=6))
    assert not longer.at_steps.unknown[:, 0].any()
    assert module_of(ending(pack, "clip"))(x, y).robustness[0, 0] == (0.3 - y[0, :, 0]).min()
    with pytest.raises(LayoutError, match="no steps"):
        module_of(pack)(x[:, :0], y[:, :0])


def test_the_past_of_an_output_is_read_from_the_inputs() -> None:
    skeleton = le(OUT, Slot(index=1))
    contract = DataContract(columns=CONTRACT.columns[:5], views=(View(), View(kind="previous")))
    pack = pack_of([bank_of(skeleton, [0.0, 1.0], [4, 4], views=[0, 1])], contract=contract)
    y = columns(["failure"])
    x = torch.tensor([[[1.0], [2.0], [3.0]]], dtype=F64)
    report = ConstraintModule(pack, x=columns(["failure"]), y=y)(
        x, torch.full((1, 3), 1.5, dtype=F64)
    )
    assert report.at_steps.unknown[0, :, 0].tolist() == [True, False, False]
    assert report.at_steps.robustness[0, 1:, 0].tolist() == [-0.5, 0.5]
    without = ConstraintModule(pack, x=columns(["torque"]), y=y)
    with pytest.warns(ConstraintWarning, match="reads the past of output `failure`"):
        assert not without(x, torch.ones(1, 3)).applicable.any()


@pytest.mark.parametrize(
    "keys", [{"run": torch.tensor([0, 1])}, {"run": ["a", "b"]}, {"run": [["a"] * 3, ["b"] * 3]}]
)
def test_keys_of_windows_and_of_their_steps(keys: dict[str, object]) -> None:
    column = Column(name="run", source="run", type="category", vocabulary=("a", "b"))
    contract = DataContract(columns=(CONTRACT.columns[0], column))
    bank = bank_of(
        Temporal(op="always", low=2, high=3, arg=le(Slot(index=0), LIMIT)),
        [5.0, 1.0, 0.0, -1.0],
        [0],
    )
    bank = Bank(
        **{name: getattr(bank, name) for name in bank.tensors() if name not in ("keys", "codes")},
        skeleton=bank.skeleton,
        keys=np.array([[1]], dtype=np.int32),
        codes=np.array([[1]], dtype=np.int32),
    )
    module = ConstraintModule(pack_of([bank], contract=contract), x=columns(["torque"]))
    x = torch.tensor([[1.0, 2, 3], [4, 9, 1]], dtype=F64)[..., None]
    report = module(x, keys=keys)
    assert report.applicable[:, 0].tolist() == [False, True]
    assert report.at_steps.robustness[1, :, 0].tolist() == [-4.0, -4.0, 4.0]
    with pytest.raises(LayoutError, match=r"for each window(.|\n)*a list of 1 for 2 windows"):
        module(x, keys={"run": ["a"]})
    with pytest.raises(LayoutError, match="a list of 2 for the 3 steps of window 1"):
        module(x, keys={"run": [["a"] * 3, ["b"] * 2]})


def test_members_keep_memory_bounded() -> None:
    pack = single(le(each_of(OUT, "sum"), LIMIT), members=True)
    bank = pack.banks[0]
    many = bank.take(np.zeros(50, dtype=np.int64))
    module = ConstraintModule(pack_of([many]), x=X, y=Y, memory=0.01)
    assert [rows.stop - rows.start for rows in module.banks[0].chunks(2, 40)] == [5] * 10
    x, y = batch(0, 1, 2)
    assert torch.equal(module(x, y).robustness, module_of(pack)(x, y).robustness.expand(1, 50))


def test_a_clients_penalty_on_windows_is_the_modules() -> None:
    module = module_of(single(over("always", le(OUT, LIMIT)), limit=-0.8, end="strict"))
    x, _ = batch(4, count=6, steps=4)
    weights = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=F64)
    model = SimpleNamespace(
        apply=lambda params, rows: torch.einsum("cntf,cfh->cnth", rows, params["w"])
    )
    own = x.reshape(2, 3, 4, 4)
    params = {"w": weights}
    step = Step(
        model=model,
        loss=None,
        params=params,
        x=own,
        y=own,
        share=None,
        noise=None,
        clients=torch.tensor([0, 1]),
        start=params,
        keys={},
    )
    found = ConstraintPenalty(rules=module).value(step)
    for client in (0, 1):
        expected = module(own[client], lambda rows, w=weights[client]: rows @ w).penalty
        assert expected > 0
        assert torch.allclose(found[client], expected)


@pytest.mark.parametrize("semantics", ["exact", "smooth", "sound"])
def test_windows_pass_through_transforms(semantics: str) -> None:
    formula = And(
        args=(until("until"), AtLeast(count=COUNT, members=0, arg=over("always", le(OUT, LIMIT))))
    )
    module = module_of(single(formula, limit=-0.8, members=True))
    x, _ = batch(4, count=3, steps=4)
    weights = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(1), dtype=F64)

    def penalty(w: Tensor) -> Tensor:
        return module(x, lambda rows: rows @ w, semantics=semantics).penalty

    found = torch.func.vmap(torch.func.grad(penalty))(weights)
    for of_one, w in zip(found, weights, strict=True):
        (expected,) = torch.autograd.grad(penalty(leaf := w.clone().requires_grad_()), leaf)
        assert torch.allclose(of_one, expected)


Refusal = Callable[[ConstraintModule, Tensor, Tensor], object]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, x, y: m(x, y[:, :3]), r"\[2, 5, 5\]"),
        (lambda m, x, y: m(x, lambda z: z[0]), r"\[2, 5, 5\]"),
        (lambda m, x, y: m(x[..., :3], y), r"\[B, T, 4\]"),
    ],
)
def test_wrong_shapes_of_windows_are_rejected(call: Refusal, words: str) -> None:
    with pytest.raises(LayoutError, match=words):
        call(module_of(single(over("always", le(OUT, LIMIT)))), *batch())


@pytest.mark.parametrize("end", ["strict", "clip"])
def test_the_gradient_of_a_lag_by_hand(end: str) -> None:
    """One trace of failures 0, 1, 0.5, 2 and changes over two steps of 0.5 and 1.

    The limit is 0.3 and the scale 2.
    """
    module = module_of(single(le(change(OUT), LIMIT), end=end))
    x, y = torch.zeros(1, 4, 4, dtype=F64), torch.zeros(1, 4, 5, dtype=F64)
    y[0, :, 0] = torch.tensor([0.0, 1.0, 0.5, 2.0])
    y.requires_grad_()
    report = module(x, y)
    margins = report.at_steps.robustness[0, :, 0].tolist()
    assert [math.isnan(one) for one in margins] == [True, True, False, False]
    assert margins[2:] == pytest.approx([-0.2, -0.7])
    (gradient,) = torch.autograd.grad(report.penalties.sum(), y)
    # Two of four steps are known; each adds (change - 0.3) / 2 to their mean.
    share = report.penalties.sum().item() / (0.2 / 2 + 0.7 / 2)
    expected = torch.tensor([-0.5, -0.5, 0.5, 0.5], dtype=F64) * share
    torch.testing.assert_close(gradient[0, :, 0], expected)
    assert not gradient[..., 1:].any()
