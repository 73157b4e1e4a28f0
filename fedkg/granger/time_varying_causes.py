"""Causes that change: strengths window by window, where they change, and learning that goes on as
data arrive.

Letters: M clients, T steps, W windows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import UsageError
from fedkg.granger.edge_significance import labels
from fedkg.granger.learn import Learnt, Rates, at_rest, at_rest_by
from fedkg.granger.moments import Moments, Series, moments

F64 = NDArray[np.float64]


def cut(series: Series, start: int, stop: int) -> Series:
    """The steps start .. stop - 1, with the states that the filters had there from all steps
    before.
    """
    own = [
        replace(client, measurements=np.ascontiguousarray(client.measurements[start:stop]))
        for client in series.clients
    ]
    return replace(
        series, clients=tuple(own), states=np.ascontiguousarray(series.states[start:stop])
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windowed:
    """starts: int64 [W], the first step of each window. strength: [W, M, M]."""

    starts: NDArray[np.int64]
    strength: F64


def windowed(series: Series, *, window: int, stride: int, rates: Rates | None = None) -> Windowed:
    """Learn each window separately, at its fixed point. Raises UsageError if the window does "
    "not fit the series."""
    starts = np.arange(0, len(series.states) - window + 1, stride)
    if not len(starts) or window < series.lags + 2:
        raise UsageError(
            "the window does not fit the series",
            expected=f"a window of {series.lags + 2} .. {len(series.states)} steps",
            received=f"{window} steps",
            help="correct `window`" + (", or use a longer series" if window > 0 else ""),
        )
    chosen = Rates() if rates is None else rates
    parts = [cut(series, int(start), int(start) + window) for start in starts]
    return Windowed(
        starts=starts, strength=np.array([at_rest(part, chosen).strength(part) for part in parts])
    )


def changes(series: Series, m: int, *, least: int) -> tuple[int, ...]:
    """The steps at which what drives client m changes, sorted: binary segmentation of the
    regression of `innovation_label`.

    A segment is cut where that lowers n log|residual covariance| of its two parts by most, if by
    more than the k log n that a second set of
    coefficients costs (Bayesian information criterion; Vostrikova 1981). Candidates are `least` / 2
    steps apart.

    Args:
        least: the shortest segment. Raises UsageError where it cannot hold the regression.
    """
    label = labels(series, m)
    others = series.regressors[series.lags - 1 : -1][:, series.drivers(m)]
    if least < 2 * (others.shape[1] + 1):
        raise UsageError(
            "segments are too short to be estimated",
            expected=f"at least {2 * (others.shape[1] + 1)} steps",
            received=str(least),
            help="increase `least`, the shortest length of a segment",
        )
    price = label.shape[1] * (others.shape[1] + 1) * np.log(len(label))
    found: list[int] = []
    waiting = [(0, len(label))]
    while waiting:
        start, stop = waiting.pop()
        candidates = range(start + least, stop - least + 1, max(1, least // 2))
        whole = _cost(others[start:stop], label[start:stop])
        scored = [
            (_cost(others[start:at], label[start:at]) + _cost(others[at:stop], label[at:stop]), at)
            for at in candidates
        ]
        if scored and min(scored)[0] + price < whole:
            at = min(scored)[1]
            found.append(at + series.lags)
            waiting += [(start, at), (at, stop)]
    return tuple(sorted(found))


def _cost(others: F64, label: F64) -> float:
    """n log|residual covariance| of a least-squares fit with a constant."""
    count, states = label.shape
    known = np.concatenate([others, np.ones((count, 1))], axis=1)
    left = label - known @ np.linalg.lstsq(known, label, rcond=None)[0]
    return float(count * np.linalg.slogdet(left.T @ left / count + 1e-12 * np.eye(states))[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream:
    """What is kept of all data so far: the averages of each client, and how many steps they are of.

    No measurement is kept. `forget` is the share of its weight that a step loses with each later
    step; 0: all count alike.
    """

    known: tuple[Moments, ...]
    weight: float
    forget: float = 0.0


def initial_averages(series: Series, *, forget: float = 0.0) -> Stream:
    """The averages of a first part. Raises UsageError for a share outside of 0 .. 1."""
    if not 0 <= forget < 1:
        raise UsageError(
            "`forget` must be a share from 0 to below 1",
            expected="0 <= forget < 1",
            received=str(forget),
        )
    return Stream(
        known=tuple(moments(series, m) for m in range(len(series.clients))),
        weight=float(len(series.states) - series.lags),
        forget=forget,
    )


def continued(stream: Stream, series: Series) -> Stream:
    """Return the averages with those of a further part, which overlaps the previous part by L
    steps.
    """
    count = len(series.states) - series.lags
    old = stream.weight * (1 - stream.forget) ** count
    share = old / (old + count)
    return replace(
        stream,
        known=tuple(
            _mixed(known, moments(series, m), share) for m, known in enumerate(stream.known)
        ),
        weight=old + count,
    )


def _mixed(known: Moments, new: Moments, share: float) -> Moments:
    names = ("measured", "driving", "joint", "surprise", "loss")
    return replace(
        known,
        **{name: share * getattr(known, name) + (1 - share) * getattr(new, name) for name in names},
    )


def at_rest_of(stream: Stream, series: Series, rates: Rates | None = None) -> Learnt:
    """The point of rest of all data so far; `series` says who the clients are and who may drive
    whom.
    """
    return at_rest_by(series, stream.known, Rates() if rates is None else rates)
