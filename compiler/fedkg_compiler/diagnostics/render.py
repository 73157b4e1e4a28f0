"""A diagnostic as text for people, and as JSON for programs."""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Any

from fedkg_compiler.diagnostics.record import Diagnostic, Span

_WIDEST = 120
_MOST_LINES = 6
_LONGEST = 2_000
"""Characters of a message; a name in it may be much longer, and stand in a thousand messages."""


@lru_cache(maxsize=4)
def _lines(text: str) -> list[str]:
    """The lines of a file: split once, however many diagnostics it has."""
    return text.removeprefix("\ufeff").split("\n")


def render(diagnostic: Diagnostic, text: str | None) -> str:
    """The diagnostic with its source line, the place underlined; without source where `text`, the
    file's text, is None.

    ``rules.fkg:3:31: error[FKG007]: `m` is separated from the unit `N```, the line, the mark below
    it, ``= help: ...``.
    What stands in no file (an option of the command line) has no place. Lines are what ``\\n``
    ends, columns are characters, as in
    `Span`. The result has no line end at its end.
    """
    span = diagnostic.span
    place = f"{_format_position(span)}: " if span.file else ""
    lines = [f"{place}{diagnostic.severity}[{diagnostic.code}]: {_cut(diagnostic.message)}"]
    source = None if text is None or not span.file else _lines(text)
    shown = [span.end_line, *(related.span.end_line for related in diagnostic.related)]
    margin = " " * len(str(max(shown))) if source is not None else ""
    lines.extend(_excerpt(span, source, margin))
    for related in diagnostic.related:
        lines.append(
            f"{margin} = note: {_cut(related.message)}"
            + (f": {_format_position(related.span)}" if related.span.file else "")
        )
        if related.span.file == span.file:
            lines.extend(_excerpt(related.span, source, margin))
    if diagnostic.help:
        lines.append(f"{margin} = help: {_cut(diagnostic.help)}")
    return "\n".join(lines)


def to_json(diagnostic: Diagnostic) -> dict[str, Any]:
    """The diagnostic as a flat dict of JSON values.

    ``related`` is a list of places, each with its message; ``fix`` a list of places, each with the
    text to put there, or None.
    """
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        **_span_json(diagnostic.span),
        "message": _cut(diagnostic.message),
        "help": _cut(diagnostic.help),
        "related": [
            {**_span_json(related.span), "message": _cut(related.message)}
            for related in diagnostic.related
        ],
        "fix": (
            [{**_span_json(edit.span), "text": edit.text} for edit in diagnostic.fix.edits]
            if diagnostic.fix
            else None
        ),
    }


def _cut(text: str) -> str:
    """A text without its middle, where it is very long."""
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


def _span_json(span: Span) -> dict[str, Any]:
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _format_position(span: Span) -> str:
    return f"{span.file}:{span.line}:{span.column}"


def _excerpt(span: Span, source: list[str] | None, margin: str) -> list[str]:
    """The lines of a span, each with its marks; of a long span the first lines and the last."""
    if source is None or not 1 <= span.line <= len(source):
        return []
    last = min(max(span.end_line, span.line), len(source))
    if last > span.line and span.end_column <= 1 and last == span.end_line:
        last -= 1
    numbers = list(range(span.line, last + 1))
    cut = numbers if len(numbers) <= _MOST_LINES else [*numbers[: _MOST_LINES - 2], 0, numbers[-1]]
    lines = [f"{margin} |"]
    for number in cut:
        if number == 0:
            lines.append(f"{margin} ...")
            continue
        line = source[number - 1].rstrip("\r")
        start = span.column if number == span.line else 1 + len(line) - len(line.lstrip())
        end = span.end_column if number == span.end_line else len(line) + 1
        shown, mark = _marked(line, start - 1, max(end - 1, start))
        lines.append(f"{number:>{len(margin)}} | {shown}".rstrip())
        lines.append(f"{margin} | {mark}")
    return lines


def _marked(line: str, start: int, end: int) -> tuple[str, str]:
    """A line as it can be shown, and the marks under the characters from `start` to `end`; of a
    long line the part around them.
    """
    before, inside, after = line[:start].ljust(start), line[start:end], line[end:]
    if len(line) > _WIDEST:
        room = _WIDEST // 3
        before = before if len(before) <= room else "..." + before[-room:]
        inside = inside if len(inside) <= room else inside[:room] + "..."
        after = after if len(after) <= room else after[:room] + "..."
    gap = "".join(letter if letter == "\t" else " " * _width(letter) for letter in before)
    mark = "^" * max(1, sum(_width(letter) for letter in inside))
    return _visible(before) + _visible(inside) + _visible(after), gap + mark


def _visible(text: str) -> str:
    """Control characters as the pictures that Unicode has for them, so that they cannot move the
    marks.
    """
    return "".join(
        chr(0x2400 + ord(letter)) if letter < " " and letter != "\t" else letter for letter in text
    )


def _width(letter: str) -> int:
    """How many cells of a terminal a character takes."""
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Cf", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
