"""Limits: depth, length, the number of problems."""

from __future__ import annotations

import random
import sys

import pytest

from fedkg_compiler.diagnostics import Diagnostic
from fedkg_compiler.frontends.fkg.syntax import parse
from fedkg_compiler.frontends.fkg.syntax.parser import (
    MAX_NESTING,
    MAX_PROBLEMS,
    MAX_STATEMENT,
    MAX_TERMS,
)


def codes(text: str) -> list[str]:
    problems: tuple[Diagnostic, ...] = parse(text, "a.fkg")[1]
    return [problem.code for problem in problems]


DEEP = {
    "not": lambda n: "rule a require " + "not " * n + "x >= 1",
    "minus": lambda n: "rule a require " + "- " * n + "x >= 1",
    "past": lambda n: "rule a require " + "past " * n + "x >= 1",
    "always": lambda n: "rule a require " + "always " * n + "x >= 1",
    "if": lambda n: "rule a require " + "if a >= 1 then " * n + "x >= 1",
    "calls": lambda n: "rule a require " + "f(" * n + "x" + ")" * n + " >= 1",
    "groups": lambda n: "rule a require " + "(a + " * n + "x" + ")" * n + " >= 1",
    "conditions": lambda n: "rule a require " + "(a >= 1 and " * n + "x >= 1" + ")" * n,
    "braces": lambda n: "rule a for ?x where " + "{" * n + "?x a ?y" + "}" * n + " require x >= 1",
    "members": lambda n: "rule a require " + "all of (" * n + "x >= 1" + ") over ?p in class T" * n,
    "follows": lambda n: "rule a require follows t(" + "f(" * n + "x" + ")" * n + ")",
    "until closed": lambda n: "rule a require " + "x >= 1 until closed (" * n + "x >= 1" + ")" * n,
    "between": lambda n: (
        "range knowledge a of y when x >= 1 allow between "
        + "f(" * n
        + "x"
        + ")" * n
        + " and 1 otherwise allow any"
    ),
    "sets": lambda n: "set a keep parameters in " + "f(x = " * n + "1" + ")" * n,
}


@pytest.mark.parametrize("form", sorted(DEEP))
def test_very_deep_nesting_is_a_diagnostic(form: str) -> None:
    assert codes(DEEP[form](10)) == []
    assert codes(DEEP[form](MAX_NESTING + 5)) == ["FKG034"]
    assert codes(DEEP[form](2 * sys.getrecursionlimit())) == ["FKG034"]


def test_lookahead_does_not_try_every_division_of_a_comment() -> None:
    """A pattern that tries each division of ``####`` needs 2^n steps, here more than ever end."""
    assert codes("rule a require x <= 1 " + "#" * 1000) == []
    assert codes("rule a require x 1 " + "#" * 1000) == ["FKG029"]
    assert codes("rule a require always closed " + "# " * 1000 + "\n <= 1") == []


def test_plain_parentheses_are_no_depth() -> None:
    assert codes("rule a require " + "(" * 5000 + "x >= 1" + ")" * 5000) == []


def test_long_sums_are_fine_and_very_long_ones_a_diagnostic() -> None:
    limit = sys.getrecursionlimit()
    assert codes("rule a require " + " + ".join(["x"] * MAX_TERMS) + " >= 1") == []
    assert codes("rule a require " + " + ".join(["x"] * (limit * 3)) + " >= 1") == ["FKG034"]
    assert codes("rule a require " + " and ".join(["x >= 1"] * 2000)) == []
    assert codes("rule a require " + " <= ".join(["x"] * 2000)) == []


def test_a_statement_that_is_too_long_is_a_diagnostic() -> None:
    assert codes("rule a require x >= 1" + " and x >= 1" * (MAX_STATEMENT // 10)) == ["FKG035"]


def test_a_long_pattern_is_fine() -> None:
    values = "\n".join(f"    <https://example.org/plant#pump{n}>" for n in range(3000))
    assert codes(f"rule a for ?x where {{ VALUES ?x {{\n{values}\n  }} }} require p(?x) >= 1") == []


def test_after_a_hundred_problems_comes_how_many_more() -> None:
    tree, problems = parse("rul a\n" * 250 + "rule b require x >= 1\n", "a.fkg")
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1].code == "FKG044"
    assert "150 more" in problems[-1].message
    assert problems[-1].span.line == 101
    assert {lost.word for lost in tree.lost} == {"rule"}


def test_exactly_a_hundred_problems_are_all_there_is_to_say() -> None:
    assert codes("rul a\n" * MAX_PROBLEMS) == ["FKG001"] * MAX_PROBLEMS


NOISE = {
    "letters": lambda n, source: "".join(source.choices("abcdefghij \n{}()<>\"'`#?,.=", k=n)),
    "one line": lambda n, source: "x" * n,
    "one rule": lambda n, source: "rule a require " + "x >= 1 and " * (n // 11),
    "open braces": lambda n, source: "rule a for ?x where {" + "{" * n,
    "rules": lambda n, source: "rule a require (x >= 1 \n" * (n // 25),
    "rules and noise": lambda n, source: "rule a require (x >= 1 \nnoise\n" * (n // 31),
    "good rules": lambda n, source: "rule a require x >= 1\n" * (n // 5000),
    "indented rules": lambda n, source: (
        "rule a require x >= 1\n" + "  rule a require x >= 1\n" * (n // 25)
    ),
    "comments": lambda n, source: "# nothing\n" * (n // 10),
    "spaces": lambda n, source: " \n" * (n // 2),
    "quotes": lambda n, source: 'rule a "' + 'x\\"' * (n // 3),
    "comment signs": lambda n, source: "rule a #" + "#" * n,
}


@pytest.mark.parametrize("megabytes", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", sorted(NOISE))
def test_megabytes_of_noise_have_a_limited_number_of_errors(kind: str, megabytes: int) -> None:
    text = NOISE[kind](megabytes * 1_000_000, random.Random(0))
    problems = parse(text, "noise.fkg")[1]
    assert len(problems) <= MAX_PROBLEMS + 1
