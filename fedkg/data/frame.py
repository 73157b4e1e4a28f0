"""A table in memory that can be cut, joined and relabelled: named columns of equal length. N stands for its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """Columns of equal length, numbers as float64 and texts as objects.

    Attributes:
        name: what to call the table in messages: a file name, or where it comes from.
        columns: header to array [N]; float64 for numbers, object (str) for texts.
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
        """A column as float64 [N]. Raises TableError, naming table, column and row, when there is none or it holds text."""
        column = self.columns.get(header)
        if column is not None and column.dtype != object:
            return column.astype(np.float64, copy=False)
        return self.table().numbers(header)

    def texts(self, header: str) -> list[str]:
        """A column as texts; whole numbers are written without a point. Raises TableError when there is none."""
        return self.table().texts(header)

    def take(self, index: NDArray[Any]) -> Frame:
        """The rows at `index` (positions or a mask)."""
        return Frame(
            name=self.name,
            columns={header: column[index] for header, column in self.columns.items()},
        )

    def with_texts(self, header: str, cells: Sequence[str]) -> Frame:
        """The frame with one text column put in or replaced."""
        return Frame(name=self.name, columns={**self.columns, header: text_array(cells)})

    def with_numbers(self, header: str, values: NDArray[np.float64]) -> Frame:
        """The frame with one number column put in or replaced."""
        return Frame(
            name=self.name, columns={**self.columns, header: np.asarray(values, dtype=np.float64)}
        )

    def table(self) -> Table:
        """The frame as the table that rules are evaluated on."""
        return Table.of(
            self.name,
            {
                h: column.tolist() if column.dtype == object else column
                for h, column in self.columns.items()
            },
        )


def from_table(table: Table, *, numeric: Collection[str] = (), text: Collection[str] = ()) -> Frame:
    """A table that was read from a file, as a frame.

    Columns named in `numeric` must hold numbers, those in `text` stay texts, of the others the content decides.

    Raises:
        TableError: when a column named in `numeric` or `text` is missing, or a numeric one holds text.
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
    """Frames one below the other, with the headers they have in common; a column that is text in one of them becomes text."""
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
    """Texts as an object array [N]."""
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array
