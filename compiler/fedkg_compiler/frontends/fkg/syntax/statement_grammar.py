"""The text of a rule file cut into its statements, and lark's parse of one statement: its tree, or
how far it reads and what may follow there.

The bytes are decoded, and what is not a rule file is recognised. A word at the left edge begins a
statement; every other line belongs to the statement above.
"""

from __future__ import annotations

import codecs
import io
import pickle
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lark import Lark, Tree, UnexpectedInput, UnexpectedToken
from lark import __version__ as lark_version
from lark.lexer import PatternRE, TerminalDef
from typing_extensions import override

from fedkg_compiler.cache_entries import entry_path, keep_entry, read_entry
from fedkg_compiler.diagnostics.record import Diagnostic, Span

if TYPE_CHECKING:
    from lark import Token as LarkToken

    class Token(LarkToken):
        """A token of a statement: unlike lark's in general, it always has offsets."""

        start_pos: int
        end_pos: int

else:
    from lark import Token as Token

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
        help=f"check a table with rules: fedkg eval RULES {file}",
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


# lark's parser of one statement: its tree, or how far it reads and what may follow there.

GRAMMAR = Path(__file__).with_name("fkg.lark")
MOST = 4
"""Parsers that are kept, of several versions of fedkg; the oldest go first."""
_WORD_END = r"\b"
_WORD_PRIORITY = 1

Branch = Tree[Token]
"""A rule of the grammar, or its alias, with the tokens and branches that it consists of."""
Leaf = Token | Branch


@dataclass(frozen=True, slots=True)
class Prefix:
    """The part of a statement that parses.

    Attributes:
        tokens: the tokens that the grammar accepts.
        stopped: the offset of the first text that the grammar does not accept; None if all
            characters were read.
    """

    tokens: tuple[Token, ...]
    stopped: int | None


@cache
def statement_parser() -> Lark:
    """Return lark's LALR(1) parser of one statement.

    Building it takes about 0.3 s, so it is kept in the user's cache folder.
    """
    grammar = GRAMMAR.read_text(encoding="utf-8")
    entry = entry_path("grammars", [grammar, lark_version])
    body = None if entry is None else read_entry(entry)
    if body is not None and _is_parser(body):
        return Lark.load(io.BytesIO(body))
    parser = Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start="statement",
        propagate_positions=True,
        edit_terminals=_match_whole_word,
    )
    if entry is not None:
        saved = io.BytesIO()
        parser.save(saved)
        keep_entry(entry, saved.getvalue(), MOST)
    return parser


class _PlainData(pickle.Unpickler):
    """Reads what lark saves: plain data, and the function that edits terminals."""

    @override
    def find_class(self, module: str, name: str) -> object:
        if (module, name) == (__name__, _match_whole_word.__name__):
            return _match_whole_word
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a parser")


def _is_parser(body: bytes) -> bool:
    """Whether an entry can be loaded without running other code."""
    try:
        _PlainData(io.BytesIO(body)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError):
        return False
    return True


def parse_statement(text: str) -> Branch | None:
    """Parse one statement; return None if it does not parse."""
    try:
        return cast(Branch, statement_parser().parse(text))
    except UnexpectedInput:
        return None


def parse_prefix(text: str) -> Prefix:
    """Read a statement to its end, or to the first text that the grammar does not accept."""
    tokens: list[Token] = []
    try:
        parser = statement_parser().parse_interactive(text)
        tokens.extend(cast(Iterator[Token], parser.iter_parse()))
    except UnexpectedToken as error:
        if tokens and error.token is tokens[-1]:  # lark yields a token before it checks it
            tokens.pop()
        return Prefix(tuple(tokens), error.token.start_pos)
    except UnexpectedInput as error:
        return Prefix(tuple(tokens), error.pos_in_stream)
    return Prefix(tuple(tokens), None)


def find_expected(tokens: tuple[Token, ...]) -> tuple[frozenset[str], int | None]:
    """Return the terminals that may follow these tokens, and the offset of the value before, if a
    comparison may follow it.
    """
    # A parser that rejected a token has already reduced rules for it, hence a new one.
    parser = statement_parser().parse_interactive("")
    for token in tokens:
        parser.feed_token(token)
    accepts = frozenset(parser.accepts())  # type: ignore[no-untyped-call]
    if not accepts >= {"CMP", "IS"}:
        return accepts, None
    parser.feed_token(Token("CMP", "<="))  # reduces the whole value to one branch
    value = parser.parser_state.value_stack[-2]
    # The container includes parentheses, which the tree does not have.
    return accepts, value.meta.container_start_pos


@cache
def keywords() -> dict[str, str]:
    """Return the words and signs of the language (``require``, ``and``, ``..``) by terminal."""
    fixed = {one.name: str(one.pattern.value) for one in statement_parser().terminals}
    signs = {one.name for one in statement_parser().terminals if one.pattern.type == "str"}
    return {
        name: text.removesuffix(_WORD_END)
        for name, text in fixed.items()
        if name in signs or (text.endswith(_WORD_END) and text.removesuffix(_WORD_END).isalpha())
    }


def _match_whole_word(terminal: TerminalDef) -> TerminalDef:
    """Make keywords match whole words (``andy`` is not ``and y``) and take priority over names."""
    word = str(terminal.pattern.value)
    if terminal.pattern.type == "str" and word.isalpha():
        terminal.pattern = PatternRE(word + _WORD_END)
        terminal.priority = _WORD_PRIORITY
    return terminal
