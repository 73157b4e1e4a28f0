"""The text of a statement while its tree is built: spans of its pieces, and its problems."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedkg_compiler.diagnostics.fixes import suggested
from fedkg_compiler.diagnostics.record import Diagnostic, Related, Span
from fedkg_compiler.frontends.fkg.syntax.grammar import Branch, Leaf, Token
from fedkg_compiler.frontends.fkg.syntax.split import Chunk
from fedkg_compiler.frontends.fkg.syntax.tree import Word


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement on its way from the parser's tree to ours: its text and the list that its
    problems are put into.
    """

    chunk: Chunk
    problems: list[Diagnostic] = field(default_factory=list)

    def span(self, leaf: Leaf) -> Span:
        """The place of a token or a branch in the file."""
        return self.chunk.span(*offsets(leaf))

    def word(self, token: Token) -> Word:
        """A token as it is written."""
        return Word(span=self.span(token), text=str(token))

    def report(
        self,
        code: str,
        span: Span,
        message: str,
        help: str = "",
        *,
        related: tuple[Related, ...] = (),
    ) -> None:
        """Add an error."""
        fix = suggested(span, help)
        self.problems.append(
            Diagnostic(
                code=code,
                severity="error",
                span=span,
                message=message,
                help=help,
                related=related,
                fix=fix,
            )
        )

    def doubt(self, code: str, span: Span, message: str, help: str) -> None:
        """Add a warning: it can be read, and is probably not meant."""
        self.problems.append(
            Diagnostic(code=code, severity="warning", span=span, message=message, help=help)
        )


def offsets(leaf: Leaf) -> tuple[int, int]:
    """Where a token or a branch begins and ends in the statement."""
    place = leaf if isinstance(leaf, Token) else leaf.meta
    return place.start_pos, place.end_pos


def tokens(branch: Branch, *kinds: str) -> list[Token]:
    """The direct tokens of a branch, of the kinds named (all of them where none is)."""
    return [
        child
        for child in branch.children
        if isinstance(child, Token) and (not kinds or child.type in kinds)
    ]


def token(branch: Branch, *kinds: str) -> Token:
    """The first direct token of these kinds; the grammar promises that there is one."""
    return tokens(branch, *kinds)[0]


def branches(branch: Branch, *names: str) -> list[Branch]:
    """The direct branches of these names (all of them where none is)."""
    return [
        child
        for child in branch.children
        if not isinstance(child, Token) and (not names or child.data in names)
    ]


def group_text(at: Statement, group: Branch) -> tuple[Span, str]:
    """Return the text between the braces of a graph pattern, unchanged, with its span."""
    start, end = group.meta.start_pos + 1, group.meta.end_pos - 1
    return at.chunk.span(start, end), at.chunk.text[start:end]
