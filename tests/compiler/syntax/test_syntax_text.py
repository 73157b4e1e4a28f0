"""Bytes to text: encodings, byte order marks, line ends, and files that do not contain text."""

from __future__ import annotations

import random

import pytest

from fedkg_compiler.frontends.fkg.syntax import parse, parse_bytes
from fedkg_compiler.frontends.fkg.syntax.tree import Rule

RULE = 'rule grüße "Über 5 °C"\n  require x <= 5 °C\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_utf_8_and_marked_utf_16_are_read(encoding: str) -> None:
    tree, problems = parse_bytes(RULE.encode(encoding), "a.fkg")
    assert problems == ()
    (rule,) = tree.statements
    assert isinstance(rule, Rule)
    assert rule.name.text == "grüße"


def test_another_encoding_is_an_error_at_its_first_byte_and_is_read_on() -> None:
    tree, problems = parse_bytes(("# ok\n" + RULE + "rul b\n").encode("cp1252"), "a.fkg")
    assert [(problem.code, problem.span.line, problem.span.column) for problem in problems] == [
        ("FKG042", 2, 8),
        ("FKG001", 4, 1),
    ]
    assert "0xFC" in problems[0].message
    assert len(tree.statements) == 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_places_do_not_depend_on_line_ends(end: str) -> None:
    text = f"signal x in bar{end}# note{end}rule a{end}  requre x <= 1{end}"
    _, (problem,) = parse(text, "a.fkg")
    assert (
        problem.span.line,
        problem.span.column,
        problem.span.end_line,
        problem.span.end_column,
    ) == (4, 3, 4, 9)


def test_the_byte_order_mark_takes_no_column() -> None:
    _, (problem,) = parse("\ufeffrul a", "a.fkg")
    assert problem.span.column == 1


def test_no_text_at_all_gives_one_diagnostic() -> None:
    for body in (b"PK\x03\x04\x00\x00rubbish\x00", b"\x00" * 1000, b"rule a require x <= 1\x00"):
        tree, problems = parse_bytes(body, "a.fkg")
        assert [problem.code for problem in problems] == ["FKG043"]
        assert tree.statements == ()


def test_random_bytes_are_a_problem_at_a_place_of_the_text() -> None:
    source = random.Random(1)
    for _ in range(300):
        body = bytes(source.randrange(256) for _ in range(source.randrange(2, 200)))
        tree, problems = parse_bytes(body, "a.fkg")
        assert problems
        assert all(1 <= problem.span.line <= tree.text.count("\n") + 1 for problem in problems)


def test_half_a_utf_16_file_is_cut_text_or_a_problem() -> None:
    body = RULE.encode("utf-16")
    for cut in range(len(body)):
        tree, problems = parse_bytes(body[:cut], "a.fkg")
        assert RULE.startswith(tree.text) or problems
