"""The comments of a file and their positions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.syntax.printing.statement_layout import Remark
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import parse_prefix

_COMMENT = re.compile(r"#[^\n]*")


def inner(text: str) -> Iterator[tuple[int, str]]:
    """The comments between the words of one statement, outside braces: where each begins, and its
    text.
    """
    depth = 0
    for before, after in pairwise(parse_prefix(text).tokens):
        depth += (before.type == "LBRACE") - (before.type == "RBRACE")
        # `at the start` is one token, and a comment may follow its first word; quoted tokens and
        # IRIs begin with a sign
        start = before.start_pos if before[:1].isalpha() else before.end_pos
        if depth == 0:
            for found in _COMMENT.finditer(text, start, after.start_pos):
                yield found.start(), found[0].rstrip()


def remarks(text: str, clauses: Sequence[tuple[int, int] | None]) -> list[Remark] | None:
    """Assign each comment of a statement to the clause before it.

    Returns None if a comment is inside a clause or cannot be assigned.

    Args:
        text: the statement.
        clauses: the offsets at which each clause begins and ends in the statement, in the order in
            which the clauses are printed; None for a clause without a known place.
    """
    found: list[Remark] = []
    for start, comment in inner(text):
        if any(place is None for place in clauses) or any(
            place and place[0] < start < place[1] for place in clauses
        ):
            return None
        before = [i for i, place in enumerate(clauses) if place and place[1] <= start]
        line = text[text.rfind("\n", 0, start) + 1 : start]
        clause = max(before, key=lambda i: (clauses[i] or (0, 0))[1], default=-1)
        found.append(Remark(clause=clause, text=comment, own=not line.strip()))
    return found


class TextOffsets:
    """Offsets of a text from lines and columns."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def span_offsets(self, span: Span) -> tuple[int, int]:
        """Where a span begins and ends."""
        return self.starts[span.line - 1] + span.column - 1, self.starts[
            span.end_line - 1
        ] + span.end_column - 1
