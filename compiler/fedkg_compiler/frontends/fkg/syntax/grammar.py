"""lark's parser of one statement: its tree, or how far it reads and what may follow there."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lark import Lark, Tree, UnexpectedInput, UnexpectedToken
from lark import __version__ as lark_version
from lark.lexer import PatternRE, TerminalDef
from typing_extensions import override

from fedkg_compiler.cache_location import entry_path, keep_entry, read_entry

if TYPE_CHECKING:
    from lark import Token as LarkToken

    class Token(LarkToken):
        """A token of a statement: unlike lark's in general, it always has offsets."""

        start_pos: int
        end_pos: int

else:
    from lark import Token as Token

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
