"""Formulas as text, as near to the rule language as a skeleton allows.

A skeleton alone prints with the places it leaves open: ``x0``, ``x1`` for columns of data, ``y0``
for what the model predicts, ``p0`` for numbers. A row of a bank fills them: ``torque * speed <=
9000``. Windows are in steps, or in time if the step is known. Sentences for authors, with units and
members by name, are the compiler's: `fedkg_compiler.analysis.requirement_text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fedkg.pack.bank import Bank, MemberTable
from fedkg.pack.contract import TRUTHS, DataContract
from fedkg.pack.formula_writer_protocol import OPEN, duration_text, number_text
from fedkg.pack.formulas import Formula, Term
from fedkg.pack.pack import Pack
from fedkg.units import Unit, parse_unit, same_dimension

__all__ = [
    "Names",
    "duration_text",
    "formula_text",
    "keys_text",
    "number_text",
    "row_names",
    "row_text",
    "term_text",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The texts for the open places of a skeleton; without `Names`, placeholders are printed.

    Attributes:
        slots: text of each slot.
        params: text of each parameter.
        categories: for each slot the texts of its codes; () for a slot with numbers.
        members: the texts for the open places of each member table.
        counts: number of members of the row in each member table.
        in_table_rows: for each member table, whether its members are read from all table rows that
            their keys select.
        step: seconds between two steps; None if unknown.
    """

    slots: Sequence[str] = ()
    params: Sequence[str] = ()
    categories: Sequence[Sequence[str]] = ()
    members: Sequence[Names] = ()
    counts: Sequence[int] = ()
    in_table_rows: Sequence[bool] = ()
    step: float | None = None

    def slot(self, index: int, letter: str = "x") -> str:
        """The text for slot `index`."""
        return self.slots[index] if index < len(self.slots) else f"{letter}{index}"

    def param(self, index: int) -> str:
        """The text for parameter `index`."""
        return self.params[index] if index < len(self.params) else f"p{index}"

    def category(self, slot: int, param: int) -> str:
        """The text of a category, quoted, where the slot's vocabulary knows the code.

        Of a truth value as it is.
        """
        words = self.categories[slot] if slot < len(self.categories) else ()
        code = self.param(param)
        if not code.isdigit() or int(code) >= len(words):
            return code
        return words[int(code)] if words == TRUTHS else f'"{words[int(code)]}"'

    def inside(self, table: int) -> Names:
        """The names within a member table."""
        return self.members[table] if table < len(self.members) else Names(step=self.step)

    def over(self, table: int) -> str:
        """``over 3 members``."""
        if table >= len(self.counts):
            return "over members"
        count = self.counts[table]
        where = " in all their table rows" if any(self.in_table_rows[table : table + 1]) else ""
        return f"over {count} member{'s' * (count != 1)}{where}"

    def window(self, low: int, high: int) -> str:
        """``within 2 h``, ``[1 h, 2 h]``, ``within 24 steps``; "" for a window that begins now and
        has no end.
        """
        first, last = self.param(low), self.param(high)
        if last == "-1":
            return "" if first == "0" else f"[{self._time(first)}, end]"
        return (
            f"within {self._time(last)}"
            if first == "0"
            else f"[{self._time(first)}, {self._time(last)}]"
        )

    def duration(self, steps: int) -> str:
        """``2 h`` or ``24 steps``."""
        return self._time(self.param(steps))

    def term(self, term: Term, around: int = OPEN) -> str:
        """The term, in parentheses if its operator binds looser than `around`."""
        text, level = term.text(self)
        return text if level >= around else f"({text})"

    def formula(self, formula: Formula, *, outer: bool = False) -> str:
        """The formula, in parentheses if it needs them and is not `outer`."""
        return formula.text(self, outer=outer)

    def _time(self, steps: str) -> str:
        if not steps.isdigit():
            return steps
        return (
            f"{steps} step{'s' * (steps != '1')}"
            if self.step is None
            else duration_text(int(steps) * self.step)
        )


def formula_text(formula: Formula, names: Names | None = None) -> str:
    """The formula on one line; `and`/`or` inside other connectives are in parentheses."""
    return (names or Names()).formula(formula, outer=True)


