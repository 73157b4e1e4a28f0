"""The grammar itself: no conflicts, and quick to build."""

from __future__ import annotations

import importlib.util
import io
import logging

import lark
import pytest

from fedkg_compiler.frontends.fkg.syntax.statement_grammar import (
    GRAMMAR,
    STATEMENT_WORDS,
    find_expected,
    keywords,
    parse_prefix,
    statement_parser,
)


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
    assert "conflict" not in debug_log(GRAMMAR.read_text(encoding="utf-8")).lower()


def test_a_conflict_would_be_seen() -> None:
    assert "conflict" in debug_log('statement: "if" statement ("else" statement)? | "x"\n').lower()
    with pytest.raises(lark.exceptions.GrammarError):
        debug_log('statement: a | b\na: "x"\nb: "x"\n')


def test_the_statement_words_are_those_of_the_grammar() -> None:
    known = keywords()
    first, _ = find_expected(())
    assert {known[name] for name in first if name in known} == set(STATEMENT_WORDS)


def test_words_of_the_language_end_where_the_word_ends() -> None:
    known = set(keywords().values())
    assert {"require", "and", "always", "+/-", ".."} <= known
    assert not any("\\b" in word for word in known)


def test_a_value_begins_at_its_parentheses() -> None:
    """lark's tree leaves parentheses out; the offset of the value before a comparison does not."""
    tokens = parse_prefix("rule a require (x + 1) * 2").tokens
    accepts, value = find_expected(tokens)
    assert {"CMP", "IS"} <= accepts
    assert value == len("rule a require ")


def test_building_the_parser_stays_cheap() -> None:
    """Each run builds the parser, which takes time in proportion to the states of its table.

    With the package interegular installed, lark also compares all terminals with each other.
    """
    assert len(statement_parser().parser.parser._parse_table.states) < 700
    assert importlib.util.find_spec("interegular") is None
