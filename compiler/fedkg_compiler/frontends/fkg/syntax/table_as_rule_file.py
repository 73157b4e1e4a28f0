"""Knows a table that was given as a rule file."""

from __future__ import annotations

import re
from pathlib import PurePath

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.fkg.syntax.keywords import STATEMENT_WORDS

TABLE_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".xlsx")
_STATEMENT = re.compile(rf"^[ \t]*(?:{'|'.join(STATEMENT_WORDS)})[ \t]+[^\s,;|]", re.MULTILINE)
_ENOUGH_LINES = 3
_READ = 20_000


def is_table(text: str, file: str) -> Diagnostic | None:
    """One error for a whole file that is a table: by its name, or by separators in most lines and
    no statement; None for anything else.
    """
    start = text[:_READ]
    named, separated, rules = (
        file.lower().endswith(TABLE_SUFFIXES),
        _separated(start),
        _STATEMENT.search(start) is not None,
    )
    if not ((named and (separated or not rules)) or (separated and not rules)):
        return None
    end = len(text.split("\n", 1)[0].rstrip("\r")) + 1
    return Diagnostic(
        code="FKG045",
        severity="error",
        span=Span(file=file, line=1, column=1, end_line=1, end_column=max(end, 2)),
        message="this is a table, not a rule file",
        help=f"check a table with rules: fedkg eval RULES {PurePath(file).name}",
    )


def _separated(text: str) -> bool:
    """Whether most lines have the first one's separators, as many as that has."""
    lines = [line for line in text.splitlines() if line.strip()][:100]
    if len(lines) < _ENOUGH_LINES:
        return False
    return any(
        count and sum(line.count(mark) == count for line in lines) > 0.8 * len(lines)
        for mark, count in _marks(lines[0])
    )


def _marks(line: str) -> list[tuple[str, int]]:
    return [(mark, line.count(mark)) for mark in ",;\t|"]
