"""Text tables: CSV, TSV and their relatives; and from bytes to text: which encoding a file is in,
found out from its bytes.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.graph_syntax import graph_syntax
from fedkg._internal.safe_text import count_noun, list_first
from fedkg.errors import TableError
from fedkg.limits import limit, require_within_limit
from fedkg.tables.declared_dialect import Dialect, join_header_rows
from fedkg.tables.layout import Layout, blank, find_end, find_layout, usual_width
from fedkg.tables.numerals import DecimalMark, decimal_marks, is_ambiguous
from fedkg.tables.separator import announced, find_separator, records, text_lines
from fedkg.tables.table import Cells, Table, TableFormat, one_line

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; longer UTF-32 marks precede the UTF-16 marks that are their prefixes."""


def decode(body: bytes) -> tuple[str, str] | None:
    """The text of a file and its encoding's name; None if the bytes are not text.

    A byte order mark decides; then zero bytes at every other place (UTF-16); then whether it is
    valid UTF-8; then Windows-1252, or Latin-1 where a byte has no meaning in it.
    """
    for mark, encoding in MARKS:
        if body.startswith(mark):
            return _strict(body, encoding)
    head = body[:4096]
    if b"\0" in head:
        even, odd = head[0::2].count(0), head[1::2].count(0)
        if odd > len(head) // 5 and even <= odd // 20:
            return _strict(body, "utf-16-le")
        return _strict(body, "utf-16-be") if even > len(head) // 5 and odd <= even // 20 else None
    found = _strict(body, "utf-8") or _strict(body, "cp1252") or _strict(body, "latin-1")
    return None if found is not None and _is_noise(found[0]) else found


def require_known(encoding: str, name: str) -> None:
    """Raise TableError if a dialect states a text encoding that Python does not have."""
    try:
        "".encode(encoding)
    except (LookupError, ValueError) as error:  # ValueError: the codec `undefined`
        raise TableError(
            f"{name}: encoding `{encoding}` is unknown",
            expected="utf-8, utf-16, windows-1252, iso-8859-1, ...",
            received=encoding,
            help="correct `dialect.encoding` in the sites file, or remove it",
        ) from error


def decode_as(body: bytes, encoding: str, name: str) -> tuple[str, str]:
    """The text of a file in a stated encoding, without a byte order mark.

    Raises:
        TableError: the encoding is unknown, or the bytes are not text in it.
    """
    require_known(encoding, name)
    try:
        return body.decode(encoding).removeprefix("\ufeff"), encoding.casefold()
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = body[:start].count(b"\n") + 1
        raise TableError(
            f"{name}: line {line} is not text in `{encoding}`",
            received=f"the bytes {repr(body[start : start + 8])[1:]}",
            help="correct `dialect.encoding` in the sites file, or remove it: fedkg detects the "
            "encoding",
        ) from error


def _strict(body: bytes, encoding: str) -> tuple[str, str] | None:
    try:
        return body.decode(encoding), encoding.removesuffix("-sig")
    except UnicodeDecodeError:
        return None


def _is_noise(text: str) -> bool:
    head = text[:4096]
    return (
        sum(1 for character in head if ord(character) < 32 and character not in "\t\r\n\f")
        > len(head) // 50
    )


