"""The parser of one statement, made by lark from `fkg.lark` the first time it is needed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree

Branch = Tree[Token]
Leaf = Token | Branch


def grammar_text() -> str:
    """The text of the reference grammar."""
    return files(__package__).joinpath("fkg.lark").read_text(encoding="utf-8")


@cache
def statement_parser() -> Lark:
    """The LALR(1) parser of one statement, with a contextual lexer and places on every branch; takes about 0.1 s to build, once."""
    return Lark(grammar_text(), parser="lalr", lexer="contextual", start="statement", propagate_positions=True)


@cache
def keywords() -> dict[str, str]:
    """The words of the language (``require``, ``and``, ``<=``), by the name lark gives their terminal."""
    return {terminal.name: str(terminal.pattern.value) for terminal in statement_parser().terminals if terminal.pattern.type == "str"}


STATEMENT_WORDS = (
    "use",
    "prefix",
    "timeline",
    "rows",
    "signal",
    "output",
    "label",
    "rule",
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
