"""Rules over time on tables.

Time columns, traces, keys, gaps, ends, and members that a table lacks.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from evaluation_packs import BELOW, COLUMNS, TORQUE, VARIANT, WEAR, bank, pack

from fedkg.errors import TableError
from fedkg.evaluation import Evaluation, evaluate
from fedkg.evaluation.row_explanation import example, readings_text
from fedkg.evaluation.table_time_steps import table_timing
from fedkg.pack import (
    AtLeast,
    Bank,
    Compare,
    DataContract,
    Implies,
    Initially,
    MemberTable,
    Pack,
    Param,
    Reduce,
    Slot,
    Temporal,
)
from fedkg.tables import Table

LOW = Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=1)
STAYS = Temporal(op="always", low=2, high=3, arg=LOW)


def stays(
    limit: float,
    steps: int,
    *,
    keys: Sequence[Sequence[int]] | None = None,
    codes: Sequence[Sequence[int]] | None = None,
) -> Bank:
    """Torque stays at or below `limit` for `steps` steps, rule 0."""
    return bank(
        STAYS, [[TORQUE]], [[limit, 1.0, 0.0, float(steps)]], rule=0, keys=keys, codes=codes
    )


def timed(
    banks: Sequence[Bank],
    *,
    step: float | None = 300.0,
    time: str | None = "Time",
    trace: str | None = None,
    end: Literal["strict", "clip"] = "strict",
) -> Pack:
    """A pack with rows on a time axis."""
    made = pack(["stays"], banks)
    contract = DataContract(
        columns=COLUMNS,
        time=time,
        step=step,
        trace=trace,
        end=end,
        kind="panel" if trace else "trace",
    )
    return replace(made, manifest=made.manifest.model_copy(update={"contract": contract}))


def table(torque: Sequence[float], times: Sequence[str], **more: Sequence[str]) -> Table:
    """Torques at times."""
    return Table.of(
        "t.csv",
        {
            "Time": list(times),
            "Torque [Nm]": np.array(torque, dtype=np.float64),
            **{k: list(v) for k, v in more.items()},
        },
    )


def clock(*minutes: float) -> list[str]:
    """Times of a day."""
    return [
        f"2024-03-09 {int(m // 60):02d}:{int(m % 60):02d}:{round(m * 60) % 60:02d}" for m in minutes
    ]


def counts(found: Evaluation) -> tuple[int, int, int]:
    rule = found.rules[0]
    return rule.satisfied, rule.violated, rule.unknown


def test_windows_follow_the_times_not_the_rows() -> None:
    rows = table([9, 50, 1, 2], clock(15, 0, 10, 5))
    found = evaluate(timed([stays(10, 1)]), rows)
    assert counts(found) == (2, 1, 1)
    worst = found.rules[0].worst
    assert worst is not None
    assert (worst.row, worst.time, worst.robustness) == (2, rows.texts("Time")[1], -40.0)


def test_what_the_end_of_the_table_leaves_open_is_reported() -> None:
    found = evaluate(timed([stays(10, 24)]), table([1] * 30, clock(*range(0, 150, 5))))
    assert counts(found) == (6, 0, 24)
    assert found.rules[0].notes == ("24 unknown: the table ends before 2 h have passed",)
    clipped = evaluate(
        timed([stays(10, 24)], end="clip"), table([1] * 30, clock(*range(0, 150, 5)))
    )
    assert counts(clipped) == (30, 0, 0)
    assert clipped.rules[0].notes == ()
    backwards = bank(
        STAYS.model_copy(update={"op": "historically"}), [[TORQUE]], [[10.0, 1.0, 0.0, 3.0]], rule=0
    )
    assert evaluate(timed([backwards]), table([1] * 5, clock(0, 5, 10, 15, 20))).rules[0].notes == (
        "3 unknown: the table begins less than 15 min before",
    )


def test_steps_that_no_row_has_are_unknown() -> None:
    found = evaluate(timed([stays(10, 1)]), table([1, 1, 1, 50], clock(0, 5, 15, 20)))
    assert counts(found) == (1, 2, 1)
    found = evaluate(timed([stays(10, 1)], step=None), table([1, 1, 1, 50], clock(0, 5, 15, 20)))
    assert counts(found) == (2, 2, 0)


def test_a_long_gap_costs_nothing() -> None:
    rows = table(
        [1, 1, 1, 50],
        ["2004-03-09 00:00", "2004-03-09 00:05", "2024-03-09 00:15", "2024-03-09 00:20"],
    )
    assert counts(evaluate(timed([stays(10, 1)], step=0.001), rows)) == (0, 1, 3)


def test_traces_are_distinguished() -> None:
    rows = table([1, 1, 50, 1], clock(0, 5, 10, 15), batch=["a", "a", "b", "b"])
    assert counts(evaluate(timed([stays(10, 1)]), rows)) == (1, 2, 1)
    found = evaluate(timed([stays(10, 1)], trace="batch"), rows)
    assert counts(found) == (1, 1, 2)
    assert found.rules[0].notes == ("2 unknown: its trace ends before 5 min have passed",)


def test_a_missing_trace_column_is_an_error_or_told() -> None:
    asked = timed([stays(10, 1)], trace="batches")
    rows = table([1, 1], clock(0, 5), batch=["a", "b"])
    with pytest.raises(TableError, match="did you mean `batch`"):
        evaluate(asked, rows)
    found = evaluate(asked, rows, missing="skip")
    assert counts(found) == (0, 0, 2)
    assert any("separates traces" in note for note in found.notes)


def test_rows_with_keys_have_steps_of_their_own() -> None:
    both = [stays(10, 1, keys=[[VARIANT]], codes=[[code]]) for code in (0, 1)]
    rows = table([1, 50, 1, 50, 1, 50], clock(0, 0, 5, 5, 10, 10), Type=["L", "M"] * 3)
    for one, expected in zip(both, [(2, 0, 1), (0, 3, 0)], strict=True):
        assert counts(evaluate(timed([one]), rows)) == expected
    assert counts(evaluate(timed(both, time=None, step=None), rows)) == (2, 3, 1)


def test_rows_that_contradict_each_other_are_unknown_and_told() -> None:
    found = evaluate(timed([stays(10, 1)]), table([1, 1, 2, 1, 1, 1], clock(0, 5, 5, 10, 15, 15)))
    assert counts(found) == (1, 0, 5)
    [note] = found.notes
    assert note.startswith(
        "1 step of the timeline has several rows that differ (first: row 2 and row 3)"
    )


def test_repeated_rows_are_one_step() -> None:
    found = evaluate(timed([stays(10, 1)]), table([1, 50, 50, 1, 1], clock(0, 5, 5, 10, 15)))
    assert counts(found) == (1, 3, 1)
    assert found.notes == ()


def test_times_off_the_grid_and_unreadable_ones_are_reported() -> None:
    found = evaluate(timed([stays(10, 1)]), table([1, 1, 1, 1], [*clock(0, 6.5, 10), "soon"]))
    assert counts(found) == (2, 0, 2)
    lost, off = found.notes
    assert "1 time in `Time` cannot be read (first: `soon`, row 4)" in lost
    assert "1 row lies off the grid of 5 min steps (first: row 2, `2024-03-09 00:06:30`)" in off


@pytest.mark.parametrize(
    ("header", "times", "noted"),
    [("t [min]", [0.0, 5.0, 15.0], 0), ("t", [0.0, 300.0, 900.0], 1), ("t (s)", [0, 300, 900], 0)],
)
def test_times_may_be_numbers(header: str, times: list[float], noted: int) -> None:
    rows = Table.of("t.csv", {header: np.array(times, dtype=np.float64)})
    timing, notes = table_timing(DataContract(columns=(), time=header, step=300.0), rows)
    assert timing.step.tolist() == [0, 1, 3]
    assert len(notes) == noted


def test_what_holds_initially_is_asked_once_per_trace() -> None:
    first = bank(Initially(arg=LOW), [[TORQUE]], [[10.0, 1.0]], rule=0)
    rows = table([50, 1, 1, 50], clock(5, 0, 10, 15), batch=["a", "a", "b", "b"])
    assert counts(evaluate(timed([first], trace="batch"), rows)) == (2, 0, 0)
    assert counts(evaluate(timed([first]), rows)) == (1, 0, 0)


def test_chunks_keep_windows_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(0)
    rows = table(
        dice.uniform(0, 20, 60).tolist(),
        clock(*range(60)),
        batch=[f"b{i % 7}" for i in range(60)],
        Type=["L", "M", "H"] * 20,
    )
    banks = [
        bank(STAYS, [[TORQUE]] * 5, [[12.0 + i, 1.0, 0.0, float(i)] for i in range(5)], rule=0),
        bank(
            STAYS,
            [[TORQUE]] * 3,
            [[15.0, 1.0, 1.0, 3.0]] * 3,
            rule=0,
            keys=[[VARIANT]] * 3,
            codes=[[0], [1], [2]],
        ),
    ]
    whole = counts(evaluate(timed(banks, trace="batch", step=420.0), rows))
    chunks = importlib.import_module("fedkg.evaluation.evaluate")
    monkeypatch.setattr(chunks, "EVALUATIONS", 1)
    monkeypatch.setattr(chunks, "CELLS", 1)
    monkeypatch.setattr(chunks, "SMALL", 1)
    monkeypatch.setattr("fedkg.constraints.meaning.interpreter.BUDGET", 1)
    monkeypatch.setattr("fedkg.constraints.meaning.interpreter.CELLS", 1)
    assert counts(evaluate(timed(banks, trace="batch", step=420.0), rows)) == whole
    assert sum(whole) == 5 * 60 + 60


def sum_limit(limit: float, *, wear: bool = True) -> Bank:
    """The sum of torque (and wear) stays below a limit, rule 0."""
    columns = [TORQUE, WEAR] if wear else [TORQUE, TORQUE]
    members = MemberTable(
        parent=-1,
        offsets=np.array([0, 2], dtype=np.int64),
        slots=np.array([[column] for column in columns], dtype=np.int32),
        views=np.zeros((2, 1), dtype=np.int32),
        params=np.array([[10.0, 1.0]] * 2),
    )
    made = bank(
        BELOW.model_copy(update={"left": Reduce(op="sum", members=0, arg=Slot(index=0))}),
        [[]],
        [[limit, 1.0]],
        rule=0,
    )
    return replace(made, members=(members,))


def test_members_read_columns_and_a_missing_one_is_reported() -> None:
    both = Table.of(
        "t.csv", {"Torque [Nm]": np.array([1.0, 5.0]), "Tool wear [min]": np.array([2.0, 6.0])}
    )
    found = evaluate(pack(["flow"], [sum_limit(10)]), both)
    assert counts(found) == (1, 1, 0)
    alone = Table.of("t.csv", {"Torque [Nm]": np.array([1.0, 5.0])})
    with pytest.raises(TableError, match="Tool wear"):
        evaluate(pack(["flow"], [sum_limit(10)]), alone)
    [rule] = evaluate(pack(["flow"], [sum_limit(10)]), alone, missing="skip").rules
    assert rule.missing == ("Tool wear [min]",)
    assert rule.evaluations == 0
    assert counts(evaluate(pack(["flow"], [sum_limit(10, wear=False)]), alone)) == (2, 0, 0)


def test_sums_and_counts_are_reported_in_words() -> None:
    made = pack(["flow"], [sum_limit(10)])
    row = np.array([[5.0, 6.0, np.nan, np.nan]])
    assert readings_text(made, made.banks[0], 0, row) == "sum of torque or wear over 2 members 11"
    assert (
        example(made, made.banks[0], 0, row, "row 2")
        == "row 2: sum of torque or wear over 2 members 11. Wanted: sum of torque or wear over 2"
        " members at most 10."
    )
    counted = replace(sum_limit(10), skeleton=AtLeast(count=None, members=0, arg=LOW))
    assert (
        readings_text(
            pack(["flow"], [counted]), counted, 0, np.array([[5.0, 60.0, np.nan, np.nan]])
        )
        == "1 of 2 members hold"
    )


def test_a_broken_rule_over_time_shows_what_stands_at_the_step() -> None:
    rises = bank(
        Temporal(op="always", low=2, high=3, arg=Implies(antecedent=LOW, consequent=LOW)),
        [[TORQUE]],
        [[10.0, 1.0, 0.0, 2.0]],
        rule=0,
    )
    made = timed([rises])
    found = evaluate(made, table([1, 2, 3, 4], clock(0, 5, 10, 15)))
    worst = found.rules[0].worst
    assert worst is not None
    assert worst.read == "torque 3 N.m" if worst.row == 3 else worst.read.startswith("torque")
    assert (
        example(made, rises, 0, np.array([[1.0, 1.0, 0.0, 0.0]]), "row 1")
        == "row 1: torque 1 N.m. Wanted: always within 10 min (if torque <= 10 then torque <= 10)."
    )
