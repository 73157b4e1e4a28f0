"""One question about clauses of knowledge models, put to the solver z3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, floor
from typing import TYPE_CHECKING, Any

import z3

from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.single_column_bounds import Keys, RowTable
from fedkg_compiler.analysis.z3_formulas import NOW, TooLarge, number_of
from fedkg_compiler.analysis.z3_solver import Solver
from fedkg_compiler.frontends.knowledge.clause_proof_records import ClauseRow, Verdict

if TYPE_CHECKING:
    from fedkg.pack import Term
    from fedkg_compiler.analysis.verdict import Reading

Z3 = Any
"""z3 has no types."""
DIGITS = (0, 1, 3)
"""Decimal places to try, in this order: a witness with few decimal places is easier to read."""


class Questions:
    """Whether clauses can hold at once.

    Args:
        table: the bound rows that the numbers refer to.
        rows: numbers of the rows of the conditions that must hold.
        earlier: numbers of the rows of the conditions that must fail.
        keys: the columns and codes that select the table rows.
        budget: the effort that the solver may spend.
    """

    def __init__(
        self,
        table: RowTable,
        rows: Sequence[int],
        earlier: Sequence[int],
        keys: Keys,
        budget: Budget,
    ) -> None:
        self.rows = list(dict.fromkeys(rows))
        self.earlier = list(dict.fromkeys(earlier))
        self.solver = Solver(
            table, list(dict.fromkeys([*self.rows, *self.earlier])), budget, keys=keys
        )

    def answer(self, condition: Callable[[Questions], Z3] | None) -> Verdict:
        """``proven``: they cannot; ``broken``: they can, at these values; ``open``: not decided."""
        try:
            more = [] if condition is None else [condition(self)]
        except TooLarge:
            return "open", ""
        failing = [self._fails(row) for row in self.earlier]
        if any(part is None for part in failing):
            return "open", ""
        found = self.solver.ask(self.rows, *failing, *more)
        if found == "no":
            return "proven", ""
        if found == "unknown" or self.solver.weakened:
            return "open", ""
        return "broken", self._where([*failing, *more])

    def _fails(self, row: int) -> Z3 | None:
        """A condition does not hold: it is violated, or the sample is not one that it is about."""
        violated, table = self.solver.violated(row), self.solver.table
        if violated is None:
            return None
        keys = [
            (table.variables.place(0, column)[0], code)
            for column, code in table.keysets[int(table.keyset[row])]
        ]
        return z3.Or(
            violated,
            *(self.solver.translator.variable(number, NOW) != code for number, code in keys),
        )

    def exceeds(self, low: ClauseRow, high: ClauseRow) -> Z3:
        """The least that one clause allows is above the greatest that another does."""
        return self._compared(low, low.clause.low, high, high.clause.high, _above)

    def misses(self, row: ClauseRow, span: tuple[float, float]) -> Z3:
        """The condition that a clause's range lies outside the output's span."""
        return z3.Or(
            self._bounded(row, row.clause.low, lambda value: value > number_of(span[1])),
            self._bounded(row, row.clause.high, lambda value: value < number_of(span[0])),
        )

    def strays(self, said: ClauseRow, span: tuple[float, float]) -> Z3:
        """The condition that a clause's prediction lies outside the output's span."""
        return z3.Or(
            self._bounded(said, said.clause.value, lambda value: value > number_of(span[1])),
            self._bounded(said, said.clause.value, lambda value: value < number_of(span[0])),
        )

    def leaves(self, said: ClauseRow, allowed: ClauseRow) -> Z3:
        """The condition that one clause's prediction lies outside the range of another."""
        return z3.Or(
            self._compared(allowed, allowed.clause.low, said, said.clause.value, _above),
            self._compared(said, said.clause.value, allowed, allowed.clause.high, _above),
        )

    def _compared(
        self,
        one: ClauseRow,
        left: Term | None,
        other: ClauseRow,
        right: Term | None,
        relation: Callable[[Z3, Z3], Z3],
    ) -> Z3:
        if left is None or right is None:
            return z3.BoolVal(False)
        first, second = (
            self.solver.translator.term(one.number, left),
            self.solver.translator.term(other.number, right),
        )
        return z3.And(*first.known, *second.known, relation(first.number, second.number))

    def _bounded(self, row: ClauseRow, term: Term | None, relation: Callable[[Z3], Z3]) -> Z3:
        if term is None:
            return z3.BoolVal(False)
        value = self.solver.translator.term(row.number, term)
        return z3.And(*value.known, relation(value.number))

    def _witness(self, asked: Sequence[Z3]) -> tuple[Reading, ...]:
        """The values behind the last answer, or such of few digits near them: a message shows those
        as they are.
        """
        first = self.solver.witness().readings
        if all(_is_short(one.value) for one in first):
            return first
        fixed: list[Z3] = []
        for one in first:
            number, shift = self.solver.table.variables.place(one.view, one.column)
            variable = self.solver.translator.variable(number, (0, one.step))
            for value in _near(one.value):
                if (
                    self.solver.ask(self.rows, *asked, *fixed, variable == number_of(value - shift))
                    == "yes"
                ):
                    fixed.append(variable == number_of(value - shift))
                    break
        return (
            self.solver.witness().readings
            if self.solver.ask(self.rows, *asked, *fixed) == "yes"
            else first
        )

    def _where(self, asked: Sequence[Z3]) -> str:
        """``, at ash 13``: the values that the solver found."""
        columns = self.solver.table.pack.manifest.contract.columns
        found = []
        for reading in self._witness(asked):
            column = columns[reading.column]
            if column.type == "category":
                known = 0 <= int(reading.value) < len(column.vocabulary)
                found.append(
                    f"{column.name} "
                    f"{column.vocabulary[int(reading.value)] if known else 'something else'}"
                )
            else:
                shown = (
                    f"{reading.value:.6g}" if _is_short(reading.value) else f"{reading.value:.17g}"
                )
                found.append(f"{column.name} {shown}" + (f" {column.unit}" if column.unit else ""))
        return f", at {', '.join(found)}" if found else ""


def _near(value: float) -> list[float]:
    """The value itself where it is short, else the next ones below and above with few digits."""
    if _is_short(value):
        return [value]
    return [
        round(end(value * 10**digits) / 10**digits, digits)
        for digits in DIGITS
        for end in (floor, ceil)
    ]


def _is_short(value: float) -> bool:
    return float(f"{value:.6g}") == value


def _above(left: Z3, right: Z3) -> Z3:
    return left > right
