"""Short HTML for notebooks: a title, a line and a table, with all texts escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

from fedkg._internal.safe_text import escape_hidden

MOST_ROWS = 20
"""Rows that a notebook shows."""

MOST_CHARACTERS = 200
"""Characters of a cell."""


def notebook_html(
    title: str, line: str, headers: Sequence[str], rows: Iterable[Sequence[object]], count: int
) -> str:
    """A title, a line of text, and the first `MOST_ROWS` of `count` rows as a table."""
    parts = [f"<div><strong>{_text(title)}</strong> {_text(line)}</div>"]
    shown = list(islice(rows, MOST_ROWS))
    if shown:
        head = "".join(f'<th scope="col">{_text(one)}</th>' for one in headers)
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
        for row in shown:
            cells = "".join(f"<td>{_text(cell)}</td>" for cell in row)
            parts.append(f"<tr>{cells}</tr>")
        parts.append("</tbody></table>")
    if count > len(shown):
        parts.append(f"<div>and {count - len(shown):,} more</div>")
    return "".join(parts)


def _text(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    if len(text) > MOST_CHARACTERS:
        text = text[: MOST_CHARACTERS - 3] + "..."
    return escape(escape_hidden(text))
