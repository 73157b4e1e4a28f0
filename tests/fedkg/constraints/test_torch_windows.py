"""Rules over time, members and choices: the tensor engine agrees with the interpreter.

Both evaluate ordered rows and windows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import CATEGORY, VOCABULARY, X, Y, packs, tables
from tries import tries

from fedkg.constraints import ConstraintModule, evaluate_bank
from fedkg.constraints.meaning.interpreter import Timing
from fedkg.constraints.report import ConstraintReport
from fedkg.pack import Pack

Float = NDArray[np.float64]


def ending(pack: Pack, end: str) -> Pack:
    contract = pack.manifest.contract.model_copy(update={"end": end})
    return replace(pack, manifest=pack.manifest.model_copy(update={"contract": contract}))


def readings(table: Float, answers: Float, traces: NDArray[np.int64]) -> Float:
    """Values [V, B, C] of the contract's views; the row before is in the same trace."""
    views = np.repeat(table[None], 4, axis=0)
    views[1, :, 1] += 2.5
    for view, groups in ((2, np.zeros(len(table))), (3, table[:, CATEGORY])):
        for row in range(len(table)):
            above = [i for i in range(row) if groups[i] == groups[row] and traces[i] == traces[row]]
            views[view, row] = table[above[-1]] if above else np.nan
    views[:, :, 4:] = np.where(np.isnan(views[:, :, CATEGORY : CATEGORY + 1]), np.nan, answers)
    views[1, :, 4:] = np.where(
        np.isnan(views[1, :, 1:2]), np.nan, views[1, :, 4:]
    )  # the raised values are unknown
    return views


def answers_for(seed: int, rows: int, unknown: bool) -> Float:
    generator = np.random.default_rng(seed)
    grid = generator.integers(-3, 4, (4, rows, 5)) / 2.0
    if unknown:
        grid[generator.random(grid.shape) < 0.2] = np.nan
    return grid


def check(
    pack: Pack, report: ConstraintReport, values: Float, timing: Timing, steps: int | None = None
) -> None:
    """Assert that every number and verdict of the report is the interpreter's, for windows by step
    too.
    """
    rows = values.shape[1]
    start = 0
    for bank in pack.banks:
        expected = evaluate_bank(bank, values, timing)
        own = slice(start, start := start + bank.rows)
        each = report.at_steps
        shape = (rows, bank.rows)
        np.testing.assert_allclose(
            each.robustness[..., own].reshape(shape).numpy(),
            expected.robustness,
            rtol=1e-12,
            atol=1e-12,
        )
        for name in ("applicable", "satisfied", "violated", "unknown", "fired"):
            assert (
                getattr(each, name)[..., own].reshape(shape).numpy() == getattr(expected, name)
            ).all(), name
        if steps is None:
            continue
        by_step = {
            name: getattr(expected, name).reshape(-1, steps, bank.rows)
            for name in ("satisfied", "violated", "applicable")
        }
        violated = by_step["violated"].any(axis=1)
        assert (report.violated[:, own].numpy() == violated).all()
        assert (
            report.satisfied[:, own].numpy() == (by_step["satisfied"].any(axis=1) & ~violated)
        ).all()
        assert (report.applicable[:, own].numpy() == by_step["applicable"].any(axis=1)).all()
        least = (
            np.where(np.isnan(expected.robustness), np.inf, expected.robustness)
            .reshape(-1, steps, bank.rows)
            .min(axis=1)
        )
        known = ~np.isnan(expected.robustness).reshape(-1, steps, bank.rows).all(axis=1)
        np.testing.assert_allclose(
            report.robustness[:, own].numpy(),
            np.where(known, least, np.nan),
            rtol=1e-12,
            atol=1e-12,
        )


@given(
    packs(max_banks=2, temporal=True, members=True),
    tables(max_rows=7),
    st.integers(0, 99),
    st.booleans(),
)
@tries(20)
def test_rows_in_order_are_judged_as_the_interpreter_does(
    pack: Pack, table: Float, seed: int, unknown: bool
) -> None:
    end: Literal["strict", "clip"] = "clip" if seed % 2 else "strict"
    pack = ending(pack, end)
    module = ConstraintModule(pack, x=X, y=Y)
    answers = answers_for(seed, len(table), unknown)
    values = readings(table, answers, np.zeros(len(table), dtype=np.int64))
    report = module(
        torch.from_numpy(table[:, :4]),
        torch.from_numpy(answers[list(module.plan.runs)]),
        previous="above",
        keys={"Type": [VOCABULARY[int(c)] for c in table[:, CATEGORY]]},
    )
    check(pack, report, values, Timing.rows(len(table), end))


@given(
    packs(max_banks=2, temporal=True, members=True),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(0, 99),
    st.booleans(),
)
@tries(20)
def test_windows_are_judged_as_the_interpreter_does(
    pack: Pack, count: int, steps: int, seed: int, unknown: bool
) -> None:
    pack = ending(pack, "clip" if seed % 2 else "strict")
    module = ConstraintModule(pack, x=X, y=Y)
    module._horizons.clear()  # windows too short to decide a rule are included
    generator = np.random.default_rng(seed)
    table = generator.choice([0.0, 1.0, -1.0, 0.5, 2.0, 300.0, 8.6], (count * steps, 9))
    if unknown:
        table[generator.random(table.shape) < 0.2] = np.nan
    table[:, CATEGORY] = generator.integers(0, 3, count * steps)
    traces = np.repeat(np.arange(count), steps)
    answers = answers_for(seed, count * steps, unknown)
    said = torch.from_numpy(answers[list(module.plan.runs)]).reshape(-1, count, steps, 5)
    report = module(
        torch.from_numpy(table[:, :4]).reshape(count, steps, 4), said if len(said) > 1 else said[0]
    )
    timing = Timing(
        trace=traces,
        step=np.tile(np.arange(steps), count),
        gaps=False,
        end="clip" if seed % 2 else "strict",
    )
    check(pack, report, readings(table, answers, traces), timing, steps)
