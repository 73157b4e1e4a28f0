"""The NumPy interpreter against the definition.

Over random formulas, traces with gaps, keys and members.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import Trace, row_verdict
from strategies import banks, tables
from tries import tries

from fedkg.constraints import Timing, evaluate_bank
from fedkg.pack import Bank, Implies, Initially, is_temporal

Matrix = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def traces_of(bank: Bank, row: int, values: Matrix, timing: Timing) -> list[Trace]:
    """The steps of a bank row, trace by trace, by definition."""
    keys = [
        (k, c)
        for k, c in zip(bank.keys[row].tolist(), bank.codes[row].tolist(), strict=True)
        if k >= 0
    ]
    out = []
    for trace in sorted({int(number) for number in timing.trace if number >= 0}):
        at: dict[int, list[int]] = {}
        for i in np.flatnonzero(timing.trace == trace).tolist():
            if all(values[0, i, key] == code for key, code in keys):
                at.setdefault(int(timing.step[i]), []).append(i)
        if not at:
            continue
        numbers = range(min(at), max(at) + 1) if timing.gaps else sorted(at)
        steps = [
            at[n][0]
            if n in at
            and all(np.array_equal(values[0, i], values[0, at[n][0]], True) for i in at[n])
            else None
            for n in numbers
        ]
        out.append(Trace(values, steps, timing.end, bank.members))
    return out


@st.composite
def cases(draw: st.DrawFn) -> tuple[Bank, Matrix, Timing]:
    """A bank, values in four views, and rows in any order over a few traces.

    Some steps are missing; sometimes a step has two rows.
    """
    bank = draw(banks(temporal=True, members=draw(st.booleans()), max_rows=3))
    base = draw(tables(max_rows=9))
    values = np.stack([base, base + 2.5, np.roll(base, 1, axis=0), np.roll(base, 2, axis=0)])
    rows = base.shape[0]
    trace = draw(st.lists(st.sampled_from([0, 0, 0, 1, 1, -1]), min_size=rows, max_size=rows))
    spread = draw(st.sampled_from([1, 2, 60]))
    step = draw(st.permutations([spread * i for i in range(rows)]))
    if rows > 1 and draw(st.booleans()):
        step[0] = step[1]
        if draw(st.booleans()):
            values[:, 0] = values[:, 1]
    timing = Timing(
        trace=np.array(trace, dtype=np.int64),
        step=np.array(step, dtype=np.int64),
        gaps=draw(st.booleans()),
        end=draw(st.sampled_from(["strict", "clip"])),
    )
    return bank, values, timing


@given(cases())
@tries(40)
def test_every_verdict_is_the_definitions(case: tuple[Bank, Matrix, Timing]) -> None:
    check(*case)


@pytest.mark.slow
@given(cases())
@tries(120)
def test_many_verdicts_are_the_definitions(case: tuple[Bank, Matrix, Timing]) -> None:
    check(*case)


def check(bank: Bank, values: Matrix, timing: Timing) -> None:
    """Assert that the interpreter agrees with the definition for every row at its step."""
    found = evaluate_bank(bank, values, timing)
    for row in range(bank.rows):
        seen = set()
        for trace in traces_of(bank, row, values, timing):
            for t, i in enumerate(trace.steps):
                if i is None:
                    continue
                seen.add(i)
                if isinstance(bank.skeleton, Initially) and t > 0:
                    assert not found.applicable[i, row]
                    continue
                low, high, truth = row_verdict(bank, row, trace, t)
                assert found.applicable[i, row]
                assert (bool(found.satisfied[i, row]), bool(found.violated[i, row])) == (
                    truth is True,
                    truth is False,
                )
                expected = math.nan if truth is None else low if truth else high
                assert np.array_equal(found.robustness[i, row], expected, equal_nan=True)
                if isinstance(bank.skeleton, Implies):
                    assert found.fired[i, row] == (antecedent(bank, row, trace, t) is True)
        rest = [i for i in range(values.shape[1]) if i not in seen]
        told = found.satisfied[rest, row] | found.violated[rest, row]
        assert not told.any() or has_repeated_step(timing) or not is_temporal(bank.skeleton)


def antecedent(bank: Bank, row: int, trace: Trace, t: int) -> bool | None:
    """The truth of the condition before `then`."""
    assert isinstance(bank.skeleton, Implies)
    return row_verdict(replace(bank, skeleton=bank.skeleton.antecedent), row, trace, t)[2]


def has_repeated_step(timing: Timing) -> bool:
    """Whether a step has two rows: the second has the verdict of the first."""
    places = np.stack([timing.trace, timing.step], axis=1)
    return bool(np.unique(places, axis=0).shape[0] < places.shape[0])
