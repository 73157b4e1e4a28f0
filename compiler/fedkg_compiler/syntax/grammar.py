"""The parser of one statement, made by lark from `fkg.lark` the first time it is needed, and kept for later runs."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from lark import Lark, Token, Tree
from lark.lexer import PatternRE, TerminalDef

from fedkg_compiler.syntax.table import kept

Branch = Tree[Token]
Leaf = Token | Branch

_WORD_ENDS = r"\b"
_WORD_PRIORITY = 1


def grammar_text() -> str:
    """The text of the reference grammar."""
    return files(__package__).joinpath("fkg.lark").read_text(encoding="utf-8")


@cache
def statement_parser() -> Lark:
    """The LALR(1) parser of one statement, with a contextual lexer and places on every branch; built once, and kept for the next run."""
    return kept(build_parser, grammar_text().encode(), files(__package__).joinpath("grammar.py").read_bytes())


def build_parser() -> Lark:
    """The parser, from the grammar; takes 0.1 to 0.3 s."""
    return Lark(grammar_text(), parser="lalr", lexer="contextual", start="statement", propagate_positions=True, edit_terminals=_whole_word)


@cache
def keywords() -> dict[str, str]:
    """The words and signs of the language (``require``, ``and``, ``..``), by the name lark gives their terminal."""
    return {
        terminal.name: str(terminal.pattern.value).split(_WORD_ENDS)[0]
        for terminal in statement_parser().terminals
        if terminal.pattern.type == "str" or terminal.priority == _WORD_PRIORITY
    }


def _whole_word(terminal: TerminalDef) -> TerminalDef:
    """Make a word of the language end where the word ends (``andy`` is not ``and y``), and win over a name where both may stand."""
    word = str(terminal.pattern.value)
    if terminal.pattern.type == "str" and word.isalpha():
        terminal.pattern = PatternRE(word + _WORD_ENDS)
        terminal.priority = _WORD_PRIORITY
    return terminal


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
