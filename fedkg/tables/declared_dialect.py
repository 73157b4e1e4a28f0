"""What is stated about the form of a table file, instead of being detected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fedkg.tables.layout import UNIT

BARE_UNIT = re.compile(rf"(?![\[(-])(?:{UNIT.pattern})")
"""A unit in a header row below the names, without brackets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The stated form of a table file; None and 0 where the reader detects it.

    Attributes:
        delimiter: one character between the cells of a text table.
        encoding: of a text table, as Python names it.
        quote: the character around cells with delimiters; "" if no cell is quoted.
        comment: rows that begin with this text are left out; "" for none.
        header_rows: number of header rows. Several rows are joined: a merged cell (empty cells to
            its right) counts for all its columns.
        skip_rows: number of lines (or sheet rows) before the header, with `header_rows`.
    """

    delimiter: str | None = None
    encoding: str | None = None
    quote: str = '"'
    comment: str = ""
    header_rows: int | None = None
    skip_rows: int = 0


def join_header_rows(
    rows: Sequence[Sequence[str]], width: int
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Join the rows of a header: one header and its cells from top to bottom for each column.

    In all rows but the last, an empty cell above a filled one repeats the cell to its left, as
    merged cells are exported. A unit in the last row gets brackets.
    """
    headers: list[str] = []
    parts: list[tuple[str, ...]] = []
    above = [""] * max(0, len(rows) - 1)
    for column in range(width):
        own = [" ".join(row[column].split()) if column < len(row) else "" for row in rows]
        upper = list(own[:-1])
        for level, cell in enumerate(own[:-1]):
            if cell:
                above[level:] = [cell, *("" for _ in above[level + 1 :])]
            elif any(own[level + 1 :]):
                upper[level] = above[level]
        last = own[-1]
        if BARE_UNIT.fullmatch(last) and any(upper):
            last = f"[{last}]"
        cells = tuple(cell for cell in (*upper, last) if cell)
        headers.append(" ".join(dict.fromkeys(cells)))
        parts.append(tuple(dict.fromkeys((*cells, *(cell for cell in own if cell)))))
    return headers, parts
