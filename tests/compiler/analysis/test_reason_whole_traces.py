"""Verdicts on whole traces: the interpreter confirms every one.

They decide long windows, and no rule that ships remains undecided.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from test_reason_traces import packs
from tries import tries

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.pack import Pack
from fedkg_compiler import compile_rules
from fedkg_compiler.analysis import Witness, reason
from fedkg_compiler.analysis.budget import Budget
from fedkg_compiler.analysis.single_column_bounds import RowTable
from fedkg_compiler.analysis.trace_witnesses import WholeTraces

EXAMPLES = sorted((Path(__file__).parents[3] / "rules" / "examples").glob("*.fkg"))
SIGNALS = "signal x in bar span 0 .. 10\nsignal y in bar span 0 .. 10\n"


def at_steps(pack: Pack, row: int, witness: Witness) -> tuple[np.ndarray, np.ndarray]:
    """Where the interpreter finds a row satisfied, and where violated: bool [steps]."""
    values = witness.matrix(pack.manifest.contract)
    ref = RowTable(pack).ref(row)
    found = evaluate_bank(
        pack.banks[ref.bank], values, Timing.rows(values.shape[1], pack.manifest.contract.end)
    )
    return found.satisfied[:, ref.row], found.violated[:, ref.row]


def check_traces(pack: Pack) -> int:
    """The number of traces found for the rows of a pack; asserts that each is of the requested
    kind.
    """
    table, found = RowTable(pack), 0
    traces = WholeTraces(table, Budget(), ())
    rows = list(range(table.count))
    if (kept := traces.keeping(rows)) is not None:
        found += 1
        for row in rows:
            satisfied, violated = at_steps(pack, row, kept)
            assert satisfied[kept.now]
            assert not violated.any()
    for row in rows:
        others = [other for other in rows if other != row]
        if (broken := traces.violating(row, others)) is not None:
            found += 1
            assert at_steps(pack, row, broken)[1].any()
            assert not any(at_steps(pack, other, broken)[1].any() for other in others)
    return found


@tries(15)
@given(packs())
def test_the_interpreter_confirms_every_trace(pack: Pack) -> None:
    check_traces(pack)


@pytest.mark.slow
@tries(150)
@given(packs())
def test_the_interpreter_confirms_very_many_traces(pack: Pack) -> None:
    check_traces(pack)


LONG = {
    "untils": (
        "x >= 1 bar until [0 min, 30 min] y >= 5 bar",
        "x <= 8 bar until [0 min, 40 min] y >= 4 bar",
    ),
    "untils of hours": (
        "x >= 1 bar until [0 min, 400 min] y >= 5 bar",
        "x <= 8 bar until [0 min, 600 min] y >= 4 bar",
    ),
    "conditions": (
        "if x >= 8 bar then (x >= 1 bar until [0 min, 60 min] y >= 5 bar)",
        "if y >= 8 bar then eventually [0 min, 60 min] x <= 3 bar",
    ),
    "windows in windows": (
        "if x >= 8 bar then always [0 min, 20 min] (x >= 1 bar until [0 min, 60 min] y >= 5 bar)",
        "if y >= 8 bar then eventually [0 min, 60 min] always [0 min, 10 min] x <= 3 bar",
    ),
    "one window after the other": (
        "if y >= 5 bar then always [0 min, 100 min] x <= 5 bar",
        "if y >= 5 bar then eventually [0 min, 200 min] x >= 6 bar",
    ),
    "the past": (
        "if x >= 9 bar then once [0 min, 120 min] y >= 5 bar",
        "if y >= 5 bar then always [0 min, 30 min] x <= 8 bar",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["", " ends clip"])
@pytest.mark.parametrize("name", LONG)
def test_long_windows_are_decided(name: str, ends: str) -> None:
    one, other = LONG[name]
    text = (
        f"timeline step 1 min{ends}\n{SIGNALS}rule one require {one}\nrule other require {other}\n"
    )
    pack = compile_rules(text=text, reason=False).pack
    assert pack is not None
    assert [(verdict.kind, verdict.rules) for verdict in reason(pack)] == []
    assert check_traces(pack) >= 2


@pytest.mark.slow
def test_rules_that_every_trace_breaks_at_its_end_are_looked_at_before_it() -> None:
    """Under `clip` the last steps have no window left.

    Each `until` is violated there, whatever the trace; detecting this is cheap.
    """
    text = (
        f"timeline step 1 min ends clip\n{SIGNALS}rule one require x >= 1 bar until [10 min, 100"
        " min] y >= 5 bar\n"
    )
    text += "rule other require x <= 8 bar until [5 min, 90 min] y >= 4 bar\n"
    pack = compile_rules(text=text, reason=False).pack
    assert pack is not None
    budget = Budget()
    assert reason(pack, budget) == ()
    assert budget.taken < 1_000_000
    traces = WholeTraces(RowTable(pack), Budget(), ())
    assert traces.keeping([0, 1]) is None
    assert traces.go_together([0, 1])


def test_a_conflict_across_long_windows_is_minimal_and_has_traces() -> None:
    text = (
        f"timeline step 1 min\n{SIGNALS}signal z in bar span 0 .. 10\nrule high require y >= 6"
        " bar\nrule other require z <= 9 bar\n"
    )
    text += "rule never require if y >= 5 bar then always [10 min, 100 min] x <= 5 bar\n"
    text += "rule once require if y >= 5 bar then eventually [20 min, 80 min] x >= 6 bar\n"
    pack = compile_rules(text=text, reason=False).pack
    assert pack is not None
    [conflict] = reason(pack)
    assert (conflict.kind, set(conflict.rules)) == ("conflict", {"high", "never", "once"})
    table = RowTable(pack)
    rows = [
        next(row for row in range(table.count) if table.ref(row) == ref) for ref in conflict.rows
    ]
    for left_out, witness in zip(rows, conflict.keeps, strict=True):
        assert witness is not None
        assert all(at_steps(pack, row, witness)[0][witness.now] for row in rows if row != left_out)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_nothing_is_left_open_of_the_rules_that_ship(path: Path) -> None:
    pack = compile_rules([str(path)], reason=False).pack
    assert pack is not None
    assert reason(pack) == ()
