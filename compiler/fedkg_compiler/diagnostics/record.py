"""A diagnostic is data first, text second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]
MOST_ERRORS = 1_000
"""Errors after which a compilation stops. Nobody reads more, and each takes time."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Span:
    """A stretch of a file: lines and columns count from 1, the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """A second place that a diagnostic speaks of, with what is to be seen there."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A stretch of a file, what must stand there (`was`), and what is to stand there instead.

    An empty stretch (it ends where it begins) is a place to put text in. Where something else
    stands, the edit is not made.
    """

    span: Span
    was: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What mends a problem for certain: edits of one file that do not overlap.

    Nothing that is only likely is a fix.
    """

    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem, said once.

    Attributes:
        code: stable, a key of `CODES`. message: one sentence. help: what to do, one sentence, or
            "". fix: the same for programs,
        where it is certain.
    """

    code: str
    severity: Severity
    span: Span
    message: str
    help: str = ""
    related: tuple[Related, ...] = ()
    fix: Fix | None = None
