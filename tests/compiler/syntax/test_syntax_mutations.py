"""Good files with an inserted mistake: never an exception, and mostly one problem."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg_compiler.diagnostics import CODES, Diagnostic, render, to_json
from fedkg_compiler.diagnostics.suggested_edits import put_in
from fedkg_compiler.frontends.fkg.syntax import parse
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import split

FILES = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[2] / "golden" / "language").glob("*.fkg"))
]
PARTS = [
    "".join(chunk.text for chunk in chunks[at : at + 8])
    for chunks in (split(text, "a") for text in FILES)
    for at in range(0, len(chunks), 5)
]
PIECES = [
    *" \n\t()[]{}<>\"'`?#,.:;=+-*/^%&|!@$~\\_0aé°“→\u200b",
    "and",
    "or",
    "if ",
    "always ",
    "require ",
    "rule ",
    "0,5",
    "->",
    "<=",
    "N m",
    "in ",
    "all of (",
    "over ?p ",
    "follows ",
    "closed ",
    "unknown ",
    "scope ",
]


def edited(text: str, source: random.Random) -> str:
    """The text with one letter or word dropped, doubled, swapped, replaced or inserted."""
    at = source.randrange(len(text))
    end = min(len(text), at + source.choice([1, 1, 1, 2, 5]))
    match source.randrange(5):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:end] + text[at:end] + text[end:]
        case 2:
            return text[:at] + text[at + 1 : at + 2] + text[at : at + 1] + text[at + 2 :]
        case 3:
            return text[:at] + source.choice(PIECES) + text[end:]
        case _:
            return text[:at] + source.choice(PIECES) + text[at:]


def check(text: str) -> tuple[Diagnostic, ...]:
    tree, problems = parse(text, "a.fkg")
    lines = tree.text.split("\n")
    for problem in problems:
        assert problem.code in CODES
        assert problem.message
        assert not problem.message.endswith(".")
        assert 1 <= problem.span.line <= problem.span.end_line <= len(lines)
        assert 1 <= problem.span.column <= len(lines[problem.span.line - 1]) + 1
        assert (problem.span.line, problem.span.column) < (
            problem.span.end_line,
            problem.span.end_column,
        )
        assert problem.span.end_column <= len(lines[problem.span.end_line - 1]) + 2
        assert "^" in render(problem, tree.text)
        assert to_json(problem)["code"] == problem.code
        if problem.fix is not None:
            assert put_in(tree.text, [problem.fix])[1] == (problem.fix,)
    assert list(problems) == sorted(
        problems, key=lambda problem: (problem.span.line, problem.span.column)
    )
    return problems


@pytest.mark.parametrize("edits", [150, pytest.param(3000, marks=pytest.mark.slow)])
def test_single_edits(edits: int) -> None:
    source = random.Random(20)
    counts = [len(check(edited(source.choice(PARTS), source))) for _ in range(edits)]
    broken = [count for count in counts if count]
    assert len(broken) > 0.4 * edits
    assert sum(count == 1 for count in broken) / len(broken) > 0.97
    assert max(broken) <= 4


@pytest.mark.slow
def test_files_with_many_edits() -> None:
    source = random.Random(21)
    for _ in range(100):
        text = source.choice(FILES)
        for _ in range(30):
            text = edited(text, source)
        check(text)


@pytest.mark.slow
def test_files_cut_at_any_place() -> None:
    source = random.Random(22)
    for text in FILES:
        for _ in range(60):
            assert len(check(text[: source.randrange(len(text))])) <= 1


def test_shuffled_words() -> None:
    source = random.Random(23)
    words = [word for text in FILES for word in text.split()]
    for _ in range(300):
        check("rule " + " ".join(source.choices(words, k=source.randrange(1, 15))))
        check("\n".join(source.choices(words, k=12)))


@tries(100)
@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    check(text)
    check("rule a require " + text)
    check("signal " + text)
    check("rule a for ?x where {" + text)
