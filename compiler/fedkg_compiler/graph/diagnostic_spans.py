"""Spans for files that are not rule files, and offsets inside a piece of a rule file."""

from __future__ import annotations

from fedkg_compiler.diagnostics.record import Diagnostic, Severity, Span
from fedkg_compiler.diagnostics.suggested_edits import suggested

FILE_READ_ON = "correct this; fedkg still reads the rest of the file"
"""Help for a mistake that costs one statement of a file."""


def point(file: str, line: int = 1, column: int = 1, *, width: int = 1) -> Span:
    """Return the span of `width` characters at a place of a file.

    Lines and columns count from 1.
    """
    return Span(file=file, line=line, column=column, end_line=line, end_column=column + width)


def inside(outer: Span, text: str, start: int, end: int) -> Span:
    """Return the span of ``text[start:end]``, where `text` begins at the start of `outer`."""
    line, column = _advance(outer.line, outer.column, text[:start])
    end_line, end_column = _advance(line, column, text[start:end])
    return Span(file=outer.file, line=line, column=column, end_line=end_line, end_column=end_column)


def _advance(line: int, column: int, text: str) -> tuple[int, int]:
    breaks = text.count("\n")
    if not breaks:
        return line, column + len(text)
    return line + breaks, len(text) - text.rfind("\n")


def report(
    code: str, span: Span, message: str, *, help: str = "", severity: Severity = "error"
) -> Diagnostic:
    """Return a diagnostic, with the fix where the help is a `Suggestion`.

    Shorter to write than the record itself.
    """
    return Diagnostic(
        code=code,
        severity=severity,
        span=span,
        message=message,
        help=help,
        fix=suggested(span, help),
    )
