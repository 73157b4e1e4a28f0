"""Questions about a few bound rows, put to the solver z3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import z3

from fedkg.pack import Formula
from fedkg.pack.formulas import is_temporal
from fedkg_compiler.analysis.budget import STUCK_MS, Budget
from fedkg_compiler.analysis.single_column_bounds import Keys, RowTable
from fedkg_compiler.analysis.verdict import Reading, Witness
from fedkg_compiler.analysis.z3_formulas import NOW, Step, TooLarge, Translator, all_of, number_of

Answer = Literal["yes", "no", "unknown"]
STEPS = 16
"""At most this number of steps of a trace is examined."""
Z3 = Any
"""z3 has no types."""


class Solver:
    """Rows that hold together, and questions about them.

    Every row is an assumption that a question may take or leave. Declared spans hold, unless
    `spans` is False or they are widened.
    """

    def __init__(
        self,
        table: RowTable,
        rows: Sequence[int],
        budget: Budget,
        *,
        keys: Keys = (),
        lenient: float = 0.0,
        spans: bool = True,
        width: float = 0.0,
        whole: bool = False,
        taken: Sequence[int] | None = None,
        bounded: bool = False,
    ) -> None:
        """`taken`: which of the rows may be assumed, all by default.

        `bounded`: of traces that end soon, see `Translator`.

        `whole`: an `always` at the top of a rule is part of the question, not left out as what a
        rule means anyway.
        """
        self.table, self.rows, self.budget, self.keys = table, tuple(rows), budget, keys
        self.spans, self.width, self.whole = spans, width, whole
        self.translator = Translator(table, rows, lenient=lenient, bounded=bounded)
        self._loose: set[int] = set()
        self.solver = z3.Solver()
        self.rows = self.rows if taken is None else tuple(taken)
        self.taken: dict[int, Z3] = {}
        self._said = 0
        self._written = 0
        self._bundle: tuple[tuple[int, ...], Z3] = ((), None)
        self.too_large = False
        now = {row: self._now(row) for row in self.rows}
        self.timed = any(
            table.is_timed(row) and is_temporal(formula) for row, formula in now.items()
        )
        for column, code in keys:
            number, _ = self.table.variables.place(0, column)
            self.solver.add(self.translator.variable(number, NOW) == code)
        if self.timed:
            self._take(self.rows)
        if self.timed and not self.too_large:
            self._at_other_steps(now)

    @property
    def weakened(self) -> bool:
        """Whether a formula was weakened: then only "no" is an answer to rely on."""
        return self.translator.weakened

    def is_loose(self, rows: Iterable[int]) -> bool:
        """Whether the formula of any of these rows, or a part of it, was weakened."""
        return not self._loose.isdisjoint(rows)

    @property
    def replayable(self) -> bool:
        """Whether the assignment behind a "yes" is a trace that the interpreter agrees on.

        Nothing was weakened, no `always` at the top of a rule was left out, no step lies just
        anywhere, and no value is irrational: the number beside it that can be written down need not
        do the same.
        """
        whole = self.whole or all(self._now(row) is self.table.skeleton(row) for row in self.rows)
        if (
            not whole
            or self.weakened
            or any(anchor != 0 for _, (anchor, _) in self.translator.copies)
        ):
            return False
        model = self.solver.model()
        return not any(
            z3.is_algebraic_value(model.eval(variable, model_completion=True))
            for variable in self.translator.copies.values()
        )

    def ask(self, rows: Sequence[int], *more: Z3) -> Answer:
        """Whether something satisfies these rows and the further conditions together."""
        steps = self.budget.steps()
        self._take(rows if steps > 0 else ())
        if self.too_large or steps <= 0:
            return "unknown"
        self._say_background()
        self.solver.set("rlimit", steps, "timeout", STUCK_MS)
        before = self._counted()  # all solvers of a process count together
        answer = self._check([*self._literals(rows), *more])
        self.budget.spend(self._counted() - before)
        written, self._written = self._written, self.translator.parts
        self.budget.write(self._written - written)
        return "yes" if answer == z3.sat else "no" if answer == z3.unsat else "unknown"

    def core(self, rows: Sequence[int], *more: Z3) -> list[int]:
        """A minimal set among these rows that nothing satisfies together with the further
        conditions, which nothing satisfies with all.

        Rows late in the order are left out first.
        """
        bundled, self._bundle = self._bundle, ((), None)
        kept = self._named(rows) if self.ask(rows, *more) == "no" else list(rows)
        for row in reversed(list(kept)):
            fewer = [other for other in kept if other != row]
            if row in kept and self.ask(fewer, *more) == "no":
                kept = self._named(fewer)
        self._bundle = bundled
        return kept

    def bundle(self, rows: Sequence[int]) -> None:
        """From now on these rows are assumed through one literal wherever they are asked about
        together: that is much faster.
        """
        self._take(rows)
        literal = z3.Bool(f"bundle{len(rows)}")
        self.solver.add(
            *(z3.Implies(literal, self.taken[row]) for row in rows if row in self.taken)
        )
        self._bundle = (tuple(rows), literal)

    def _literals(self, rows: Sequence[int]) -> list[Z3]:
        bundled, literal = self._bundle
        return (
            [literal]
            if literal is not None and tuple(rows) == bundled
            else [self.taken[row] for row in rows]
        )

    def _check(self, assumptions: Sequence[Z3]) -> Z3:
        """What `Solver.check` does, without looking at the sort of every assumption: there are
        hundreds of them each time.
        """
        array = (z3.Ast * len(assumptions))(*(one.as_ast() for one in assumptions))
        return z3.CheckSatResult(
            z3.Z3_solver_check_assumptions(
                self.solver.ctx.ref(), self.solver.solver, len(assumptions), array
            )
        )

    def _counted(self) -> int:
        """The steps that z3 has taken so far."""
        context, statistics = self.solver.ctx.ref(), self.solver.statistics().stats
        for place in reversed(range(z3.Z3_stats_size(context, statistics))):
            if z3.Z3_stats_get_key(context, statistics, place) == "rlimit count":
                return int(z3.Z3_stats_get_uint_value(context, statistics, place))
        return 0

    def _named(self, rows: Sequence[int]) -> list[int]:
        """The rows among these that the last "no" was founded on."""
        asked = {literal.get_id() for literal in self.solver.unsat_core()}
        return [row for row in rows if self.taken[row].get_id() in asked]

    def part(self, row: int, part: Formula, *, positive: bool = True) -> Z3 | None:
        """A condition to ask about: that this part of a row certainly holds (or fails) now.

        None where it is too large.
        """
        return self._condition(row, part, positive)

    def violated(self, row: int, step: Step = NOW) -> Z3 | None:
        """The condition that a row is certainly violated, now or at a step.

        None where it is too large.
        """
        return self._condition(row, None, False, step)

    def values(self, numbers: Iterable[int], step: Step = NOW) -> dict[int, float]:
        """What these variables, all met before, are at a step in the assignment behind the last
        "yes": NaN where they have no value.
        """
        model = self.solver.model()
        found = {}
        for number in numbers:
            known = self.translator.known.get((number, step))
            there = known is None or z3.is_true(model.eval(known, model_completion=True))
            found[number] = (
                _float(model.eval(self.translator.variable(number, step), model_completion=True))
                if there
                else float("nan")
            )
        return found

    def witness(self) -> Witness:
        """The assignment behind the last "yes"."""
        model = self.solver.model()
        found: dict[tuple[int, int, int], float] = {}
        for (number, step), variable in self.translator.copies.items():
            known = self.translator.known.get((number, step))
            if step[0] != 0 or not all(
                z3.is_true(model.eval(condition, model_completion=True))
                for condition in [
                    *([] if known is None else [known]),
                    *self.translator.is_inside(step),
                ]
            ):
                continue
            value = _float(model.eval(variable, model_completion=True))
            for view, column, shift in self.table.variables.items[number].readings:
                found[step[1], view, column] = value + shift
        for moment in {0, *(moment for moment, _, _ in found)}:
            found.update({(moment, 0, column): float(code) for column, code in self.keys})
        return Witness(
            tuple(
                sorted(
                    Reading(step, view, column, value)
                    for (step, view, column), value in found.items()
                )
            )
        )

    def _condition(
        self, row: int, part: Formula | None, positive: bool, step: Step = NOW
    ) -> Z3 | None:
        try:
            return self._write(row, step, part, positive)
        except TooLarge:
            return None

    def _write(self, row: int, step: Step, part: Formula | None, positive: bool = True) -> Z3:
        """The row, or the part, as a formula; noted when it was weakened. Raises TooLarge."""
        before, self.translator.weakened = self.translator.weakened, False
        try:
            return self.translator.row(row, step, positive=positive, part=part)
        finally:
            self._loose.update([row] if self.translator.weakened else [])
            self.translator.weakened |= before

    def _take(self, rows: Sequence[int]) -> None:
        """Write down what is not written of these rows."""
        try:
            for row in rows:
                if row not in self.taken:
                    said = self._write(row, NOW, self._now(row))
                    self.taken[row] = z3.Bool(f"row{row}")
                    self.solver.add(z3.Implies(self.taken[row], said))
        except TooLarge:
            self.too_large = True

    def _at_other_steps(self, now: Mapping[int, Formula]) -> None:
        """Apply rows about one step at every step of other rows that has their keys."""
        plain = [row for row in self.rows if not is_temporal(now[row])]
        steps: list[Step] = sorted({step for _, step in self.translator.copies} - {NOW})[:STEPS]
        try:
            for step in steps:
                there = set(self.translator.keys_at(step[0]))
                for row in (
                    row
                    for row in plain
                    if there.issuperset(self.table.keysets[int(self.table.keyset[row])])
                ):
                    self.solver.add(z3.Implies(self.taken[row], self._write(row, step, now[row])))
        except TooLarge:
            self.too_large = True

    def _now(self, row: int) -> Formula:
        return self.table.skeleton(row) if self.whole else self.table.at_any_step(row)

    def _say_background(self) -> None:
        """Types and spans of the variables that have been met since the last question."""
        met = len(self.translator.copies)
        if met != self._said:
            self.solver.add(
                *self.translator.background(self._said, spans=self.spans, width=self.width)
            )
            self._said = met


def _float(value: Z3) -> float:
    if z3.is_int_value(value):
        return float(value.as_long())
    if z3.is_algebraic_value(value):
        value = value.approx(20)
    return float(value.as_fraction()) if z3.is_rational_value(value) else float("nan")


__all__ = ["Answer", "Solver", "all_of", "number_of"]
