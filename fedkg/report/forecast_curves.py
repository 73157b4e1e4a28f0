"""Forecasts against actual values, beside persistence, the season before and the site's mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedkg.report.records import Result, RunRecords
from fedkg.report.trial_groups import mean

BASELINE_TITLES = {
    "persistence": "persistence (the last known value)",
    "seasonal": "seasonal (the same time a day before)",
    "mean": "mean of the site",
}
CURVES = {
    "actual": "measured",
    "model": "forecast",
    "persistence": "persistence",
    "seasonal": "a day before",
    "mean": "mean of the site",
}
"""Names in the legend; each name is a class of `style.css`."""
WIDTH, HEIGHT = 600, 150

Context = dict[str, Any]
"""Template variables. `Any`: texts and lists."""


def best_baseline(records: RunRecords, result: Result) -> tuple[str, float, float]:
    """The simple forecast with the least error, its error, and that of the model on the same steps.

    Errors are means over the sites; NaN if none is known.
    """
    own = _errors(records, _trials(records, result))
    known = {
        name: error for name, error in own.items() if name != "model" and not math.isnan(error)
    }
    if not known:
        return "", math.nan, math.nan
    name = min(known, key=lambda one: known[one])
    return BASELINE_TITLES[name].partition(" (")[0], known[name], own.get("model", math.nan)


def _trials(records: RunRecords, result: Result) -> set[str]:
    return {
        trial.id
        for trial in records.trials
        if (trial.algorithm, trial.setting, trial.corrupted)
        == (result.algorithm, result.setting, result.corrupted)
    }


def _errors(records: RunRecords, trials: set[str]) -> dict[str, float]:
    """The mean error of each forecast over sites and trials; NaN if a forecast is not known."""
    found: dict[str, list[float]] = {}
    for row in records.baselines:
        if row["trial"] in trials:
            found.setdefault(row["by"], []).append(float(row["mse"]) if row["mse"] else math.nan)
    return {name: mean(values) for name, values in found.items()}


def forecast_table(records: RunRecords) -> list[Context]:
    """One row per algorithm and setting: the error of its models beside those of the baselines."""
    lines = []
    for result in records.results:
        errors = _errors(records, _trials(records, result))
        if errors:
            setting = ", ".join(
                f"{name.rpartition('.')[2]} {value}" for name, value in result.setting
            )
            lines.append(
                {
                    "name": result.title + (f" ({setting})" if setting else ""),
                    "cells": [
                        "not known"
                        if math.isnan(errors.get(name, math.nan))
                        else f"{errors[name]:.3f}"
                        for name in ("model", *BASELINE_TITLES)
                    ],
                }
            )
    return lines


def forecast_curves(records: RunRecords) -> list[Context]:
    """A chart per site of one trial: that of the best result, or the first with values."""
    rows = records.forecast_values
    if not rows:
        return []
    trial = rows[0]["trial"]
    measured = [
        one for one in records.results if not math.isnan(one.main.mean) and not one.baseline
    ]
    if measured:
        best = min(measured, key=lambda one: one.main.mean)
        trial = next(
            (row["trial"] for row in rows if row["trial"] in _trials(records, best)), trial
        )
    titles = {one.id: one.title for one in records.trials}
    sites: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        if row["trial"] == trial:
            sites.setdefault(row["client"], []).append(row)
    return [_chart(site, own, titles.get(trial, "")) for site, own in sites.items()]


def _chart(site: str, rows: Sequence[Mapping[str, str]], algorithm: str) -> Context:
    curves = {name: [_number(row[name]) for row in rows] for name in CURVES}
    known = [value for values in curves.values() for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    margin = 0.06 * ((high - low) or abs(high) or 1.0)
    low, high = low - margin, high + margin
    times = [float(row["time"]) for row in rows]
    span = (times[-1] - times[0]) or 1.0
    places = [(time - times[0]) / span * WIDTH for time in times]
    unit = f" {rows[0]['unit']}" if rows[0]["unit"] else ""
    return {
        "title": f"{site}: {rows[0]['channel']}{unit}, {algorithm}",
        "label": f"Measured values and forecasts of {rows[0]['channel']} at {site} over "
        f"{len(rows)} steps; the table above has the errors.",
        "top": f"{high:,.4g}",
        "bottom": f"{low:,.4g}",
        "from": rows[0]["when"] or f"step {times[0]:,.6g}",
        "to": rows[-1]["when"] or f"step {times[-1]:,.6g}",
        "curves": [
            {"name": name, "path": _path(places, values, low, high)}
            for name, values in sorted(
                curves.items(), key=lambda one: one[0] in ("actual", "model")
            )
        ],
    }


def _number(text: str) -> float | None:
    return float(text) if text else None


def _path(xs: Sequence[float], values: Sequence[float | None], low: float, high: float) -> str:
    parts, pen_down = [], False
    for x, value in zip(xs, values, strict=True):
        if value is None:
            pen_down = False
            continue
        y = HEIGHT * (high - value) / (high - low)
        parts.append(f"{'L' if pen_down else 'M'}{x:.1f},{y:.1f}")
        pen_down = True
    return "".join(parts)
