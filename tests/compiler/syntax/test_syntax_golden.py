"""Golden diagnostics for syntax errors, character by character."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden.cases import FILE, Case, cases_under, check

from fedkg_compiler.diagnostics import CODES, render
from fedkg_compiler.frontends.fkg.syntax import parse

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = cases_under(GOLDEN / "syntax")
NOT_OF_A_CASE = {
    "FKG034",
    "FKG035",
    "FKG042",
    "FKG044",
}  # too large for a case, or about bytes: tested in test_syntax_limits.py and test_syntax_text.py


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_diagnostics_match_the_golden_case(case: Case) -> None:
    tree, problems = parse(case.source, FILE)
    check(case, "\n".join(render(problem, tree.text) for problem in problems) or "fine")


def test_there_are_at_least_a_hundred_bad_statements() -> None:
    assert sum("error[" in case.said for case in CASES) >= 100


def test_every_syntax_code_has_a_case() -> None:
    said = {code for code in CODES if any(f"[{code}]" in case.said for case in CASES)}
    assert {code for code in CODES if code < "FKG100"} - said == NOT_OF_A_CASE


def test_of_a_file_of_mistakes_each_statement_is_complained_of_once() -> None:
    (case,) = (case for case in CASES if case.path.stem == "one_after_the_other")
    _, problems = parse(case.source, FILE)
    lines = [problem.span.line for problem in problems]
    assert len(lines) == len(set(lines)) == 20
