"""Table rows as steps of traces, laid out so that windows can slide over them.

Letters: B table rows, N traces of similar length, L steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import TableError
from fedkg.pack.numeric.trace_grid import Grid

MOST = 10_000_000
"""A trace of few rows is not laid out to more steps than this; one of many rows to four times as
many as it has rows."""

CELLS = 1_000_000
"""Traces are laid out together as long as they fill no more steps than this."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timing:
    """The position of each table row in time.

    Attributes:
        trace: int64 [B], which trace a row belongs to; negative for a row that belongs to none (all
            its temporal verdicts are unknown).
        step: int64 [B], the row's step within its trace; any whole number, rows in any order.
        gaps: steps between two rows of a trace without a row are missing, and so unknown; without
            `gaps` the numbers only order the rows.
        end: what a window beyond the trace meets: unknown steps (``strict``), or nothing
            (``clip``).
    """

    trace: NDArray[np.int64]
    step: NDArray[np.int64]
    gaps: bool = True
    end: Literal["strict", "clip"] = "strict"

    @staticmethod
    def rows(count: int, end: Literal["strict", "clip"] = "strict") -> Timing:
        """The rows of a table, in their order, as one trace without gaps."""
        return Timing(
            trace=np.zeros(count, dtype=np.int64),
            step=np.arange(count, dtype=np.int64),
            gaps=False,
            end=end,
        )

    def take(self, rows: NDArray[np.int64]) -> Timing:
        """The timing of some rows alone."""
        return Timing(trace=self.trace[rows], step=self.step[rows], gaps=self.gaps, end=self.end)


def grids(
    timing: Timing, rows: NDArray[np.int64], values: NDArray[np.float64], reach: int
) -> Iterator[Grid]:
    """The traces of some table rows, laid out; rows of no trace are left out.

    Rows that share a step and agree in all `values` [B, C] are one; where they differ nobody knows
    which is right: the step is unknown.

    Args:
        reach: how many steps a formula looks ahead or back at most; longer gaps are shortened to
            what makes no difference.

    Raises:
        TableError: when the steps between the rows of a trace, most of them missing, are too many
            to be laid out.
    """
    rows = rows[timing.trace[rows] >= 0]
    if not rows.size:
        return
    order = np.lexsort((rows, timing.step[rows], timing.trace[rows]))
    rows = rows[order]
    trace, step = timing.trace[rows], timing.step[rows]
    new = np.concatenate([[True], trace[1:] != trace[:-1]])  # the first row of its trace
    ahead = np.where(new, 0, np.concatenate([[0], np.diff(step)]))  # steps since the row before
    if not timing.gaps:
        ahead = np.minimum(ahead, 1)
    run = np.cumsum(np.minimum(ahead, 2 * reach + 3))
    number = np.cumsum(new) - 1
    place = run - run[new][number]
    source = np.where(_disputed(rows, new | (ahead > 0), values), -1, rows)
    last = np.concatenate([np.flatnonzero(new)[1:] - 1, [rows.size - 1]])
    longest = int(np.argmax(place[last]))
    steps, held = int(place[last][longest]) + 1, int((number == longest).sum())
    if steps > max(MOST, 4 * held):
        raise TableError(
            f"a trace of {held:,} rows spans {steps:,} steps, and a rule looks {reach:,} steps far",
            expected=f"{MOST:,} steps at most, or four times the rows",
            help="write a longer step, a shorter window (or `end` where it has none), or a "
            "trace column that separates the series at its gaps",
        )
    yield from _laid_out(timing, rows, source, number, place, lengths=place[last] + 1)


def _laid_out(
    timing: Timing,
    rows: NDArray[np.int64],
    source: NDArray[np.int64],
    number: NDArray[np.int64],
    place: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> Iterator[Grid]:
    """Traces of similar length together.

    `number` and `place` give the trace and position of each row.
    """
    size = np.ceil(np.log2(lengths)).astype(np.int64)
    for wanted in np.unique(size).tolist():
        traces = np.flatnonzero(size == wanted)
        together = max(1, CELLS // int(lengths[traces].max()))
        for start in range(0, traces.size, together):
            some = traces[start : start + together]
            width = int(lengths[some].max())
            where = np.full(lengths.size, -1, dtype=np.int64)
            where[some] = np.arange(some.size)
            mine = where[number] >= 0
            cells = where[number[mine]] * width + place[mine]
            at = np.full(some.size * width, -1, dtype=np.int64)
            at[cells] = source[mine]
            inside = np.arange(width) < lengths[some][:, None]
            yield Grid(at.reshape(some.size, width), inside, timing.end, rows[mine], cells)


def _disputed(
    rows: NDArray[np.int64], fresh: NDArray[np.bool_], values: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """bool [n]: rows in order of time at a step with several differing rows.

    `fresh` marks the first row of each step.
    """
    out = np.zeros(rows.size, dtype=np.bool_)
    again = np.flatnonzero(~fresh)
    if not again.size:
        return out
    group = np.cumsum(fresh) - 1
    first = np.flatnonzero(fresh)[group[again]]
    one, other = values[rows[again]], values[rows[first]]
    differs = ~((one == other) | (np.isnan(one) & np.isnan(other))).all(axis=1)
    bad = np.zeros(int(group[-1]) + 1, dtype=np.bool_)
    bad[group[again[differs]]] = True
    return np.asarray(bad[group])
