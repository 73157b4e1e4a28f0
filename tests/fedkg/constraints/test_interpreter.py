"""The meaning of formulas, computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from strategies import bank_of, guarded

from fedkg.constraints import evaluate_bank
from fedkg.constraints.meaning import interpreter
from fedkg.pack import (
    And,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Not,
    Or,
    Param,
    Power,
    Product,
    Quotient,
    Slot,
    Sum,
)
from fedkg.pack.formulas import Call, Function

NAN = math.nan
S, T, P, Q = Slot(index=0), Slot(index=1), Param(index=0), Param(index=1)


def verdict(
    formula: Formula, values: list[float], params: list[float] | None = None
) -> tuple[str, float]:
    """The verdict on one row of values, and its robustness."""
    table = np.array(values, dtype=np.float64)[None, None, :]
    found = evaluate_bank(bank_of(formula, params or [0.0], list(range(len(values)))), table)
    names = [name for name in ("satisfied", "violated", "unknown") if getattr(found, name)[0, 0]]
    assert len(names) == 1
    return names[0], float(found.robustness[0, 0])


def compare(op: str, left: object = S, right: object = T, tolerance: object = None) -> Compare:
    return Compare.model_validate(
        {"op": op, "left": left, "right": right, "tolerance": tolerance, "scale": 0}
    )


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("le", 1.0, 3.0, ("satisfied", 2.0)),
        ("le", 3.0, 3.0, ("satisfied", 0.0)),
        ("le", -0.0, 0.0, ("satisfied", 0.0)),
        ("le", 0.0, -0.0, ("satisfied", 0.0)),
        ("lt", 3.0, 3.0, ("violated", 0.0)),
        ("lt", -0.0, 0.0, ("violated", 0.0)),
        ("lt", 1.0, 3.0, ("satisfied", 2.0)),
        ("eq", 3.0, 3.0, ("satisfied", 0.0)),
        ("eq", 3.0, 4.0, ("violated", -1.0)),
        ("ne", 3.0, 3.0, ("violated", 0.0)),
        ("ne", 3.0, 4.0, ("satisfied", 1.0)),
        ("le", 308.6 - 300.0, 8.6, ("violated", 8.6 - (308.6 - 300.0))),
    ],
)
def test_comparisons(op: str, left: float, right: float, expected: tuple[str, float]) -> None:
    assert verdict(compare(op), [left, right]) == expected
    opposite = {"satisfied": "violated", "violated": "satisfied"}[expected[0]]
    assert verdict(Not(arg=compare(op)), [left, right]) == (opposite, -expected[1])


def test_decimal_thresholds_are_decided_by_the_last_bit() -> None:
    assert 308.6 - 300.0 > 8.6
    assert (
        verdict(compare("lt", Sum(args=(S, Product(args=(P, T)))), Q), [308.6, 300.0], [-1.0, 8.6])[
            0
        ]
        == "violated"
    )


def test_tolerances_widen_equality_and_order() -> None:
    assert verdict(compare("eq", S, T, P), [3.0, 3.5], [0.5]) == ("satisfied", 0.0)
    assert verdict(compare("ne", S, T, P), [3.0, 3.5], [0.5]) == ("violated", 0.0)
    assert verdict(compare("le", S, T, P), [3.5, 3.0], [0.5]) == ("satisfied", 0.0)
    assert verdict(compare("lt", S, T, P), [3.5, 3.0], [0.5]) == ("violated", 0.0)


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf])
def test_nan_and_infinite_values_are_unknown(value: float) -> None:
    state, robustness = verdict(compare("le"), [value, 1.0])
    assert state == "unknown"
    assert math.isnan(robustness)


@pytest.mark.parametrize(
    ("function", "value"), [("sqrt", -1.0), ("log", 0.0), ("log", -1.0), ("exp", 1e4)]
)
def test_outside_its_domain_a_function_is_unknown(function: Function, value: float) -> None:
    assert (
        verdict(compare("le", Call(function=function, args=(S,)), T), [value, 1.0])[0] == "unknown"
    )


def test_unknown_parts_stay_unknown_where_arithmetic_would_hide_them() -> None:
    assert (
        verdict(compare("le", Quotient(numerator=S, denominator=T), P), [1.0, 0.0])[0] == "unknown"
    )
    hidden = Quotient(numerator=S, denominator=Quotient(numerator=S, denominator=T))
    assert verdict(compare("le", hidden, P), [1.0, 0.0])[0] == "unknown"
    assert verdict(compare("le", Power(base=S, exponent=0.0), P), [NAN], [2.0])[0] == "unknown"
    assert verdict(compare("le", Power(base=S, exponent=0.5), P), [-1.0], [2.0])[0] == "unknown"
    assert verdict(compare("le", Call(function="min", args=(S, T)), P), [NAN, -5.0])[0] == "unknown"


def test_powers_and_functions() -> None:
    assert verdict(compare("eq", Power(base=S, exponent=3.0), T), [2.0, 8.0]) == ("satisfied", 0.0)
    assert verdict(compare("eq", Power(base=S, exponent=-2.0), T), [2.0, 0.25]) == (
        "satisfied",
        0.0,
    )
    assert verdict(compare("eq", Power(base=S, exponent=1.5), T), [4.0, 8.0]) == ("satisfied", 0.0)
    assert verdict(compare("eq", Call(function="round", args=(S,)), T), [2.5, 2.0]) == (
        "satisfied",
        0.0,
    )
    assert verdict(
        compare("eq", Call(function="max", args=(S, T, P)), Q), [1.0, 2.0], [3.0, 3.0]
    ) == ("satisfied", 0.0)


HOLDS, FAILS, OPEN = compare("le", P, S), compare("le", S, P), compare("le", T, P)


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        (And(args=(HOLDS, FAILS)), ("violated", -2.0)),
        (And(args=(HOLDS, OPEN)), ("unknown", NAN)),
        (And(args=(FAILS, OPEN)), ("violated", -2.0)),
        (Or(args=(HOLDS, OPEN)), ("satisfied", 2.0)),
        (Or(args=(FAILS, OPEN)), ("unknown", NAN)),
        (Or(args=(FAILS, HOLDS)), ("satisfied", 2.0)),
        (Not(arg=OPEN), ("unknown", NAN)),
        (Implies(antecedent=HOLDS, consequent=FAILS), ("violated", -2.0)),
        (Implies(antecedent=FAILS, consequent=OPEN), ("satisfied", 2.0)),
        (Implies(antecedent=OPEN, consequent=HOLDS), ("satisfied", 2.0)),
        (Implies(antecedent=HOLDS, consequent=OPEN), ("unknown", NAN)),
        (Or(args=(And(args=(HOLDS, OPEN)), HOLDS)), ("satisfied", 2.0)),
        (And(args=(Or(args=(FAILS, OPEN)), FAILS)), ("violated", -2.0)),
    ],
)
def test_connectives_are_three_valued(formula: Formula, expected: tuple[str, float]) -> None:
    state, robustness = verdict(formula, [2.0, NAN], [0.0])
    assert state == expected[0]
    assert robustness == expected[1] or (math.isnan(robustness) and math.isnan(expected[1]))


def test_a_true_part_at_margin_zero_does_not_decide_an_open_conjunction() -> None:
    assert verdict(And(args=(compare("le", S, P), OPEN)), [0.0, NAN])[0] == "unknown"
    assert verdict(And(args=(compare("lt", S, P), OPEN)), [0.0, NAN]) == ("violated", 0.0)


@pytest.mark.parametrize(
    ("inside", "outside", "strict", "scores", "expected"),
    [
        ((0,), (1, 2), False, [2.0, 1.0, 0.5], ("satisfied", 1.0)),
        ((0,), (1, 2), False, [1.0, 1.0, 0.5], ("satisfied", 0.0)),
        ((0,), (1, 2), True, [1.0, 1.0, 0.5], ("violated", 0.0)),
        ((0, 2), (1,), False, [0.0, 1.0, 0.5], ("violated", -0.5)),
        ((0, 2), (1,), False, [NAN, 1.0, 5.0], ("unknown", NAN)),
        ((0, 1, 2), (), True, [0.0, 1.0, 0.5], ("satisfied", math.inf)),
        ((), (0, 1, 2), False, [0.0, 1.0, 0.5], ("violated", -math.inf)),
    ],
)
def test_class_sets(
    inside: tuple[int, ...],
    outside: tuple[int, ...],
    strict: bool,
    scores: list[float],
    expected: tuple[str, float],
) -> None:
    state, robustness = verdict(ClassIn(inside=inside, outside=outside, strict=strict), scores)
    assert state == expected[0]
    assert robustness == expected[1] or math.isnan(expected[1])


def test_categories() -> None:
    assert verdict(CategoryIs(slot=0, param=0), [2.0], [2.0]) == ("satisfied", math.inf)
    assert verdict(CategoryIs(slot=0, param=0), [1.0], [2.0]) == ("violated", -math.inf)
    assert verdict(CategoryIs(slot=0, param=0), [NAN], [2.0])[0] == "unknown"


def test_keys_make_rows_apply_and_antecedents_make_them_fire() -> None:
    bank = guarded(1.0).banks[0]
    keyed = replace(bank, keys=np.array([[3, -1]], np.int32), codes=np.array([[2, 0]], np.int32))
    values = np.zeros((1, 5, 9))
    values[0, :, 0] = [2.0, 2.0, 0.5, NAN, 2.0]
    values[0, :, 3] = [2.0, 1.0, 2.0, 2.0, NAN]
    found = evaluate_bank(keyed, values)
    assert found.applicable[:, 0].tolist() == [True, False, True, True, False]
    assert found.fired[:, 0].tolist() == [True, False, False, False, False]
    assert found.violated[:, 0].tolist() == [True, False, False, False, False]
    assert found.satisfied[:, 0].tolist() == [False, False, True, False, False]
    assert found.unknown[:, 0].tolist() == [False, False, False, True, False]
    assert np.isnan(found.robustness[[1, 4], 0]).all()


def test_views_are_read_where_the_rows_say() -> None:
    bank = bank_of(compare("le", S, T), [1.0], [0, 0], views=[0, 1])
    values = np.zeros((2, 1, 1))
    values[1] = -4.0
    assert evaluate_bank(bank, values).robustness.tolist() == [[-4.0]]


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = bank_of(compare("le", S, P), [1.0], [0], rows=7)
    bank = replace(bank, params=np.arange(7.0)[:, None])
    values = np.arange(4.0)[None, :, None]
    whole = evaluate_bank(bank, values)
    monkeypatch.setattr(interpreter, "BUDGET", 1)
    assert np.array_equal(evaluate_bank(bank, values).robustness, whole.robustness)
    assert evaluate_bank(
        bank_of(compare("le", S, P), [1.0], [0], rows=0), values
    ).robustness.shape == (4, 0)
    assert evaluate_bank(bank, values[:, :0]).satisfied.shape == (0, 7)
