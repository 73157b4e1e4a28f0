"""A diagnostic is data first, text second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
    """A second place that a diagnostic refers to, with a message about it."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A span of a file, its expected text (`was`), and the text that replaces it.

    An empty span (it ends where it begins) is a place for an insertion. If the file has another
    text there, the edit is not made.
    """

    span: Span
    was: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """A certain fix of a problem: edits of one file that do not overlap.

    A correction that is only likely is not a fix.
    """

    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One problem, reported once.

    Attributes:
        code: the stable code, a key of `CODES`.
        severity: how serious the problem is; an error prevents the pack.
        span: the place in the source.
        message: one sentence that says what is wrong.
        help: one sentence that says how to correct it, or "".
        related: further places that the message refers to.
        fix: the correction that `help` describes, as edits; None if it is not certain.
    """

    code: str
    severity: Severity
    span: Span
    message: str
    help: str = ""
    related: tuple[Related, ...] = ()
    fix: Fix | None = None


def diagnostic_from(said: dict[str, Any]) -> Diagnostic:
    """A diagnostic from what `asdict` made of it. `Any`: JSON."""
    related = tuple(
        Related(span=Span(**one["span"]), message=one["message"]) for one in said["related"]
    )
    edits = tuple(
        Edit(**edit | {"span": Span(**edit["span"])})
        for edit in (said["fix"] or {}).get("edits", ())
    )
    return Diagnostic(
        **said
        | {
            "span": Span(**said["span"]),
            "related": related,
            "fix": Fix(edits=edits) if said["fix"] else None,
        }
    )
