"""Rows of a text table that arrive in pieces, such as those of a growing file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedkg.errors import TableError
from fedkg.tables.declared_dialect import Dialect
from fedkg.tables.delimited import OPEN_QUOTE_LINES, require_known, unique_headers
from fedkg.tables.layout import blank
from fedkg.tables.numerals import DecimalMark, decimal_marks
from fedkg.tables.separator import find_separator, records, text_lines
from fedkg.tables.table import Cells, Table, TableFormat

MOST_BYTES = 16 << 20
"""Bytes that may arrive without the end of a row."""


class RowStream:
    """Complete rows of a text table, as tables.

    The first line that is not blank is the header; its separator counts for all rows. The decimal
    mark is that of the first numbers with one. Short rows end with unknown cells, and in a row with
    too many cells all are unknown: a note of the table names the first one.

    Args:
        name: of the stream, for messages.
        dialect: its stated form. None: detected.

    Attributes:
        headers: those of the columns; empty before the header.
        line: number of complete lines so far.
        consumed: number of bytes of complete rows so far.

    Raises:
        TableError: the dialect has an encoding or header that a stream cannot have.
    """

    def __init__(self, name: str, dialect: Dialect | None = None) -> None:
        self.name, self._dialect = name, dialect or Dialect()
        self.headers: tuple[str, ...] = ()
        self.line = self.consumed = 0
        self._rest = b""
        self._separator = self._dialect.delimiter
        self._decimal: DecimalMark | None = None
        self._expected: tuple[str, ...] = ()
        self._noted_wide = False
        encoding = self._dialect.encoding or "utf-8"
        require_known(encoding, name)
        stated = self._dialect.header_rows
        if stated not in (None, 1) or "\n".encode(encoding) != b"\n":
            raise TableError(
                f"{name}: the form of the table does not suit a stream",
                expected="`headerRowCount` 1, and an encoding with one byte for a line break",
                received=f"`headerRowCount` {1 if stated is None else stated}, `encoding` "
                f"{encoding}",
                help="convert the stream to one header row and UTF-8, and correct `dialect` in "
                "the sites file",
            )
        self._encoding = encoding

    def feed(self, body: bytes, *, end: bool = False) -> Table:
        """The rows that these bytes complete.

        Args:
            body: the next bytes.
            end: whether nothing follows, so that the last line needs no line break.

        Raises:
            TableError: bytes that are no text, a cell that never ends, or another header than
                before.
        """
        body = self._rest + body
        complete = body if end else body[: self._find_end(body)]
        self._rest = body[len(complete) :]
        if len(self._rest) > MOST_BYTES:
            raise TableError(
                f"{self.name}: the row that begins in line {self.line + 1} has no end",
                expected=f"rows of at most {MOST_BYTES:,} bytes",
                received=f"{len(self._rest):,} bytes",
                help="close the quote that opens in this row",
            )
        try:
            text = complete.decode(self._encoding)
        except UnicodeError as error:
            start = error.start if isinstance(error, UnicodeDecodeError) else 0
            line = self.line + 1 + complete[:start].count(b"\n")
            raise TableError(
                f"{self.name}: line {line} is not text in `{self._encoding}`",
                received=f"the bytes {repr(complete[start : start + 8])[1:]}",
                help="state the encoding of the stream as `dialect.encoding` in a sites file",
            ) from error
        if not self.consumed:
            text = text.removeprefix("\ufeff")
        rows, lines = self._read_rows(text)
        self.consumed += len(complete)
        return self._table(rows, lines)

    def _find_end(self, body: bytes) -> int:
        """The position behind the last complete row: no quote is open there."""
        quote = self._dialect.quote.encode(self._encoding)
        end = body.rfind(b"\n") + 1
        for _ in range(OPEN_QUOTE_LINES):
            if not quote or body.count(quote, 0, end) % 2 == 0:
                return end
            end = body.rfind(b"\n", 0, end - 1) + 1
        return end

    def _read_rows(self, text: str) -> tuple[list[list[str]], list[int]]:
        """The rows of complete lines, and the line in which each begins; the header is kept."""
        rows: list[list[str]] = []
        begins: list[int] = []
        if not self._separator and text.strip():
            self._separator = find_separator(text)
        if not text:
            return rows, begins
        reader = records(text_lines(text), self._separator or ",", self._dialect.quote)
        first = self.line
        try:
            for row in reader:
                begin, self.line = self.line + 1, first + reader.line_num
                comment = self._dialect.comment
                if begin <= self._dialect.skip_rows or blank(row):
                    continue
                if comment and row[0].lstrip().startswith(comment):
                    continue
                if not self.headers:
                    self._take_header(row)
                    continue
                rows.append([cell.strip() for cell in row])
                begins.append(begin)
        except csv.Error as error:
            raise TableError(
                f"{self.name}: the row that begins in line {self.line + 1} cannot be read",
                received=str(error),
                help="close the quote that opens in this row, or shorten the cell",
            ) from error
        return rows, begins

    def _take_header(self, row: list[str]) -> None:
        names, _ = unique_headers(row)
        headers = tuple(name or f"column {place + 1}" for place, name in enumerate(names))
        if self._expected and headers != self._expected:
            differs = (
                f"column {i + 1} is `{now}`, not `{then}`"
                for i, (now, then) in enumerate(zip(headers, self._expected, strict=False))
                if now != then
            )
            raise TableError(
                f"{self.name}: the header differs from that of the saved state",
                expected=f"{len(self._expected)} columns as in the saved state",
                received=next(differs, f"{len(headers)} columns"),
                help="continue the same stream, or choose another --state",
            )
        self.headers = headers

    def _table(self, rows: list[list[str]], lines: list[int]) -> Table:
        width, notes = len(self.headers), []
        for row, line in zip(rows, lines, strict=True):
            if len(row) > width and not blank(row[width:]):
                if not self._noted_wide:  # one row of a stream must not end it
                    self._noted_wide = True
                    notes.append(
                        f"{self.name}: line {line} has {len(row)} cells, and the header has"
                        f" {width}; cells of such rows are unknown: put cells with the separator"
                        " in them (such as numbers with a decimal comma) in quotes"
                    )
                row[:] = [""] * width
            row[:] = [*row[:width], *[""] * (width - len(row))]
        columns = list(zip(*rows, strict=True)) if rows else [()] * width
        if self._decimal is None:
            votes = [marks for one in columns if len(marks := decimal_marks(one)) == 1]
            if votes:
                self._decimal = "," if 2 * votes.count(frozenset({","})) > len(votes) else "."
        return Table(
            name=self.name,
            headers=self.headers,
            cells=tuple(Cells(texts=tuple(column)) for column in columns),
            rows=len(rows),
            found=TableFormat(
                separator=self._separator or ",",
                decimal=self._decimal or ".",
                encoding=self._encoding,
                header_line=1,
                notes=tuple(notes),
            ),
            lines=np.array(lines, dtype=np.int64),
        )

    def to_json(self) -> dict[str, Any]:
        """The place in the stream as plain data, for `restore`. `Any`: JSON."""
        return {
            "headers": list(self.headers),
            "line": self.line,
            "consumed": self.consumed,
            "separator": self._separator,
            "decimal": self._decimal,
        }

    def restore(self, document: Mapping[str, Any], *, again: bool) -> Table:
        """Continue behind the rows that `to_json` saw.

        Args:
            document: the data. `Any`: JSON.
            again: whether the stream begins with its header again.

        Returns:
            A table of the stream without rows.

        Raises:
            KeyError, TypeError, ValueError: the data have another form.
        """
        headers = tuple(str(one) for one in document["headers"])
        self._separator, self._decimal = document["separator"], document["decimal"]
        self.headers = headers
        table = self._table([], [])
        if again:
            self.headers, self._expected = (), headers
        else:
            self.line, self.consumed = int(document["line"]), int(document["consumed"])
        return table