def term_text(term: Term, names: Names) -> str:
    """The value on one line."""
    return names.term(term)


def row_text(pack: Pack, bank: Bank, row: int) -> str:
    """The bound constraint in row `row` of `bank`, with its columns, views and numbers in place,
    and its unit where it has one.

    A limit on a temperature in degC has a violation in K: this gives the unit of the margin.
    """
    contract = pack.manifest.contract
    slots = bank.slots[row]
    text = formula_text(bank.skeleton, row_names(contract, bank, row))
    unit = pack.manifest.units[int(bank.unit[row])]
    shifted = any(_steps_to(contract.columns[int(column)].unit, unit) for column in slots)
    return f"{text}  ({'margin in' if shifted else 'in'} {unit})" if unit else text


def row_names(contract: DataContract, bank: Bank, row: int) -> Names:
    """The texts for the open places of a bank's skeleton in one row."""
    slots, views = bank.slots[row], bank.views[row]
    members = bank.take(np.array([row])).members
    return Names(
        slots=[
            _read(contract, int(column), int(view))
            for column, view in zip(slots, views, strict=True)
        ],
        params=[number_text(float(value)) for value in bank.params[row]],
        categories=[contract.columns[int(column)].vocabulary for column in slots],
        members=[_member_names(contract, table) for table in members],
        counts=[table.count for table in members],
        in_table_rows=[table.table_rows is not None and table.table_rows.own for table in members],
        step=contract.step,
    )


def _member_names(contract: DataContract, table: MemberTable) -> Names:
    """What the members of one row have in common: ``flow`` for flow[pipe_1] and flow[pipe_2], ``0.5
    .. 2`` for numbers.
    """
    reads = [
        [
            _read(contract, int(column), int(view))
            for column, view in zip(columns, views, strict=True)
        ]
        for columns, views in zip(table.slots.T, table.views.T, strict=True)
    ]
    spans = [sorted({float(value) for value in numbers}) for numbers in table.params.T]
    return Names(
        slots=[_common(read) or f"x{i}" for i, read in enumerate(reads)],
        params=[
            f"p{i}"
            if not span
            else number_text(span[0])
            if len(span) == 1
            else f"({number_text(span[0])} .. {number_text(span[-1])})"
            for i, span in enumerate(spans)
        ],
        categories=[
            contract.columns[int(columns[0])].vocabulary if columns.size else ()
            for columns in table.slots.T
        ],
        step=contract.step,
    )


def _common(names: Iterable[str]) -> str:
    """The one name, or the signals without their entities; "" for none."""
    distinct = list(dict.fromkeys(names))
    return (
        distinct[0]
        if len(distinct) == 1
        else " or ".join(dict.fromkeys(name.partition("[")[0] for name in distinct))
    )


def _steps_to(unit: str, step: str) -> bool:
    """Whether a unit's zero is not zero, so that differences are in another one: degC in K."""
    known = parse_unit(unit) if unit != step else None
    of_step = parse_unit(step)
    return (
        isinstance(known, Unit)
        and isinstance(of_step, Unit)
        and known.affine
        and same_dimension(known, of_step)
    )


def keys_text(pack: Pack, bank: Bank, row: int) -> str:
    """Which table rows the bound constraint is about: ``machine = M07``.

    Empty when it is about all.
    """
    columns = pack.manifest.contract.columns
    pairs = [
        (columns[int(key)], int(code))
        for key, code in zip(bank.keys[row], bank.codes[row], strict=True)
        if key >= 0
    ]
    return ", ".join(f"{column.source} = {column.vocabulary[code]}" for column, code in pairs)


def _read(contract: DataContract, column: int, view: int) -> str:
    name, reading = contract.columns[column].name, contract.views[view]
    if reading.kind == "previous":
        return f"previous {name}"
    if reading.kind == "raised" and reading.column is not None:
        raised = contract.columns[reading.column]
        return (
            f"{name}[{raised.name} + "
            f"{number_text(reading.delta)}{' ' + raised.unit if raised.unit else ''}]"
        )
    return name
