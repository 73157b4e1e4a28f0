"""Complete traces: one that satisfies the rows, or violates one row alone, rules out a finding.

On a trace with ends no window is cut short or weakened, so the findings of the solver z3 are exact.
Short traces have separate values at every step. Long ones change only where windows begin or end,
counted from the first step or back from the last: they take no more variables than there are such
steps, however long the windows are (the time points of "bounded" model checking that matter; Biere,
Cimatti, Clarke and Zhu, "Symbolic model checking without BDDs", 1999). That no such trace was found
says nothing.

Every step has the keys of the place, so all its rows apply to all steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from fedkg.pack import And, Formula, Implies, Initially, Not, Or, Temporal, Until
from fedkg.pack.formulas import ROWS, everywhere, is_temporal
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.single_column_bounds import Keys, RowTable
from fedkg_compiler.analysis.verdict import Condition, Reading, Witness
from fedkg_compiler.analysis.z3_formulas import TooLarge, all_of, any_of, denied
from fedkg_compiler.analysis.z3_solver import Solver

SHORT = (1, 2, 4, 8, 16)
"""Traces of this number of steps are tried first."""
LONGEST, MOST = 2000, 24
"""Traces are not longer, and those that are not short change at no more steps."""
PARTS = 20_000
"""Formulas of a trace with more parts are not looked at."""
Z3 = Any
"""z3 has no types."""


class WholeTraces:
    """Questions about the rows of a place, put to traces of several lengths."""

    def __init__(self, table: RowTable, budget: Budget, keys: Keys, *, width: float = 0.0) -> None:
        """`width`: by this share of their width spans are widened."""
        self.table, self.budget, self.keys, self.width = table, budget, keys, width

    def go_together(self, rows: Sequence[int], conditions: Sequence[Condition] = ()) -> bool:
        """Whether a trace keeps the rows and meets the conditions at some step.

        But for its ends, where all traces break a row there.
        """
        if self.keeping(rows, conditions) is not None:
            return True
        return self._break_at_ends(rows) and self.keeping(rows, conditions, inner=True) is not None

    def stands_alone(self, row: int, others: Sequence[int]) -> bool:
        """Whether a trace violates a row and none of the others.

        But for its ends, where all traces break one of the others there.
        """
        if self.violating(row, others) is not None:
            return True
        return self._break_at_ends(others) and self.violating(row, others, inner=True) is not None

    def _break_at_ends(self, rows: Sequence[int]) -> bool:
        """Whether some row is violated on every complete trace, but satisfied if trace ends are
        unknown.
        """
        if self.table.pack.manifest.contract.end != "clip":
            return False
        return any(
            self.keeping([row]) is None and self.keeping([row], inner=True) is not None
            for row in rows
        )

    def keeping(
        self, rows: Sequence[int], conditions: Sequence[Condition] = (), *, inner: bool = False
    ) -> Witness | None:
        """A trace that violates none of the rows, and a step of it at which all of them, and the
        conditions, certainly hold.

        `inner`: what the ends of the trace cut off counts as unknown, whatever the contract says.
        """

        def at(trace: _Trace, step: int) -> Z3:
            kept = [trace.encode(row, self.table.skeleton(row), step, True) for row in rows]
            return all_of(
                [
                    *kept,
                    *(trace.encode(one.row, one.formula, step, one.holds) for one in conditions),
                ]
            )

        return self._find_first(
            [*dict.fromkeys([*rows, *(one.row for one in conditions)])], rows, at, inner
        )

    def violating(self, row: int, others: Sequence[int], *, inner: bool = False) -> Witness | None:
        """A trace that violates the row at some step, and none of the others at any.

        `inner` as for `keeping`.
        """
        return self._find_first(
            [row, *others],
            others,
            lambda trace, step: trace.encode(row, self.table.skeleton(row), step, False),
            inner,
        )

    def _find_first(
        self,
        about: Sequence[int],
        kept: Sequence[int],
        at: Callable[[_Trace, int], Z3],
        inner: bool,
    ) -> Witness | None:
        """The first trace that violates none of `kept` and has `at` at some step.

        None if none was found.
        """
        try:
            for trace in self._traces(about, inner):
                found = trace.ask(
                    [trace.nowhere_violated(row) for row in kept],
                    {step: at(trace, step) for step in trace.changes},
                )
                if found is not None:
                    return found
        except TooLarge:  # longer ones are larger still
            pass
        return None

    def _traces(self, rows: Sequence[int], inner: bool) -> Iterator[_Trace]:
        """Traces to ask about, the short ones first, as long as the budget lasts."""
        ends = sorted(_ends(self.table, rows))
        for length in SHORT:
            yield from self._trace(rows, length, range(length), inner)
        far = sum(max(_ends(self.table, [row]), default=0) for row in rows)
        for length in dict.fromkeys(min(LONGEST, size + 2) for size in (max(ends, default=0), far)):
            if length > SHORT[-1]:
                yield from self._trace(rows, length, _changes(ends, length), inner)

    def _trace(
        self, rows: Sequence[int], length: int, changes: Iterable[int], inner: bool
    ) -> Iterator[_Trace]:
        if not self.budget.spent:
            yield _Trace(self, rows, length, sorted(changes), inner)


class _Trace:
    """The formulas of rows on a trace of `length` steps with values that change only at some
    steps.
    """

    def __init__(
        self, of: WholeTraces, rows: Sequence[int], length: int, changes: Sequence[int], inner: bool
    ) -> None:
        self.table, self.length, self.changes = of.table, length, changes
        self.solver = Solver(of.table, rows, of.budget, taken=(), width=of.width)
        self.clip = of.table.pack.manifest.contract.end == "clip" and not inner
        self.keys, self.budget = of.keys, of.budget
        self._numbers = sorted(set().union(*(of.table.reads(row) for row in rows)))
        self._timed: dict[int, bool] = {}
        self._known: dict[tuple[int, int, int, bool], Z3] = {}
        self._joined: dict[tuple[bool, tuple[int, ...]], Z3] = {}
        self._parts = 0

    def nowhere_violated(self, row: int) -> Z3:
        """That no step certainly violates the row."""
        formula = self.table.skeleton(row)
        steps = range(self.length) if is_temporal(formula) else self.changes
        return denied(self._join(False, (self.encode(row, formula, step, False) for step in steps)))

    def ask(self, kept: Sequence[Z3], there: dict[int, Z3]) -> Witness | None:
        """A trace that satisfies the conditions, and these formulas at one of these steps, or
        None.
        """
        if self.solver.weakened:
            return None
        variable = self.solver.translator.variable
        for step in self.changes:
            for number in self._numbers:
                variable(number, (0, step))
            self.solver.solver.add(
                *(
                    variable(self.table.variables.place(0, column)[0], (0, step)) == code
                    for column, code in self.keys
                )
            )
        self.solver.solver.add(*kept, any_of(list(there.values())))
        return self._witness(there) if self.solver.ask([]) == "yes" else None

    def encode(self, row: int, formula: Formula, step: int, positive: bool) -> Z3:
        """That a formula of a row certainly holds, or (not `positive`) certainly fails, at a step.

        Raises TooLarge.
        """
        if id(formula) not in self._timed:
            self._timed[id(formula)] = is_temporal(formula)
        at = step if self._timed[id(formula)] else self._change(step)
        key = row, id(formula), at, positive
        if key not in self._known:
            self._known[key] = self._encode(row, formula, at, positive)
        return self._known[key]

    def _encode(self, row: int, formula: Formula, step: int, positive: bool) -> Z3:
        if not self._timed[id(formula)]:
            return self.solver.translator.row(row, (0, step), positive=positive, part=formula)
        match formula:
            case Not():
                return self.encode(row, formula.arg, step, not positive)
            case And() | Or():
                parts = [self.encode(row, arg, step, positive) for arg in formula.args]
                return all_of(parts) if isinstance(formula, And) == positive else any_of(parts)
            case Implies():
                parts = [
                    self.encode(row, formula.antecedent, step, not positive),
                    self.encode(row, formula.consequent, step, positive),
                ]
                return any_of(parts) if positive else all_of(parts)
            case Initially():
                return self.encode(row, formula.arg, 0, positive)
            case Temporal():
                return self._temporal(row, formula, step, positive)
            case Until():
                return self._until(row, formula, step, positive)
            case _:
                raise TooLarge  # members, or terms, with separate windows

    def _window(self, formula: Temporal | Until, row: int, step: int) -> tuple[range, bool]:
        """How far from a step its window lies inside the trace, and whether it goes beyond, where
        nothing is known.
        """
        low, high = (round(self.table.param(row, end)) for end in (formula.low, formula.high))
        room = step if _way(formula) < 0 else self.length - 1 - step
        return range(
            low, (room if high < 0 else min(high, room)) + 1
        ), high > room and not self.clip

    def _stops(self, step: int, way: int, far: range, parts: Sequence[Formula]) -> list[int]:
        """The steps so far from a step, the nearest first.

        Of those between which no part changes its truth the first. Raises TooLarge.
        """
        if any(self._timed.setdefault(id(part), is_temporal(part)) for part in parts):
            found = [step + way * k for k in far]
        else:
            first = [step + way * k for k in far[:1]]
            turns = [at if way > 0 else at - 1 for at in self.changes[::way]]
            found = [*first, *(at for at in turns if way * (at - step) in far[1:])]
        self._parts += len(found)
        self.budget.write(len(found) // 8)
        if self._parts > PARTS or self.budget.spent:
            raise TooLarge
        return found

    def _temporal(self, row: int, formula: Temporal, step: int, positive: bool) -> Z3:
        window, beyond = self._window(formula, row, step)
        parts = [
            self.encode(row, formula.arg, one, positive)
            for one in self._stops(step, _way(formula), window, [formula.arg])
        ]
        if (formula.op in ("always", "historically")) != positive:
            return self._join(False, parts)
        return self._join(True, [*parts, *_never(beyond)])

    def _until(self, row: int, formula: Until, step: int, positive: bool) -> Z3:
        """`positive`: the right side holds at some step and the left before.

        Else the negation of that.

        Where the right side is what it was at a step of the window before, there is nothing to add:
        more must be so of the left by then.
        """
        window, beyond = self._window(formula, row, step)
        way = _way(formula)
        all_steps = (
            range(step + 1 if way < 0 else self.length - step) if beyond else range(window.stop)
        )
        parts = formula.left, formula.right
        before: dict[int, Z3] = {}
        found: dict[int, Z3] = {}
        stops = {*self._stops(step, way, all_steps, parts), *(step + way * k for k in window[:1])}
        for at in sorted(stops, reverse=way < 0):
            left = self.encode(row, formula.left, at, positive)
            if formula.closed:
                before[left.get_id()] = left
            if way * (at - step) in window:
                right = self.encode(row, formula.right, at, positive)
                if right.get_id() not in found:
                    found[right.get_id()] = self._join(positive, [right, *before.values()])
            before[left.get_id()] = left
        more = [self._join(False, before.values())] if beyond and not positive else []
        return self._join(not positive, [*found.values(), *more])

    def _join(self, every: bool, parts: Iterable[Z3]) -> Z3:
        """That all of these are so, or (not `every`) any."""
        distinct = {part.get_id(): part for part in parts}
        key = every, tuple(distinct)
        if key not in self._joined:
            self._joined[key] = (all_of if every else any_of)(list(distinct.values()))
        return self._joined[key]

    def _change(self, step: int) -> int:
        """The step from which on the values are those of this step."""
        return self.changes[bisect_right(self.changes, step) - 1]

    def _witness(self, there: dict[int, Z3]) -> Witness:
        """The trace behind a "yes", counted from the step that was asked for."""
        import z3

        model = self.solver.solver.model()
        now = next(
            step
            for step, said in there.items()
            if z3.is_true(model.eval(said, model_completion=True))
        )
        found: dict[tuple[int, int, int], float] = {}
        for change in self.changes:
            values = self.solver.values(self._numbers, (0, change))
            for step in (
                step for step in range(change, self.length) if self._change(step) == change
            ):
                for number, value in values.items():
                    for view, column, shift in (
                        self.table.variables.items[number].readings if value == value else ()
                    ):
                        found[step - now, view, column] = value + shift
                found.update({(step - now, 0, column): float(code) for column, code in self.keys})
        return Witness(tuple(sorted(Reading(*place, value) for place, value in found.items())))


def _ends(table: RowTable, rows: Sequence[int]) -> set[int]:
    """The steps at which windows of the rows begin or end, from where their formulas begin.

    Those of nested windows together.
    """
    found: set[int] = set()
    for row in rows:
        ends = [
            {round(table.param(row, end)) for end in (part.low, part.high)} - {-1}
            for where, part in everywhere(table.skeleton(row))
            if where == ROWS and isinstance(part, Temporal | Until)
        ]
        sums = {0}
        for own in ends:
            sums |= (
                {one + other for one in sums for other in own if one + other <= LONGEST}
                if len(sums) < MOST
                else own
            )
        found |= sums
    return found


def _changes(ends: Sequence[int], length: int) -> set[int]:
    """Where a long trace changes: at the ends of windows and just after, from its first step and
    from its last.
    """
    found = {0, length - 1}
    for end in sorted({*ends, *(end + 1 for end in ends)}):
        found |= {
            step for step in (end, length - 1 - end) if 0 <= step < length and len(found) < MOST
        }
    return found


def _way(formula: Temporal | Until) -> int:
    """1 where a window looks ahead, -1 where it looks back."""
    return -1 if formula.op in ("historically", "once", "since") else 1


def _never(which: bool) -> list[Z3]:
    import z3

    return [z3.BoolVal(False)] if which else []
