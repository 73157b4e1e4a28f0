"""A rule file without the statements that cannot be checked where a library is absent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.editor.rule_document import ParsedStatement, RuleDocument
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import plain_text
from fedkg_compiler.frontends.fkg.syntax.tree import Statement

NO_RULE = "FKG241"
"""The code for a file without a rule, which says nothing about one whose rules are left out."""


def without_unchecked(
    document: RuleDocument, reason: Callable[[Statement], str]
) -> tuple[RuleDocument, tuple[Diagnostic, ...]]:
    """The document with empty lines in place of statements that cannot be checked, and a note at
    each of them; the document itself if it has none.

    Args:
        reason: why a statement cannot be checked; "" if it can. Statements that use a name that
            such a statement declares are left out too.
    """
    left_out: dict[int, str] = {}
    names: set[tuple[str, str]] = set()
    found = True
    while found:
        found = False
        for number, statement in enumerate(document.statements):
            if number in left_out or statement.tree is None:
                continue
            why = reason(statement.tree) or _uses(statement, names)
            if why:
                found = True
                left_out[number] = why
                names |= {(one.kind, one.name) for one in statement.occurrences() if one.declares}
    if not left_out:
        return document, ()
    text = plain_text(document.text)
    lead = len(text) - sum(len(one.chunk.text) for one in document.statements)
    parts = [
        "\n" * one.chunk.text.count("\n") if number in left_out else one.chunk.text
        for number, one in enumerate(document.statements)
    ]
    notes = [_note(document.statements[number], why) for number, why in sorted(left_out.items())]
    return RuleDocument(document.path, text[:lead] + "".join(parts)), tuple(notes)


def with_notes(found: Sequence[Diagnostic], notes: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """What a check of the remaining statements found, and the notes, in the order of the file."""
    if not notes:
        return tuple(found)
    return tuple(
        sorted(
            [*(one for one in found if one.code != NO_RULE), *notes],
            key=lambda one: (one.span, one.code),
        )
    )


def _uses(statement: ParsedStatement, names: set[tuple[str, str]]) -> str:
    used = next(
        (one.name for one in statement.occurrences() if (one.kind, one.name) in names), None
    )
    return f"it uses `{used}`, which is not checked" if used is not None else ""


def _note(statement: ParsedStatement, why: str) -> Diagnostic:
    chunk = statement.chunk
    end = len(chunk.text.split("\n", 1)[0]) + 1
    span = Span(file=chunk.file, line=chunk.line, column=1, end_line=chunk.line, end_column=end)
    return Diagnostic(code="", severity="info", span=span, message=f"not checked: {why}")