VOTING_ROWS = 2000
WIDE_SHARE = 0.05
OPEN_QUOTE_LINES = 200


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Raw rows of texts with the line of the file in which each begins."""

    rows: list[list[str]]
    lines: NDArray[np.int64]


def read_delimited(body: bytes, name: str, dialect: Dialect | None = None) -> Table:
    """The table in a text file's bytes.

    Separator, decimal mark, encoding, header and closing lines are found out, unless `dialect`
    states them.

    Raises:
        TableError: when the bytes are not text, every row is empty, or rows are wider than the
            header.
        LimitError: when it has more columns or cells than `fedkg.limits` allows.
    """
    dialect = dialect or Dialect()
    decoded = decode(body) if dialect.encoding is None else decode_as(body, dialect.encoding, name)
    if decoded is None:
        raise TableError(
            f"{name} is not a table",
            expected="CSV, TSV, Parquet or xlsx",
            received="bytes that are not text",
            help="export the table again as CSV or xlsx",
        )
    text, encoding = decoded
    if not text.strip(" \t\r\n\f;,|\"'"):
        raise _empty(name, [])
    if dialect == Dialect() and (syntax := graph_syntax(text)) is not None:
        raise TableError(
            f"{name} is not a table",
            expected="CSV, TSV, Parquet or xlsx",
            received=syntax,
            help="export the table as CSV or xlsx; to read a graph, give the unpacked file, with "
            "the ending of its syntax, such as .ttl",
        )
    separator = announced(text)
    skipped = 0
    if separator is not None:
        text, skipped = text.split("\n", 1)[1], 1
    else:
        separator = dialect.delimiter or find_separator(text)
    grid = _grid(text, separator, name, skipped, dialect.quote)
    found = TableFormat(kind="csv", separator=separator, encoding=encoding)
    return table_of_rows(grid.rows, grid.lines, name, found, dialect)[0]


def _empty(name: str, skipped: Sequence[str]) -> TableError:
    """The error for a table without rows; `skipped` says what the dialect leaves out."""
    if skipped:
        return TableError(
            f"{name}: no rows are left",
            expected="a header row and rows of data",
            received=", ".join(skipped),
            help="check `skipRows` and `commentPrefix` in `dialect` of the sites file",
        )
    return TableError(
        f"{name} is empty",
        expected="a header row and rows of data",
        received="no text at all",
        help="export the table again, or name another file",
    )


def _grid(text: str, separator: str, name: str, skipped: int, quote: str = '"') -> Grid:
    if not quote or quote not in text:  # then cells can be counted before any is made
        require_within_limit("cells", text.count(separator) + text.count("\n"), name)
    rows: list[list[str]] = []
    ends: list[int] = [0]
    reader = records(_lines(text, separator, name), separator, quote)
    cells, most = 0, limit("cells")
    try:
        for row in reader:
            rows.append(row)
            ends.append(reader.line_num)
            cells += len(row)
            if cells > most:
                require_within_limit("cells", cells, name, at_least=True)
    except csv.Error as error:
        raise TableError(
            f"{name}: the row that begins in line {ends[-1] + 1 + skipped} cannot be read",
            received=str(error),
            help="close the quote that opens in this row, or shorten the cell",
        ) from error
    lines = np.asarray(ends, dtype=np.int64)
    spans = np.diff(lines)
    if spans.size and int(spans.max()) > OPEN_QUOTE_LINES:
        line = int(lines[int(spans.argmax())]) + 1 + skipped
        raise TableError(
            f"{name}: the row that begins in line {line} has no end",
            expected=f"a quoted cell of at most {OPEN_QUOTE_LINES} lines",
            received=f"a row of {int(spans.max())} lines",
            help="close the quote that opens in this row",
        )
    return Grid(rows=rows, lines=lines[:-1] + 1 + skipped)


def _lines(text: str, separator: str, name: str) -> Iterator[str]:
    """The lines of a text.

    Raises LimitError for one with too many separators, before any cell is made.
    """
    most = limit("columns")
    for line in text_lines(text):
        if len(line) > most:
            require_within_limit("columns", line.count(separator), name, at_least=True)
        yield line


def table_of_rows(
    rows: list[list[str]],
    lines: NDArray[np.int64],
    name: str,
    found: TableFormat,
    dialect: Dialect | None = None,
) -> tuple[Table, list[int]]:
    """The table in raw rows of texts, and the position of each of its columns among the cells.

    Columns without header and content are left out.

    Args:
        rows: the cells of each row.
        lines: the line of the file in which each row begins.
        name: the file, for messages.
        found: what is known of the file already.
        dialect: the stated form, if any.

    Raises:
        TableError: all rows are blank, or rows are wider than the header.
    """
    dialect = dialect or Dialect()
    stated: list[str] = []
    if dialect.skip_rows:
        first = int(np.searchsorted(lines, dialect.skip_rows, side="right"))
        rows, lines = rows[first:], lines[first:]
        stated.append(f"{count_noun(dialect.skip_rows, 'line')} before the header skipped")
    if dialect.comment:
        kept = [i for i, row in enumerate(rows) if not _is_comment(row, dialect.comment)]
        if len(kept) < len(rows):
            stated.append(f"{count_noun(len(rows) - len(kept), 'comment')} skipped")
        rows, lines = [rows[i] for i in kept], lines[kept]
    parts: list[tuple[str, ...]] = []
    if dialect.header_rows is None:
        layout = find_layout(rows)
        if layout is None:
            raise _empty(name, stated)
        headers, duplicates = _headers(rows, layout)
    else:
        if all(map(blank, rows)):
            raise _empty(name, stated)
        layout, joined, parts = _stated_layout(rows, name, dialect.header_rows)
        headers, duplicates = unique_headers(joined) if joined else _headers(rows, layout)
    kept = [i for i in range(layout.first, layout.end) if not blank(rows[i])]
    body = [rows[i] for i in kept]
    notes = [*stated, *_notes(rows, lines, layout, len(kept), header_rows=dialect.header_rows)]
    notes += _even(body, layout.width, lines[kept] if kept else lines[:0], name)
    columns = (
        [tuple(map(str.strip, column)) for column in zip(*body, strict=True)]
        if body
        else [() for _ in headers]
    )
    used = [i for i, header in enumerate(headers) if header or any(columns[i])]
    names = tuple(headers[i] or f"column {i + 1}" for i in used)
    texts = [columns[i] for i in used]
    decimal, said = _decimal(names, texts, found.separator)
    if duplicates:
        notes.append("duplicate headers: " + ", ".join(f"`{header}`" for header in duplicates))
    table = Table(
        name=name,
        headers=names,
        cells=tuple(Cells(texts=column) for column in texts),
        rows=len(body),
        header_parts=tuple(parts[i] for i in used) if len(parts) > max(used, default=0) else (),
        found=TableFormat(
            kind=found.kind,
            separator=found.separator,
            decimal=decimal,
            encoding=found.encoding,
            header_line=None if layout.header is None else int(lines[layout.header]),
            duplicates=duplicates,
            notes=(*notes, *said),
        ),
        lines=lines[kept] if kept else lines[:0],
    )
    return table, used


def _is_comment(row: Sequence[str], comment: str) -> bool:
    return bool(row) and row[0].lstrip().startswith(comment)


def _stated_layout(
    rows: Sequence[Sequence[str]], name: str, header_rows: int
) -> tuple[Layout, list[str], list[tuple[str, ...]]]:
    """The layout with this number of header rows, the joined headers, and their cells.

    Args:
        rows: at least one of them is not blank.

    Raises TableError if there are too few rows.
    """
    top = next(i for i, row in enumerate(rows) if not blank(row))
    if len(rows) < top + header_rows:
        raise TableError(
            f"{name}: the header is not complete",
            expected=f"{count_noun(header_rows, 'header row')} and rows of data",
            received=count_noun(len(rows) - top, "row"),
            help="check `skipRows` and `headerRowCount` in `dialect` of the sites file",
        )
    first = top + header_rows
    header = [list(row) for row in rows[top:first]]
    width = (
        max(len(row) for row in header)
        if header
        else usual_width([row for row in rows if not blank(row)])
    )
    joined, parts = join_header_rows(header, width) if header else ([], [])
    end = find_end(rows, first, width) if header else len(rows)
    layout = Layout(
        header=first - 1 if header else None, units=False, first=first, end=end, width=width
    )
    return layout, joined, parts if header_rows > 1 else []


def _headers(rows: Sequence[Sequence[str]], layout: Layout) -> tuple[list[str], tuple[str, ...]]:
    """The headers made unique ("" for an empty one), and the duplicates."""
    if layout.header is None:
        return [f"column {i + 1}" for i in range(layout.width)], ()
    return unique_headers(rows[layout.header])


def unique_headers(cells: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Header cells made unique, and the duplicates."""
    out: list[str] = []
    twice: dict[str, None] = {}
    seen: dict[str, int] = {}
    taken = {one_line(cell) for cell in cells}
    for cell in cells:
        header = unique = one_line(cell)
        if header and header in seen:
            twice[header] = None
            count = seen[header] + 1
            while (unique := f"{header} ({count})") in taken:
                count += 1
            taken.add(unique)
            seen[header] = count
        seen.setdefault(unique, 1)
        out.append(unique)
    return out, tuple(twice)


