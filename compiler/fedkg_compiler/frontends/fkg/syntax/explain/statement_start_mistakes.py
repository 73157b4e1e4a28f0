"""Mistakes at the left edge: lines that begin a statement and should not, or should and do not."""

from __future__ import annotations

import re
from dataclasses import replace

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.diagnostics.record import Diagnostic, Edit, Fix, Span
from fedkg_compiler.frontends.fkg.syntax.explain.certain_fixes import is_typo
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import locate_failure
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import STATEMENT_WORDS, Chunk

_INDENTED = re.compile(
    r"^[ \t\u00a0]+(?:(rule|signal|output|label|template|infer|set|cause)\s+[`\w]"
    r"|(range|predict)\s+knowledge\b|(example)\s+of\b"
    r"|(rows)\s+are\b|(prefix)\s+\w+\s*:|(timeline)\s+(?:step|time|trace)\b"
    r"|(use)\s+\w|(shapes|queries)\s+\")",
    re.MULTILINE,
)
_FIRST = re.compile(r"(?:\s|#[^\n]*)*")
_PIECE = re.compile(r"[\w@]+|\S")
_CLOSING = ("end", "endif", "endrule", "done", "fi", "begin")
_OPTION_WORDS = (
    "kind",
    "weight",
    "hard",
    "for",
    "require",
    "is",
    "in",
    "span",
    "column",
    "when",
    "otherwise",
    "and",
    "or",
    "then",
    "keep",
    "allow",
)


def explain_start(chunk: Chunk, *, continues: bool = False) -> Diagnostic:
    """Return the diagnostic of a chunk that does not begin like a statement.

    Args:
        continues: whether the chunk belongs to the statement above.
    """
    found = _FIRST.match(chunk.text)
    start = found.end() if found else 0
    piece = _PIECE.match(chunk.text, start)
    word = piece[0] if piece else ""
    span = chunk.span(start, start + max(1, len(word)))
    if word.casefold() in _CLOSING and chunk.text[start:].split("#")[0].split() == [word]:
        return _error(
            "FKG001",
            f"`{word}` does not start a statement",
            "remove it: a statement ends where the next begins",
            span,
            Edit(span=span, was=word, text=""),
        )
    if continues:
        message = f"`{word}` is at the left edge, where a statement begins"
        edge = replace(span, end_column=span.column)
        return _error(
            "FKG026",
            message,
            "indent this line: it belongs to the statement above",
            span,
            Edit(span=edge, was="", text="  "),
        )
    near = nearest_name(word.lstrip("@"), STATEMENT_WORDS)
    if near == "constant" and " require " in chunk.text:
        near = None  # `constraint NAME require ...` means a rule
    if word == "@prefix":
        hint = "write: prefix plant: <https://example.org/plant#>, without @ and full stop"
    elif near:
        hint = f"did you mean `{near}`?"
    elif word == "knowledge":
        hint = "write: range knowledge NAME of ..., or: predict knowledge NAME of ..."
    elif word == "require":
        hint = (
            "give the rule its name: rule NAME require ...; or indent the line to continue the rule"
            " above"
        )
    elif word in _OPTION_WORDS:
        hint = "indent the line to continue the statement above"
    elif word.casefold() in ("select", "ask", "construct", "base"):
        hint = 'put a SPARQL query into a separate file: queries "checks/*.rq"'
    elif word.casefold() in ("import", "include", "from"):
        hint = "an ontology is loaded by: use isa95"
    elif re.match(r"[^\n]*(<=|>=|==|[<>≤≥])", chunk.text[start:]):
        hint = "put the condition into a rule: rule NAME require ..."
    else:
        hint = "a statement begins with rule, signal, output, use or the like"
        if span.line > 1:
            hint += "; indent the line to continue the statement above"
    edit = (
        Edit(span=span, was=word, text=near)
        if near and is_typo(word, near, STATEMENT_WORDS)
        else None
    )
    return _error("FKG001", f"`{word}` does not start a statement", hint, span, edit)


def indented_statement(chunk: Chunk) -> tuple[Chunk, Chunk, Diagnostic] | None:
    """Split a statement that fails at an indented second statement.

    Returns:
        The text above, the text from the second statement on, and the diagnostic; None otherwise.
    """
    places = {
        found.start(found.lastindex or 0): found.start()
        for found in _INDENTED.finditer(chunk.text)
        if found.start() > 0
    }
    if not places:
        return None
    at = locate_failure(chunk)
    start = at.start if at.start in places else at.last.start_pos if at.last is not None else None
    if start is None or start not in places:
        return None
    cut = places[start]
    piece = _PIECE.match(chunk.text, start)
    word = piece[0] if piece else ""
    message = f"the statement `{word}` is indented, as if it belonged to the one above"
    span = chunk.span(start, start + len(word))
    indent = chunk.text[chunk.text.rfind("\n", 0, start) + 1 : start]
    edit = Edit(span=replace(span, column=1, end_column=span.column), was=indent, text="")
    problem = _error("FKG027", message, "move it to the left edge", span, edit)
    above = Chunk(file=chunk.file, line=chunk.line, text=chunk.text[:cut])
    below = Chunk(
        file=chunk.file, line=chunk.line + chunk.text.count("\n", 0, cut), text=chunk.text[cut:]
    )
    return above, below, problem


def _error(code: str, message: str, help: str, span: Span, edit: Edit | None = None) -> Diagnostic:
    fix = Fix(edits=(edit,)) if edit else None
    return Diagnostic(code=code, severity="error", span=span, message=message, help=help, fix=fix)
