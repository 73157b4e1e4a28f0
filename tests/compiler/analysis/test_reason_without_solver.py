"""Decisions by tried values, numbers alone and intervals equal those of the solver.

No step of the solver is needed.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import banks, tables
from test_reason_brute_force import packs as small_packs
from tries import tries

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.pack import Bank, ClassIn, Pack
from fedkg.pack.formulas import ROWS, everywhere
from fedkg_compiler import compile_rules
from fedkg_compiler.analysis import Budget, reason
from fedkg_compiler.analysis.formula_evaluation import Scope, truth
from fedkg_compiler.analysis.local_search import Shown, Trials

SIGNALS = """\
signal torque in N.m span 0 .. 100
signal speed in rpm span 0 .. 3000
signal wear in min span 0 .. 200
signal variant
output failure in probability span 0 .. 1
"""


def pack_of(rules: str, signals: str = SIGNALS) -> Pack:
    compilation = compile_rules(text=signals + rules, reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


def find_verdicts(
    rules: str, budget: Budget, signals: str = SIGNALS
) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.kind, one.rules) for one in reason(pack_of(rules, signals), budget)]


def scope(bank: Bank, values: np.ndarray, table: int = ROWS) -> Scope:
    """The values that the rows of a bank, or its members, read in a table."""
    source = bank if table == ROWS else bank.members[table]
    read = values[
        source.views.T[:, None], np.arange(values.shape[1])[:, None], source.slots.T[:, None]
    ]
    inside = {
        number: (scope(bank, values, number), entry.offsets)
        for number, entry in enumerate(bank.members)
        if entry.parent == table
    }
    return Scope(
        slots=np.where(np.isfinite(read), read, np.nan), params=source.params.T, inside=inside
    )


@tries(12)
@given(banks(views=1, members=True), tables())
def test_truth_is_what_the_interpreter_says(bank: Bank, table: np.ndarray) -> None:
    values = table[None]
    expected = evaluate_bank(bank, values)
    holds, fails = truth(bank.skeleton, scope(bank, values))
    holds, fails = (
        np.broadcast_to(part, expected.satisfied.shape) & expected.applicable
        for part in (holds, fails)
    )
    if any(
        isinstance(part, ClassIn) for _, part in everywhere(bank.skeleton)
    ):  # classes with equal scores are not compared
        assert not (holds & fails).any()
        return
    np.testing.assert_array_equal(holds, expected.satisfied)
    np.testing.assert_array_equal(fails, expected.violated)


@tries(8)
@given(small_packs())
def test_verdicts_are_those_of_the_solver_alone(pack: Pack) -> None:
    def verdicts() -> set[tuple[str, str | tuple[str, ...]]]:
        whole = ("redundant", "duplicate")
        return {
            ("follows", one.rules[0]) if one.kind in whole else (one.kind, one.rules)
            for one in reason(pack, Budget(total=10**9))
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trials, "show", lambda _, places: [Shown() for _ in places])
        alone = verdicts()
    assert verdicts() == alone


def test_a_plain_file_is_decided_without_a_step() -> None:
    tags = [f"tag_{i}" for i in range(12)]
    text = (
        "".join(f"signal {tag} in bar span 0 .. 1000\n" for tag in tags)
        + "output failure in probability span 0 .. 1\n"
    )
    for i, (one, other) in enumerate(zip(tags, [*tags[3:], *tags[:3]], strict=True)):
        text += f"rule low_{i} require {10 + i} bar <= {one} <= {900 + i} bar\n"
        text += (
            f"rule if_{i} require if {one} >= {600 + i} bar and {other} < {300 + i} bar then"
            " failure >= 0.5\n"
        )
        text += (
            f"rule or_{i} require if {one} > {700 + i} bar or {other} < {200 + i} bar then not"
            " failure < 0.25\n"
        )
        text += f"rule order_{i} require {one} - {other} <= {650 + i} bar\n"
        text += f"rule rises_{i} require failure never falls as {one} rises\n"
    assert find_verdicts(text, Budget(total=0), "") == []


FOLLOWS = {
    "a product": "rule a require torque * speed <= 9 kW\nrule b require torque * speed <= 10 kW\n",
    "a condition": (
        "rule a require if wear > 100 min then failure >= 0.5\nrule b require if wear > 150 min"
        " then failure >= 0.4\n"
    ),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_what_follows_by_numbers_needs_no_step(name: str) -> None:
    assert find_verdicts(FOLLOWS[name], Budget(total=0)) == [("redundant", ("b", "a"))]


BOXED = {
    "a box": (
        "rule a require torque * speed <= 9 kW\nrule b require torque <= 50 N.m or speed <= 2000"
        " rpm\n"
    ),
    "a box and a quotient": (
        "rule a require torque * speed / 2 <= 4 kW\nrule b require not (torque > 50 N.m and speed >"
        " 2000 rpm)\n"
    ),
}


@pytest.mark.parametrize("name", BOXED)
def test_the_solver_finds_what_follows_inside_a_box(name: str) -> None:
    assert find_verdicts(BOXED[name], Budget()) == [("redundant", ("b", "a"))]


APART = {
    "the tighter one comes later": (
        "rule a require torque * speed <= 10 kW\nrule b require torque * speed <= 9 kW\n"
    ),
    "another text": (
        "rule a require if variant is H then torque <= 5 N.m\nrule b require if variant is L then"
        " torque <= 6 N.m\n"
    ),
    "a root without a value": (
        "rule a require sqrt(torque * 1 N^-1.m^-1 - 3) <= 5\nrule b require sqrt(torque * 1"
        " N^-1.m^-1 - 4) <= 5\n"
    ),
    "a corner of the box": (
        "rule a require torque * speed <= 9 kW\nrule b require torque <= 30 N.m or speed <= 1000"
        " rpm\n"
    ),
}


@pytest.mark.parametrize("name", APART)
def test_what_does_not_follow_is_not_said(name: str) -> None:
    found = find_verdicts(APART[name], Budget())
    assert ("redundant", ("b", "a")) not in found


def test_a_real_conflict_is_not_decided_without_the_solver() -> None:
    rules = (
        "rule a require torque * speed >= 9 kW\nrule b require torque + speed * 1 N.m/rpm <= 10"
        " N.m\n"
    )
    assert find_verdicts(rules, Budget(total=0)) == [("undecided", ("a", "b"))]
    assert find_verdicts(rules, Budget()) == [("conflict", ("a", "b"))]


@pytest.mark.slow
def test_a_value_shows_that_more_rules_go_together_than_are_looked_at_at_once() -> None:
    text = "output failure in probability span 0 .. 1\n" + "".join(
        f"signal x{i} in bar span 0 .. 100\n" for i in range(320)
    )
    text += "".join(f"rule r{i} require if x{i} > 60 bar then failure >= 0.5\n" for i in range(320))
    assert find_verdicts(text, Budget(), "") == []


@tries(12)
@given(small_packs(), st.integers(0, 3))
def test_every_value_that_is_kept_is_kept_by_the_interpreter(pack: Pack, number: int) -> None:
    from fedkg_compiler.analysis.local_search import RowLayout
    from fedkg_compiler.analysis.single_column_bounds import RowTable, find_bounds

    table = RowTable(pack)
    trials = Trials(table, find_bounds(table))
    rows = list(range(table.count))
    (shown,) = trials.show([((), rows, ())])
    board = RowLayout(table, trials.bounds, [((), rows)], trials.still)
    assert shown.best is not None
    values = np.full((1, 1, len(pack.manifest.contract.columns)), float(number))
    for variable, value in zip(board.variable.tolist(), shown.best.tolist(), strict=True):
        for view, column, shift in table.variables.items[variable].readings:
            values[view, 0, column] = value + shift
    kept = [bool(evaluate_bank(bank, values).satisfied.all()) for bank in pack.banks]
    assert all(kept) == (not shown.bad)
    assert shown.together == all(kept)
