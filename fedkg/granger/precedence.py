"""What an edge between clients says of their measurements: when one rises, which other follows, by
how much and how surely.

Letters: T steps, P states, D measurements of a client, L lags.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.granger.moments import Series
from fedkg.learned_knowledge_records import Precedence

F64 = NDArray[np.float64]
STRONG = 0.9
"""A rise counts from this quantile of a column's steps on."""
KEPT = 0.8
"""The share of cases in which what follows is promised."""
GAIN = 1.5
"""Minimum ratio to chance at which a precedence is reported."""
CASES = 20
"""Minimum number of rises for a report."""


def precedence(
    series: Series,
    blocks: F64,
    m: int,
    n: int,
    columns: tuple[tuple[str, ...], tuple[str, ...]],
    values: tuple[F64, F64],
) -> Precedence | None:
    """When a measurement of client n rises, which of client m follows within L steps; None where
    the data does not bear one out.

    The pair of measurements is the one on which a block acts most, C_m A_mn C_n^+ over all lags;
    the promise is then read from the
    measurements themselves: `rise` is what one step in ten exceeds, `answer` what the driven column
    reaches in one of the L steps after, in
    four of five such cases. It is reported only if it points in the direction of the block, and
    holds 1.5 times as often as after steps in
    general.

    Args:
        blocks: [S, L S], as `fedkg.granger.edge_significance.joint` gives them.
        columns: names of the measurements of m and of n.
        values: those measurements, [T, D_m] and [T, D_n], in any unit.
    """
    driven, driver = series.clients[m], series.clients[n]
    total, span = series.states.shape[1], values[1].std(axis=0)
    back = np.linalg.pinv(driver.emission)
    each = [
        blocks[series.places[m], lag * total : (lag + 1) * total][:, series.places[n]]
        for lag in range(series.order(m))
    ]
    effect = (
        driven.emission @ np.sum(each, axis=0) @ back
    )  # measurements are standardised: a share of a deviation for a deviation
    j, i = np.unravel_index(int(np.abs(effect).argmax()), effect.shape)
    if effect[j, i] == 0 or span[i] == 0:
        return None
    sign = 1.0 if effect[j, i] > 0 else -1.0
    led, followed = np.diff(values[1][:, i]), sign * np.diff(values[0][:, j])
    ahead = np.lib.stride_tricks.sliding_window_view(followed[1:], series.order(m)).max(
        axis=1
    )  # the best of the L steps after each
    rises = led[: len(ahead)]
    least = float(np.quantile(rises, STRONG))
    cases = rises >= least
    if least <= 0 or int(cases.sum()) < CASES:
        return None
    answer = float(np.quantile(ahead[cases], 1 - KEPT, method="lower"))
    kept, chance = float((ahead[cases] >= answer).mean()), float((ahead >= answer).mean())
    if answer <= 0 or kept < GAIN * chance:
        return None
    return Precedence(
        leads=columns[1][int(i)],
        rise=least,
        follows=columns[0][int(j)],
        answer=sign * answer,
        within=series.order(m),
        kept=kept,
        chance=chance,
        cases=int(cases.sum()),
    )
