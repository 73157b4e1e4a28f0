"""Projection onto bounds is feasible, idempotent and non-expansive, and moves only what it must."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import CONTRACT, X, Y, bank_of, guarded, pack_of, tables, terms
from tries import tries

import fedkg
from fedkg.constraints import ConstraintModule, columns, logit, probability
from fedkg.pack import (
    And,
    Bank,
    Compare,
    DataContract,
    Formula,
    Implies,
    Negate,
    Not,
    Or,
    Pack,
    Param,
    Product,
    Quotient,
    Slot,
    Sum,
    View,
)

FAILURE, QUALITY = Slot(index=3, role="output"), Slot(index=4, role="output")
inputs = terms(("min", "max", "abs"), outputs=False)


@st.composite
def bounds(draw: st.DrawFn) -> Formula:
    """A comparison that bounds one output, in any common form."""
    output = draw(st.sampled_from([FAILURE, QUALITY]))
    factor = draw(st.sampled_from([None, Param(index=0), Negate(arg=Param(index=1))]))
    side = output if factor is None else Product(args=(factor, output))
    side = draw(
        st.sampled_from(
            [
                side,
                Negate(arg=side),
                Sum(args=(side, Slot(index=0))),
                Quotient(numerator=side, denominator=Param(index=1)),
            ]
        )
    )
    op = draw(st.sampled_from(["le", "lt", "eq"]))
    left, right = draw(st.sampled_from([(side, draw(inputs)), (draw(inputs), side)]))
    tolerance = Param(index=4) if op == "eq" or draw(st.booleans()) else None
    return Compare(op=op, left=left, right=right, tolerance=tolerance, scale=5)


@st.composite
def rules(draw: st.DrawFn) -> Formula:
    """Bounds under guards, negated, chained."""
    guard = Compare(op="lt", left=draw(inputs), right=draw(inputs), scale=5)
    bound = draw(bounds())
    shapes: list[Formula] = [
        bound,
        And(args=(bound, draw(bounds()))),
        Implies(antecedent=guard, consequent=bound),
        Or(args=(Not(arg=guard), bound)),
    ]
    if bound.op != "eq":  # type: ignore[union-attr]
        shapes += [Not(arg=bound), Implies(antecedent=bound, consequent=guard)]
    return draw(st.sampled_from(shapes))


def pack_for(formulas: list[Formula], numbers: list[float]) -> Pack:
    return pack_of([bank_of(formula, numbers, [0, 1, 2, 4, 5]) for formula in formulas], rules=1)


@given(
    st.lists(rules(), min_size=1, max_size=3),
    st.lists(st.floats(-4, 4), min_size=4, max_size=4),
    tables(),
    st.integers(0, 99),
)
@tries(40)
def test_projections_keep_every_bound_that_can_be_kept(
    formulas: list[Formula], numbers: list[float], table: np.ndarray, seed: int
) -> None:
    module = ConstraintModule(
        pack_for(formulas, [*(n if abs(n) > 0.1 else 1.0 for n in numbers), 0.25, 1.0]), x=X, y=Y
    )
    assert module.not_projected == ()
    x = torch.from_numpy(table[:, :4])
    generator = torch.Generator().manual_seed(seed)
    y, z = (
        torch.randn(len(table), 5, generator=generator, dtype=torch.float64) * 5 for _ in range(2)
    )
    moved = module.project(x, y)
    assert torch.allclose(module.project(x, moved), moved, rtol=1e-12)
    assert ((moved - module.project(x, z)).abs() <= (y - z).abs() + 1e-9 * (1 + moved.abs())).all()
    assert torch.equal(moved[:, 2:], y[:, 2:])
    before, after = module(x, y), module(x, moved)
    kept = before.satisfied.all(dim=1)
    assert torch.allclose(moved[kept], y[kept], atol=1e-9)
    scale = (
        1 + after.robustness.nan_to_num(0).abs() + 1e-6 * x.nan_to_num(0).abs().max().item() ** 2
        if x.numel()
        else 1.0
    )
    contradictory = (after.robustness < -1e-6 * scale).any(dim=1)
    if len(formulas) == 1 and not isinstance(formulas[0], And):
        touched = ~after.unknown.any(dim=1)
        assert not (contradictory & touched).any()


def test_bounds_meet_in_the_middle_where_they_contradict() -> None:
    high = Compare(op="le", left=Slot(index=0, role="output"), right=Param(index=0), scale=2)
    low = Compare(op="le", left=Param(index=1), right=Slot(index=0, role="output"), scale=2)
    module = ConstraintModule(
        pack_of([bank_of(And(args=(low, high)), [1.0, 3.0, 1.0], [4])]), x=X, y=Y
    )
    assert module.project(torch.zeros(2, 4), torch.zeros(2, 5))[:, 0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "layout",
    [probability("failure"), logit("failure"), columns(["failure"], mean=[0.3], std=[0.1])],
)
def test_guarded_bounds_hold_in_every_layout(layout: object) -> None:
    contract = DataContract(columns=CONTRACT.columns[:5], views=CONTRACT.views)
    module = ConstraintModule(pack_of(list(guarded(1.0).banks), contract=contract), x=X, y=layout)
    x = torch.tensor([[2.0, 0, 0, 0], [0.5, 0, 0, 0]], dtype=torch.float64)
    y = torch.full(
        (2,), -4.0 if layout == logit("failure") else 0.1, dtype=torch.float64, requires_grad=True
    )
    moved = module.project(x, y)
    assert moved.shape == y.shape
    assert module(x, y).violated[:, 0].tolist() == [True, False]
    assert module(x, moved).robustness[0, 0].item() == pytest.approx(0.0, abs=1e-12)
    assert moved[1] == y[1]
    moved.sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [0.0, 1.0]


def test_strict_bounds_are_kept_strictly() -> None:
    strict = Compare(op="lt", left=Slot(index=0, role="output"), right=Param(index=0), scale=1)
    for dtype in (torch.float32, torch.float64):
        module = ConstraintModule(pack_of([bank_of(strict, [0.3, 1.0], [4])]), x=X, y=Y)
        x, y = torch.zeros(1, 4, dtype=dtype), torch.ones(1, 5, dtype=dtype)
        assert module(x, module.project(x, y)).satisfied.all()


def test_rules_of_other_shapes_are_named_and_left_alone() -> None:
    other = Compare(
        op="le", left=Slot(index=0, role="output"), right=Slot(index=1, role="output"), scale=0
    )
    bank = bank_of(other, [1.0], [4, 5])
    module = ConstraintModule(
        pack_of(
            [bank, Bank(**{**{n: getattr(bank, n) for n in bank.tensors()}, "skeleton": other})]
        ),
        x=X,
        y=Y,
    )
    assert module.not_projected == ("rule_0",)
    y = torch.rand(3, 5)
    assert torch.equal(module.project(torch.zeros(3, 4), y), y)
    later = ConstraintModule(guarded(1.0, view=1), x=X, y=Y)
    assert later.not_projected == ("rule_0",)


def test_rules_that_read_the_row_before_are_named() -> None:
    """A projection does not know the previous row, so such a guard is always unknown to it."""
    skeleton = guarded(1.0).banks[0].skeleton
    contract = DataContract(columns=CONTRACT.columns[:5], views=(View(), View(kind="previous")))
    for view, named in ((0, ()), (1, ("rule_0",))):
        pack = pack_of(
            [bank_of(skeleton, [1.0, 0.5, 0.25], [0, 4], views=[view, 0])], contract=contract
        )
        assert ConstraintModule(pack, x=X, y=columns(["failure"])).not_projected == named


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("op", ["<=", ">="])
@pytest.mark.parametrize("limit", [0.3, 0.1, 0.7, 0.9, 0.05])
def test_a_projected_answer_satisfies_the_rule_that_moved_it(
    limit: float, op: str, dtype: torch.dtype
) -> None:
    """It holds for any rounding of the layout: the logit of 0.3 in float64 is that of a larger
    number.
    """
    rules = (
        f"signal s span 0 .. 9\noutput w in probability span 0 .. 1\nrule a hard require w {op}"
        f" {limit}\n"
    )
    pack = fedkg.compile(text=rules)
    x, raw = torch.zeros(9, 1, dtype=dtype), torch.linspace(-4, 4, 9, dtype=dtype)[:, None]
    for layout in (
        logit("w"),
        columns(["w"], mean=[3.3], std=[1.7]),
        columns(["w"], mean=[-8], std=[12.9]),
    ):
        module = ConstraintModule(pack, x=columns(["s"]), y=layout)
        moved = module.project(x, raw)
        assert bool(module(x, moved).satisfied.all())
        assert bool((moved != raw).any())
        torch.testing.assert_close(module.project(x, moved), moved)
