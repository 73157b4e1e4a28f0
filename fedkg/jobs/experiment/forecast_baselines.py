"""Forecasts of a model beside the actual values and three forecasts that need no model.

Letters: n test windows of a site, P steps of a forecast, O forecast channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets import DataSet
from fedkg.jobs.experiment.sample_preparation import Samples
from fedkg.jobs.experiment.site_sample_statistics import TRAIN
from fedkg.jobs.folder import Row

SEASON = {"s": 86_400.0, "h": 24.0}
"""A day in a time unit of a data set: plants and traffic repeat daily."""
MODEL, PERSISTENCE, SEASONAL, MEAN = "model", "persistence", "seasonal", "mean"
MAX_POINTS = 300
"""Number of steps that `forecast_values.csv` keeps per site, the last ones."""
MAX_CURVES = 3
"""Number of sites of which it keeps steps: those with the largest errors of the model."""

Values = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteForecasts:
    """The forecasts for the test windows of one site, [n, P, O] in source units, NaN if unknown.

    Attributes:
        site: its name.
        time: [n], that of the first forecast step.
        actual: the measured values.
        forecasts: by name: the model's; the last known value before the window's end
            (persistence); the value a day, or the least number of days that the forecast does not
            reach into, before (seasonal); and the mean of the site's training targets.
    """

    site: str
    time: Values
    actual: Values
    forecasts: dict[str, Values]


def site_forecasts(samples: Samples, site: str, test: Index, answers: Values) -> SiteForecasts:
    """Forecasts of one site.

    Args:
        samples: windows with their rows.
        site: name of the site.
        test: positions of the site's test windows.
        answers: [n, P * O], the model's forecasts in source units.
    """
    data = samples.source
    channels = len(data.targets)
    actual = np.asarray(data.y[test], dtype=np.float64).reshape(len(test), -1, channels)
    columns = [data.features.index(name) for name in data.targets]
    history = np.asarray(data.x[test], dtype=np.float64)[:, :, columns]
    train = samples.use == TRAIN
    if data.clients is not None and (data.clients[train] == site).any():
        train &= data.clients == site
    targets = np.asarray(data.y[train], dtype=np.float64).reshape(-1, channels)
    known = np.isfinite(targets)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known.any(axis=0), np.nansum(targets, axis=0) / counts, np.nan)
    time = (
        np.arange(len(test), dtype=np.float64)
        if data.time is None
        else np.asarray(data.time[test], dtype=np.float64)
    )
    return SiteForecasts(
        site=site,
        time=time,
        actual=actual,
        forecasts={
            MODEL: answers.reshape(actual.shape),
            PERSISTENCE: np.broadcast_to(_last_known(history)[:, None], actual.shape),
            SEASONAL: _a_season_before(samples.uncut_rows, site, time, actual.shape[1], data),
            MEAN: np.broadcast_to(mean, actual.shape),
        },
    )


def _last_known(history: Values) -> Values:
    """The last known value of each channel: [n, O] of [n, T, O]."""
    steps = np.where(np.isfinite(history), np.arange(history.shape[1])[None, :, None], -1)
    last = steps.max(axis=1)
    found = np.take_along_axis(history, np.maximum(last, 0)[:, None], axis=1)[:, 0]
    return np.where(last >= 0, found, np.nan)


def _a_season_before(
    rows: DataSet, site: str, time: Values, horizon: int, windows: DataSet
) -> Values:
    """[n, P, O], the measured values whole days before each forecast step; NaN where nobody
    measured, or if the data set has no time in hours or seconds.
    """
    columns = [rows.features.index(name) for name in windows.targets if name in rows.features]
    shape = len(time), horizon, len(windows.targets)
    day = SEASON.get(rows.step_unit)
    if day is None or rows.time is None or len(columns) < len(windows.targets):
        return np.full(shape, np.nan)
    own = np.arange(rows.samples) if rows.clients is None else np.flatnonzero(rows.clients == site)
    order = own[np.argsort(rows.time[own], kind="stable")]
    measured = np.asarray(rows.time[order], dtype=np.float64)
    if not len(measured):
        return np.full(shape, np.nan)
    days = max(1, math.ceil(horizon * rows.step / day))
    wanted = time[:, None] + rows.step * np.arange(horizon) - days * day
    place = np.minimum(np.searchsorted(measured, wanted - rows.step / 4), len(measured) - 1)
    found = np.asarray(rows.x[order][:, columns], dtype=np.float64)[place]
    return np.where((np.abs(measured[place] - wanted) <= rows.step / 4)[..., None], found, np.nan)


def baseline_rows(trial: str, found: Sequence[SiteForecasts], scale: Values) -> list[Row]:
    """Rows of `baselines.csv`: the mean squared error of each forecast at each site.

    Errors are in standard deviations of each channel, on the steps that all forecasts know, so
    that they are comparable; a forecast that knows no step at the site has no error and does not
    restrict the others.

    Args:
        scale: [O], the standard deviation of each channel in source units.
    """
    rows: list[Row] = []
    for one in found:
        answered = {
            name: values for name, values in one.forecasts.items() if np.isfinite(values).any()
        }
        judged = np.isfinite(one.actual)
        for values in answered.values():
            judged = judged & np.isfinite(values)
        for name in one.forecasts:
            errors = ((one.forecasts[name] - one.actual) / scale)[judged]
            known = name in answered and errors.size > 0
            rows.append(
                {
                    "trial": trial,
                    "client": one.site,
                    "by": name,
                    "mse": float(np.mean(errors**2)) if known else None,
                    "values": int(errors.size) if known else 0,
                }
            )
    return rows


def value_rows(trial: str, found: Sequence[SiteForecasts], samples: Samples) -> list[Row]:
    """Rows of `forecast_values.csv`: the first channel's last steps, of the sites with the largest
    errors of the model. Overlapping windows give the forecast made last before each time.
    """
    data = samples.source

    def error(one: SiteForecasts) -> float:
        squares = (one.forecasts[MODEL] - one.actual) ** 2
        return float(np.nanmean(squares)) if np.isfinite(squares).any() else -1.0

    rows: list[Row] = []
    for one in sorted(found, key=error, reverse=True)[:MAX_CURVES]:
        steps = one.time[:, None] + data.step * np.arange(one.actual.shape[1])
        # windows in the order of time, so that the latest forecast for a time replaces earlier ones
        latest: dict[float, tuple[int, int]] = {}
        for window in np.argsort(one.time, kind="stable").tolist():
            for step, moment in enumerate(steps[window].tolist()):
                latest[moment] = (window, step)
        for moment, (window, step) in sorted(latest.items())[-MAX_POINTS:]:
            values = {"actual": one.actual} | one.forecasts
            row: dict[str, object] = {
                "trial": trial,
                "client": one.site,
                "channel": data.targets[0],
                "unit": _unit(data),
                "time": moment,
                "when": moment_text(data, moment),
            }
            for name, each in values.items():
                value = float(each[window, step, 0])
                row[name] = None if math.isnan(value) else value
            rows.append(row)
    return rows


def _unit(data: DataSet) -> str:
    place = data.features.index(data.targets[0])
    return data.units[place] if place < len(data.units) else ""


def moment_text(data: DataSet, time: float) -> str:
    """A time of a data set as a date; "" if it does not count from 1970."""
    if not data.since_1970 or data.step_unit not in SEASON:
        return ""
    seconds = time * 86_400.0 / SEASON[data.step_unit]
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}{' UTC' if data.utc else ''}"
