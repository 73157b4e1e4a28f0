"""What the rows of a raw table are: lines before the header, the header, a row of units, data,
closing lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from fedkg.tables.cell_words import is_unknown
from fedkg.tables.numerals import looks_numeric
from fedkg.tables.times import looks_like_time

SEARCHED = 60
BELOW = 50
CLOSING = 20

SUMMARY = re.compile(
    r"\W*(?:sum(?:me|me:)?|gesamt(?:summe)?|total|totals|grand "
    r"total|subtotal|zwischensumme|mittel(?:wert)?|durchschnitt|average|avg|mean|"
    r"median|min(?:imum)?|max(?:imum)?|std(?:\.? "
    r"?dev\.?)?|stdev|standardabweichung|anzahl|count|end of (?:report|file|data)|ende|eof|"
    r"\(?\d+ (?:rows?|records?|zeilen|datensätze)\b.*)\W*",
    re.IGNORECASE,
)
UNIT = re.compile(
    r"\[.*\]|\(.*\)|-|[°%]|°?[CFK]|deg[CFK]|"
    r"[µmkMG]?(?:s|m|g|t|A|V|W|Wh|Hz|N|J|"
    r"Pa|bar|bar\([agü]\)|barg|bara|psi[ag]?|l|L|Nm|N\.m|VA|Ohm)|"
    r"min|h|d|rpm|ppm|ppb|pH|rH|U/min|1/(?:min|s|h)|"
    r"(?:[mc]?m[³3²2]?|N?m[³3]|k?g|t|l|L)/(?:s|min|h|d|m[³3²2])|"
    r"[mc]?m[²³23]|mm/s2?|m/s[²2]|µS/cm|mmWS|%RH"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Positions of the parts of a table among the raw rows (from 0, blank rows counted).

    Attributes:
        header: position of the header row, or None when the first row is data.
        units: whether the row below the header names units.
        first: the first data row.
        end: the row after the last data row.
        width: number of columns.
    """

    header: int | None
    units: bool
    first: int
    end: int
    width: int


def blank(row: Sequence[str]) -> bool:
    """Whether a row has no text at all."""
    return not any(cell and not cell.isspace() for cell in row)


def find_layout(rows: Sequence[Sequence[str]]) -> Layout | None:
    """What the rows are; None when all are blank."""
    filled = list(islice((i for i, row in enumerate(rows) if not blank(row)), SEARCHED + BELOW))
    if not filled:
        return None
    width = usual_width([rows[i] for i in filled])
    top = next((i for i in filled[:SEARCHED] if _could_be_header(rows[i], width)), filled[0])
    below = [rows[i] for i in filled if i > top and len(rows[i]) >= 1]
    numeric = _numeric_columns(below, width)
    header = top if _is_header(rows[top], numeric) else None
    first = top if header is None else top + 1
    units = header is not None and bool(below) and _is_unit_row(below[0], below[1:], width)
    if units:
        first = next(i for i in filled if i > top) + 1
    return Layout(
        header=header,
        units=units,
        first=first,
        end=_end(rows, first, width, leads=numeric[0]),
        width=width,
    )


def usual_width(rows: Sequence[Sequence[str]]) -> int:
    """The most frequent number of cells of a row."""
    counts = Counter(len(row) for row in rows)
    return max(counts, key=lambda width: (counts[width], width))


def find_end(rows: Sequence[Sequence[str]], first: int, width: int) -> int:
    """The first position behind the data that begins at `first`; closing lines are left out."""
    below = [row for row in islice(rows, first, first + SEARCHED + BELOW) if not blank(row)]
    return _end(rows, first, width, leads=bool(width) and _numeric_columns(below, width)[0])


def _could_be_header(row: Sequence[str], width: int) -> bool:
    texts = sum(1 for cell in row if cell.strip())
    return len(row) == width and texts >= min(width, max(2, round(0.6 * width)))


def is_value(cell: str) -> bool:
    """Whether a cell is a number or a time."""
    cell = cell.strip()
    return looks_numeric(cell) or looks_like_time(cell)


def _numeric_columns(rows: Sequence[Sequence[str]], width: int) -> list[bool]:
    """For each column, whether most of its known cells are numbers or times."""
    out = []
    for column in range(width):
        cells = [row[column].strip() for row in rows if column < len(row)]
        known = [cell for cell in cells if not is_unknown(cell)]
        out.append(bool(known) and 2 * sum(map(is_value, known)) > len(known))
    return out


def _is_header(row: Sequence[str], numeric: Sequence[bool]) -> bool:
    """Whether a row names columns: without numbers and times, or with a word above a column of
    them.
    """
    cells = [cell.strip() for cell in row]
    words = [bool(cell) and not is_unknown(cell) and not is_value(cell) for cell in cells]
    if not any(map(is_value, cells)):
        return any(words)
    return any(word and below for word, below in zip(words, numeric, strict=True))


def _is_unit_row(row: Sequence[str], below: Sequence[Sequence[str]], width: int) -> bool:
    numeric = _numeric_columns(below, width)
    cells = [cell.strip() for cell in row]
    named = [cell for cell in cells if cell]
    over = any(
        flag and cell and not is_unknown(cell) for flag, cell in zip(numeric, cells, strict=False)
    )
    return bool(named) and over and all(UNIT.fullmatch(cell) or is_unknown(cell) for cell in named)


def _end(rows: Sequence[Sequence[str]], first: int, width: int, *, leads: bool) -> int:
    """The first position behind the data: closing lines (sums, counts, remarks) and blank rows at
    the end are left out.

    Where the first column holds words (`leads` is false: no numbers or times), a full row that
    begins with "Total" may well be data: it closes the table only behind a blank row.
    """
    end = len(rows)
    while end > first and blank(rows[end - 1]):
        end -= 1
    stop, cut = max(first, end - CLOSING), end
    for i in range(end - 1, stop - 1, -1):
        if blank(rows[i]):
            continue
        if not _closes(rows[i], width):
            break
        if leads or len(rows[i]) < width or (i > first and blank(rows[i - 1])):
            cut = i
    while cut > first and blank(rows[cut - 1]):
        cut -= 1
    closing = sum(1 for row in rows[cut:end] if not blank(row))
    return (
        cut if cut - first >= closing else end
    )  # a table of nothing but statistics is left as it is


def _closes(row: Sequence[str], width: int) -> bool:
    texts = [cell.strip() for cell in row if cell.strip()]
    if SUMMARY.fullmatch(texts[0]):
        return True
    return (
        width > 2
        and len(texts) == 1
        and not is_value(texts[0])
        and bool(row[0].strip())
        and len(row) < width
    )
