"""Rules that differ in their windows alone: which of the two accepts more, decided by what a wider
window does, however long it is.

A wider window makes `eventually`, `once`, `until` and `since` hold more often, `always` and
`historically` less often; under `not` and before `then` it is the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedkg.pack import (
    And,
    AtLeast,
    CategoryIs,
    Compare,
    Formula,
    Implies,
    Initially,
    Not,
    Or,
    Param,
    Temporal,
    Until,
)
from fedkg.pack.formulas import ROWS, Lag, WindowReduce, everywhere, is_temporal, sides
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.single_column_bounds import RowTable
from fedkg_compiler.analysis.verdict import Reading, Witness
from fedkg_compiler.analysis.z3_solver import Solver

LONGEST = 500
"""Windows of more steps get no example."""


@dataclass(frozen=True, slots=True)
class Window:
    """A temporal operator in a formula: its member table, and how it counts: 1, -1 where it is
    denied, 0 where nobody knows.
    """

    table: int
    part: Temporal | Until
    sign: int


def windows(formula: Formula, sign: int = 1, table: int = ROWS) -> Iterator[Window]:
    """All temporal operators of a formula, those of members and inside terms too."""
    match formula:
        case Temporal():
            yield Window(table, formula, sign)
            yield from windows(formula.arg, sign, table)
        case Until():
            yield Window(table, formula, sign)
            for arg in (formula.left, formula.right):
                yield from windows(arg, sign, table)
        case Not():
            yield from windows(formula.arg, -sign, table)
        case And() | Or():
            for arg in formula.args:
                yield from windows(arg, sign, table)
        case Implies():
            yield from windows(formula.antecedent, -sign, table)
            yield from windows(formula.consequent, sign, table)
        case AtLeast():
            yield from windows(formula.arg, sign, formula.members)
        case Initially():
            yield from windows(formula.arg, sign, table)
        case Compare():
            for side in sides(formula):
                yield from (
                    Window(where, part, 0)
                    for where, part in everywhere(side, table)
                    if isinstance(part, Temporal | Until)
                )


def window_params(formula: Formula) -> dict[int, set[int]]:
    """The parameters that are ends of windows and nothing else, by table."""
    found: dict[int, set[int]] = {}
    for window in windows(formula):
        found.setdefault(window.table, set()).update((window.part.low, window.part.high))
    for table, part in everywhere(formula):
        match part:
            case Param():
                other = {part.index}
            case Compare():
                other = {part.scale}
            case CategoryIs():
                other = {part.param}
            case Lag() | WindowReduce():
                other = set(part.step_params())
            case AtLeast() if part.count is not None:
                other = {part.count}
            case _:
                continue
        found.get(table, set()).difference_update(other)
    return found


@dataclass(frozen=True, slots=True)
class Wider:
    """What became of the windows of a row: `way` 1 where it accepts more than before, -1 less, 0
    the same; the operators that changed.
    """

    way: int
    changed: tuple[Window, ...]
    text: str


def wider(table: RowTable, old: int, new: int) -> Wider | None:
    """How two rows of equal formulas that differ in their windows alone relate.

    None where their windows do not tell.
    """
    found: list[tuple[Window, int]] = []
    texts: dict[str, None] = {}
    endless = False
    for window in windows(table.skeleton(old)):
        (low, high), (low_, high_) = (_ends(table, row, window) for row in (old, new))
        if low.shape != low_.shape:
            return None
        if (low == low_).all() and (high == high_).all():
            continue
        grows, shrinks = (
            bool(((low_ <= low) & (high_ >= high)).all()),
            bool(((low_ >= low) & (high_ <= high)).all()),
        )
        if grows == shrinks or not window.sign:
            return None
        endless |= bool((np.isinf(high) != np.isinf(high_)).any())
        denied = isinstance(window.part, Temporal) and window.part.op in ("always", "historically")
        found.append((window, (1 if grows else -1) * (-1 if denied else 1) * window.sign))
        i = int(np.flatnonzero((low != low_) | (high != high_))[0])
        texts[
            f"window {_format_range(low[i], high[i])} -> {_format_range(low_[i], high_[i])} steps"
        ] = None
    ways = {way for _, way in found}
    if len(ways) > 1 or (endless and len(found) > 1):
        return None
    return Wider(next(iter(ways), 0), tuple(window for window, _ in found), ", ".join(texts))


def _ends(table: RowTable, row: int, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """First and last step of a window, of every member: float64 [members] each.

    Infinite if unbounded.
    """
    bank = int(table.bank[row])
    index = int(row - table.starts[bank])
    where = (
        slice(index, index + 1)
        if window.table == ROWS
        else table.members(bank, window.table, index)
    )
    params = table.readers[bank][window.table].params[where]
    high = params[:, window.part.high]
    return params[:, window.part.low], np.where(high < 0, np.inf, high)


def _format_range(low: float, high: float) -> str:
    return f"{low:g} .. {'end' if np.isinf(high) else f'{high:g}'}"


def example(table: RowTable, old: int, new: int, found: Wider, budget: Budget) -> Witness | None:
    """A trace that only the one with the more lenient window accepts, of rules `if a then always
    b`, `eventually b` and the like.
    """
    top = table.skeleton(old)
    applies = top.antecedent if isinstance(top, Implies) else None
    asked = top.consequent if isinstance(top, Implies) else top
    if (
        not isinstance(asked, Temporal)
        or is_temporal(asked.arg)
        or (applies is not None and is_temporal(applies))
        or not found.way
    ):
        return None
    if len(found.changed) != 1:
        return None
    (low, high), (low_, high_) = (
        (float(end[0]) for end in _ends(table, row, found.changed[0])) for row in (old, new)
    )
    inside, outside = (
        ((low, high), (low_, high_))
        if low_ <= low and high_ >= high
        else ((low_, high_), (low, high))
    )
    at = int(inside[1] + 1 if outside[1] > inside[1] else outside[0])
    last = int(max([at, *(end for end in (high, high_) if np.isfinite(end))]))
    if last > LONGEST:
        return None
    everywhere_ = asked.op in ("always", "historically")
    for spans in (True, False):
        solver = Solver(
            table, [old], budget, keys=table.keysets[int(table.keyset[old])], spans=spans, taken=()
        )
        parts = [solver.part(old, asked.arg, positive=positive) for positive in (True, False)]
        now = [] if applies is None else [solver.part(old, applies)]
        if None in parts or None in now:
            return None
        there, usual = reversed(parts) if everywhere_ else parts
        way = -1 if asked.op in ("historically", "once") else 1
        questions = {0: [*now, there if at == 0 else usual], 1: [usual], 2: [there]}
        values: dict[int, Witness] = {}
        for number, question in questions.items():
            if solver.ask([], *question) == "yes" and solver.replayable:
                values[number] = solver.witness()
        if len(values) == len(questions):
            steps = {
                step: values[0 if step == 0 else 2 if step == at else 1] for step in range(last + 1)
            }
            readings = (
                Reading(way * step, one.view, one.column, one.value)
                for step, said in steps.items()
                for one in said.readings
            )
            return Witness(tuple(sorted(readings)))
    return None
