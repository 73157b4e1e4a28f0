"""The meaning of every formula in its most obvious form: NumPy, float64, source units. All other engines are held to this one.

Letters: V views, B table rows, C columns of the contract, R rows of a bank, s slots, p parameters of its skeleton.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.powers import is_multiplication, multiplied
from fedkg.pack.bank import Bank
from fedkg.pack.formulas import And, CategoryIs, ClassIn, Compare, Formula, Implies, Not, Or
from fedkg.pack.terms import Call, Negate, Param, Power, Product, Quotient, Slot, Sum, Term

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

BUDGET = 4_000_000
"""Numbers gathered at once: bank rows are taken in chunks so that B x rows x s stays below it."""

UNARY: dict[str, Callable[[Float], Float]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BankValues:
    """What a bank says about a table.

    Attributes:
        robustness: float64 [B, R], in the unit of each row; how far from violated (negative: how far from satisfied). NaN where unknown or
            not applicable. A strict comparison that misses by nothing has robustness 0 and is violated.
        satisfied, violated, unknown: bool [B, R]; exactly one of them is true where applicable, none elsewhere.
        applicable: bool [B, R], the table row has the categories that the bank row's keys ask for.
        fired: bool [B, R], applicable and, for a formula that is an implication, its antecedent holds.
    """

    robustness: Float
    satisfied: Bool
    violated: Bool
    unknown: Bool
    applicable: Bool
    fired: Bool


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Robustness somewhere in [low, high], and the truth value: holds, fails, or neither (unknown)."""

    low: Float
    high: Float
    holds: Bool
    fails: Bool


