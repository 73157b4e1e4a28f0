"""Parameters that are mined from data, so their numbers are unknown at compile time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedkg.pack import Param
from fedkg_compiler.binding.bound_values import Moving
from fedkg_compiler.binding.column_registry import Book, BookColumn
from fedkg_compiler.binding.scope import Scope
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.ir import Rows


@dataclass(slots=True, kw_only=True)
class Mined:
    """One variable after `find`.

    Attributes:
        name: the variable, without ``?``.
        column: id of an entry of the book that no table has; it gets the unit of what the parameter
            is compared with.
        rows: the rows of the formula that the parameter belongs to.
        param: the parameter in `rows`; its value in the bank is NaN.
        values: the places where the variable is used as a value.
        windows: the places where the variable is used as the end of a window.
        first: whether the variable is the first end of a window.
        last: whether the variable is the last end of a window.
    """

    name: str
    column: int
    rows: Rows
    param: Param
    values: list[Span] = field(default_factory=list)
    windows: list[Span] = field(default_factory=list)
    first: bool = False
    last: bool = False


def mined(name: str, rows: Rows, book: Book, owner: str) -> Mined:
    """A new parameter of a formula; `owner` tells it from those of other inferences."""
    column = book.column(BookColumn(name=f"?{name} of {owner}", source=f"?{name}", mined=True))
    return Mined(name=name, column=column, rows=rows, param=rows.param(np.array(np.nan)))


def mined_value(found: Mined, span: Span, scope: Scope) -> Moving | None:
    """The parameter as a value: in the unit that it has by now, or bare until it meets one."""
    if scope.rows is not found.rows:
        message = (
            f"?{found.name} is found for the whole formula and cannot be used inside a set of"
            " members"
        )
        scope.problems.error("FKG274", span, message, "compare the sum or count with it, outside")
        return None
    found.values.append(span)
    columns = np.array([found.column], dtype=np.int64)
    unit, told = scope.book.compared_unit(found.column), scope.book.told_at(found.column)
    return Moving(
        term=found.param, unit=unit, span=span, told=told, bare=() if unit else (columns,)
    )