def _notes(
    rows: Sequence[Sequence[str]],
    lines: NDArray[np.int64],
    layout: Layout,
    kept: int,
    *,
    header_rows: int | None,
) -> list[str]:
    notes = []
    before = (
        0
        if header_rows is not None
        else sum(
            1
            for row in rows[: layout.header if layout.header is not None else layout.first]
            if not blank(row)
        )
    )
    if layout.header is None:
        notes.append("no header row: the columns are called `column 1`, `column 2` and so on")
    if before:
        notes.append(f"{count_noun(before, 'line')} before the header skipped")
    if layout.units:
        notes.append("the row of units below the header skipped")
    empty = layout.end - layout.first - kept
    if empty:
        notes.append(f"{count_noun(empty, 'blank line')} skipped")
    closing = [i for i in range(layout.end, len(rows)) if not blank(rows[i])]
    if closing:
        first = " ".join(cell.strip() for cell in rows[closing[0]] if cell.strip())[:40]
        notes.append(
            f"{count_noun(len(closing), 'closing line')} left out, from line {lines[closing[0]]}:"
            f' "{first}"'
        )
    if not kept:
        notes.append("no data rows")
    return notes


def _even(body: list[list[str]], width: int, lines: NDArray[np.int64], name: str) -> list[str]:
    """Bring all rows to one width, in place.

    Short ones get empty cells, wide ones become wholly unknown; say so.

    Raises:
        TableError: when more than one row in twenty is too wide: then the separator or the header
            is not what it seems.
    """
    short: list[int] = []
    wide: list[int] = []
    first_width = 0
    for i, row in enumerate(body):
        if len(row) < width:
            short.append(i)
            row += [""] * (width - len(row))
        elif len(row) > width:
            if not blank(row[width:]):
                wide.append(i)
                first_width = first_width or len(row)
                row[:] = [""] * width
            else:
                del row[width:]
    if len(wide) > WIDE_SHARE * len(body):
        raise TableError(
            f"{name}: line {lines[wide[0]]} has more cells than the header",
            expected=count_noun(width, "cell"),
            received=f"{first_width} cells; {count_noun(len(wide), 'row')} of {len(body)} "
            f"{'has' if len(wide) == 1 else 'have'} too many",
            help="put cells with the separator in them (such as numbers with a decimal comma) in "
            "quotes, or export the table with another separator",
        )
    notes = []
    if short:
        notes.append(
            f"{count_noun(len(short), 'row')} shorter than the header, the first in line "
            f"{lines[short[0]]}: missing cells count as unknown"
        )
    if wide:
        notes.append(
            f"{count_noun(len(wide), 'row')} longer than the header, the first in line "
            f"{lines[wide[0]]}: all their cells count as unknown"
        )
    return notes


