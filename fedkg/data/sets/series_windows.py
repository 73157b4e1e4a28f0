"""Windows of series: the last T steps and the following steps, with a policy for missing steps.

Letters: N rows, W windows, T steps of the history, F features, P steps of the forecast, O forecast
features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.data.frame import text_array
from fedkg.data.sets.dataset import DataSet, Task
from fedkg.errors import JobError

Gaps = Literal["unknown", "interpolate", "error"]
F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """The rows of a client, or of one of its traces, on an even grid of time.

    Attributes:
        client: its name.
        trace: the name of the trace; "" for all rows of the client.
        x: [N, F].
        y: [N].
        time: [N], every step; NaN in x and y if the source has no row.
        row: int64 [N], the row of the source; -1 if it has none.
        test: bool [N]; a missing step is a test step if its predecessor is.
    """

    client: str
    trace: str
    x: F64
    y: F64
    time: F64
    row: NDArray[np.int64]
    test: NDArray[np.bool_]


Target = Callable[[Series, NDArray[np.int64]], F64]
"""Computes the targets of the windows of a series that begin at these steps."""


def series(
    data: DataSet,
    *,
    gaps: Gaps = "unknown",
    longest: int | None = None,
    before: Mapping[str, float] | None = None,
    by_trace: bool = False,
) -> tuple[Series, ...]:
    """The rows of each client in order of time on an even grid, with unknown cells of x treated.

    Args:
        data: rows [N, F] with times; without clients, all rows are one series.
        gaps: ``unknown`` leaves unknown cells NaN; ``interpolate`` draws a straight line between
            the known neighbours (cells before the first and after the last known one stay unknown);
            ``error`` rejects unknown cells.
        longest: with ``interpolate``, longer runs of unknown cells stay unknown. None: any length.
        before: with ``interpolate``, a time for each client: later values do not affect earlier
            cells across it.
        by_trace: whether each trace of a client is a series.

    Raises:
        JobError: the rows have no time; or, with ``error``, the first unknown cell by client,
            feature and time.
    """
    if data.time is None or data.x.ndim != 2:
        raise JobError(
            f"data set {data.name} is not a series: its samples have no time",
            help="leave out the windows (`data.window` in a job), or choose a data set with times",
        )
    if gaps not in ("unknown", "interpolate", "error"):
        raise JobError(
            "unknown `gaps`", expected="unknown, interpolate or error", received=str(gaps)
        )
    found = []
    for client, trace, rows in _list_series(data, by_trace):
        one = _on_grid(rows, client, trace)
        if gaps == "error" and np.isnan(one.x).any():
            row, column = np.argwhere(np.isnan(one.x))[0]
            moment = f"{one.time[row]:.12g} {data.step_unit}".rstrip()
            if data.since_1970 and data.step_unit == "s":
                moment = str(np.datetime64(int(one.time[row]), "s"))
            raise JobError(
                f"data set {data.name}: {_describe_client(client)} has a gap: no "
                f"value of {data.features[column]} at {moment}",
                help="fill the gap, or set `gaps` to unknown or interpolate "
                "(`data.window.gaps` in a job)",
            )
        if gaps == "interpolate":
            x = _interpolate(one.x, longest)
            if before and client in before:
                known = int(np.searchsorted(one.time, before[client] - data.step / 2))
                x[:known] = _interpolate(one.x[:known], longest)
            one = replace(one, x=x)
        found.append(one)
    return tuple(found)


def _list_series(data: DataSet, by_trace: bool) -> Iterator[tuple[str, str, DataSet]]:
    """The client, the trace ("": all) and the rows in order of time of each series."""
    assert data.time is not None
    for client in data.client_names or ("",):
        rows = data.of_client(client) if client else data.take(np.argsort(data.time, kind="stable"))
        if not by_trace or rows.traces is None:
            yield client, "", rows
            continue
        for trace in dict.fromkeys(rows.traces.tolist()):
            yield client, trace, rows.take(rows.traces == trace)


def forecast_windows(
    data: DataSet,
    *,
    history: int,
    horizon: int,
    stride: int = 1,
    targets: Sequence[str] = (),
    gaps: Gaps = "unknown",
    longest: int | None = None,
    before: Mapping[str, float] | None = None,
    to_predict: bool = False,
) -> DataSet:
    """Windows of each client's series: x [W, T, F] and the following values, y [W, P * O], step by
    step.

    A window is skipped if all its inputs or all its targets are unknown; other unknown cells stay
    NaN, in targets too (see the loss ``mse_known``). A window is a test window if its last target
    step is one. `time` is that of the first forecast step.

    Args:
        data: rows with times.
        history: T.
        horizon: P.
        stride: steps between the starts of two windows.
        targets: names of the features to forecast; none: all of them.
        gaps: ``unknown`` leaves unknown inputs NaN; ``interpolate`` draws a straight line between
            the known neighbours; ``error`` rejects unknown inputs.
        longest: with ``interpolate``, longer runs of unknown cells stay unknown. None: any length.
        before: with ``interpolate``, a time for each client: later values do not affect earlier
            cells across it.
        to_predict: whether each series continues for P unknown steps, so that its last T steps are
            a window too, whatever the stride; then no window is skipped for its targets.

    Raises:
        JobError: no window is left, a target is not a feature, the rows have no time, or, with
            ``error``, an input is unknown.
    """
    named = tuple(targets) or data.features
    columns = [_position(data, name) for name in named]

    def future(one: Series, first: NDArray[np.int64]) -> F64:
        steps = first[:, None] + history + np.arange(horizon)
        values: F64 = one.x[:, columns][steps].reshape(len(first), -1)
        return values

    cut = _cut(
        data,
        history,
        horizon,
        stride,
        series(data, gaps=gaps, longest=longest, before=before, by_trace=True),
        future,
        "forecast",
        to_predict=to_predict,
    )
    return replace(cut, targets=named)


def labelled_windows(
    data: DataSet,
    *,
    history: int,
    stride: int = 1,
    gaps: Gaps = "unknown",
    longest: int | None = None,
    before: Mapping[str, float] | None = None,
    to_predict: bool = False,
) -> DataSet:
    """Windows of each client's series: x [W, T, F], and the target of the window's last row, y [W].

    See `forecast_windows`. Windows with an unknown target are skipped.
    """

    def last(one: Series, first: NDArray[np.int64]) -> F64:
        answers: F64 = one.y[first + history - 1]
        return answers

    every = series(data, gaps=gaps, longest=longest, before=before, by_trace=True)
    return _cut(
        data,
        history,
        0,
        stride,
        every,
        last,
        "regression" if data.task == "forecast" else data.task,
        to_predict=to_predict,
    )


def _cut(
    data: DataSet,
    history: int,
    horizon: int,
    stride: int,
    every: Sequence[Series],
    target: Target,
    task: Task,
    *,
    to_predict: bool = False,
) -> DataSet:
    sizes = {"history": history, "stride": stride}
    if task == "forecast":
        sizes["horizon"] = horizon
    small = [name for name, number in sizes.items() if number < 1]
    if small:
        raise JobError(
            f"the {' and the '.join(small)} of windows must be at least 1",
            received=", ".join(f"{name} {sizes[name]}" for name in small),
            help="in a job file: data.window: {"
            + ", ".join(f"{name}: {max(number, 1)}" for name, number in sizes.items())
            + "}",
        )
    parts: list[tuple[F64, F64, list[Series], F64, NDArray[np.int64], NDArray[np.bool_]]] = []
    if to_predict:
        every = [_with_steps_to_come(one, horizon, data.step) for one in every]
    for one in every:
        last = len(one.x) - history - horizon
        first = np.arange(0, last + 1, stride)
        if not len(first):
            continue
        if to_predict:
            first = np.union1d(first, last)
        x, y = one.x[first[:, None] + np.arange(history)], target(one, first)
        kept = ~np.isnan(x).all(axis=(1, 2))
        if not (to_predict and horizon):  # without a horizon, an unknown target is a missing row
            kept &= ~np.isnan(y.reshape(len(y), -1)).all(axis=1)
        ends = first + history + horizon - 1
        about = first + history if horizon else ends
        origin = [one] * int(kept.sum())
        parts.append(
            (
                x[kept],
                y[kept],
                origin,
                one.time[about][kept],
                one.row[about][kept],
                one.test[ends][kept],
            )
        )
    if not sum(len(x) for x, *_ in parts):
        longest = max((len(one.x) for one in every), default=0)
        if longest >= history + horizon:
            raise JobError(
                f"data set {data.name}: every window is empty",
                received="inputs or targets without a value",
                help="list columns with values in data.features, and check data.window.targets",
            )
        raise JobError(
            f"data set {data.name}: no series is long enough for a window of "
            f"{history} + {horizon} steps (history and horizon)",
            received=f"series of at most {longest} steps",
            help="decrease data.window.history or data.window.horizon, or use longer series",
        )
    x, y, time, row, test = (
        np.concatenate([part[place] for part in parts]) for place in (0, 1, 3, 4, 5)
    )
    origins = [one for part in parts for one in part[2]]
    notes = (*data.notes, f"windows of {history} + {horizon} steps, every {stride}")
    return replace(
        data,
        x=x,
        y=y,
        clients=None if data.clients is None else text_array([one.client for one in origins]),
        traces=None if data.traces is None else text_array([one.trace for one in origins]),
        time=time,
        row=row,
        test=None if data.test is None else test,
        task=task,
        notes=notes,
    )


def _on_grid(data: DataSet, client: str, trace: str) -> Series:
    """Rows in order of time at every step from the first to the last; the last of several rows at
    one step counts.
    """
    assert data.time is not None
    known = ~np.isnan(data.time)
    data = data if known.all() else data.take(known)
    assert data.time is not None
    if not data.samples:
        raise JobError(
            f"data set {data.name}: {_describe_client(client)} has no row with a time",
            help="fill in the column of the times"
            + (", or leave the client out" if client else ""),
        )
    place = np.round((data.time - data.time[0]) / data.step).astype(np.int64)
    steps = int(place[-1]) + 1
    if steps > 100 * len(place):
        span = f"{len(place)} rows over {steps} steps of {data.step:g} {data.step_unit}"
        raise JobError(
            f"data set {data.name}: the rows of {_describe_client(client)} are not evenly spaced "
            "in time",
            received=span,
            help="resample the table first: exactly one row for each step",
        )
    x, y = np.full((steps, data.x.shape[1]), np.nan), np.full(steps, np.nan)
    x[place], y[place] = data.x, data.y
    row = np.full(steps, -1, dtype=np.int64)
    row[place] = data.rows
    latest = np.zeros(steps, dtype=np.int64)
    latest[place] = np.arange(len(place))
    test = (
        np.zeros(steps, dtype=bool)
        if data.test is None
        else data.test[np.maximum.accumulate(latest)]
    )
    time = data.time[0] + np.arange(steps) * data.step
    return Series(client=client, trace=trace, x=x, y=y, time=time, row=row, test=test)


def _with_steps_to_come(one: Series, steps: int, step: float) -> Series:
    """The series with further steps that the source has no rows for."""
    return replace(
        one,
        x=np.pad(one.x, ((0, steps), (0, 0)), constant_values=np.nan),
        y=np.pad(one.y, (0, steps), constant_values=np.nan),
        time=one.time[0] + np.arange(len(one.time) + steps) * step,
        row=np.pad(one.row, (0, steps), constant_values=-1),
        test=np.pad(one.test, (0, steps), mode="edge"),
    )


def _describe_client(client: str) -> str:
    return f"client {client}" if client else "the series"


def _interpolate(x: F64, longest: int | None) -> F64:
    """x [N, F] with runs of unknown cells between known ones, up to `longest`, filled along
    straight lines.
    """
    out = x.copy()
    rows = np.arange(len(x))
    for column in range(x.shape[1]):
        known = ~np.isnan(x[:, column])
        at = rows[known]
        if len(at) < 2:
            continue
        inside = ~known & (rows > at[0]) & (rows < at[-1])
        if longest is not None:
            after = np.searchsorted(at, rows[inside])
            inside[inside] = at[after] - at[after - 1] - 1 <= longest
        out[inside, column] = np.interp(rows[inside], at, x[known, column])
    return out


def _position(data: DataSet, name: str) -> int:
    if name not in data.features:
        raise JobError(
            f"data set {data.name} has no feature {name}",
            expected=", ".join(data.features[:12])
            + (f" or one of {len(data.features) - 12} more" if data.features[12:] else ""),
            help="correct data.window.targets",
        )
    return data.features.index(name)
