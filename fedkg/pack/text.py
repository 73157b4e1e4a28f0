"""Formulas as text, as near to the rule language as a skeleton allows.

A skeleton alone prints with the places it leaves open: ``x0``, ``x1`` for columns of data, ``y0`` for what the model predicts, ``p0`` for
numbers. A row of a bank fills them: ``torque * speed <= 9000``. Windows are told in steps, or in time where the step is known. Sentences
for authors, with units and members by name, are the compiler's: `fedkg_compiler.reason.words`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from fedkg.pack.bank import Bank, MemberTable
from fedkg.pack.contract import TRUTHS, DataContract
from fedkg.pack.formulas import (
    And,
    AtLeast,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Temporal,
    Until,
)
from fedkg.pack.pack import Pack
from fedkg.pack.terms import (
    Call,
    Choose,
    Coalesce,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
)
from fedkg.units import Unit, parse_unit

SYMBOLS = {"le": "<=", "lt": "<", "eq": "==", "ne": "!="}
OPEN, SUM, PRODUCT, SIGN, POWER, ATOM = range(6)
"""How tightly the printed operators bind, loosest first."""
TIMES = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
SHORT = 172_800
"""Seconds below which a duration is not told in days."""
NEIGHBOUR = {"eventually": "next", "once": "previous"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What stands in the open places of a skeleton; without one, placeholders do.

    Attributes:
        members: the same for each member table. counts: how many members the row has in each.
        step: seconds between two steps.
    """

    slots: Sequence[str] = ()
    params: Sequence[str] = ()
    categories: Sequence[Sequence[str]] = ()
    members: Sequence[Names] = ()
    counts: Sequence[int] = ()
    step: float | None = None

    def slot(self, index: int, letter: str = "x") -> str:
        """The text for slot `index`."""
        return self.slots[index] if index < len(self.slots) else f"{letter}{index}"

    def param(self, index: int) -> str:
        """The text for parameter `index`."""
        return self.params[index] if index < len(self.params) else f"p{index}"

    def category(self, slot: int, param: int) -> str:
        """The text of a category, quoted, where the slot's vocabulary knows the code; of a truth value as it is."""
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
        return f"over {self.counts[table]} member{'s' * (self.counts[table] != 1)}"

    def window(self, low: int, high: int) -> str:
        """``within 2 h``, ``[1 h, 2 h]``, ``within 24 steps``; "" for a window that begins now and has no end."""
        first, last = self.param(low), self.param(high)
        if last == "-1":
            return "" if first == "0" else f"[{self._time(first)}, end]"
        return (
            f"within {self._time(last)}"
            if first == "0"
            else f"[{self._time(first)}, {self._time(last)}]"
        )

    def _time(self, steps: str) -> str:
        if not steps.isdigit():
            return steps
        return (
            f"{steps} step{'s' * (steps != '1')}"
            if self.step is None
            else duration_text(int(steps) * self.step)
        )


def duration_text(seconds: float) -> str:
    """A time in the largest unit in which it is a whole number: ``2 h``, ``90 min``, ``0.5 s``."""
    unit, size = next(
        (
            (unit, size)
            for unit, size in TIMES
            if seconds % size == 0 and (unit != "d" or seconds >= SHORT)
        ),
        ("s", 1),
    )
    return f"{number_text(seconds / size)} {unit}"


def formula_text(formula: Formula, names: Names | None = None) -> str:
    """The formula on one line; `and`/`or` inside other connectives stand in parentheses."""
    return _formula(formula, names or Names(), outer=True)


def term_text(term: Term, names: Names) -> str:
    """The value on one line."""
    return _term(term, names, OPEN)


def row_text(pack: Pack, bank: Bank, row: int) -> str:
    """The bound constraint in row `row` of `bank`, with its columns, views and numbers in place, and its unit where it has one.

    A limit on a temperature in degC is missed by K: then the unit is said to be that of the margin.
    """
    contract = pack.manifest.contract
    slots = bank.slots[row]
    text = formula_text(bank.skeleton, row_names(contract, bank, row))
    unit = pack.manifest.units[int(bank.unit[row])]
    shifted = any(_steps_to(contract.columns[int(column)].unit, unit) for column in slots)
    return f"{text}  ({'margin in' if shifted else 'in'} {unit})" if unit else text


def row_names(contract: DataContract, bank: Bank, row: int) -> Names:
    """What stands in the open places of a bank's skeleton in one row."""
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
        step=contract.step,
    )


def _member_names(contract: DataContract, table: MemberTable) -> Names:
    """What the members of one row have in common: ``flow`` for flow[pipe_1] and flow[pipe_2], ``0.5 .. 2`` for numbers."""
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
    return isinstance(known, Unit) and known.affine and known.step().text == step


def keys_text(pack: Pack, bank: Bank, row: int) -> str:
    """Which table rows the bound constraint is about: ``machine = M07``; empty when it is about all."""
    columns = pack.manifest.contract.columns
    pairs = [
        (columns[int(key)], int(code))
        for key, code in zip(bank.keys[row], bank.codes[row], strict=True)
        if key >= 0
    ]
    return ", ".join(f"{column.source} = {column.vocabulary[code]}" for column, code in pairs)