def evaluate_bank(bank: Bank, values: Float) -> BankValues:
    """The verdict of every bank row on every table row.

    Args:
        bank: R constraints of one shape.
        values: float64 [V, B, C] in source units; categories as codes, Booleans as 0 and 1, NaN (or infinite) where unknown.
    """
    table_rows = values.shape[1]
    step = max(1, BUDGET // max(1, table_rows * max(1, bank.slots.shape[1])))
    parts = [_rows(bank, slice(start, start + step), values) for start in range(0, bank.rows, step)] or [_rows(bank, slice(0, 0), values)]
    if len(parts) == 1:
        return parts[0]
    return BankValues(**{f.name: np.concatenate([getattr(part, f.name) for part in parts], axis=1) for f in fields(BankValues)})


def _rows(bank: Bank, rows: slice, values: Float) -> BankValues:
    slots = values[bank.views[rows].T[:, None, :], np.arange(values.shape[1])[:, None], bank.slots[rows].T[:, None, :]]  # [s, B, R]
    slots = _finite(slots)
    params = _finite(bank.params[rows].T)  # [p, R]
    shape = (values.shape[1], bank.rule[rows].shape[0])
    applicable = np.ones(shape, dtype=np.bool_)
    for column, code in zip(bank.keys[rows].T, bank.codes[rows].T, strict=True):
        applicable &= (column < 0) | (values[0][:, column] == code)
    with np.errstate(all="ignore"):
        skeleton = bank.skeleton
        fired = applicable
        if isinstance(skeleton, Implies):
            antecedent = _formula(skeleton.antecedent, slots, params, shape)
            fired = applicable & antecedent.holds
            verdict = _either((_opposite(antecedent), _formula(skeleton.consequent, slots, params, shape)))
        else:
            verdict = _formula(skeleton, slots, params, shape)
    satisfied, violated = applicable & verdict.holds, applicable & verdict.fails
    robustness = np.where(satisfied, verdict.low, np.where(violated, verdict.high, np.nan)) + 0.0
    return BankValues(
        robustness=robustness,
        satisfied=satisfied,
        violated=violated,
        unknown=applicable & ~verdict.holds & ~verdict.fails,
        applicable=applicable,
        fired=fired,
    )


def _formula(formula: Formula, slots: Float, params: Float, shape: tuple[int, int]) -> _Verdict:
    match formula:
        case Compare():
            return _compare(formula, slots, params, shape)
        case ClassIn():
            return _class_in(formula, slots, shape)
        case CategoryIs():
            code, wanted = slots[formula.slot], params[formula.param]
            return _atom(np.where(np.isnan(code + wanted), np.nan, np.where(code == wanted, 1.0, -1.0)), strict=False, shape=shape)
        case Not():
            return _opposite(_formula(formula.arg, slots, params, shape))
        case And():
            return _opposite(_either(tuple(_opposite(_formula(arg, slots, params, shape)) for arg in formula.args)))
        case Or():
            return _either(tuple(_formula(arg, slots, params, shape) for arg in formula.args))
        case Implies():
            antecedent = _formula(formula.antecedent, slots, params, shape)
            return _either((_opposite(antecedent), _formula(formula.consequent, slots, params, shape)))
    assert_never(formula)


def _opposite(verdict: _Verdict) -> _Verdict:
    return _Verdict(-verdict.high, -verdict.low, verdict.fails, verdict.holds)


def _either(verdicts: tuple[_Verdict, ...]) -> _Verdict:
    """Kleene's disjunction: holds when one holds, fails when all fail; the largest of intervals."""
    low, high, holds, fails = verdicts[0].low, verdicts[0].high, verdicts[0].holds, verdicts[0].fails
    for other in verdicts[1:]:
        low, high = np.maximum(low, other.low), np.maximum(high, other.high)
        holds, fails = holds | other.holds, fails & other.fails
    return _Verdict(low, high, holds, fails)


def _atom(margin: Float, *, strict: bool, shape: tuple[int, int]) -> _Verdict:
    """An atomic formula that holds when its margin is at least (strict: above) zero; a margin of NaN is unknown."""
    margin = np.broadcast_to(margin, shape)
    known = ~np.isnan(margin)
    holds = margin > 0 if strict else margin >= 0
    return _Verdict(np.where(known, margin, -np.inf), np.where(known, margin, np.inf), holds, known & ~holds)


def _compare(atom: Compare, slots: Float, params: Float, shape: tuple[int, int]) -> _Verdict:
    left, right = _term(atom.left, slots, params), _term(atom.right, slots, params)
    tolerance = np.zeros(()) if atom.tolerance is None else _term(atom.tolerance, slots, params)
    match atom.op:
        case "le" | "lt":
            margin = right - left + tolerance
        case "eq":
            margin = tolerance - np.abs(left - right)
        case "ne":
            margin = np.abs(left - right) - tolerance
        case _:
            assert_never(atom.op)
    return _atom(_finite(margin), strict=atom.op in ("lt", "ne"), shape=shape)


def _class_in(atom: ClassIn, slots: Float, shape: tuple[int, int]) -> _Verdict:
    """Best score inside minus best outside; plus or minus infinity where one of the sets is empty; unknown where any score is."""
    unknown = np.isnan(slots[list(atom.inside + atom.outside)]).any(axis=0)
    if atom.inside and atom.outside:
        margin = slots[list(atom.inside)].max(axis=0) - slots[list(atom.outside)].max(axis=0)
    else:
        margin = np.full(shape, np.inf if atom.inside else -np.inf)
    return _atom(np.where(unknown, np.nan, margin), strict=atom.strict, shape=shape)


def _finite(array: Float) -> Float:
    return np.where(np.isfinite(array), array, np.nan)


def _term(term: Term, slots: Float, params: Float) -> Float:
    """The term's value, [B, R] or broadcast to it; NaN where it or any part of it is not a finite number."""
    match term:
        case Slot():
            return np.asarray(slots[term.index])
        case Param():
            return np.asarray(params[term.index])
        case Sum():
            total = _term(term.args[0], slots, params)
            for arg in term.args[1:]:
                total = _finite(total + _term(arg, slots, params))
            return total
        case Product():
            product = _term(term.args[0], slots, params)
            for arg in term.args[1:]:
                product = _finite(product * _term(arg, slots, params))
            return product
        case Negate():
            return -_term(term.arg, slots, params)
        case Quotient():
            return _finite(_term(term.numerator, slots, params) / _term(term.denominator, slots, params))
        case Power():
            return _finite(_power(_term(term.base, slots, params), term.exponent))
        case Call():
            return _call(term, [_term(arg, slots, params) for arg in term.args])
    assert_never(term)


def _power(base: Float, exponent: float) -> Float:
    if is_multiplication(exponent):
        return multiplied(base, int(exponent))
    if exponent == 0.5:
        return np.sqrt(base)
    return np.asarray(np.power(base, exponent), dtype=np.float64)


def _call(call: Call, args: list[Float]) -> Float:
    if call.function in ("min", "max"):
        result = args[0]
        for arg in args[1:]:
            result = np.minimum(result, arg) if call.function == "min" else np.maximum(result, arg)
        return result
    return _finite(UNARY[call.function](args[0]))
