"""Windows over single columns, once for all rows: the minimum over a window of ``x - a`` is
``(minimum of x) - a``.

A comparison with a margin that rises or falls with one column, and with nothing else that changes
in time, is at its worst where the column is at its extreme: exactly, since rounding keeps the
order. So ``always[0, 24] x <= a`` reads the maximum of x over the window as one more number of the
batch, and thousands of limits over a few hundred signals cost the signals. `always` of a
conjunction is the conjunction of `always`, and `eventually` of a disjunction likewise.

Letters: N numbers of the batch, E extremes among them, R rows of a bank, B batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedkg.constraints.binding.plan import BankPlan
from fedkg.constraints.engine.batch_rows_as_traces import Traces, line_up
from fedkg.constraints.engine.device_constants import constant
from fedkg.constraints.engine.skeleton_term_substitution import (
    Column,
    next_slot,
    rewired,
    with_children,
    with_sides,
)
from fedkg.constraints.engine.sliding import extreme
from fedkg.pack.formulas import (
    And,
    Compare,
    Formula,
    FormulaPart,
    Negate,
    Or,
    Param,
    Product,
    Quotient,
    Slot,
    Sum,
    Temporal,
    Term,
    member_table,
    sides,
    subterms,
    with_parts,
)

WORTH = 2
"""A bank's windows are hoisted if it has at least this number of rows for each extreme they need.
"""


class OverExtreme(Temporal):
    """A temporal operator with an argument that already reads the extreme over the window: only the
    part beyond the trace is left to evaluate.
    """


class Extreme(NamedTuple):
    """The minimum or maximum of a number (`row`, of the outputs or of the inputs) over each step's
    window.
    """

    output: bool
    row: int
    first: int
    last: int
    past: bool
    lowest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hoisting:
    """What is read once for all rows.

    Attributes:
        banks: for each bank its plan with windows hoisted; None where nothing is gained.
        extremes: those of inputs, in the order in which they follow the N inputs, then those of
            outputs likewise.
    """

    banks: tuple[BankPlan | None, ...]
    extremes: tuple[Extreme, ...]


class _Use(NamedTuple):
    """A slot of extremes: the input or output slot it replaces, the window (parameters), the
    extreme.
    """

    slot: Slot
    low: int
    high: int
    past: bool
    lowest: bool


def hoist(banks: Sequence[BankPlan], inputs: int, outputs: int) -> Hoisting:
    """Banks over these numbers of inputs and outputs, with windows hoisted where it pays: see
    `WORTH`.
    """
    found: list[tuple[BankPlan, Formula, list[_Use]] | None] = [_hoisted(bank) for bank in banks]
    known = sorted(
        {e for one in found if one for use in one[2] for e in _extremes(one[0], use)}, key=_kind
    )
    counts = {False: inputs, True: outputs}
    places: dict[Extreme, int] = {}
    for one_extreme in known:
        places[one_extreme] = counts[one_extreme.output]
        counts[one_extreme.output] += 1
    return Hoisting(
        banks=tuple(one and _rewired(*one, places) for one in found), extremes=tuple(known)
    )


class Extremes(NamedTuple):
    """Inputs [N, B] and outputs [N', B], each followed by its extremes.

    Attributes:
        unsure: for the extremes of inputs and of outputs, bool [E, B], where something in the
            window is unknown; None: nowhere.
    """

    inputs: Tensor
    outputs: Tensor
    unsure: tuple[Tensor, Tensor] | None


def with_extremes(
    extremes: Sequence[Extreme],
    inputs: Tensor,
    outputs: Tensor,
    traces: Traces,
    *,
    known: bool = True,
) -> Extremes:
    """Numbers with their extremes.

    Args:
        known: whether all numbers are. Then the extreme is 0 where a window lies wholly beyond its
            trace. Else extremes are those of what is known, infinite where nothing is, and `unsure`
            says where something is not.
    """
    lined = line_up(traces, None)
    steps, length = lined.steps, lined.steps.length
    parts: dict[bool, list[Tensor]] = {False: [inputs], True: [outputs]}
    unsure = {
        output: [torch.zeros_like(part[0][:0], dtype=torch.bool)] for output, part in parts.items()
    }
    for (output, first, last, past, lowest), rows in _alike(extremes).items():
        source = outputs if output else inputs
        index = constant(np.array(rows, dtype=np.int64), source.device)
        laid = lined.there(source.index_select(0, index)).reshape(
            len(rows), -1, max(1, steps.count)
        )
        nothing = math.inf if lowest else -math.inf
        if length is not None:
            laid = torch.where(
                torch.arange(steps.count, device=length.device) < length, laid, nothing
            )
        if not known:
            open_at = torch.isnan(laid)
            laid = torch.where(open_at, nothing, laid)
            opened = extreme(open_at.to(laid.dtype), first, last, 0.0, lowest=False, past=past) > 0
            unsure[output].append(lined.again(opened.reshape(len(rows), steps.places)))
        best = extreme(laid, first, last, nothing, lowest=lowest, past=past)
        if known and (first > 0 or length is not None):
            best = torch.where(torch.isinf(best), 0.0, best)
        parts[output].append(lined.again(best.reshape(len(rows), steps.places)))
    flags = None if known else (torch.cat(unsure[False]), torch.cat(unsure[True]))
    return Extremes(torch.cat(parts[False]), torch.cat(parts[True]), flags)


def place_of(formula: OverExtreme) -> int:
    """The slot that holds the extreme."""
    assert isinstance(formula.arg, Compare), "comparisons alone are hoisted"
    return next(
        part.index
        for side in sides(formula.arg)
        for part in subterms(side)
        if isinstance(part, Slot)
    )


def _kind(one: Extreme) -> tuple[bool, int, int, bool, bool, int]:
    """Extremes over the same window are adjacent."""
    return one.output, one.first, one.last, one.past, one.lowest, one.row


def _alike(extremes: Sequence[Extreme]) -> dict[tuple[bool, int, int, bool, bool], list[int]]:
    """The numbers of each window and kind, in the order of `extremes`."""
    groups: dict[tuple[bool, int, int, bool, bool], list[int]] = {}
    for one in extremes:
        groups.setdefault(_kind(one)[:5], []).append(one.row)
    return groups


def _extremes(bank: BankPlan, use: _Use) -> list[Extreme]:
    """Which extreme each row of a bank reads."""
    output = use.slot.role == "output"
    rows = (
        bank.output_index[bank.outputs.index(use.slot.index)]
        if output
        else bank.input_index[bank.inputs.index(use.slot.index)]
    )
    windows = bank.params[[use.low, use.high]].astype(np.int64)
    return [
        Extreme(output, row, low, high, use.past, use.lowest)
        for row, low, high in zip(rows.tolist(), *windows.tolist(), strict=True)
    ]


def _hoisted(bank: BankPlan) -> tuple[BankPlan, Formula, list[_Use]] | None:
    """The bank with its rewritten skeleton and what its further slots read.

    None where nothing is gained.
    """
    if (
        not bank.temporal
        or not bank.rows
        or bank.wild
        or bank.quick < 0
        or bank.conditions.shape[0] > 1
    ):
        return None  # rows that select steps by category see each its own traces
    uses: list[_Use] = []
    skeleton = _formula(bank.skeleton, bank, uses)
    return (bank, skeleton, uses) if uses else None


def _formula(formula: Formula, bank: BankPlan, uses: list[_Use]) -> Formula:
    if isinstance(formula, Temporal):
        return _temporal(formula, bank, uses)
    if member_table(formula) is not None:
        return formula

    def inside(part: Formula | Term) -> Formula | Term:
        return _formula(part, bank, uses) if isinstance(part, FormulaPart) else part

    return with_parts(formula, inside)


def _temporal(formula: Temporal, bank: BankPlan, uses: list[_Use]) -> Formula:
    every = formula.op in ("always", "historically")
    before = len(uses)
    if isinstance(formula.arg, And if every else Or):
        args = tuple(
            _temporal(formula.model_copy(update={"arg": arg}), bank, uses)
            for arg in formula.arg.args
        )
        if all(_is_hoisted(arg) for arg in args):
            return formula.arg.model_copy(update={"args": args})
        del uses[before:]
    elif isinstance(formula.arg, Compare):
        use = _use(formula, formula.arg, bank, every)
        if use is not None and len(set(_extremes(bank, use))) * WORTH <= bank.rows:
            place = Slot(index=next_slot(bank) + before, role=use.slot.role)
            uses.append(use)
            return OverExtreme(
                op=formula.op,
                low=formula.low,
                high=formula.high,
                arg=with_sides(formula.arg, partial(_replaced, place)),
            )
    return formula.model_copy(update={"arg": _formula(formula.arg, bank, uses)})


def _is_hoisted(formula: Formula) -> bool:
    return (
        all(_is_hoisted(arg) for arg in formula.args)
        if isinstance(formula, And | Or)
        else isinstance(formula, OverExtreme)
    )


def _use(formula: Temporal, atom: Compare, bank: BankPlan, every: bool) -> _Use | None:
    """What the comparison reads once hoisted.

    None when it does not rise or fall with one slot alone.
    """
    slots = {part for side in sides(atom) for part in subterms(side) if isinstance(part, Slot)}
    left, right = _slope(atom.left, bank), _slope(atom.right, bank)
    tolerance = 0 if atom.tolerance is None else _slope(atom.tolerance, bank)
    if (
        atom.op not in ("le", "lt")
        or len(slots) != 1
        or left is None
        or right is None
        or tolerance != 0
        or left * right > 0
    ):
        return None
    rises = right - left > 0  # the margin is right - left
    past = formula.op in ("historically", "once")
    return _Use(slots.pop(), formula.low, formula.high, past, lowest=rises == every)


def _slope(term: Term, bank: BankPlan) -> int | None:
    """1 where the term rises with its slots for all rows, -1 where it falls, 0 where it has none.

    None where that is not known.
    """
    match term:
        case Slot():
            return 1
        case Param():
            return 0
        case Negate():
            slope = _slope(term.arg, bank)
            return None if slope is None else -slope
        case Sum():
            slopes = {_slope(arg, bank) for arg in term.args} - {0}
            return 0 if not slopes else slopes.pop() if len(slopes) == 1 else None
        case Product():
            factors = [arg for arg in term.args if not isinstance(arg, Param)]
            slope = _slope(factors[0], bank) if len(factors) == 1 else 0 if not factors else None
            return (
                None
                if slope is None
                else _signed(slope, [arg for arg in term.args if isinstance(arg, Param)], bank)
            )
        case Quotient():
            slope = _slope(term.numerator, bank) if isinstance(term.denominator, Param) else None
            return None if slope is None else _signed(slope, [term.denominator], bank)
        case _:
            return None


def _signed(slope: int, factors: Sequence[Term], bank: BankPlan) -> int | None:
    """A slope times parameters, if their signs are those of one row in all rows."""
    for factor in factors:
        assert isinstance(factor, Param), "only parameters scale a slope"
        values = bank.params[factor.index]
        if slope and not ((values > 0).all() or (values < 0).all()):
            return None
        slope = slope if values[0] > 0 else -slope
    return slope


def _replaced(place: Slot, term: Term) -> Term:
    """The term with another slot."""
    return place if isinstance(term, Slot) else with_children(term, partial(_replaced, place))


def _rewired(
    bank: BankPlan, skeleton: Formula, uses: Sequence[_Use], places: dict[Extreme, int]
) -> BankPlan:
    """The bank reading what its rewritten skeleton reads."""
    columns = []
    for i, use in enumerate(uses):
        rows = np.array([places[one] for one in _extremes(bank, use)], dtype=np.int64)
        columns.append(Column(slot=Slot(index=next_slot(bank) + i, role=use.slot.role), rows=rows))
    return rewired(bank, skeleton, columns)