def number_text(value: float) -> str:
    """A number as short as it can be read back exactly: ``9000``, ``0.10471975511965977``."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _read(contract: DataContract, column: int, view: int) -> str:
    name, reading = contract.columns[column].name, contract.views[view]
    if reading.kind == "previous":
        return f"previous {name}"
    if reading.kind == "raised" and reading.column is not None:
        raised = contract.columns[reading.column]
        return f"{name}[{raised.name} + {number_text(reading.delta)}{' ' + raised.unit if raised.unit else ''}]"
    return name


def _formula(formula: Formula, names: Names, *, outer: bool = False) -> str:
    match formula:
        case Compare():
            return _compare(formula, names)
        case ClassIn():
            inside = ", ".join(names.slot(i, "y") for i in formula.inside)
            return f"class in {{{inside}}}" + (" strictly" if formula.strict else "")
        case CategoryIs():
            return f"{names.slot(formula.slot)} is {names.category(formula.slot, formula.param)}"
        case Not(arg=AtLeast(count=int(number)) as some) if names.param(number) == "1":
            return f"none{_formula(some, names).removeprefix('any')}"
        case Not():
            return (
                f"not {_formula(formula.arg, names)}"
                if isinstance(formula.arg, ClassIn | CategoryIs)
                else f"not ({_formula(formula.arg, names, outer=True)})"
            )
        case And() | Or():
            text = (" and " if isinstance(formula, And) else " or ").join(
                _formula(arg, names) for arg in formula.args
            )
            return text if outer else f"({text})"
        case Implies():
            text = f"if {_formula(formula.antecedent, names, outer=True)} then {_formula(formula.consequent, names, outer=True)}"
            return text if outer else f"({text})"
        case Known():
            return f"{names.slot(formula.slot)} is known"
        case AtLeast():
            count = "all" if formula.count is None else f"at least {names.param(formula.count)}"
            inner = _formula(formula.arg, names.inside(formula.members), outer=True)
            return f"{'any' if count == 'at least 1' else count} of ({inner}) {names.over(formula.members)}"
        case Temporal():
            window, inner = (
                names.window(formula.low, formula.high),
                _formula(formula.arg, names, outer=True),
            )
            if (names.param(formula.low), names.param(formula.high)) == (
                "1",
                "1",
            ) and formula.op in NEIGHBOUR:
                return f"{NEIGHBOUR[formula.op]} ({inner})"
            return f"{formula.op} {window + ' ' if window else ''}({inner})"
        case Until():
            words = " ".join(
                filter(
                    None,
                    (
                        formula.op,
                        "closed" if formula.closed else "",
                        names.window(formula.low, formula.high),
                    ),
                )
            )
            text = f"{_formula(formula.left, names)} {words} {_formula(formula.right, names)}"
            return text if outer else f"({text})"
        case Initially():
            return f"initially ({_formula(formula.arg, names, outer=True)})"
        case _:
            assert_never(formula)


def _compare(formula: Compare, names: Names) -> str:
    text = f"{_term(formula.left, names, OPEN)} {SYMBOLS[formula.op]} {_term(formula.right, names, OPEN)}"
    return (
        text if formula.tolerance is None else f"{text} +/- {_term(formula.tolerance, names, SUM)}"
    )


def _term(term: Term, names: Names, around: int) -> str:
    """The term as text, in parentheses when its operator binds looser than `around`."""
    match term:
        case Slot():
            return names.slot(term.index, "y" if term.role == "output" else "x")
        case Param():
            return names.param(term.index)
        case Sum():
            first, *rest = term.args
            text, level = (
                " ".join([_term(first, names, SUM), *(_added(arg, names) for arg in rest)]),
                SUM,
            )
        case Product():
            text, level = " * ".join(_term(arg, names, PRODUCT) for arg in term.args), PRODUCT
        case Quotient() if _is_unknown(term, names):
            text, level = "unknown", ATOM
        case Quotient():
            text, level = (
                f"{_term(term.numerator, names, PRODUCT)} / {_term(term.denominator, names, SIGN)}",
                PRODUCT,
            )
        case Negate():
            text, level = f"-{_term(term.arg, names, POWER)}", SIGN
        case Power():
            text, level = f"{_term(term.base, names, ATOM)}^{number_text(term.exponent)}", POWER
        case Call():
            text, level = (
                f"{term.function}({', '.join(_term(arg, names, OPEN) for arg in term.args)})",
                ATOM,
            )
        case Reduce():
            text, level = _reduce(term, names), OPEN
        case Choose():
            condition = _formula(term.condition, names, outer=True)
            text, level = (
                f"if {condition} then {_term(term.then, names, OPEN)} else {_term(term.otherwise, names, OPEN)}",
                OPEN,
            )
        case Coalesce():
            text, level = (
                f"coalesce({', '.join(_term(arg, names, OPEN) for arg in term.args)})",
                ATOM,
            )
        case _:
            assert_never(term)
    return text if level >= around else f"({text})"


def _reduce(term: Reduce, names: Names) -> str:
    """``sum of flow over 3 members``; where members are chosen, ``count of (60 < torque) over 3 members``."""
    arg, inner, over = term.arg, names.inside(term.members), names.over(term.members)
    if not (term.skip and isinstance(arg, Choose) and _is_unknown(arg.otherwise, inner)):
        return f"{term.op} of {_term(arg, inner, ATOM)} {over}{' where known' if term.skip else ''}"
    condition = f"({_formula(arg.condition, inner, outer=True)})"
    if term.op == "count" and isinstance(arg.then, Param):
        return f"count of {condition} {over}"
    return f"{term.op} of {_term(arg.then, inner, ATOM)} {over} where {condition}"


def _is_unknown(term: Term, names: Names) -> bool:
    """Whether a term is ``0 / 0``, which is how a formula has no value; in a skeleton a parameter divided by itself."""
    match term:
        case Quotient(numerator=Param(index=above), denominator=Param(index=below)):
            return {names.param(above), names.param(below)} in ({"0"}, {f"p{above}"})
    return False


def _added(term: Term, names: Names) -> str:
    """A further summand with its sign."""
    return (
        f"- {_term(term.arg, names, PRODUCT)}"
        if isinstance(term, Negate)
        else f"+ {_term(term, names, SUM)}"
    )
