"""Hold out rows in their order in time, for rules that compare rows.

A random test sample leaves no row beside its neighbours, so no rule over time can be evaluated on
it. Blocks of consecutive rows keep the neighbours together.

Letters: N rows, W traces, T steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.binding.window_length_check import horizons
from fedkg.constraints.engine.skeleton_properties import reads_output
from fedkg.constraints.meaning.interpreter import Timing
from fedkg.data import Frame
from fedkg.evaluation.table_time_steps import table_timing
from fedkg.pack import Bank, Pack, is_temporal

Index = NDArray[np.int64]

ROW_COLUMN = "(row)"
"""Column with the row number in the source table, from 1."""

SITE_COLUMN = "(site)"
"""Column with the site of a row's source table."""

MANY_TRACES = 10
"""Traces from which on whole traces are held out: a batch or a drive is then never cut."""

STEPS_PER_HORIZON = 4
"""Length of a probe's traces in horizons. A rule is decided at three of four steps then."""

SHORTEST_TRACE = 16
"""Fewest steps of a probe's trace, if the server has as many in a row."""


def compares_rows(pack: Pack) -> bool:
    """Whether some rule about an output reads another row or step than the one it is about."""
    before = [i for i, view in enumerate(pack.manifest.contract.views) if view.kind == "previous"]
    return any(
        reads_output(bank.skeleton) and (is_temporal(bank.skeleton) or _reads_views(bank, before))
        for bank in pack.banks
    )


def horizon_of(pack: Pack) -> int:
    """The steps that the rules look back and ahead at most; 1 for the row before."""
    before = any(view.kind == "previous" for view in pack.manifest.contract.views)
    return max([*horizons(pack).values(), int(before)], default=0)


def row_timing(pack: Pack, frame: Frame) -> Timing:
    """The trace and the step of every row; the rows of different sites are in different traces."""
    contract = pack.manifest.contract
    timing, _ = table_timing(contract, frame.table(), "skip", needed="")
    if SITE_COLUMN not in frame.columns:
        return timing
    _, site = np.unique(frame.columns[SITE_COLUMN].astype(str), return_inverse=True)
    sites = int(site.max(initial=0)) + 1
    trace = np.where(timing.trace < 0, -1, timing.trace * sites + site.ravel())
    return Timing(trace=trace, step=timing.step, gaps=timing.gaps, end=timing.end)


def hold_out_in_order(
    timing: Timing, shares: Sequence[float], gap: int, *, cut_every: bool = False
) -> list[Index]:
    """Rows for training, the test and the server, ascending: the first rows, the last rows, and
    those in between.

    With `MANY_TRACES` or more, whole traces are held out, the last in the table as the test. In a
    trace that is cut, rows closer than `gap` steps to the next part are left out, so that no rule
    reads across the cut. Rows that belong to no trace are for training.

    Args:
        timing: of the N rows.
        shares: of training, test and server; they sum to 1.
        gap: the horizon of the rules, in steps.
        cut_every: whether to cut every trace, however many there are: traces are sites.
    """
    train, test, server = shares
    ends = np.cumsum([train, server, test])[:2]
    part = np.zeros(len(timing.trace), dtype=np.int64)
    traces = np.unique(timing.trace[timing.trace >= 0])
    if len(traces) >= MANY_TRACES and not cut_every:
        cuts = np.round(ends * len(traces)).astype(np.int64)
        place = np.searchsorted(traces, timing.trace)
        part = np.where(timing.trace < 0, 0, np.searchsorted(cuts, place, side="right"))
    else:
        for trace in traces.tolist():
            rows = np.flatnonzero(timing.trace == trace)
            step = timing.step[rows]
            ordered = np.sort(step)
            at = [
                ordered[min(round(end * len(rows)), len(rows) - 1)] if end < 1 else np.inf
                for end in ends.tolist()
            ]
            own = (step >= at[0]).astype(np.int64) + (step >= at[1])
            for number, start in enumerate(at):
                own[(own == number) & (step >= start - gap)] = -1
            part[rows] = own
    return [np.flatnonzero(part == number) for number in (0, 2, 1)]


def note_order(*, ordered: bool, compares: bool, timeline: bool) -> tuple[str, ...]:
    """How rows were held out, if a reader would not expect it."""
    if ordered:
        by = "by time" if timeline else "in row order, because rules compare rows"
        return (f"data: the test and server rows are held out {by}: the last rows are the test",)
    if compares:
        return (
            (
                "warning: `data.hold_out: random` separates rows from their neighbours, so rules "
                "that compare rows are not evaluated on predictions"
            ),
        )
    return ()


def consecutive_traces(timing: Timing, horizon: int, most: int) -> Index | None:
    """Positions [W, T] of rows at consecutive steps, of at most `most` rows; None if no stretch of
    rows is longer than the horizon.

    Without gaps in the timing, rows that follow each other in a trace are consecutive.
    """
    rows = np.flatnonzero(timing.trace >= 0)
    rows = rows[np.lexsort((timing.step[rows], timing.trace[rows]))]
    if not len(rows):
        return None
    apart = timing.trace[rows][1:] != timing.trace[rows][:-1]
    if timing.gaps:
        apart |= timing.step[rows][1:] != timing.step[rows][:-1] + 1
    else:
        apart |= timing.step[rows][1:] == timing.step[rows][:-1]
    stretches = np.split(rows, np.flatnonzero(apart) + 1)
    longest = max(map(len, stretches))
    if longest <= horizon:
        return None
    length = min(longest, max(SHORTEST_TRACE, STEPS_PER_HORIZON * horizon))
    found = [
        stretch[at : at + length]
        for stretch in stretches
        for at in range(0, len(stretch) - length + 1, length)
    ]
    return np.stack(found[: max(1, most // length)])


def _reads_views(bank: Bank, views: Sequence[int]) -> bool:
    """Whether a bank reads one of these views of the contract."""
    from fedkg.pack.bank import reads

    return any(bool(np.isin(read, views).any()) for _, read, _ in reads(bank))
