"""The definition of every formula, step by step and member by member, in plain Python.

It is slow and does not use any of our evaluators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedkg.pack import (
    And,
    AtLeast,
    Bank,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    MemberTable,
    Negate,
    Not,
    Or,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
)
from fedkg.pack.formulas import Lag, WindowReduce
from fedkg.pack.numeric.reproducible_powers import is_multiplication, multiplied

Verdict = tuple[float, float, bool | None]
"""Least and largest possible robustness, and the truth value, None where it is unknown."""
INF = math.inf
UNKNOWN: Verdict = (-INF, INF, None)


@dataclass(frozen=True)
class Owner:
    """A bank row or a member: its columns, views, numbers, and the positions of its members."""

    slots: list[int]
    views: list[int]
    params: list[float]
    table: int
    position: int


@dataclass(frozen=True)
class Trace:
    """`steps[t]`: the table row of step t or None; `values`: float64 [V, B, C]."""

    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    steps: list[int | None]
    end: Literal["strict", "clip"]
    tables: tuple[MemberTable, ...]


def row_verdict(bank: Bank, row: int, trace: Trace, t: int) -> Verdict:
    """The verdict of bank row `row` at step t of a trace."""
    owner = Owner(
        bank.slots[row].tolist(), bank.views[row].tolist(), bank.params[row].tolist(), -1, row
    )
    with np.errstate(all="ignore"):
        return formula(bank.skeleton, owner, trace, t)


def formula(node: Formula, owner: Owner, trace: Trace, t: int) -> Verdict:
    """The verdict of a formula at step t."""
    match node:
        case Compare() | ClassIn() | CategoryIs() | Known():
            return _atom(node, owner, trace, t)
        case Not():
            return _not(formula(node.arg, owner, trace, t))
        case And():
            return _all([formula(arg, owner, trace, t) for arg in node.args])
        case Or():
            return _any([formula(arg, owner, trace, t) for arg in node.args])
        case Implies():
            return _any(
                [
                    _not(formula(node.antecedent, owner, trace, t)),
                    formula(node.consequent, owner, trace, t),
                ]
            )
        case AtLeast():
            found = [
                formula(node.arg, member, trace, t)
                for member in _members(owner, node.members, trace)
            ]
            wanted = len(found) if node.count is None else int(owner.params[node.count])
            return _at_least(found, wanted)
        case Initially():
            return formula(node.arg, owner, trace, 0)
        case Temporal():
            past = node.op in ("historically", "once")
            window = _window(owner.params[node.low], owner.params[node.high], t, past, trace)
            found = [_at(node.arg, owner, trace, u) for u in window]
            return _all(found) if node.op in ("always", "historically") else _any(found)
        case Until():
            past = node.op == "since"
            witnesses = []
            for u in _window(owner.params[node.low], owner.params[node.high], t, past, trace):
                between = range(u + (not node.closed), t + 1) if past else range(t, u + node.closed)
                witnesses.append(
                    _all(
                        [
                            _at(node.right, owner, trace, u),
                            *(_at(node.left, owner, trace, v) for v in between),
                        ]
                    )
                )
            return _any(witnesses)
    raise AssertionError(node)


def _window(low: float, high: float, t: int, past: bool, trace: Trace) -> list[int]:
    length = len(trace.steps)
    last = length if high < 0 else int(high)
    steps = [t - k if past else t + k for k in range(int(low), last + 1)]
    return [u for u in steps if 0 <= u < length] if high < 0 or trace.end == "clip" else steps


def _at(node: Formula, owner: Owner, trace: Trace, t: int) -> Verdict:
    return formula(node, owner, trace, t) if 0 <= t < len(trace.steps) else UNKNOWN


def _atom(node: Formula, owner: Owner, trace: Trace, t: int) -> Verdict:
    if trace.steps[t] is None:
        return UNKNOWN
    margin, strict = _margin(node, owner, trace, t)
    if math.isnan(margin):
        return UNKNOWN
    return margin, margin, bool(margin > 0 if strict else margin >= 0)


def _margin(node: Formula, owner: Owner, trace: Trace, t: int) -> tuple[float, bool]:
    match node:
        case Known():
            return (-math.inf if math.isnan(_slot(node.slot, owner, trace, t)) else math.inf), False
        case CategoryIs():
            code = _slot(node.slot, owner, trace, t)
            return (
                math.nan
                if math.isnan(code)
                else math.inf
                if code == owner.params[node.param]
                else -math.inf
            ), False
        case ClassIn():
            inside = [_slot(i, owner, trace, t) for i in node.inside]
            outside = [_slot(i, owner, trace, t) for i in node.outside]
            if any(math.isnan(score) for score in (*inside, *outside)):
                return math.nan, False
            return (
                max(inside) - max(outside) if inside and outside else INF if inside else -INF
            ), node.strict
        case Compare():
            left, right = term(node.left, owner, trace, t), term(node.right, owner, trace, t)
            tolerance = (
                np.float64(0.0) if node.tolerance is None else term(node.tolerance, owner, trace, t)
            )
            margins = {"eq": tolerance - abs(left - right), "ne": abs(left - right) - tolerance}
            return float(_finite(margins.get(node.op, right - left + tolerance))), node.op in (
                "lt",
                "ne",
            )
    raise AssertionError(node)


def term(node: Term, owner: Owner, trace: Trace, t: int) -> np.float64:
    """The value of a term at step t, NaN where unknown."""
    match node:
        case Slot():
            return _slot(node.index, owner, trace, t)
        case Param():
            return np.float64(owner.params[node.index])
        case Sum() | Product() | Coalesce():
            parts = [term(arg, owner, trace, t) for arg in node.args]
            if isinstance(node, Coalesce):
                return next((part for part in parts if not math.isnan(part)), np.float64(math.nan))
            total = parts[0]
            for part in parts[1:]:
                total = _finite(total + part if isinstance(node, Sum) else total * part)
            return total
        case Negate():
            return -term(node.arg, owner, trace, t)
        case Quotient():
            return _finite(
                term(node.numerator, owner, trace, t) / term(node.denominator, owner, trace, t)
            )
        case Power():
            base = term(node.base, owner, trace, t)
            if is_multiplication(node.exponent):
                return _finite(np.float64(multiplied(np.array(base), int(node.exponent))))
            return _finite(np.sqrt(base) if node.exponent == 0.5 else np.power(base, node.exponent))
        case Call():
            args = [term(arg, owner, trace, t) for arg in node.args]
            if node.function in ("min", "max"):
                return np.float64(
                    math.nan
                    if any(map(math.isnan, args))
                    else min(args)
                    if node.function == "min"
                    else max(args)
                )
            return _finite(getattr(np, node.function)(args[0]))
        case Lag():
            u = t - int(owner.params[node.steps])
            reached = u >= 0 and trace.steps[u] is not None
            return term(node.arg, owner, trace, u) if reached else np.float64(math.nan)
        case WindowReduce():
            return _over_steps(node, owner, trace, t)
        case Choose():
            truth = formula(node.condition, owner, trace, t)[2]
            return (
                np.float64(math.nan)
                if truth is None
                else term(node.then if truth else node.otherwise, owner, trace, t)
            )
        case Reduce():
            return _reduce(
                node,
                [
                    term(node.arg, member, trace, t)
                    for member in _members(owner, node.members, trace)
                ],
            )
    raise AssertionError(node)


def _over_steps(node: WindowReduce, owner: Owner, trace: Trace, t: int) -> np.float64:
    """A number over the steps of a window; sums may be rounded otherwise than by the engines."""
    unknown = np.float64(math.nan)
    if node.count is not None:
        count = int(owner.params[node.count])
        window = range(t, t + count) if node.ahead else range(t - count + 1, t + 1)
    else:
        assert node.since is not None
        start = t
        while start >= 0:
            truth = formula(node.since, owner, trace, start)[2]
            if truth is None:
                return unknown
            if truth:
                break
            start -= 1
        window = range(start, t + 1)
    if window.start < 0 or window.stop > len(trace.steps):
        return unknown
    if any(trace.steps[u] is None for u in window):
        return unknown
    values = [term(node.arg, owner, trace, u) for u in window]
    if any(map(math.isnan, values)):
        return unknown
    if node.op in ("min", "max"):
        return min(values) if node.op == "min" else max(values)
    total = math.fsum(values)
    return _finite(np.float64(total if node.op == "sum" else total / len(values)))


def _reduce(node: Reduce, values: list[np.float64]) -> np.float64:
    known = [value for value in values if not math.isnan(value)]
    if node.op == "count":
        return np.float64(len(known))
    if (not node.skip and len(known) < len(values)) or (not known and node.op != "sum"):
        return np.float64(math.nan)
    if node.op in ("min", "max"):
        return min(known) if node.op == "min" else max(known)
    total = np.float64(0.0)
    for value in known:
        total = _finite(total + value)
    return total if node.op == "sum" else _finite(total / len(known))


def _members(owner: Owner, table: int, trace: Trace) -> list[Owner]:
    members = trace.tables[table]
    assert members.parent == owner.table
    span = range(int(members.offsets[owner.position]), int(members.offsets[owner.position + 1]))
    return [
        Owner(
            members.slots[i].tolist(),
            members.views[i].tolist(),
            members.params[i].tolist(),
            table,
            i,
        )
        for i in span
    ]


def _slot(index: int, owner: Owner, trace: Trace, t: int) -> np.float64:
    row = trace.steps[t]
    return (
        np.float64(math.nan)
        if row is None
        else _finite(trace.values[owner.views[index], row, owner.slots[index]])
    )


def _finite(value: np.float64) -> np.float64:
    return np.float64(value) if np.isfinite(value) else np.float64(math.nan)


def _not(verdict: Verdict) -> Verdict:
    low, high, truth = verdict
    return -high, -low, None if truth is None else not truth


def _any(verdicts: list[Verdict]) -> Verdict:
    low, high = (
        max((v[0] for v in verdicts), default=-INF),
        max((v[1] for v in verdicts), default=-INF),
    )
    truths = [v[2] for v in verdicts]
    return low, high, True if True in truths else None if None in truths else False


def _all(verdicts: list[Verdict]) -> Verdict:
    return _not(_any([_not(verdict) for verdict in verdicts]))


def _at_least(verdicts: list[Verdict], wanted: int) -> Verdict:
    if wanted == 0:
        return INF, INF, True
    if wanted > len(verdicts):
        return -INF, -INF, False
    low, high = sorted(v[0] for v in verdicts)[-wanted], sorted(v[1] for v in verdicts)[-wanted]
    sure, possible = sum(v[2] is True for v in verdicts), sum(v[2] is not False for v in verdicts)
    return low, high, True if sure >= wanted else False if possible < wanted else None
