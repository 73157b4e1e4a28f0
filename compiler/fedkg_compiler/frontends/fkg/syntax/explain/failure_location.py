"""Where a statement stops to parse: the offset, the tokens before it, the accepted tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from fedkg_compiler.diagnostics.record import Diagnostic, Edit, Fix
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import (
    Chunk,
    Token,
    find_expected,
    keywords,
    parse_prefix,
)

_PIECE = re.compile(
    r"`[^`\n]*`|\"(?:[^\"\\\n]|\\.)*\"|[?$]\w+"
    r"|<[^<>\"{}|^`\\\s]*>|[^\W\d][\w-]*:[\w.-]*\w|[^\W\d]\w*"
    r"|[0-9]+(?:[.,][0-9]+)*\w*"
    r"|=[<>=]|<[>=]|[!:<>]=|->|=>|&&|\|\||\*\*|//|\+/-|\.\.+|\S"
)
_SEPARATORS = re.compile(r"\s*(?:->|[,;/|]|\s)\s*")
_TRAILING = re.compile(r"(?:\s|#[^\n]*)*\Z")
_OPENING, _CLOSING = {"(", "[", "{"}, {")", "]", "}"}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a recognised mistake.

    Attributes:
        code: the code of the diagnostic.
        message: the message of the diagnostic.
        help: the help of the diagnostic, or "".
        start: the offset in the statement at which the mistake begins; None if it is where parsing
            failed.
        end: the offset in the statement at which the mistake ends; None if it is where parsing
            failed.
        fix: edits (start, end, new text) that certainly correct the mistake.
    """

    code: str
    message: str
    help: str = ""
    start: int | None = None
    end: int | None = None
    fix: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """The place where a statement stops to parse.

    Attributes:
        before: the tokens that were read.
        start: the offset of the first character that was not read; at the end of the statement,
            the offset after its last word.
        bad: the piece of text at `start`, "" at the end.
        accepts: the names of the terminals that could follow.
        value: the offset of the value before `start`, if a comparison could follow it.
    """

    chunk: Chunk
    before: tuple[Token, ...]
    start: int
    bad: str
    accepts: frozenset[str]
    value: int | None

    @property
    def text(self) -> str:
        """The whole statement."""
        return self.chunk.text

    @property
    def rest(self) -> str:
        """The text from the failure on."""
        return self.chunk.text[self.start :]

    @property
    def bad_unit(self) -> str:
        """The text from the failure to the next space."""
        found = re.match(r"[^\s,\")]+", self.rest)
        return found[0] if found else ""

    @property
    def at_end(self) -> bool:
        """Whether the statement ends too early."""
        return not self.bad

    @property
    def form(self) -> str:
        """The first word of the statement."""
        return str(self.before[0]) if self.before else ""

    @property
    def last(self) -> Token | None:
        """The token before."""
        return self.before[-1] if self.before else None

    @property
    def touching(self) -> bool:
        """Whether the failure follows the last token without a space."""
        return self.last is not None and self.last.end_pos == self.start

    def follows(self, *words: str) -> bool:
        """Whether the last tokens are these."""
        return tuple(str(token) for token in self.before[-len(words) :]) == words

    def has(self, word: str) -> bool:
        """Whether this word was read."""
        return any(str(token) == word for token in self.before)

    @property
    def allowed_words(self) -> list[str]:
        """The keywords that the grammar accepts here."""
        known = keywords()
        return [
            known[name] for name in sorted(self.accepts) if name in known and known[name].isalpha()
        ]

    def allows(self, sign: str) -> bool:
        """Return whether the grammar accepts this keyword or operator here."""
        known = keywords()
        return any(known.get(name) == sign for name in self.accepts)

    @property
    def open_brackets(self) -> list[Token]:
        """The brackets that are open here, the outermost first."""
        stack: list[Token] = []
        for token in self.before:
            if str(token) in _OPENING:
                stack.append(token)
            elif str(token) in _CLOSING and stack:
                stack.pop()
        return stack

    def diagnostic(self, found: Explanation) -> Diagnostic:
        """The diagnostic of a mistake recognised here."""
        if found.start is None:
            start, end = self.start, self.start + len(self.bad)
        else:
            start, end = found.start, found.end or found.start + 1
        span = self.chunk.span(start, end)
        if start == end:
            span = replace(span, end_column=span.end_column + 1)
        edits = tuple(
            Edit(span=self.chunk.span(a, b), was=self.text[a:b], text=text)
            for a, b, text in found.fix
        )
        fix = Fix(edits=edits) if edits else None
        return Diagnostic(
            code=found.code,
            severity="error",
            span=span,
            message=found.message,
            help=found.help,
            fix=fix,
        )


def locate_failure(chunk: Chunk) -> ParseFailure:
    """Read a statement that does not parse up to the failure."""
    prefix = parse_prefix(chunk.text)
    before, start = prefix.tokens, prefix.stopped
    piece = None if start is None else _PIECE.match(chunk.text, start)
    accepts, value = find_expected(before)
    return ParseFailure(
        chunk=chunk,
        before=before,
        start=_end(chunk.text, before) if start is None else start,
        bad=piece[0] if piece else "",
        accepts=accepts,
        value=value,
    )


def _end(text: str, before: tuple[Token, ...]) -> int:
    """Where the last word of a statement ends."""
    if before:
        return before[-1].end_pos
    found = _TRAILING.search(text)
    return found.start() if found else len(text)


def spaced_values(at: ParseFailure) -> str:
    """The help for values of an example with separators between them: the user's values, with
    spaces.
    """
    start = at.text.rfind("=", 0, at.start) + 1
    values = re.split(r"\s+and\b|\n|#", at.text[start:].strip())[0]
    return f"write spaces between them: {_SEPARATORS.sub(' ', values)}"
