"""A constraint on one row of a table, in words for somebody who knows the machine and not the
mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.pack import (
    And,
    AtLeast,
    Bank,
    CategoryIs,
    ClassIn,
    Column,
    Compare,
    Formula,
    Implies,
    Or,
    Pack,
    Param,
    Product,
    Reduce,
    Slot,
    Term,
    everywhere,
    is_temporal,
    subterms,
    used_slots,
)
from fedkg.pack.formula_text import formula_text, row_names
from fedkg.pack.formulas import ROWS

PURE_NUMBERS = ("1", "probability", "dimensionless")
"""Units that are not shown after a value."""

Values = NDArray[np.float64]
"""The numbers of one table row, float64 [V, C]: per view of the contract and column, predictions
filled in."""


def example(pack: Pack, bank: Bank, row: int, values: Values, place: str) -> str:
    """One violation in a sentence or two: where, what was measured, what the model said, what the
    rule wanted and why.

    Args:
        pack: the rules.
        bank: the bank with the constraint.
        row: the row of the constraint in the bank.
        values: the values of the table row.
        place: what to call the table row, such as ``row 812``.
    """
    bound = BoundConstraint(pack, bank, row, values)
    keys = [
        bound.columns[k].vocabulary[c]
        for k, c in zip(bank.keys[row].tolist(), bank.codes[row].tolist(), strict=True)
        if k >= 0
    ]
    where = f"{' '.join(keys)}, {place}" if keys else place
    measured = bound.measured()
    said = bound.predicted()
    first = f"{where}: {', '.join(measured)}" if measured else where
    return (
        f"{first}; predicted {said}. Wanted: {bound.wanted()}."
        if said
        else f"{first}. Wanted: {bound.wanted()}."
    )


def readings_text(pack: Pack, bank: Bank, row: int, values: Values) -> str:
    """What a constraint reads on a table row: ``process 308.9 K, air 301.1 K, previous speed 1345
    rpm, failure 0, grade D``.
    """
    return ", ".join(BoundConstraint(pack, bank, row, values).read())


class BoundConstraint:
    """A bank row on a table row."""

    def __init__(self, pack: Pack, bank: Bank, row: int, values: Values) -> None:
        self.contract = pack.manifest.contract
        self.columns = self.contract.columns
        self.skeleton: Formula = bank.skeleton
        self.slots, self.views, self.params = (
            bank.slots[row].tolist(),
            bank.views[row].tolist(),
            bank.params[row].tolist(),
        )
        self.values = values
        everywhere = np.empty((1, 0), dtype=np.int32)
        self.alone = replace(bank.take(np.array([row])), keys=everywhere, codes=everywhere)
        self.names = replace(
            row_names(pack.manifest.contract, bank, row),
            slots=[
                self._before(view) + short_name(self.columns[column])
                for column, view in zip(self.slots, self.views, strict=True)
            ],
            params=[number(value) for value in self.params],
            categories=[self.columns[column].vocabulary for column in self.slots],
        )

    def measured(self) -> list[str]:
        """What the constraint reads of the row itself: ``torque 57.3 N.m``."""
        read = dict.fromkeys(
            self.slots[i]
            for i in sorted(used_slots(self.skeleton))
            if self.columns[self.slots[i]].role == "input"
        )
        raised = [
            view.column
            for v in dict.fromkeys(self.views)
            if (view := self.contract.views[v]).column is not None
        ]
        cells = [
            text
            for column in dict.fromkeys([*read, *(c for c in raised if c is not None)])
            if (text := self._cell(column))
        ]
        return [*cells, *self._aggregates()]

    def predicted(self) -> str:
        """What the model said: ``failure 0.39, and 0.31 at wear 36 min``."""
        pairs = dict.fromkeys(
            (self.slots[i], self.views[i]) for i in sorted(used_slots(self.skeleton))
        )
        asked = [
            pair
            for pair in sorted(pairs, key=lambda pair: pair[1])
            if self.columns[pair[0]].role == "output"
        ]
        said = [
            (column, view, self.values[view, column])
            for column, view in asked
            if not math.isnan(self.values[view, column])
        ]
        distinct = len({value for _, _, value in said})
        digits = next(
            (d for d in range(2, 8) if len({f"{value:.{d}f}" for _, _, value in said}) == distinct),
            8,
        )
        return ", ".join(
            f"{'and' if i else short_name(self.columns[column])} "
            f"{value:.{digits}f}{self._condition(view)}"
            for i, (column, view, value) in enumerate(said)
        )

    def read(self) -> list[str]:
        """Every column that the constraint reads, in its order, with its value.

        A raised row before raising.
        """
        pairs = [(self.slots[i], self.views[i]) for i in sorted(used_slots(self.skeleton))]
        return list(
            filter(
                None,
                dict.fromkeys(
                    [*(self._reading(column, view) for column, view in pairs), *self._aggregates()]
                ),
            )
        )

    def _aggregates(self) -> Iterator[str]:
        """The numbers made of members, and how many members hold: ``sum of flow over 3 members
        41.2``, ``2 of 3 members hold``.
        """
        for table, part in everywhere(self.skeleton):
            if table == ROWS and isinstance(part, Reduce):
                value = self._number(part)
                yield f"{self.term_text(part)} {'unknown' if math.isnan(value) else number(value)}"
            elif table == ROWS and isinstance(part, AtLeast) and not is_temporal(part.arg):
                yield f"{self._holding(part)} of {self.names.counts[part.members]} members hold"

    def _holding(self, part: AtLeast) -> int:
        """How many members satisfy the argument on this row: the largest count that holds."""
        asked = AtLeast(count=len(self.params), members=part.members, arg=part.arg)
        counts = range(1, self.names.counts[part.members] + 1)
        banks = (
            replace(self.alone, skeleton=asked, params=np.array([[*self.params, float(count)]]))
            for count in counts
        )
        return sum(
            bool(evaluate_bank(bank, self.values[:, None, :]).satisfied[0, 0]) for bank in banks
        )

    def _reading(self, column: int, view: int) -> str:
        entry, before = self.columns[column], self._before(view)
        value = float(self.values[view if before else 0, column])
        name = before + short_name(entry)
        if math.isnan(value):
            return f"{name} unknown"
        if entry.type == "category":
            known = 0 <= value < len(entry.vocabulary)
            return f"{name} {entry.vocabulary[int(value)] if known else 'another'}"
        if entry.type == "boolean":
            return f"{name} {_truth(value)}"
        if entry.type == "score":
            return f"{name} {entry.category}" if value == 1 else ""
        return f"{name} {number(value)}{unit_suffix(entry)}"

    def _before(self, view: int) -> str:
        return "previous " if self.contract.views[view].kind == "previous" else ""

    def wanted(self) -> str:
        """What the rule asks for on this row."""
        if isinstance(self.skeleton, Implies):
            because = ", ".join(dict.fromkeys(self._reasons(self.skeleton.antecedent)))
            return self._demand(self.skeleton.consequent) + (
                f", because {because}" if because else ""
            )
        return self._demand(self.skeleton)

    def _demand(self, formula: Formula) -> str:
        if isinstance(formula, Compare):
            return self._rise(formula) or self._bound(formula, formula.left, formula.right)
        return formula_text(formula, self.names)

    def _bound(self, atom: Compare, left: Term, right: Term) -> str:
        """``failure at least 0.5``: the side with a column first."""
        if isinstance(left, Param) and not isinstance(right, Param):
            words = {"le": "at least", "lt": "above", "eq": "equal to", "ne": "other than"}
            return f"{self.term_text(right)} {words[atom.op]} {self.term_text(left)}"
        words = {"le": "at most", "lt": "below", "eq": "equal to", "ne": "other than"}
        return f"{self.term_text(left)} {words[atom.op]} {self.term_text(right)}"

    def _rise(self, atom: Compare) -> str:
        """``failure no lower when wear is raised by 13 min``, for a comparison of one thing with
        itself in another view.
        """
        if self.term_text(atom.left) != self.term_text(atom.right):
            return ""
        views = [
            max((self.views[i] for i in _slots_of(side)), default=0)
            for side in (atom.left, atom.right)
        ]
        reading = self.contract.views[max(views)]
        if min(views) != 0 or reading.kind != "raised" or reading.column is None:
            return ""
        raised = self.columns[reading.column]
        direction = "no lower" if views[0] == 0 else "no higher"
        return (
            f"{self.term_text(atom.left)} {direction} when {short_name(raised)} is raised "
            f"by {number(reading.delta)}{unit_suffix(raised)}"
        )

    def _reasons(self, formula: Formula) -> Iterator[str]:
        """The comparisons of a guard that hold on this row, with the numbers on both sides:
        ``torque * wear is 11350, above 11000``.
        """
        match formula:
            case Compare():
                left, right = self._number(formula.left), self._number(formula.right)
                if not (
                    left <= right
                    if formula.op == "le"
                    else left < right
                    if formula.op == "lt"
                    else True
                ):
                    return
                if isinstance(formula.left, Param):
                    yield (
                        f"{self.term_text(formula.right)} is {number(right)}, "
                        f"{'at least' if formula.op == 'le' else 'above'} {number(left)}"
                    )
                else:
                    yield (
                        f"{self.term_text(formula.left)} is {number(left)}, "
                        f"{'at most' if formula.op == 'le' else 'below'} {number(right)}"
                    )
            case CategoryIs() | ClassIn():
                yield formula_text(formula, self.names)
            case And() | Or():
                for arg in formula.args:
                    yield from self._reasons(arg)
            case _:
                yield formula_text(formula, self.names)

    def term_text(self, term: Term) -> str:
        """A term in plain names; factors that only convert units are left out."""
        if isinstance(term, Product):
            kept = tuple(arg for arg in term.args if not isinstance(arg, Param))
            term = term if not kept else kept[0] if len(kept) == 1 else Product(args=kept)
        atom = Compare(op="eq", left=term, right=Param(index=len(self.params)), scale=0)
        return formula_text(atom, self.names).rpartition(" == ")[0].replace(" * ", " × ")

    def _number(self, term: Term) -> float:
        """The value of a term on this row, by the interpreter: how far it lies above an additional
        parameter that is zero.
        """
        above = Compare(op="le", left=Param(index=len(self.params)), right=term, scale=0)
        asked = replace(self.alone, skeleton=above, params=np.array([[*self.params, 0.0]]))
        return float(evaluate_bank(asked, self.values[:, None, :]).robustness[0, 0])

    def _cell(self, column: int) -> str:
        value = self.values[0, column]
        entry = self.columns[column]
        if entry.type == "category" or math.isnan(value):
            return ""
        return (
            f"{short_name(entry)} "
            f"{_truth(value) if entry.type == 'boolean' else number(value)}{unit_suffix(entry)}"
        )

    def _condition(self, view: int) -> str:
        reading = self.contract.views[view]
        if reading.kind == "raised" and reading.column is not None:
            column = self.columns[reading.column]
            return (
                f" at {short_name(column)} "
                f"{number(self.values[0, reading.column] + reading.delta)}{unit_suffix(column)}"
            )
        return " in the row before" if reading.kind == "previous" else ""


def _slots_of(term: Term) -> Iterator[int]:
    return (part.index for part in subterms(term) if isinstance(part, Slot))


def short_name(column: Column) -> str:
    """The signal's name without its entity, underscores as blanks."""
    return (column.label or column.name.partition("[")[0]).replace("_", " ")


def number(value: float) -> str:
    """At least four significant digits, no exponent where it can be helped."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 8)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _truth(value: float) -> str:
    return "true" if value >= 0.5 else "false"


def unit_suffix(column: Column) -> str:
    """The unit of a column after a blank; "" for none, for probabilities and for pure numbers."""
    return f" {column.unit}" if column.unit and column.unit not in PURE_NUMBERS else ""
