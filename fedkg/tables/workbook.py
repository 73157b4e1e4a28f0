"""Excel workbooks (.xlsx)."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np

from fedkg.errors import MissingExtra, TableError
from fedkg.limits import limit, require_within_limit
from fedkg.tables.declared_dialect import Dialect
from fedkg.tables.delimited import table_of_rows
from fedkg.tables.table import Cells, Table, TableFormat, number_text

MOST_ROWS = 1 << 20
"""Rows of a sheet (source: Excel specifications and limits, as the next two)."""
MOST_FORMATS = 65_490
"""Cell formats of a workbook."""
MOST_LETTERS = 32_767
"""Characters in a cell."""
DOCTYPES = tuple("<!DOCTYPE".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    SyntaxError,
    LookupError,
    ArithmeticError,
    ValueError,
    TypeError,
    AttributeError,
    OSError,
    EOFError,
    RuntimeError,
)
"""What openpyxl and the XML parser below it raise on a damaged workbook (an XML ParseError is a
SyntaxError)."""

Value = str | float | int | bool | datetime | date | time | timedelta | None
"""What a cell of a workbook may hold."""
BLANK: list[Value] = []
"""A row without cells: a sheet may have a million of them between two that are filled."""


def require_ordinary(parts: Mapping[str, bytes], name: str) -> None:
    """Reject a workbook that no spreadsheet program writes, before its parts are parsed.

    Args:
        parts: the XML files in it.

    Raises:
        LimitError: they are larger than `fedkg.limits` allows.
        TableError: they declare a document type or more formats than Excel allows.
    """
    require_within_limit("workbook", sum(map(len, parts.values())), name)
    for part, body in parts.items():
        if any(doctype in body for doctype in DOCTYPES):
            raise TableError(
                f"{name} is not an ordinary Excel workbook",
                received=f"a document type in {part}",
                help="save it again as .xlsx, or as CSV",
            )
    formats = sum(body.count(b"<xf") for part, body in parts.items() if "styles" in part)
    if formats > 2 * MOST_FORMATS:  # those of cells and those of named styles
        raise TableError(
            f"{name} has too many cell formats",
            expected=f"at most {MOST_FORMATS:,}",
            received=f"{formats:,}",
            help="save the values alone, for example as CSV",
        )


def read_workbook(
    body: bytes, name: str, sheet: str | None = None, dialect: Dialect | None = None
) -> Table:
    """The table in a workbook: the named sheet, else the first one that holds anything.

    Raises:
        LimitError: when it has more columns or cells than `fedkg.limits` allows.
        TableError: when it is not a workbook, the sheet does not exist, or all sheets are empty.
        MissingExtra: when openpyxl is not installed.
    """
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise MissingExtra(f"reading {name}", "run") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # openpyxl warns of styles and extensions that it leaves out
            titles, title, grid = _first_filled(
                openpyxl.load_workbook(io.BytesIO(body), read_only=True, data_only=True),
                name,
                sheet,
            )
    except (InvalidFileException, *BROKEN) as error:
        raise TableError(
            f"{name} is not a complete Excel workbook",
            received=str(error),
            help="save it again as .xlsx, or as CSV",
        ) from error
    if not grid:
        raise TableError(
            f"{name} is empty" if sheet is None else f"{name}: sheet `{sheet}` is empty",
            expected="a sheet with a header row and rows of data",
            help="name another file" if sheet is None else "name another sheet",
        )
    found = TableFormat(
        kind=f"xlsx, sheet `{title}`" + (f" of {len(titles)}" if len(titles) > 1 else "")
    )
    return _table(grid, name, found, dialect)


def _first_filled(
    book: Any, name: str, wanted: str | None
) -> tuple[list[str], str, list[list[Value]]]:  # Any: openpyxl has no types
    """All sheets' titles, and title and cells of the wanted or the first filled one (no cells where
    there is none).
    """
    titles = [sheet.title for sheet in book.worksheets]
    if wanted is not None and wanted not in titles:
        raise TableError(
            f"{name}: sheet `{wanted}` does not exist",
            received=", ".join(f"`{title}`" for title in titles),
            help="name one of these sheets",
        )
    for sheet in book.worksheets:
        if wanted in (None, sheet.title):
            # some exporters write a wrong one, and then cells behind it would be left out
            sheet.reset_dimensions()
            grid = _grid(sheet.iter_rows(values_only=True), name)
            if any(value is not None for row in grid for value in row):
                return titles, sheet.title, grid
    return titles, "", []


def _grid(rows: Iterable[tuple[Value, ...]], name: str) -> list[list[Value]]:
    """The cells of a sheet, without the padding and the blank filler rows that the reader adds.

    Raises:
        LimitError: there are too many cells.
        TableError: a sheet has more rows, or a cell more characters, than Excel allows.
    """
    grid: list[list[Value]] = []
    cells, most = 0, limit("cells")
    for row in rows:
        grid.append(list(row) if any(value is not None for value in row) else BLANK)
        cells += max(1, len(row))
        if cells > most:
            require_within_limit("cells", cells, name, at_least=True)
        if len(grid) > MOST_ROWS:
            raise TableError(
                f"{name}: a sheet has more than {MOST_ROWS:,} rows, the most that Excel allows",
                help="save the table as CSV or Parquet",
            )
        if any(isinstance(value, str) and len(value) > MOST_LETTERS for value in grid[-1]):
            raise TableError(
                f"{name}: row {len(grid):,} has a cell of more than {MOST_LETTERS:,} characters, "
                "the most that Excel allows",
                help="shorten the cell, or save the table as CSV",
            )
    return grid


def _table(
    grid: list[list[Value]], name: str, found: TableFormat, dialect: Dialect | None
) -> Table:
    width = max((_filled(row) for row in grid), default=0)
    require_within_limit("columns", width, name)
    require_within_limit("cells", width * len(grid), name)
    empty = [""] * width
    rows = [
        [_text(value) for value in row[:width]] + [""] * (width - len(row)) if row else empty
        for row in grid
    ]
    lines = np.arange(1, len(rows) + 1, dtype=np.int64)
    plain, positions = table_of_rows(rows, lines, name, found, dialect)
    cells = tuple(
        Cells(
            texts=column.texts,
            values=_numbers(
                grid[line - 1][position] if position < len(grid[line - 1]) else None
                for line in plain.lines
            ),
        )
        for column, position in zip(plain.cells, positions, strict=True)
    )
    return Table(
        name=name,
        headers=plain.headers,
        cells=cells,
        rows=plain.rows,
        found=plain.found,
        lines=plain.lines,
        header_parts=plain.header_parts,
    )


def _filled(row: list[Value]) -> int:
    return max(
        (i + 1 for i, value in enumerate(row) if value is not None and value != ""), default=0
    )


def _numbers(values: Iterable[Value]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(
        [float(value) if isinstance(value, (int, float)) else math.nan for value in values],
        dtype=np.float64,
    )


def _text(value: Value) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return number_text(value) if math.isfinite(value) else ""
        case datetime():
            return value.isoformat(sep=" ")
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)
