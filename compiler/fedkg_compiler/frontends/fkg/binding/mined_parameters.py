"""Parameters that are mined from data, so their numbers are unknown at compile time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fedkg.pack import Param
from fedkg_compiler.column_registry import Book, BookColumn
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.ir import RowBuilder


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
    rows: RowBuilder
    param: Param
    values: list[Span] = field(default_factory=list)
    windows: list[Span] = field(default_factory=list)
    first: bool = False
    last: bool = False


def mined(name: str, rows: RowBuilder, book: Book, owner: str) -> Mined:
    """A new parameter of a formula; `owner` tells it from those of other inferences."""
    column = book.column(BookColumn(name=f"?{name} of {owner}", source=f"?{name}", mined=True))
    return Mined(name=name, column=column, rows=rows, param=rows.param(np.array(np.nan)))
