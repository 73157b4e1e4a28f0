"""The compiled kernel of mining against tensor operations and the interpreter, on random
formulas."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.meaning.trace_robustness import trace_values
from fedkg.kernels import numba_formula_interpreter
from fedkg.mining.closed_form_tightest_values import (
    ALWAYS,
    NoLevel,
    comparisons_with_parameter,
    levels_of,
    margin_slope,
    robustness_of,
)
from fedkg.mining.first_step_robustness import Steps, evaluate_first_step
from fedkg.mining.formula_lowering import Lowering, NoProgram
from fedkg.pack.formulas import (
    And,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Negate,
    Not,
    Or,
    Param,
    Product,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
)

STEPS, CLIENTS, SAMPLES = 7, 3, 2
TARGET = 3
PARAMS = [
    1.0,
    0.5,
    2.0,
    0.0,
    0.0,
    1.0,
    2.0,
    4.0,
    -1.0,
]  # 0 is a scale, 1 and 2 are numbers, 3 the target, the rest bounds of windows


def term(draw: st.DrawFn, depth: int) -> Term:
    leaves: list[Term] = [Slot(index=0), Slot(index=1), Param(index=1), Param(index=2)]
    kind = draw(st.integers(0, 3)) if depth else 0
    if kind == 1:
        return Sum(args=(term(draw, depth - 1), term(draw, depth - 1)))
    if kind == 2:
        return Product(args=(Param(index=2), term(draw, depth - 1)))
    if kind == 3:
        return Negate(arg=term(draw, depth - 1))
    return draw(st.sampled_from(leaves))


def comparison(draw: st.DrawFn) -> Formula:
    side: Term = Slot(index=draw(st.integers(0, 1)))
    if draw(st.booleans()):
        limit: Term = Param(index=TARGET)
        left, right = (side, limit) if draw(st.booleans()) else (Negate(arg=limit), side)
        return Compare(op=draw(st.sampled_from(("le", "lt"))), left=left, right=right, scale=0)
    tolerance: Term | None = Param(index=1) if draw(st.booleans()) else None
    op: Literal["le", "lt", "eq", "ne"] = draw(st.sampled_from(("le", "lt", "eq", "ne")))
    return Compare(op=op, left=side, right=term(draw, 2), tolerance=tolerance, scale=0)


@st.composite
def formulas(draw: st.DrawFn, depth: int = 3) -> Formula:
    def part() -> Formula:
        found: Formula = draw(formulas(depth - 1))
        return found

    kind = draw(st.integers(0, 6)) if depth else 0
    low = draw(st.integers(4, 6))
    high = draw(st.sampled_from([place for place in (4, 5, 6, 7, 8) if place >= low]))
    if kind == 1:
        return Not(arg=part())
    if kind == 2:
        parts = (part(), part())
        return And(args=parts) if draw(st.booleans()) else Or(args=parts)
    if kind == 3:
        return Implies(antecedent=part(), consequent=part())
    if kind == 4:
        return Initially(arg=part())
    if kind == 5:
        along: Literal["always", "eventually", "historically", "once"]
        along = draw(st.sampled_from(("always", "eventually", "historically", "once")))
        return Temporal(op=along, low=low, high=high, arg=part())
    if kind == 6:
        until: Literal["until", "since"] = draw(st.sampled_from(("until", "since")))
        return Until(
            op=until, low=low, high=high, left=part(), right=part(), closed=draw(st.booleans())
        )
    return comparison(draw)


def prepared(seed: int) -> tuple[np.ndarray, Reading]:
    dice = np.random.default_rng(seed)
    slots = (
        np.round(dice.uniform(-2, 3, (2, CLIENTS * SAMPLES, STEPS)) * 2) / 2
    )  # multiples of a half: many ties and exact hits
    params = np.repeat(np.array([PARAMS]), CLIENTS, axis=0)
    params[:, TARGET] = [0.5, -1.0, 1e200]
    spread = [
        torch.from_numpy(params[:, place]).repeat_interleave(SAMPLES * STEPS)[None]
        for place in range(len(PARAMS))
    ]
    reading = Reading(
        slots={place: torch.from_numpy(slots[place].reshape(1, -1)) for place in range(2)},
        params=spread,
    )
    return slots, reading


def looped(
    lowering: Lowering, formula: Formula, slots: np.ndarray, params: np.ndarray
) -> torch.Tensor:
    result = np.full(slots.shape[1], np.nan)
    numba_formula_interpreter.first_numbers(
        *lowering.program(formula), slots, params, result, np.arange(slots.shape[1])
    )
    return torch.from_numpy(result)


def numbers_of(reading: Reading) -> np.ndarray:
    return np.stack([param[0].numpy()[:: SAMPLES * STEPS] for param in reading.params], axis=1)


@tries(40)
@given(formula=formulas(), seed=st.integers(0, 1000))
def test_robustness_is_that_of_the_tensors_and_of_the_interpreter(
    formula: Formula, seed: int
) -> None:
    slots, reading = prepared(seed)
    steps = Steps(count=STEPS, numbers=PARAMS)
    params = numbers_of(reading)
    found = looped(Lowering(steps), formula, slots, params)
    expected = evaluate_first_step(formula, robustness_of(reading, STEPS), steps).expand(
        CLIENTS * SAMPLES
    )
    assert torch.equal(found, expected)
    for trace in range(CLIENTS * SAMPLES):
        told = trace_values(
            formula, slots[:, trace].T, params[trace // SAMPLES].tolist(), end="clip"
        )
        assert bool(found[trace] >= 0) == bool(told.satisfied[0, 0])


@tries(40)
@given(formula=formulas(), seed=st.integers(0, 1000))
def test_levels_are_those_of_the_tensors(formula: Formula, seed: int) -> None:
    slots, reading = prepared(seed)
    steps = Steps(count=STEPS, numbers=PARAMS)
    params = numbers_of(reading)
    try:
        holding = comparisons_with_parameter(formula, TARGET)
    except NoLevel:
        return

    def slope(atom: Compare) -> float | None:
        return margin_slope(atom, TARGET, params[0].tolist()) if id(atom) in holding else None

    found = looped(Lowering(steps, slope, target=TARGET, always=ALWAYS), formula, slots, params)
    assert torch.equal(
        found,
        evaluate_first_step(formula, levels_of(formula, reading, TARGET, STEPS), steps).expand(
            CLIENTS * SAMPLES
        ),
    )


def test_a_term_that_overflows_is_unknown() -> None:
    formula = Compare(
        op="le", left=Product(args=(Param(index=2), Slot(index=0))), right=Param(index=1), scale=0
    )
    slots, reading = prepared(0)
    slots[0, 1, 0] = 1e308
    found = looped(
        Lowering(Steps(count=STEPS, numbers=PARAMS)), formula, slots, numbers_of(reading)
    )
    assert torch.isnan(found).tolist() == [False, True, False, False, False, False]


def test_a_window_may_count_as_a_number() -> None:
    always = Temporal(
        op="always",
        low=4,
        high=5,
        arg=Compare(op="le", left=Slot(index=0), right=Param(index=1), scale=0),
    )
    slots, reading = prepared(0)
    steps = Steps(count=STEPS, numbers=PARAMS, param=5, number=math.inf)
    assert looped(Lowering(steps), Not(arg=always), slots, numbers_of(reading)).tolist() == [
        -math.inf
    ] * (CLIENTS * SAMPLES)


def test_what_has_no_operation_is_left_to_tensors() -> None:
    with pytest.raises(NoProgram):
        Lowering(Steps(count=STEPS, numbers=PARAMS)).program(Known(slot=0))
