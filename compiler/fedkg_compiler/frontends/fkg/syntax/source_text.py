"""The text of a rule file: from its bytes to the texts of single statements.

It decodes the bytes, recognises what is no rule file, and cuts the text: a word at the left edge
begins a statement, every other line belongs to the statement above.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath

from fedkg_compiler.diagnostics.record import Diagnostic, Span

STATEMENT_WORDS = (
    "use",
    "prefix",
    "timeline",
    "rows",
    "signal",
    "output",
    "label",
    "rule",
    "constant",
    "template",
    "infer",
    "range",
    "predict",
    "set",
    "cause",
    "example",
    "shapes",
    "queries",
)


_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MERGE_MARKER = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1a\x7f]")


def plain_text(text: str) -> str:
    """The text without a byte order mark, its line ends ``\\n`` or ``\\r\\n``; no other character
    moves.
    """
    text = text.removeprefix("\ufeff")
    return re.sub(r"\r(?!\n)", "\n", text) if "\r" in text else text


def decode(body: bytes, file: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text of a file: UTF-8, or UTF-16 with its mark; else read as Western European, with an
    error at the first foreign byte.
    """
    for mark, encoding in _UTF16.items():
        if body.startswith(mark):
            return plain_text(body[len(mark) :].decode(encoding, errors="replace")), ()
    try:
        return plain_text(body.decode("utf-8")), ()
    except UnicodeDecodeError as error:
        before = plain_text(body[: error.start].decode("utf-8"))
        message = f"the file is not UTF-8: it contains the byte 0x{body[error.start]:02X}"
        hint = "save it as UTF-8 in the editor"
        problem = Diagnostic(
            code="FKG042",
            severity="error",
            span=_span_of_character(before, file),
            message=message,
            help=hint,
        )
        return plain_text(body.decode("latin-1")), (problem,)


def not_text(text: str, file: str) -> Diagnostic | None:
    """An error at the first character that no text has (a NUL byte, a control character); None
    where there is none.
    """
    found = _UNPRINTABLE.search(text)
    if found is None:
        return None
    return Diagnostic(
        code="FKG043",
        severity="error",
        span=_span_of_character(text[: found.start()], file),
        message=f"this is not a text file: it contains the control character U+{ord(found[0]):04X}",
        help="a rule file is plain text in UTF-8; did you mean another file?",
    )


def merge_markers(text: str, file: str) -> Diagnostic | None:
    """An error at the first marker of an unresolved merge; None if there is none."""
    found = _MERGE_MARKER.search(text)
    if found is None:
        return None
    line = text.count("\n", 0, found.start()) + 1
    return Diagnostic(
        code="FKG002",
        severity="error",
        span=Span(file=file, line=line, column=1, end_line=line, end_column=8),
        message="this line is the marker of an unresolved merge",
        help="keep one of the two versions, and delete the lines with <<<<<<<, ======= and >>>>>>>",
    )


def _span_of_character(before: str, file: str) -> Span:
    """The place of the one character that follows."""
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return Span(file=file, line=line, column=column, end_line=line, end_column=column + 1)


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
