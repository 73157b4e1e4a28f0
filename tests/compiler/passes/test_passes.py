"""The pipeline runs the passes of one literal tuple in order, each from a file of its name.

No pass changes the program that it gets.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedkg_compiler.passes
from fedkg_compiler import compile_rules, pipeline
from fedkg_compiler.banks import lower
from fedkg_compiler.ir import Codes, Program, Rows
from fedkg_compiler.passes import PASSES

ROOT = Path(__file__).resolve().parents[3]
RULES = """\
signal x in bar span 0 .. 10
signal y in bar
signal z in bar
output a in bar span 0 .. 4
output b in bar
rule several hard require a <= min(b, y)
rule nonlinear hard require a * b <= 6 bar^2
rule inputs require if x > 2 bar then x + y <= 8 bar
"""


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs before each pass of the compilations in a test, and after the last one."""
    seen: list[Program] = []

    def noted(run: Callable[[Program], Program]) -> Callable[[Program], Program]:
        def note(program: Program) -> Program:
            seen.append(program)
            return run(program)

        return note

    def note_last(program: Program) -> Program:
        seen.append(program)
        return program

    passes = (*(noted(run) for run in PASSES), note_last)
    monkeypatch.setattr(pipeline, "PASSES", passes)
    return seen


def test_each_pass_is_the_one_public_function_of_its_file() -> None:
    folder = Path(fedkg_compiler.passes.__file__).parent
    files = {path.stem: path for path in folder.glob("*.py") if path.stem != "__init__"}
    assert {run.__name__ for run in PASSES} == files.keys()
    for name, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        public = [
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        ]
        assert public == [name]
    for run in PASSES:
        signature = inspect.signature(run, eval_str=True)
        assert [one.annotation for one in signature.parameters.values()] == [Program]
        assert signature.return_annotation is Program


def test_the_tuple_is_literal() -> None:
    tree = ast.parse(inspect.getsource(fedkg_compiler.passes))
    (value,) = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert isinstance(value, ast.Tuple)
    assert all(isinstance(item, ast.Name) for item in value.elts)


def test_the_architecture_page_lists_the_passes_in_order() -> None:
    page = (ROOT / "docs" / "concepts" / "architecture.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| pass | change of the program |\n|---|---|\n")
    listed = re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE)
    assert listed == [run.__name__ for run in PASSES]


def test_a_compilation_runs_the_tuple_once(bound: list[Program]) -> None:
    found = compile_rules(text=RULES)
    assert found.pack is not None, found.diagnostics
    assert len(bound) == len(PASSES) + 1
    first, last = bound[0], bound[-1]
    # pass 1 splits one limit and reports the other; 2 scales; 3 marks; 4 has no keys to register
    assert [item.code for item in last.diagnostics] == ["FKG222"]
    pairs = zip(first.rows, last.rows, strict=True)
    assert [one.formula == other.formula for one, other in pairs] == [False, True, True]
    assert [part.rule.output for part in first.rows] == [False, False, False]
    assert [part.rule.output for part in last.rows] == [True, True, False]
    assert lower(last).banks[0].params.tolist() == found.pack.banks[0].params.tolist()


def content(rows: Rows) -> list[object]:
    """Everything in rows, as plain data."""
    return [
        rows.count,
        [(slot.columns.tolist(), slot.views.tolist(), slot.role) for slot in rows.slots],
        [
            (one.columns.tolist(), one.texts) if isinstance(one, Codes) else one.tolist()
            for one in rows.params
        ],
        [(table.parent, table.offsets.tolist(), content(table.rows)) for table in rows.members],
    ]


def test_no_pass_changes_what_it_gets(bound: list[Program]) -> None:
    compile_rules(text=RULES)
    before = [[content(part.rows) for part in (*one.rows, *one.conditions)] for one in bound]
    results = [run(program) for run, program in zip(PASSES, bound, strict=False)]
    again = [[content(part.rows) for part in (*one.rows, *one.conditions)] for one in bound]
    assert before == again
    for made, expected in zip(results, bound[1:], strict=True):
        assert [content(part.rows) for part in made.rows] == [
            content(part.rows) for part in expected.rows
        ]


def test_rows_of_one_formula_get_the_scales_that_each_gets_alone(bound: list[Program]) -> None:
    """Parts that share a formula are scaled together: the result is that of one at a time."""
    compile_rules(text="signal x span 0 .. 9\nsignal y\nrule r require x + y <= 3 and x <= 4")
    (part,) = bound[0].rows
    other = Program(rows=(part, part), columns=bound[0].columns)
    alone, together = bound[0].after(PASSES).rows, other.after(PASSES).rows
    assert len(together) == 2
    for row in together:
        assert content(row.rows) == content(alone[0].rows)
    scales = [one for one in alone[0].rows.params if isinstance(one, np.ndarray)]
    # x + y has no span, so the scale is the limit 3; x has one, 9
    assert [one.tolist() for one in scales] == [[3.0], [3.0], [4.0], [9.0]]
