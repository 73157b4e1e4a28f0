"""A rule file cut into statements: a word at the left edge begins one, every other line belongs to
the statement above.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from fedkg_compiler.diagnostics.record import Span

_FIRST_WORD = re.compile(r"[ \t\u00a0]*([\w@]*)")
_BLANK = re.compile(r"(?:\s|#[^\n]*)*+")
_LONG = 2_000
"""Characters of a statement from which its lines are counted once, and not for every place."""
_LINE = re.compile(r"^([ \t\u00a0]*)[^\s#]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text of one statement, from the beginning of its line, with the blank lines and comments
    after it.

    Attributes:
        file: the name of the file, as given to `parse`.
        line: the line of the file (from 1) on which the text begins.
        text: the text of the statement.
    """

    file: str
    line: int
    text: str

    @property
    def first_word(self) -> str:
        """The word that the text begins with, or "" where it begins with something else."""
        found = _FIRST_WORD.match(self.text)
        return found[1] if found else ""

    @property
    def indent(self) -> int:
        """Number of characters before the first word."""
        found = _FIRST_WORD.match(self.text)
        return found.start(1) if found else 0

    def span(self, start: int, end: int) -> Span:
        """The place of a stretch of the text, in the file."""
        before = self.text.rfind("\n", 0, start) + 1
        above = (
            bisect_left(_line_ends(self.text), start)
            if len(self.text) > _LONG
            else self.text.count("\n", 0, start)
        )
        line = self.line + above
        lines = self.text.count("\n", start, end)
        column = end - (self.text.rfind("\n", start, end) + 1 if lines else before) + 1
        return Span(
            file=self.file,
            line=line,
            column=start - before + 1,
            end_line=line + lines,
            end_column=column,
        )

    @property
    def blank(self) -> bool:
        """Whether there is nothing in it but space and comments."""
        return _BLANK.fullmatch(self.text) is not None


def split(text: str, file: str) -> list[Chunk]:
    """Return the statements of a file in order.

    Text above the first statement is a separate chunk, without blank lines and comments.
    """
    start = re.compile(rf"^{re.escape(left_edge(text))}(?=[\w@])", re.MULTILINE)
    first = _LINE.search(text)
    if first is None:
        return []
    edges = [
        first.start(),
        *(found.start() for found in start.finditer(text) if found.start() > first.start()),
        len(text),
    ]
    chunks = []
    line = 1 + text.count("\n", 0, first.start())
    for begin, end in pairwise(edges):
        chunks.append(Chunk(file=file, line=line, text=text[begin:end]))
        line += text.count("\n", begin, end)
    return chunks


def left_edge(text: str) -> str:
    """The indentation that every line of the text has (a text indented as a whole has its left edge
    there); mostly "".
    """
    first = _LINE.search(text)
    edge = first[1] if first else ""
    if edge and all(found[1].startswith(edge) for found in _LINE.finditer(text)):
        return edge
    return ""


@lru_cache(maxsize=2)
def _line_ends(text: str) -> list[int]:
    """Where the lines of a long statement end; most of its places are asked one after the other."""
    return [found.start() for found in re.finditer("\n", text)]


def joined(chunks: list[Chunk]) -> Chunk:
    """Neighbouring chunks as one."""
    return Chunk(
        file=chunks[0].file, line=chunks[0].line, text="".join(chunk.text for chunk in chunks)
    )
