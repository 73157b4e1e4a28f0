"""The row of its window in which a rule over time is violated.

Letters: B table rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.evaluation.result import least_margin
from fedkg.evaluation.table_readings import Readings
from fedkg.pack import Bank, Temporal, is_temporal


def row_at_fault(bank: Bank, at: int, readings: Readings, timing: Timing, row: int) -> int:
    """The table row that breaks what bank row `at` asks of every step of the window at `row`, by
    the most; else `row` itself.

    Only `always` and `historically` over a formula of one step have such a row: of all others no
    single step is to blame.
    """
    skeleton = bank.skeleton
    if (
        not isinstance(skeleton, Temporal)
        or skeleton.op not in ("always", "historically")
        or is_temporal(skeleton.arg)
    ):
        return row
    alone = bank.take(np.array([at]))
    rows = _same_trace(alone, readings, timing, row)
    steps = (
        timing.step[rows]
        if timing.gaps
        else np.unique(timing.step[rows], return_inverse=True)[1].ravel()
    )
    away = (steps - steps[rows == row][0]) * (1 if skeleton.op == "always" else -1)
    low, high = alone.params[0, [skeleton.low, skeleton.high]].tolist()
    window = rows[(away >= low) & ((away <= high) | (high < 0))]
    found = evaluate_bank(replace(alone, skeleton=skeleton.arg), readings.part(window))
    return (
        int(window[least_margin(found.robustness, found.violated)[0]])
        if found.violated.any()
        else row
    )


def _same_trace(alone: Bank, readings: Readings, timing: Timing, row: int) -> NDArray[np.int64]:
    """The table rows that are steps of the trace of `row` for the one row of a bank: those that
    have its keys.
    """
    meant = timing.trace == timing.trace[row]
    for key, code in zip(alone.keys[0].tolist(), alone.codes[0].tolist(), strict=True):
        if key >= 0:
            meant &= readings.base[:, key] == code
    return np.flatnonzero(meant)
