"""A table in memory: headers, cells as in the file, and the properties detected while reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import nearest_header
from fedkg._internal.safe_text import list_first
from fedkg.errors import TableError
from fedkg.tables.cell_words import is_unknown, truth
from fedkg.tables.numerals import DecimalMark, parse_numbers
from fedkg.tables.separator import NAMES
from fedkg.tables.times import DateOrder, parse_times, two_ways
from fedkg.units.header import header_unit, split_header


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """One column; at least one of the two is there.

    Attributes:
        texts: the cells as texts, stripped; "" for an empty one.
        values: float64 [rows], where the file itself holds numbers (Parquet, xlsx); NaN where the
            cell is empty or a text.
    """

    texts: tuple[str, ...] | None = None
    values: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFormat:
    """The detected format of a file.

    Attributes:
        kind: type of the file, such as ``csv``.
        separator: separator of the cells of a text table; "" for other files.
        decimal: decimal mark of numbers in text cells.
        encoding: encoding of a text table; "" for other files.
        header_line: line (CSV) or sheet row (xlsx) of the header, from 1; None when the columns
            have no names.
        duplicates: headers that occur more than once; the later ones are called ``NAME (2)`` and so
            on.
        notes: sentences about everything else that a person should know.
    """

    kind: str = "csv"
    separator: str = ""
    decimal: DecimalMark = "."
    encoding: str = ""
    header_line: int | None = 1
    duplicates: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """One line for people: ``semicolon-separated, decimal comma, cp1252; 2 lines before the
        header were skipped``.
        """
        words = [
            f"{NAMES.get(self.separator, 'one column')}-separated" if self.separator else self.kind
        ]
        if self.encoding:
            words += [f"decimal {'comma' if self.decimal == ',' else 'point'}", self.encoding]
        return "; ".join([", ".join(words), *self.notes])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A table as read; nothing is converted until asked for.

    Attributes:
        name: the file as it was named, for messages.
        headers: unique; line breaks and runs of blanks in a header count as one blank.
        cells: the columns, in the order of `headers`.
        rows: number of data rows.
        found: what was found out about the file.
        lines: int64 [rows], the line (or sheet row) of the file in which each data row begins;
            empty when not known.
        dates: how dates with slashes are meant, where somebody said so.
        header_parts: for each column the cells of its header, where the header has several rows.
        parts: name and number of rows of each file, if the table has several; else empty.
        subject: the header of the column that names what each row is about in a table that comes
            from a graph, in which an empty cell means "no value"; "" for other tables.
    """

    name: str
    headers: tuple[str, ...]
    cells: tuple[Cells, ...]
    rows: int
    found: TableFormat = field(default_factory=TableFormat)
    lines: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    dates: DateOrder | None = None
    header_parts: tuple[tuple[str, ...], ...] = ()
    parts: tuple[tuple[str, int], ...] = ()
    subject: str = ""

    @staticmethod
    def of(
        name: str, columns: Mapping[str, Sequence[str] | NDArray[np.float64]], *, subject: str = ""
    ) -> Table:
        """A table made of columns in memory: texts, or float64 arrays; all of one length."""
        cells = tuple(
            (
                Cells(values=np.asarray(column, dtype=np.float64))
                if isinstance(column, np.ndarray)
                else Cells(texts=tuple(column))
            )
            for column in columns.values()
        )
        rows = {len(column) for column in columns.values()}
        if len(rows) > 1:
            raise TableError(
                f"{name}: the columns differ in length",
                received=_unequal_lengths(columns),
                help="give every column as many values as there are rows",
            )
        found = TableFormat(kind="memory")
        return Table(
            name=name,
            headers=tuple(columns),
            cells=cells,
            rows=rows.pop() if rows else 0,
            found=found,
            subject=subject,
        )

    def with_headers(self, wanted: Iterable[tuple[str, Sequence[str]]]) -> Table:
        """The table with the wanted headers in place of alternative ones.

        Args:
            wanted: headers, each with alternatives; the first alternative that the table has
                becomes the header, unless the table has the header already.
        """
        found: dict[str, str] = {}
        for header, alternatives in wanted:
            known = next((one for one in alternatives if one in self.headers), None)
            if known is not None and header not in self.headers:
                found.setdefault(known, header)
        if not found:
            return self
        return replace(self, headers=tuple(found.get(one, one) for one in self.headers))

    def __contains__(self, header: str) -> bool:
        return one_line(header) in self.headers

    def position(self, header: str) -> int:
        """Position of the column under `header`.

        Raises TableError with the nearest header when there is none.
        """
        try:
            return self.headers.index(one_line(header))
        except ValueError:
            raise self.missing(header) from None

    def missing(
        self,
        header: str,
        *,
        needed: str = "",
        declare_unit: bool = True,
        alternatives: Sequence[str] = (),
    ) -> TableError:
        """The error for a header that is not there.

        Args:
            needed: what needs the column, as in "rule warm needs".
            declare_unit: propose another declaration if the nearest header states another unit.
            alternatives: other headers that the column may have.
        """
        close = nearest_header(header, self.headers)
        shown = list_first([f"`{h}`" for h in self.headers], 12)
        return TableError(
            f"{self.name}: no column `{header}`" + (f", which {needed}" if needed else ""),
            expected=f"`{header}`, or one of its other names: "
            + ", ".join(f"`{one}`" for one in alternatives)
            if alternatives
            else "",
            received=f"columns {shown}" if self.headers else "no columns",
            help=(
                f"did you mean `{close}`?{_declaration(close, header) if declare_unit else ''}"
                if close
                else _same_name(header, self.headers, declare_unit)
            ),
        )

    def texts(self, header: str) -> list[str]:
        """The cells under `header` as texts; whole numbers of typed files without a decimal point.

        Raises TableError.
        """
        cells = self.cells[self.position(header)]
        if cells.texts is not None:
            return list(cells.texts)
        values = cells.values if cells.values is not None else np.empty(0)
        return [number_text(value) for value in values.tolist()]

    def numbers(self, header: str) -> NDArray[np.float64]:
        """The numbers under `header`: float64 [rows], NaN for empty cells and for words such as
        `Bad`, `No Data`, `n/a`.

        A column that holds nothing but true and false (yes, no, ja, nein, ...) gives 1 and 0.

        Raises:
            TableError: when there is no such column, or a cell holds any other text: names file,
                column and the first such row.
        """
        values, wrong = self._parsed(header)
        if not wrong:
            return values
        texts = self.texts(header)
        truths = [truth(text) for text in texts]
        if all(
            value is not None or is_unknown(text) for value, text in zip(truths, texts, strict=True)
        ):
            return np.array(
                [np.nan if value is None else float(value) for value in truths], dtype=np.float64
            )
        odd = [
            row for row, text in enumerate(texts) if truths[row] is None and not is_unknown(text)
        ]
        if 2 * len(odd) < sum(value is not None for value in truths) and any(
            truths[row] is not None for row in wrong
        ):
            raise self._not_truths(header, texts, odd)
        raise self._not_numbers(header, texts, wrong)

    def truths(self, header: str) -> NDArray[np.float64]:
        """The column as float64 [rows]: 1 for yes, true, on, 1; 0 for no, false, off, 0; NaN where
        unknown.

        Raises TableError with the cells that are none of them, when there are few; numbers other
        than 0 and 1 are kept.
        """
        values, wrong = self._parsed(header)
        if not wrong:
            return values
        texts = self.texts(header)
        known = [truth(text) for text in texts]
        odd = [row for row in wrong if known[row] is None and not is_unknown(texts[row])]
        if odd:
            raise self._not_truths(header, texts, odd)
        for row in wrong:
            value = known[row]
            values[row] = np.nan if value is None else float(value)
        return values

    def times(self, header: str) -> tuple[list[datetime | None], str]:
        """The moments under `header`, None for cells without a time, and the note about their
        reading (or "").

        Dates with slashes are read in the order that was stated, else in the only one that all of
        them allow.

        Raises:
            TableError: when there is no such column, or its dates can be read in two ways, or in
                none that is the same for all.
        """
        texts = self.texts(header)
        if self.dates is not None:
            return parse_times(texts, self.dates), ""
        found = two_ways(texts)
        if found.day is not None and found.month is not None:
            raise TableError(
                f"{self.name}: the dates in `{header}` are written day first in one row "
                "and month first in another",
                received=(
                    f'"{texts[found.day]}" in {self.where(found.day)}, "{texts[found.month]}" in'
                    f" {self.where(found.month)}"
                ),
                help=(
                    "write all dates in one order, best as 2024-04-25; or state the order "
                    "(--dates day-first or --dates month-first, data.dates in a job): fedkg then "
                    "treats the other dates as unknown"
                ),
            )
        order: DateOrder = "day-first" if found.month is None else "month-first"
        decides = found.day if found.month is None else found.month
        if decides is None and found.either is not None and not found.same:
            raise TableError(
                f"{self.name}: the dates in `{header}` can be read in two ways",
                received=(
                    f'"{texts[found.either]}" in {self.where(found.either)}, and no date of the'
                    " column tells day from month"
                ),
                help=(
                    "state the order: --dates day-first or --dates month-first (data.dates "
                    "in a job); or write dates as 2024-04-25"
                ),
            )
        if decides is None or found.either is None:
            return parse_times(texts, order), ""
        said = (
            f'dates in `{header}` are read {order.replace("-", " ")}, as "{texts[decides]}" in'
            f" {self.where(decides)} shows"
        )
        return parse_times(texts, order), said

    def is_numeric(self, header: str) -> bool:
        """Whether the column holds numbers and unknowns alone, and at least one number.

        Raises TableError when it is not there.
        """
        values, wrong = self._parsed(header)
        return not wrong and not bool(np.isnan(values).all())

    def where(self, row: int) -> str:
        """How to name data row `row` (from 0) to a person: what it is about, else ``row 17 (line
        18)``, from 1 below the header.
        """
        if self.subject:
            return self.texts(self.subject)[row]
        if not self.lines.size:
            return f"row {row + 1}"
        place = f"line {self.lines[row]}" + (f" of {self.file_of(row)}" if self.parts[1:] else "")
        return f"row {row + 1} ({place})"

    def file_of(self, row: int) -> str:
        """The name of the file that data row `row` (from 0) was read from."""
        ends = accumulate(rows for _, rows in self.parts)
        return next(
            (name for (name, _), end in zip(self.parts, ends, strict=True) if row < end), self.name
        )

    def _parsed(self, header: str) -> tuple[NDArray[np.float64], tuple[int, ...]]:
        cells = self.cells[self.position(header)]
        if cells.texts is None:
            values = cells.values if cells.values is not None else np.empty(0)
            return np.where(np.isfinite(values), values, np.nan), ()
        if cells.values is None:
            numbers = parse_numbers(cells.texts, self.found.decimal)
            return numbers.values, numbers.wrong
        left = np.flatnonzero(np.isnan(cells.values))
        numbers = parse_numbers([cells.texts[i] for i in left], ".")
        values = cells.values.copy()
        values[left] = numbers.values
        return np.where(np.isfinite(values), values, np.nan), tuple(
            int(left[i]) for i in numbers.wrong
        )

    def _not_numbers(self, header: str, texts: Sequence[str], wrong: Sequence[int]) -> TableError:
        more = len(wrong) - 1
        return TableError(
            f"{self.name}: column `{header}` has text where numbers are needed",
            expected=(
                "numbers; empty cells and words such as Bad, No Data, NaN, n/a count as unknown"
            ),
            help=_decimal_mark_help(texts[wrong[0]], self.found.decimal)
            or "correct the cell, leave it empty, or list its text under `null` in a sites file",
            received=f'"{shorten(texts[wrong[0]])}" in {self.where(wrong[0])}'
            + (f", and text in {more} more row{'s' * (more > 1)}" if more else ""),
        )

    def _not_truths(self, header: str, texts: Sequence[str], odd: Sequence[int]) -> TableError:
        more = len(odd) - 1
        return TableError(
            f"{self.name}: column `{header}` has cells that are neither yes nor no",
            expected=(
                "one of yes, no, true, false, on, off, 1, 0, ... in every row; empty "
                "cells and words such as n/a count as unknown"
            ),
            received=f'"{shorten(texts[odd[0]])}" in {self.where(odd[0])}'
            + (f", and {more} more such row{'s' * (more > 1)}" if more else ""),
            help="correct these cells, or leave them empty",
        )


