"""Windows over single columns are reduced once for all rows.

Verdicts, numbers and gradients are the same as row by row.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from stl_formulas import Maker
from strategies import bank_of, pack_of

from fedkg.constraints import ConstraintModule, columns, evaluate_bank
from fedkg.constraints.engine.shared_window_extremes import OverExtreme
from fedkg.constraints.meaning.interpreter import Timing
from fedkg.pack import (
    And,
    Bank,
    Column,
    Compare,
    Formula,
    Negate,
    Or,
    Pack,
    Param,
    Product,
    Slot,
    Sum,
    Temporal,
)
from fedkg.pack.contract import DataContract
from fedkg.pack.formulas import subformulas

End = Literal["strict", "clip"]
SIGNALS = 3
LAYOUT = {"x": columns(["s0", "s1", "s2"]), "y": columns(["o0", "o1", "o2"])}
X, Y = Slot(index=0), Slot(index=1, role="output")
LOW, HIGH, A, B, FACTOR, SCALE = 1, 2, 3, 4, 5, 0


def contract(end: End) -> DataContract:
    names = [(f"s{i}", "input") for i in range(SIGNALS)] + [
        (f"o{i}", "output") for i in range(SIGNALS)
    ]
    return DataContract(
        columns=tuple(Column.model_validate({"name": n, "source": n, "role": r}) for n, r in names),
        end=end,
    )


def bank_rows(
    skeleton: Formula,
    params: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    dice: np.random.Generator,
) -> Bank:
    """Rows with these numbers over random signals (slot 0) and outputs (slot 1)."""
    rows = len(params)
    one = bank_of(skeleton, list(params[0]), [0, SIGNALS])
    signals = np.stack(
        [dice.integers(0, SIGNALS, rows), dice.integers(SIGNALS, 2 * SIGNALS, rows)], axis=1
    ).astype(np.int32)
    grown = {name: np.repeat(getattr(one, name), rows, axis=0) for name in one.tensors()}
    return Bank(**(grown | {"slots": signals, "params": params}), skeleton=skeleton)


def both(pack: Pack) -> tuple[ConstraintModule, ConstraintModule]:
    """The module, and one without hoisting."""
    module, plain = (ConstraintModule(pack, **LAYOUT) for _ in range(2))
    plain.sharing = replace(plain.sharing, extremes=())
    for each in (module, plain):
        each._horizons.clear()
    return module, plain


def as_output(formula: Formula, dice: random.Random) -> Formula:
    """The formula with slot 1 as an output of the model."""
    text = formula.model_dump_json().replace(
        '"index":1,"role":"input"', '"index":1,"role":"output"'
    )
    return type(formula).model_validate_json(text)


@pytest.mark.parametrize("count", [25, pytest.param(600, marks=pytest.mark.slow)])
def test_random_formulas_hoisted_are_those_unhoisted_and_the_interpreters(count: int) -> None:
    dice, noise, hoisted = random.Random(5), np.random.default_rng(5), 0
    for i in range(count):
        maker = Maker(dice)
        formula = as_output(maker.formula(dice.randint(1, 3))[0], dice)
        end: End = "strict" if i % 2 else "clip"
        params = np.repeat(np.array([maker.params]), 20, axis=0)
        params[:, 0] = np.arange(1, 21)  # different scales, so that no two rows are equal
        pack = pack_of([bank_rows(formula, params, noise)], contract=contract(end))
        module, plain = both(pack)
        hoisted += module.sharing.hoisted[0] is not None
        values = noise.integers(-6, 7, (2, 9, 2 * SIGNALS)) / 4.0
        x, y = (
            torch.from_numpy(values[..., part])
            for part in (slice(0, SIGNALS), slice(SIGNALS, None))
        )
        leaf = y.clone().requires_grad_()
        reports = [each(x, leaf) for each in (module, plain)]
        timing = Timing(
            trace=np.repeat([0, 1], 9), step=np.tile(np.arange(9), 2), gaps=False, end=end
        )
        expected = evaluate_bank(pack.banks[0], values.reshape(1, 18, -1), timing)
        for report in reports:
            assert np.array_equal(
                report.at_steps.robustness.detach().numpy().reshape(18, -1),
                expected.robustness,
                equal_nan=True,
            )
            for name in ("satisfied", "violated", "unknown", "fired"):
                assert np.array_equal(
                    getattr(report.at_steps, name).numpy().reshape(18, -1), getattr(expected, name)
                ), name
        assert torch.equal(reports[0].at_steps.penalties, reports[1].at_steps.penalties)
        assert reports[0].penalty.item() == pytest.approx(reports[1].penalty.item())
    assert hoisted > count / 4


def le(left: object, right: object, op: str = "le") -> Compare:
    return Compare.model_validate({"op": op, "left": left, "right": right, "scale": SCALE})


def over(op: str, arg: Formula) -> Temporal:
    return Temporal.model_validate({"op": op, "low": LOW, "high": HIGH, "arg": arg})


SCALED = Sum(args=(Product(args=(Param(index=FACTOR), Y)), Negate(arg=Param(index=A))))
SKELETONS: dict[str, tuple[Formula, bool]] = {
    **{
        op: (over(op, le(Y, Param(index=A))), True)
        for op in ("always", "eventually", "historically", "once")
    },
    "range": (over("always", And(args=(le(Param(index=A), Y), le(Y, Param(index=B), "lt")))), True),
    "disjunction": (
        over("eventually", Or(args=(le(X, Param(index=A)), le(Param(index=B), Y)))),
        True,
    ),
    "scaled": (over("always", le(SCALED, Param(index=B))), True),
    "nested": (over("always", over("eventually", le(Y, Param(index=A)))), True),
    "two signals": (over("always", le(X, Y)), False),
    "disjunction under always": (
        over("always", Or(args=(le(X, Param(index=A)), le(Param(index=B), Y)))),
        False,
    ),
}


@pytest.mark.parametrize("name", SKELETONS)
@pytest.mark.parametrize("end", ["strict", "clip"])
def test_windows_that_differ_from_row_to_row(name: str, end: End) -> None:
    skeleton, expected = SKELETONS[name]
    dice = np.random.default_rng(3)
    windows = np.array([(0, 2), (1, 3), (2, -1), (0, 12), (4, 5)])[dice.integers(0, 5, 120)]
    numbers = dice.integers(-4, 5, (120, 2)) / 4.0
    params = np.concatenate(
        [np.ones((120, 1)), windows, numbers, dice.uniform(0.5, 2.0, (120, 1))], axis=1
    )
    module, plain = both(pack_of([bank_rows(skeleton, params, dice)], contract=contract(end)))
    found = module.sharing.hoisted[0]
    assert (found is not None) == expected
    assert found is None or any(
        isinstance(part, OverExtreme) for part in subformulas(found.skeleton)
    )
    x, y = (
        torch.randn(3, 8, SIGNALS, dtype=torch.float64),
        torch.randn(3, 8, SIGNALS, dtype=torch.float64, requires_grad=True),
    )
    for weight in (
        None,
        torch.tensor([[0, 0, 1, 1, 1, 1, 1, 0]] * 2 + [[1.0] * 8], dtype=torch.float64),
    ):
        one, other = (each(x, y, sample_weight=weight) for each in (module, plain))
        assert torch.equal(
            one.at_steps.robustness.nan_to_num(7e7), other.at_steps.robustness.nan_to_num(7e7)
        )
        assert torch.equal(one.at_steps.penalties, other.at_steps.penalties)
        assert torch.equal(one.counted, other.counted)
        for what in ("penalty", "robustness"):
            sums = [
                torch.where(getattr(r, what).isfinite(), getattr(r, what), 0.0).sum()
                for r in (one, other)
            ]
            gradients = [
                torch.autograd.grad(total, y, retain_graph=True)[0]
                if total.requires_grad
                else total
                for total in sums
            ]
            assert torch.allclose(*gradients)
    unknown = y.detach().clone()
    unknown[0, 3, 1] = torch.nan
    assert torch.equal(
        module(x, unknown).robustness.nan_to_num(7e7), plain(x, unknown).robustness.nan_to_num(7e7)
    )
    smooth = [each(x, y, semantics="smooth").penalty for each in (module, plain)]
    assert torch.equal(*smooth)


def test_one_row_is_not_worth_it() -> None:
    dice = np.random.default_rng(0)
    params = np.array([[1.0, 0, 2, 0.5, 1.0, 1.0]])
    assert (
        both(pack_of([bank_rows(SKELETONS["always"][0], params, dice)], contract=contract("clip")))[
            0
        ].sharing.extremes
        == ()
    )
