"""Collects the problems of one compilation, each once."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from fedkg.errors import FedkgError
from fedkg_compiler.diagnostics.record import MOST_ERRORS, Diagnostic, Related, Severity, Span
from fedkg_compiler.diagnostics.suggested_edits import suggested
from fedkg_compiler.diagnostics.template_span import told_of_use


class TooManyErrors(FedkgError):
    """A compilation has found `MOST_ERRORS` errors; the last of them says so."""


class Problems:
    """Diagnostics in the order in which they were found, without repetitions of one code at one
    place.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, Span], Diagnostic] = {}
        self._topics: set[tuple[str, str]] = set()
        self._errors = 0

    def add(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Take over diagnostics of another part. Raises TooManyErrors."""
        for diagnostic in map(told_of_use, diagnostics):
            key = diagnostic.code, diagnostic.span
            if key in self._found:
                continue
            self._found[key] = diagnostic
            self._errors += diagnostic.severity == "error"
            if self._errors == MOST_ERRORS:
                self._stop()

    def _stop(self) -> None:
        message, advice = f"the check stops at {MOST_ERRORS:,} errors", "correct those above first"
        nowhere = Span(file="", line=1, column=1, end_line=1, end_column=1)
        self.error("FKG044", nowhere, message, advice)
        raise TooManyErrors(message, help=advice)

    def error(
        self, code: str, span: Span, message: str, help: str = "", related: tuple[Related, ...] = ()
    ) -> None:
        """Report a problem that prevents a pack."""
        self._say("error", code, span, message, help, related)

    def warning(
        self, code: str, span: Span, message: str, help: str = "", related: tuple[Related, ...] = ()
    ) -> None:
        """Report a probable mistake; fedkg still makes the pack."""
        self._say("warning", code, span, message, help, related)

    def info(
        self, code: str, span: Span, message: str, help: str = "", related: tuple[Related, ...] = ()
    ) -> None:
        """Something that was decided for the author."""
        self._say("info", code, span, message, help, related)

    def escalate(self, code: str) -> bool:
        """Turn all diagnostics of a code into errors; whether there were any."""
        found = [key for key in self._found if key[0] == code]
        for key in found:
            self._found[key] = replace(self._found[key], severity="error")
        self._errors = sum(item.severity == "error" for item in self._found.values())
        return bool(found)

    def files_with_errors(self) -> set[str]:
        """The files in which an error was found."""
        return {item.span.file for item in self._found.values() if item.severity == "error"}

    def withdraw(self, codes: Container[str], files: Container[str]) -> None:
        """Leave out warnings and notes with these codes in these files."""
        gone = [
            key
            for key, item in self._found.items()
            if key[0] in codes and key[1].file in files and item.severity != "error"
        ]
        for key in gone:
            del self._found[key]

    def info_per_file(
        self, topic: str, code: str, span: Span, message: str, help: str = ""
    ) -> None:
        """Add a note, but only for the first place in each file."""
        if self.fresh(topic, span):
            self.info(code, span, message, help)

    def fresh(self, topic: str, span: Span) -> bool:
        """Whether nothing has been said of a topic in this file yet; from now on it has."""
        new = (topic, span.file) not in self._topics
        self._topics.add((topic, span.file))
        return new

    def has(self, code: str, span: Span) -> bool:
        """Return whether a diagnostic of a code lies inside a place."""
        return any(
            key[0] == code
            and key[1].file == span.file
            and span.line <= key[1].line <= span.end_line
            for key in self._found
        )

    @property
    def failed(self) -> bool:
        """Whether any of them is an error."""
        return self._errors > 0

    @property
    def errors(self) -> int:
        """How many of them are errors."""
        return self._errors

    def all(self) -> tuple[Diagnostic, ...]:
        """Everything found so far."""
        return tuple(self._found.values())

    def _say(
        self,
        severity: Severity,
        code: str,
        span: Span,
        message: str,
        help: str,
        related: tuple[Related, ...],
    ) -> None:
        fix = suggested(span, help)
        self.add(
            [
                Diagnostic(
                    code=code,
                    severity=severity,
                    span=span,
                    message=message,
                    help=help,
                    related=related,
                    fix=fix,
                )
            ]
        )