def _decimal(
    headers: Sequence[str], columns: Sequence[Sequence[str]], separator: str
) -> tuple[DecimalMark, list[str]]:
    """The file's decimal mark by the votes of its columns, and sentences on columns that had to be
    guessed.
    """
    samples = [column[:VOTING_ROWS] for column in columns]
    marks = [decimal_marks(sample) for sample in samples]
    commas, points = (sum(1 for found in marks if found == {mark}) for mark in (",", "."))
    silent = [i for i, found in enumerate(marks) if not found]
    doubtful = [i for i in silent if is_ambiguous(samples[i], ",") or is_ambiguous(samples[i], ".")]
    decimal: DecimalMark = "."
    if commas > points or (
        commas == points and separator == ";" and any(is_ambiguous(samples[i], ",") for i in silent)
    ):
        decimal = ","
    notes = []
    others = [
        f"`{headers[i]}`"
        for i, found in enumerate(marks)
        if len(found) == 1 and decimal not in found
    ]
    if others:
        notes.append(f"decimal {'point' if decimal == ',' else 'comma'} in {list_first(others, 3)}")
    other: DecimalMark = "," if decimal == "." else "."
    grouped = [f"`{headers[i]}`" for i in doubtful if is_ambiguous(samples[i], other)]
    if grouped:
        notes.append(f"`1{other}234` read as 1234 in {list_first(grouped, 3)}")
    return decimal, notes
