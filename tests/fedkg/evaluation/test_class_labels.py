"""Answers in a table that are not among the classes of their label."""

from __future__ import annotations

import pytest

from fedkg.evaluation import Evaluation, evaluate
from fedkg.evaluation.result import outcome
from fedkg.tables import read_bytes
from fedkg_compiler.pipeline import compile_rules

LABEL = "signal ash in %\nlabel grade classes A, B, C\n"
KNOWLEDGE = "range knowledge by_ash of grade when ash > 12.5 % allow B, C otherwise allow any\n"
RULE = "rule pure require if ash > 12.5 % then grade in B, C\n"
TABLE = "ash,grade\n1,A\n2,a\n20,Ausschuss\n30,C\n15,Ausschuss\n3,\n"


def found_in(text: str, table: str) -> Evaluation:
    compilation = compile_rules(text=text, reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return evaluate(compilation.pack, read_bytes(table.encode(), "t.csv"))


@pytest.mark.parametrize("text", [LABEL + KNOWLEDGE, LABEL + RULE, LABEL + KNOWLEDGE + RULE])
def test_an_unknown_class_is_reported_once_with_its_row(text: str) -> None:
    found = found_in(text, TABLE)
    said = (
        "column `grade` holds `a` and `Ausschuss`, first in row 2 (line 3), which are not classes "
        "of its label (`A`, `B` and `C`): taken as unknown in 3 rows; did you mean `A` by `a`?"
    )
    assert found.notes == (said,)
    assert f"note: {said}" in outcome(found)


def test_known_classes_and_empty_cells_are_no_matter() -> None:
    found = found_in(LABEL + KNOWLEDGE, "ash,grade\n1,A\n20,C\n3,\n")
    assert found.notes == ()
    assert (found.knowledge[0].labelled, found.knowledge[0].right) == (1, 1)
