"""The grammar itself: no conflicts, and quick to build."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import time

import lark
import pytest

from fedkg_compiler.syntax.grammar import STATEMENT_WORDS, keywords
from fedkg_compiler.syntax.lalr import Automaton
from fedkg_compiler.syntax.make_table import build_parser
from fedkg_compiler.syntax.table import grammar_text, table


def debug_log(grammar: str) -> str:
    """What lark says while it builds a parser."""
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


def test_the_parser_is_built_quickly() -> None:
    start = time.process_time()
    build_parser()
    assert time.process_time() - start < 2.0  # 0.1 to 0.5 s; with the package interegular it would take ten


def test_rules_are_parsed_without_lark() -> None:
    code = (
        "import sys; from fedkg_compiler.syntax import parse, table as t;"
        "assert t.table.cache_info().currsize == 0;"
        "assert parse('rule a require x <= 1', 'a.fkg')[1] == () and parse('rule a require x <=', 'a.fkg')[1] != ();"
        "assert not {'lark', 'interegular', 'rdflib', 'pint'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
