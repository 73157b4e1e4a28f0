"""A table in memory to select, concatenate and extend: named columns of equal length. N is the
number of rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """Columns of equal length, numbers as float64 and text as objects.

    Attributes:
        name: name of the table in messages: a file name, or its origin.
        columns: header to array [N]; float64 for numbers, object (str) for text.
    """

    name: str
    columns: Mapping[str, NDArray[Any]]

    @property
    def headers(self) -> tuple[str, ...]:
        """The column headers in order."""
        return tuple(self.columns)

    @property
    def rows(self) -> int:
        """N."""
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def numbers(self, header: str) -> NDArray[np.float64]:
        """A column as float64 [N]. Raises TableError with table, column and row if it is missing or
        holds text.
        """
        column = self.columns.get(header)
        if column is not None and column.dtype != object:
            return column.astype(np.float64, copy=False)
        return self.table().numbers(header)

    def texts(self, header: str) -> list[str]:
        """A column as text; whole numbers have no decimal point. Raises TableError if it is
        missing.
        """
        return self.table().texts(header)

    def take(self, index: NDArray[Any]) -> Frame:
        """The rows at `index` (positions or a mask)."""
        return Frame(
            name=self.name,
            columns={header: column[index] for header, column in self.columns.items()},
        )

    def with_texts(self, header: str, cells: Sequence[str]) -> Frame:
        """The frame with one text column added or replaced."""
        return Frame(name=self.name, columns={**self.columns, header: text_array(cells)})

    def with_numbers(self, header: str, values: NDArray[np.float64]) -> Frame:
        """The frame with one numeric column added or replaced."""
        return Frame(
            name=self.name, columns={**self.columns, header: np.asarray(values, dtype=np.float64)}
        )

    def table(self) -> Table:
        """The frame as a table for rule evaluation."""
        return Table.of(
            self.name,
            {
                h: column.tolist() if column.dtype == object else column
                for h, column in self.columns.items()
            },
        )


def from_table(table: Table, *, numeric: Collection[str] = (), text: Collection[str] = ()) -> Frame:
    """Convert a table that was read from a file to a frame.

    Columns in `numeric` must hold numbers, columns in `text` stay text, and the content decides for
    all others.

    Raises:
        TableError: a column in `numeric` or `text` is missing, or a numeric one holds text.
    """
    for header in (*numeric, *text):
        table.position(header)
    columns: dict[str, NDArray[Any]] = {}
    for header in table.headers:
        if header in numeric or (header not in text and table.is_numeric(header)):
            columns[header] = table.numbers(header)
        else:
            columns[header] = text_array(table.texts(header))
    return Frame(name=table.name, columns=columns)


def concatenate(frames: Sequence[Frame], name: str) -> Frame:
    """Concatenate the rows of frames, with their common headers; a column with text in one frame
    becomes text.
    """
    columns: dict[str, NDArray[Any]] = {}
    for header in frames[0].headers:
        if not all(header in frame.columns for frame in frames):
            continue
        if all(frame.columns[header].dtype != object for frame in frames):
            columns[header] = np.concatenate([frame.columns[header] for frame in frames])
        else:
            columns[header] = text_array([cell for frame in frames for cell in frame.texts(header)])
    return Frame(name=name, columns=columns)


def text_array(cells: Sequence[str]) -> NDArray[Any]:
    """Strings as an object array [N]."""
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array