def _declaration(close: str, header: str) -> str:
    """What to declare for a header with another unit than the wanted one, else ""."""
    _, wanted = split_header(header)
    found = split_header(close)[1]
    if not found or found == wanted or header_unit(close) is None:
        return ""
    return f' Its values are in {found}: declare the signal in {found}, with column "{close}"'


def _same_name(header: str, headers: Sequence[str], declare_unit: bool) -> str:
    """The help for a header that differs in its unit alone."""
    name, _ = split_header(header)
    close = next((one for one in headers if split_header(one)[0] == name != one), "")
    if not close:
        return ""
    return f"did you mean `{close}`?{_declaration(close, header) if declare_unit else ''}"


def _decimal_mark_help(text: str, decimal: DecimalMark) -> str:
    """What to state if a cell is a number with the other decimal mark."""
    other: DecimalMark = "," if decimal == "." else "."
    if not parse_numbers([text.strip()], other).wrong and other in text:
        return (
            f"the decimal mark of this table is `{decimal}`; for `{other}`, state "
            f'`decimalChar: "{other}"` in a sites file'
        )
    return ""


def _unequal_lengths(columns: Mapping[str, Sequence[str] | NDArray[np.float64]]) -> str:
    """The first column, and the first one of another length."""
    first, *others = ((header, len(column)) for header, column in columns.items())
    other = next(one for one in others if one[1] != first[1])
    return f"`{first[0]}` has {first[1]} values, `{other[0]}` has {other[1]}"


def one_line(header: str) -> str:
    """A header with every run of blanks and line breaks as one blank."""
    return " ".join(header.split())


def number_text(value: float) -> str:
    """A number as a person writes it: 7 for 7.0, "" for NaN."""
    if np.isnan(value):
        return ""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def shorten(text: str) -> str:
    """The text, cut to 40 characters."""
    return text if len(text) <= 40 else text[:37] + "..."
