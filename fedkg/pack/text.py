"""Formulas as text, as near to the rule language as a skeleton allows.

A skeleton alone prints with the places it leaves open: ``x0``, ``x1`` for columns of data, ``y0`` for what the model predicts, ``p0`` for
numbers. A row of a bank fills them: ``torque * speed <= 9000``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from fedkg.pack.bank import Bank
from fedkg.pack.contract import DataContract
from fedkg.pack.formulas import And, CategoryIs, ClassIn, Compare, Formula, Implies, Not, Or
from fedkg.pack.pack import Pack
from fedkg.pack.terms import Call, Negate, Param, Power, Product, Quotient, Slot, Sum, Term
from fedkg.units import Unit, parse_unit

SYMBOLS = {"le": "<=", "lt": "<", "eq": "==", "ne": "!="}
SUM, PRODUCT, SIGN, POWER, ATOM = range(5)
"""How tightly the printed operators bind, loosest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What stands in the open places of a skeleton; without one, placeholders do."""

    slots: Sequence[str] = ()
    params: Sequence[str] = ()
    categories: Sequence[Sequence[str]] = ()

    def slot(self, index: int, letter: str = "x") -> str:
        """The text for slot `index`."""
        return self.slots[index] if index < len(self.slots) else f"{letter}{index}"

    def param(self, index: int) -> str:
        """The text for parameter `index`."""
        return self.params[index] if index < len(self.params) else f"p{index}"

    def category(self, slot: int, param: int) -> str:
        """The text of a category, quoted, where the slot's vocabulary knows the code."""
        words = self.categories[slot] if slot < len(self.categories) else ()
        code = self.param(param)
        return f'"{words[int(float(code))]}"' if code.isdigit() and int(code) < len(words) else code


def formula_text(formula: Formula, names: Names | None = None) -> str:
    """The formula on one line; `and`/`or` inside other connectives stand in parentheses."""
    return _formula(formula, names or Names(), outer=True)


def row_text(pack: Pack, bank: Bank, row: int) -> str:
    """The bound constraint in row `row` of `bank`, with its columns, views and numbers in place, and its unit where it has one.

    A limit on a temperature in degC is missed by K: then the unit is said to be that of the margin.
    """
    contract = pack.manifest.contract
    slots, views = bank.slots[row], bank.views[row]
    text = formula_text(
        bank.skeleton,
        Names(
            slots=[_read(contract, int(column), int(view)) for column, view in zip(slots, views, strict=True)],
            params=[number_text(float(value)) for value in bank.params[row]],
            categories=[contract.columns[int(column)].vocabulary for column in slots],
        ),
    )
    unit = pack.manifest.units[int(bank.unit[row])]
    shifted = any(_steps_to(contract.columns[int(column)].unit, unit) for column in slots)
    return f"{text}  ({'margin in' if shifted else 'in'} {unit})" if unit else text


def _steps_to(unit: str, step: str) -> bool:
    """Whether a unit's zero is not zero, so that differences are in another one: degC in K."""
    known = parse_unit(unit) if unit != step else None
    return isinstance(known, Unit) and known.affine and known.step().text == step


def keys_text(pack: Pack, bank: Bank, row: int) -> str:
    """Which table rows the bound constraint is about: ``machine = M07``; empty when it is about all."""
    columns = pack.manifest.contract.columns
    pairs = [(columns[int(key)], int(code)) for key, code in zip(bank.keys[row], bank.codes[row], strict=True) if key >= 0]
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
        case Not():
            return (
                f"not {_formula(formula.arg, names)}"
                if isinstance(formula.arg, ClassIn | CategoryIs)
                else f"not ({_formula(formula.arg, names, outer=True)})"
            )
        case And() | Or():
            text = (" and " if isinstance(formula, And) else " or ").join(_formula(arg, names) for arg in formula.args)
            return text if outer else f"({text})"
        case Implies():
            text = f"if {_formula(formula.antecedent, names, outer=True)} then {_formula(formula.consequent, names, outer=True)}"
            return text if outer else f"({text})"
        case _:
            assert_never(formula)


def _compare(formula: Compare, names: Names) -> str:
    text = f"{_term(formula.left, names, SUM)} {SYMBOLS[formula.op]} {_term(formula.right, names, SUM)}"
    return text if formula.tolerance is None else f"{text} +/- {_term(formula.tolerance, names, SUM)}"


def _term(term: Term, names: Names, around: int) -> str:
    """The term as text, in parentheses when its operator binds looser than `around`."""
    match term:
        case Slot():
            return names.slot(term.index, "y" if term.role == "output" else "x")
        case Param():
            return names.param(term.index)
        case Sum():
            first, *rest = term.args
            text, level = " ".join([_term(first, names, SUM), *(_added(arg, names) for arg in rest)]), SUM
        case Product():
            text, level = " * ".join(_term(arg, names, PRODUCT) for arg in term.args), PRODUCT
        case Quotient():
            text, level = f"{_term(term.numerator, names, PRODUCT)} / {_term(term.denominator, names, SIGN)}", PRODUCT
        case Negate():
            text, level = f"-{_term(term.arg, names, POWER)}", SIGN
        case Power():
            text, level = f"{_term(term.base, names, ATOM)}^{number_text(term.exponent)}", POWER
        case Call():
            text, level = f"{term.function}({', '.join(_term(arg, names, SUM) for arg in term.args)})", ATOM
        case _:
            assert_never(term)
    return text if level >= around else f"({text})"


def _added(term: Term, names: Names) -> str:
    """A further summand with its sign."""
    return f"- {_term(term.arg, names, PRODUCT)}" if isinstance(term, Negate) else f"+ {_term(term, names, SUM)}"
