"""Gradients are never NaN, are shared by ties, and do not depend on other rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import EXACT, TRANSCENDENTAL, X, Y, bank_of, formulas, pack_of, packs, tables
from tries import tries

from fedkg.constraints import ConstraintModule
from fedkg.constraints.report import ConstraintReport
from fedkg.pack import And, ClassIn, Compare, Pack, Param, Product, Quotient, Slot, Sum
from fedkg.pack.formulas import Call


def report_of(
    pack: Pack, table: np.ndarray, answers: torch.Tensor, **options: object
) -> ConstraintReport:
    module = ConstraintModule(pack, x=X, y=Y)
    keys = {"Type": torch.from_numpy(table[:, 3]).long()}
    return module(
        torch.from_numpy(table[:, :4]),
        answers[list(module.plan.runs)],
        keys=keys,
        previous="above",
        **options,
    )


def answers_for(table: np.ndarray, seed: int) -> torch.Tensor:
    return torch.from_numpy(
        np.random.default_rng(seed).normal(0, 2, (4, len(table), 5))
    ).requires_grad_()


@given(
    packs(skeletons=formulas(EXACT + TRANSCENDENTAL)),
    tables(),
    st.integers(0, 99),
    st.sampled_from(["exact", "smooth", "sound"]),
)
@tries(30)
def test_no_gradient_is_nan(pack: Pack, table: np.ndarray, seed: int, semantics: str) -> None:
    answers = answers_for(table, seed)
    report = report_of(pack, table, answers, semantics=semantics)
    robustness = report.robustness
    total = (
        report.penalty
        + report.penalties.sum()
        + torch.where(torch.isfinite(robustness), robustness, 0.0).sum()
    )
    assert torch.isfinite(report.penalty)
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, answers)
        assert torch.isfinite(gradient).all()


@given(packs(skeletons=formulas()), tables(), st.integers(0, 99))
@tries(20)
def test_smooth_approaches_exact_as_the_temperature_falls(
    pack: Pack, table: np.ndarray, seed: int
) -> None:
    answers = answers_for(table, seed).detach()
    exact = report_of(pack, table, answers).penalties
    assume(bool((exact < 1e6).all()))
    smooth = report_of(pack, table, answers, semantics="smooth", temperature=1e-6).penalties
    assert torch.allclose(exact, smooth, atol=1e-4)


OUT, IN, LIMIT = Slot(index=0, role="output"), Slot(index=1), Param(index=0)


@pytest.mark.parametrize(
    ("term", "edge"),
    [
        (Call(function="sqrt", args=(OUT,)), 0.0),
        (Call(function="sqrt", args=(OUT,)), -1.0),
        (Call(function="log", args=(OUT,)), 0.0),
        (Call(function="log", args=(OUT,)), 1e-310),
        (Quotient(numerator=IN, denominator=OUT), 0.0),
        (Quotient(numerator=IN, denominator=OUT), 1e-300),
        (Call(function="exp", args=(OUT,)), 1e6),
        (Product(args=(OUT, IN)), float("nan")),
        (Sum(args=(OUT, IN)), float("inf")),
    ],
)
@pytest.mark.parametrize("op", ["le", "eq"])
def test_a_row_at_the_edge_of_a_domain_leaves_the_others_alone(
    term: object, edge: float, op: str
) -> None:
    skeleton = Compare(op=op, left=LIMIT, right=term, scale=1)
    pack = pack_of([bank_of(skeleton, [5.0, 1.0], [4, 0])])
    table = np.full((2, 9), 2.0)
    values = torch.ones(4, 2, 5, dtype=torch.float64)
    values[:, 1] = edge
    both, alone = values.clone().requires_grad_(), values.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(report_of(pack, table, both).penalties.sum(), both)
    (expected,) = torch.autograd.grad(report_of(pack, table, alone).penalties[0].sum(), alone)
    assert torch.isfinite(gradient).all()
    assert torch.equal(gradient[:, 0], expected[:, 0])
    assert gradient[:, 0].abs().sum() > 0


def test_ties_share_the_gradient_evenly() -> None:
    limits = [
        Compare(op="le", left=Slot(index=i, role="output"), right=LIMIT, scale=1) for i in range(3)
    ]
    pack = pack_of([bank_of(And(args=tuple(limits)), [0.0, 2.0], [4, 5, 5])])
    y = torch.full((4, 1, 5), 3.0, dtype=torch.float64, requires_grad=True)
    report_of(pack, np.zeros((1, 9)), y).penalty.backward()
    assert y.grad is not None
    assert y.grad[0, 0, :2].tolist() == pytest.approx([1 / 6, 2 / 6])


def test_tied_classes_share_the_gradient() -> None:
    pack = pack_of([bank_of(ClassIn(inside=(0,), outside=(1, 2)), [], [6, 7, 8])])
    y = (
        torch.tensor([[0.0, 0.0, 0.0, 1.0, 1.0]], dtype=torch.float64)
        .repeat(4, 1, 1)
        .requires_grad_()
    )
    report_of(pack, np.zeros((1, 9)), y).penalty.backward()
    assert y.grad is not None
    assert y.grad[0, 0, 2:].tolist() == [-1.0, 0.5, 0.5]


def test_a_missing_reading_poisons_no_weight_of_a_model() -> None:
    skeleton = Compare(op="le", left=Product(args=(OUT, IN)), right=LIMIT, scale=1)
    pack = pack_of([bank_of(skeleton, [0.0, 1.0], [4, 0], views=[2, 0])])
    module = ConstraintModule(pack, x=X, y=Y)
    model = torch.nn.Linear(4, 5).double()
    x = torch.rand(6, 4, dtype=torch.float64)
    x[:, 3] = 0
    module(x, model, previous="above").penalty.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
