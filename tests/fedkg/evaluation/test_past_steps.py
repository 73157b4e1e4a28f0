"""The past on a table follows its times.

Order, gaps, traces, steps with several rows; and time columns that have no order.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedkg.constraints.meaning.interpreter import Timing
from fedkg.errors import TableError
from fedkg.evaluation import evaluate
from fedkg.evaluation.table_time_steps import steps_before
from fedkg.pack import Pack
from fedkg.tables import read_bytes
from fedkg_compiler.pipeline import compile_rules

TIMELINE = 'timeline time column "Time" step 5 min trace column "heat"\nsignal x in bar\n'
RISES = "rule rises require x >= past x\n"


def pack_of(text: str) -> Pack:
    compilation = compile_rules(text=text, reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


def counts(text: str, table: str) -> tuple[int, int, int]:
    found = evaluate(pack_of(text), read_bytes(table.encode(), "t.csv")).rules[0]
    return found.satisfied, found.violated, found.unknown


def rows(*cells: str) -> str:
    return "Time,heat,x\n" + "".join(f"2024-01-01 {cell}\n" for cell in cells)


def test_the_past_is_a_step_earlier_whatever_the_order_of_the_rows() -> None:
    ordered = rows("00:00,a,1", "00:05,a,2", "00:10,a,3")
    assert counts(TIMELINE + RISES, ordered) == (2, 0, 1)
    assert counts(TIMELINE + RISES, rows("00:10,a,3", "00:00,a,1", "00:05,a,2")) == (2, 0, 1)


def test_times_that_name_their_zone_follow_it() -> None:
    """02:50 in summer time is ten minutes before 02:00 in winter time, though its clock time is
    later.
    """
    twice = rows("02:00+01:00,a,3", "02:50+02:00,a,1", "02:55+02:00,a,2")
    assert counts(TIMELINE + RISES, twice) == (2, 0, 1)
    with pytest.raises(TableError, match=r"t.csv: column `Time`: some times name a zone"):
        counts(TIMELINE + RISES, rows("02:00+01:00,a,3", "02:50,a,1"))


def test_the_past_across_a_gap_or_another_trace_is_unknown() -> None:
    assert counts(TIMELINE + RISES, rows("00:00,a,1", "00:10,a,2", "00:15,a,3", "00:05,b,9")) == (
        1,
        0,
        3,
    )


def test_times_without_a_step_order_the_rows() -> None:
    timeline = 'timeline time column "Time" trace column "heat"\nsignal x in bar\n'
    assert counts(timeline + RISES, rows("00:10,a,2", "00:00,a,1", "00:17,a,1")) == (1, 1, 1)


def test_the_past_of_a_step_with_several_rows_that_differ_is_unknown_and_told() -> None:
    text = 'timeline time column "Time" step 5 min\nsignal x in bar\n' + RISES
    found = evaluate(
        pack_of(text),
        read_bytes(rows("00:00,a,1", "00:00,b,2", "00:05,a,3", "00:10,a,4").encode(), "t.csv"),
    )
    assert (found.rules[0].satisfied, found.rules[0].unknown) == (1, 3)
    assert any("several rows that differ" in note for note in found.notes)


def test_never_falls_goes_on_comparing_neighbouring_rows() -> None:
    assert counts(
        TIMELINE + "rule r require x never falls\n", rows("00:10,a,3", "00:00,a,1", "00:05,a,2")
    ) == (1, 1, 1)


def test_rows_one_step_earlier_by_group() -> None:
    timing = Timing(trace=np.array([0, 0, 0, 1, -1, 0]), step=np.array([0, 1, 3, 1, 2, 1]))
    base = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [2.0]])
    group = np.zeros(6, dtype=np.int64)
    assert steps_before(timing, group, base).tolist() == [-1, 0, -1, -1, -1, 0]
    assert steps_before(timing, np.array([0, 1, 0, 0, 0, -1]), base).tolist() == [-1] * 6
    free = Timing(trace=timing.trace, step=timing.step, gaps=False)
    assert steps_before(free, group, base).tolist()[:3] == [-1, 0, 1]
    assert (
        steps_before(Timing.rows(0), np.zeros(0, dtype=np.int64), np.zeros((0, 1))).tolist() == []
    )


def test_a_gap_of_years_and_a_long_window_are_rejected_in_words() -> None:
    table = b"Time,x\n2020-01-01,1\n2024-01-01,2\n"
    second = 'timeline time column "Time" step 1 s ends clip\nsignal x in bar\n'
    short = evaluate(
        pack_of(second + "rule r require always [0, 1000] x <= 3 bar\n"), read_bytes(table, "t.csv")
    )
    assert short.rules[0].satisfied + short.rules[0].unknown == 2
    with pytest.raises(TableError, match="spans 126,230,401 steps"):
        evaluate(
            pack_of(second + "rule r require always [0, 1e9] x <= 3 bar\n"),
            read_bytes(table, "t.csv"),
        )


def test_a_step_too_small_to_count_is_rejected() -> None:
    text = (
        'timeline time column "Time" step 1e-300 s\nsignal x in bar\nrule r require next (x <= 3'
        " bar)\n"
    )
    with pytest.raises(TableError, match="steps of"):
        evaluate(pack_of(text), read_bytes(b"Time,x\n2020-01-01,1\n2024-01-01,2\n", "t.csv"))
