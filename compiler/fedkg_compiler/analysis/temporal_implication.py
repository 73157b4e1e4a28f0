"""Rules over several steps that follow from others: by their windows, however long those are, then
by the solver over the steps they name.

A row follows from others where in every trace in which it is violated at some step, one of them is
violated at some step too. What a window meets beyond a trace counts as the contract says: an
`eventually` that the end of the trace cuts off is not violated under "strict".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fedkg.pack import And, Formula, Implies, Initially, Not, Or, Temporal, Until
from fedkg.pack.formulas import is_temporal
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.single_column_bounds import Keys, RowTable
from fedkg_compiler.analysis.z3_formulas import NOW, any_of, denied
from fedkg_compiler.analysis.z3_solver import STEPS, Solver

MOST = 12
"""At most this number of other rows is examined together with a row."""


@dataclass(frozen=True, slots=True)
class Side:
    """A part of a row's formula."""

    row: int
    formula: Formula

    def of(self, formula: Formula) -> Side:
        """A part of this part."""
        return Side(self.row, formula)


class OverTime:
    """Which rows at a place follow from which, with windows."""

    def __init__(self, table: RowTable, budget: Budget, keys: Keys) -> None:
        self.table, self.budget, self.keys = table, budget, keys
        self._parts: dict[tuple[int, int, int, int, bool], tuple[Side, Side, bool]] = {}
        self._solvers: dict[tuple[int, int], Solver] = {}

    def implying(
        self, row: int, others: Sequence[int], reads: Mapping[int, set[int]]
    ) -> tuple[frozenset[int], bool]:
        """Rows among the others that imply this one, none where none do.

        And whether that is certain.
        """
        near = sorted(
            (one for one in others if reads[one] & reads[row]),
            key=lambda one: (not reads[one] <= reads[row], one),
        )
        for other in near[:MOST]:
            if self.follows(other, row):
                return frozenset([other]), True
        found = self._unrolled(row, near[:MOST])
        if found:
            return found, True
        return frozenset(), found is not None and len(near) <= MOST

    def follows(self, other: int, row: int) -> bool:
        """Whether windows and limits alone show that a row follows from another."""
        one, two = (
            Side(other, self.table.at_any_step(other)),
            Side(row, _at_some_step(self.table.skeleton(row))),
        )
        if not self._one_timeline(other, row):
            return (
                not is_temporal(one.formula)
                and not is_temporal(two.formula)
                and self._weaker(one, two, holds=False)
            )
        whole = Side(other, self.table.skeleton(other)), Side(row, self.table.skeleton(row))
        return self._weaker(one, two, holds=False) or self._weaker(*whole, holds=False)

    def _one_timeline(self, one: int, other: int) -> bool:
        return int(self.table.keyset[one]) == int(self.table.keyset[other])

    def _weaker(self, one: Side, two: Side, *, holds: bool) -> bool:
        """Whether the second fails only where the first does.

        `holds`: whether it holds wherever the first does. At the same step.
        """
        a, b = one.formula, two.formula
        if not is_temporal(a) and not is_temporal(b):
            return self._known_weaker(one, two, holds)
        if isinstance(a, Implies):
            a = Or(args=(Not(arg=a.antecedent), a.consequent))
        if isinstance(b, Implies):
            b = Or(args=(Not(arg=b.antecedent), b.consequent))
        one, two = one.of(a), two.of(b)
        match a, b:
            case Not(), Not():
                return self._weaker(two.of(b.arg), one.of(a.arg), holds=not holds)
            case _, And():
                return all(self._weaker(one, two.of(arg), holds=holds) for arg in b.args)
            case Or(), _:
                return all(self._weaker(one.of(arg), two, holds=holds) for arg in a.args)
            case Initially(), Initially():
                return self._weaker(one.of(a.arg), two.of(b.arg), holds=holds)
            case Until(), Until() if (
                a.op == b.op and a.closed == b.closed and self._fits(one, two, a, b, holds)
            ):
                return all(
                    self._weaker(one.of(x), two.of(y), holds=holds)
                    for x, y in ((a.left, b.left), (a.right, b.right))
                )
            case Temporal(), Temporal() if a.op == b.op and self._fits(one, two, a, b, holds):
                if self._weaker(one.of(a.arg), two.of(b.arg), holds=holds):
                    return True
            case _:
                pass
        if isinstance(a, And) and any(
            self._weaker(one.of(arg), two, holds=holds) for arg in a.args
        ):
            return True
        if isinstance(b, Or) and any(self._weaker(one, two.of(arg), holds=holds) for arg in b.args):
            return True
        if (
            isinstance(a, Temporal)
            and _is_universal(a)
            and not self._ends(one, a)[0]
            and self._weaker(one.of(a.arg), two, holds=holds)
        ):
            return True
        starts_now = isinstance(b, Temporal) and not _is_universal(b) and not self._ends(two, b)[0]
        return (
            starts_now and isinstance(b, Temporal) and self._weaker(one, two.of(b.arg), holds=holds)
        )

    def _ends(self, side: Side, part: Temporal | Until) -> tuple[float, float]:
        """First and last step of a window; infinite where it has no end."""
        low, high = (round(self.table.param(side.row, end)) for end in (part.low, part.high))
        return low, high if high >= 0 else float("inf")

    def _fits(
        self, one: Side, two: Side, a: Temporal | Until, b: Temporal | Until, holds: bool
    ) -> bool:
        """Whether one window lies in the other so that the second asks for no more.

        A window without an end ends with the trace, one with an end is unknown there under
        "strict": where that decides, they do not fit.
        """
        (low, high), (low_, high_) = self._ends(one, a), self._ends(two, b)
        universal = isinstance(a, Temporal) and _is_universal(a)
        inside = low <= low_ and high_ <= high if universal else low_ <= low and high <= high_
        whole = self.table.pack.manifest.contract.end == "clip" or (high == float("inf")) == (
            high_ == float("inf")
        )
        return inside and (whole or universal != holds)

    def _known_weaker(self, one: Side, two: Side, holds: bool) -> bool:
        """The same of parts without windows; whichever values are missing."""
        key = (one.row, id(one.formula), two.row, id(two.formula), holds)
        if key not in self._parts:
            rows = (one.row, two.row)
            if rows not in self._solvers:
                self._solvers[rows] = self._solver(rows)
            solver = self._solvers[rows]
            asked, granted = (one, two) if holds else (two, one)
            said = (
                solver.part(asked.row, asked.formula, positive=holds),
                solver.part(granted.row, granted.formula, positive=holds),
            )
            exact = None not in said and not solver.is_loose([granted.row])
            self._parts[key] = one, two, exact and solver.ask([], said[0], denied(said[1])) == "no"
        return self._parts[key][2]

    def _solver(self, rows: Sequence[int]) -> Solver:
        solver = Solver(self.table, rows, self.budget, keys=self.keys, taken=(), whole=True)
        solver.translator.knowable = {number for row in rows for number in self.table.reads(row)}
        return solver

    def _unrolled(self, row: int, others: Sequence[int]) -> frozenset[int] | None:
        """Rows that imply this one together, over the steps that they name: none where a trace
        shows otherwise; None: not decided.
        """
        timed = [
            one
            for one in others
            if self._one_timeline(one, row) or not is_temporal(self.table.skeleton(one))
        ]
        solver = self._solver([row, *timed])
        fails = solver.violated(row)
        facts = {one: self._satisfied_at(solver, one, NOW) for one in timed}
        steps = sorted({step for _, step in solver.translator.copies} - {NOW})
        usable = [one for one in timed if facts[one] and not solver.is_loose([one])]
        for step in steps[:STEPS]:
            there = set(solver.translator.keys_at(step[0]))
            for one in usable:
                if there.issuperset(self.table.keysets[int(self.table.keyset[one])]):
                    facts[one] += self._satisfied_at(solver, one, step)
        if fails is None or not usable:
            return None if fails is None or others else frozenset()
        answer = self._ask(solver, usable, facts, fails)
        if answer == "no":
            core = list(usable)
            for one in reversed(usable):
                fewer = [each for each in core if each != one]
                if fewer and self._ask(solver, fewer, facts, fails) == "no":
                    core = fewer
            return frozenset(core)
        whole = len(usable) == len(others) and len(steps) <= STEPS and not solver.weakened
        beyond = {step for _, step in solver.translator.copies} - {NOW, *steps}
        ends = [denied(inside) for step in beyond for inside in solver.translator.is_inside(step)]
        return (
            frozenset()
            if whole and answer == "yes" and self._ask(solver, usable, facts, fails, *ends) == "yes"
            else None
        )

    def _satisfied_at(self, solver: Solver, row: int, step: tuple[int, int]) -> list[object]:
        """That a row is not violated at a step, if the trace has it; [] where that is too large."""
        fails = solver.violated(row, step)
        return (
            []
            if fails is None
            else [any_of([denied(fails), *map(denied, solver.translator.is_inside(step))])]
        )

    def _ask(
        self, solver: Solver, rows: Sequence[int], facts: Mapping[int, list[object]], *more: object
    ) -> Literal["yes", "no", "unknown"]:
        return solver.ask([], *(fact for row in rows for fact in facts[row]), *more)


def _at_some_step(formula: Formula) -> Formula:
    """What fails at some step of a trace where the formula fails: what is under the windows at its
    top that ask for all steps.
    """
    while isinstance(formula, Temporal) and _is_universal(formula):
        formula = formula.arg
    return formula


def _is_universal(part: Temporal) -> bool:
    return part.op in ("always", "historically")
