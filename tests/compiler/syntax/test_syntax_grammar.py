"""The grammar itself: no conflicts, and quick to build."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
import time

import lark
import pytest

from fedkg_compiler.syntax.grammar import STATEMENT_WORDS, build_parser, grammar_text, keywords, statement_parser


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
    first = statement_parser().parse_interactive("").choices()
    assert {known[name] for name in first if name in known} == set(STATEMENT_WORDS)


def test_words_of_the_language_end_where_the_word_ends() -> None:
    known = set(keywords().values())
    assert {"require", "and", "always", "+/-", ".."} <= known
    assert not any("\\b" in word for word in known)


def test_the_parser_is_built_once_and_quickly() -> None:
    start = time.process_time()
    build_parser()
    assert time.process_time() - start < 2.0  # 0.1 to 0.3 s; with the package interegular it would take ten
    assert statement_parser() is statement_parser()


def test_importing_the_syntax_builds_nothing() -> None:
    code = (
        "import sys; import fedkg_compiler.syntax, fedkg_compiler.syntax.grammar as g;"
        "assert g.statement_parser.cache_info().currsize == 0;"
        "assert 'interegular' not in sys.modules and 'rdflib' not in sys.modules and 'pint' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
