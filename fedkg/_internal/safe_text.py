"""Text made fit to show: lists of names are cut, and control and direction characters become
escapes. Warnings of Python, which may quote such text, become one-line notes.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""Controls except tab and newline, C1 controls, marks of writing direction, invisible spaces and
tags, and unpaired surrogates.
"""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of cells that a spreadsheet would compute (source: OWASP, CSV injection)."""


def list_first(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are; empty without names.

    Examples:
        >>> list_first(["a", "b", "c", "d"], 2), list_first(["a", "b"], 2)
        ('a, b and 2 more', 'a, b')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def count_noun(number: int, noun: str) -> str:
    """A number with its noun, which forms its plural with an s.

    Examples:
        >>> count_noun(1, "rule"), count_noun(2000, "rule")
        ('1 rule', '2,000 rules')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def escape_hidden(text: str) -> str:
    r"""The text with hidden characters as ``\u001b``; newlines and tabs stay.

    Example:
        >>> escape_hidden("a\x1b[31m")
        'a\\u001b[31m'
    """
    return HIDDEN.sub(_escape, text)


def escape_hidden_in(value: object) -> object:
    """Escape hidden characters of a string or of markup; return any other value unchanged."""
    return type(value)(escape_hidden(value)) if isinstance(value, str) else value


def _escape(found: re.Match[str]) -> str:
    body = found.group().encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{body[i] << 8 | body[i + 1]:04x}" for i in range(0, len(body), 2))


def escape_csv_cell(value: object) -> object:
    """A CSV cell with escaped hidden characters, and an apostrophe before text that a spreadsheet
    would compute.

    Numbers stay unchanged, also numbers written as text.
    """
    if not isinstance(value, str):
        return value
    text = escape_hidden(value)
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)
"""Categories about code; they tell the user nothing about rules or data."""


def show_warnings_as_notes() -> None:
    """Print each warning of this process once, as ``note: ...`` on stderr; options of Python
    (``-W``) still apply.
    """
    if sys.warnoptions:
        return
    shown: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = escape_hidden(" ".join(str(message).split()))
        if issubclass(category, RuntimeWarning):
            text = (
                f"some numbers are too large or undefined ({text}); "
                "results that need them are unknown"
            )
        if text not in shown and not issubclass(category, FOR_DEVELOPERS):
            shown.add(text)
            sys.stderr.write(f"note: {text}\n")

    warnings.showwarning = show
