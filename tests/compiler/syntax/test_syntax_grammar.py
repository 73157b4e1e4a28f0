"""The grammar itself: no conflicts, and quick to build."""

from __future__ import annotations

import importlib.util
import io
import logging
import subprocess
import sys

import lark
import pytest

from fedkg_compiler.frontends.fkg.syntax.grammar import grammar_text
from fedkg_compiler.frontends.fkg.syntax.keywords import STATEMENT_WORDS, keywords
from fedkg_compiler.frontends.fkg.syntax.lalr import Automaton
from fedkg_compiler.frontends.fkg.syntax.parse_table import table
from fedkg_compiler.frontends.fkg.syntax.parse_table_generator import build_parser


def debug_log(grammar: str) -> str:
    """lark's log while it builds a parser."""
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    level = lark.logger.level
    lark.logger.addHandler(handler)
    lark.logger.setLevel(logging.DEBUG)
    try:
        lark.Lark(grammar, parser="lalr", lexer="contextual", start="statement", debug=True)
    finally:
        lark.logger.removeHandler(handler)
        lark.logger.setLevel(level)
    return said.getvalue()


def test_the_grammar_has_no_conflicts() -> None:
    assert "conflict" not in debug_log(grammar_text()).lower()


def test_a_conflict_would_be_seen() -> None:
    assert "conflict" in debug_log('statement: "if" statement ("else" statement)? | "x"\n').lower()
    with pytest.raises(lark.exceptions.GrammarError):
        debug_log('statement: a | b\na: "x"\nb: "x"\n')


def test_the_statement_words_are_those_of_the_grammar() -> None:
    known = keywords()
    first = Automaton(table()).accepts()
    assert {known[name] for name in first if name in known} == set(STATEMENT_WORDS)


def test_words_of_the_language_end_where_the_word_ends() -> None:
    known = set(keywords().values())
    assert {"require", "and", "always", "+/-", ".."} <= known
    assert not any("\\b" in word for word in known)


def test_the_parser_is_little_work_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building the parser costs a table of 531 states and 178 scanners.

    There is one scanner for each set of terminals that some state expects. With the package
    interegular installed, lark compares all terminals with each other for each scanner, which takes
    ten seconds or more.
    """
    scanners = 0
    plain = lark.lexer.Scanner.__init__

    def counted(*given: object, **named: object) -> None:
        nonlocal scanners
        scanners += 1
        plain(*given, **named)

    monkeypatch.setattr(lark.lexer.Scanner, "__init__", counted)
    parser = build_parser()
    for one in parser.parser.lexer.lexers.values():
        assert one.scanner is not None  # created on first use
    assert len(parser.parser.parser._parse_table.states) < 1_000
    assert scanners < 1_000
    assert importlib.util.find_spec("interegular") is None


def test_rules_are_parsed_without_lark() -> None:
    code = (
        "import sys; from fedkg_compiler.frontends.fkg.syntax import parse, parse_table as t;assert"
        " t.table.cache_info().currsize == 0;assert parse('rule a require x <= 1', 'a.fkg')[1] =="
        " () and parse('rule a require x <=', 'a.fkg')[1] != ();assert not {'lark', 'interegular',"
        " 'rdflib', 'pint'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
