"""The data contract of a compilation: its columns and views in an order that does not depend on
that of the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fedkg.pack import Column, DataContract, View
from fedkg.pack.contract import TRUTHS
from fedkg_compiler.column_registry import Book, BookColumn
from fedkg_compiler.ir import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """The positions of columns, views and category texts in the contract."""

    contract: DataContract
    columns: dict[int, int]
    views: dict[int, int]
    codes: dict[int, dict[str, int]]

    def code(self, column: int, text: str) -> int:
        """The code of a text in the book's column number `column`."""
        return self.codes[column][text]


def make_contract(
    book: Book, used: Iterable[int], used_views: Iterable[int], timing: Timing
) -> Numbering:
    """The contract over the columns and views that bound rows read."""
    views = sorted({0, *used_views})
    raised = {book.views[view].column for view in views}
    used = {*used}
    labels = {column.label for i in used if (column := book.columns[i]).type == "score"}
    used |= {
        i
        for i, column in enumerate(book.columns)
        if column.type == "score" and column.label in labels
    }  # a label has all its classes
    ids = sorted(
        {*used, *(column for column in raised if column is not None)},
        key=lambda i: _order(book.columns[i]),
    )
    columns = {column: position for position, column in enumerate(ids)}
    ordered = sorted(views, key=lambda i: _view_order(book, columns, i))
    kind = (
        "panel"
        if timing.trace
        else "trace"
        if timing.time or timing.step or timing.ordered
        else "table"
    )
    contract = DataContract.model_validate(
        {
            "kind": kind,
            "time": timing.time,
            "step": timing.step,
            "trace": timing.trace,
            "end": timing.end,
            "columns": tuple(
                _column(book, i, names) for i, names in zip(ids, _names(book, ids), strict=True)
            ),
            "views": tuple(_view(book, columns, i) for i in ordered),
        }
    )
    codes = {
        i: {text: code for code, text in enumerate(contract.columns[position].vocabulary)}
        for i, position in columns.items()
    }
    return Numbering(
        contract=contract,
        columns=columns,
        views={view: position for position, view in enumerate(ordered)},
        codes=codes,
    )


def _order(column: BookColumn) -> tuple[bool, str, str, str]:
    return column.role == "output", column.name, column.type, column.source


def _names(book: Book, ids: list[int]) -> list[str]:
    """Unique names: where a header is read as a number and as a category, the category says so."""
    plain = [book.columns[i].name for i in ids]
    return [
        f"{name} (category)"
        if book.columns[i].type == "category" and plain.count(name) > 1
        else name
        for i, name in zip(ids, plain, strict=True)
    ]


def _column(book: Book, i: int, name: str) -> Column:
    column = book.columns[i]
    return Column(
        name=name,
        source=column.source,
        type=column.type,
        role=column.role,
        unit=column.unit.text if column.unit else "",
        span=column.span,
        vocabulary=TRUTHS
        if column.type == "boolean"
        else tuple(sorted(book.vocabulary.get(i, ()))),
        label=column.label,
        category=column.category,
    )


def _view_order(
    book: Book, columns: dict[int, int], i: int
) -> tuple[int, tuple[str, ...], bool, int, float]:
    view = book.views[i]
    kind = ("base", "previous", "raised").index(view.kind)
    return (
        kind,
        view.groups,
        view.steps,
        -1 if view.column is None else columns[view.column],
        view.delta,
    )


def _view(book: Book, columns: dict[int, int], i: int) -> View:
    view = book.views[i]
    column = None if view.column is None else columns[view.column]
    return View(
        kind=view.kind, groups=view.groups, steps=view.steps, column=column, delta=view.delta
    )
