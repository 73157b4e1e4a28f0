"""The report's tables of constraints on single sites: mined properties and parameter sets."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedkg.jobs.forecast_satisfaction_text import FORECAST_SOURCES
from fedkg.report.records import ForecastRow, RunRecords
from fedkg.report.trial_groups import mean, setting_text

Lines = list[dict[str, str]]


def property_table(records: RunRecords) -> Lines:
    """One row per setting, algorithm and kind of forecast: error and satisfied properties."""
    found: dict[tuple[str, str, str], list[ForecastRow]] = {}
    trials = {trial.id: trial for trial in records.trials}
    for row in records.forecasts:
        trial = trials[row.trial]
        found.setdefault(
            (setting_text(trial.setting, trial.corrupted), trial.title, row.by), []
        ).append(row)
    lines = []
    for (where, title, by), rows in found.items():
        lines.append(
            {
                "where": where or "as given",
                "algorithm": title,
                "by": FORECAST_SOURCES[by],
                "mse": "–"
                if by == "truth"
                else _with_half([row.mse for row in rows], [row.mse_half for row in rows], 1.0, ""),
                "sequences": _with_half(
                    [row.sequences for row in rows],
                    [row.sequences_half for row in rows],
                    100.0,
                    " %",
                ),
                "steps": _with_half(
                    [row.steps for row in rows], [row.steps_half for row in rows], 100.0, " %"
                ),
            }
        )
    return lines


def set_table(records: RunRecords) -> Lines:
    """One row per setting and algorithm: distances of the sites' models to their sets."""
    found: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    trials = {trial.id: trial for trial in records.trials}
    for row in records.sets:
        trial = trials[row.trial]
        found.setdefault((setting_text(trial.setting, trial.corrupted), trial.title), []).append(
            (row.distance, row.sparsity, row.client)
        )
    lines = []
    for (where, title), rows in found.items():
        worst = max(rows)
        lines.append(
            {
                "where": where or "as given",
                "algorithm": title,
                "mean": f"{mean(distance for distance, _, _ in rows):.3g}",
                "worst": f"{worst[0]:.3g} ({worst[2]})",
                "sparsity": f"{mean(sparsity for _, sparsity, _ in rows):.0%}",
            }
        )
    return lines


def _with_half(values: Sequence[float], halves: Sequence[float], factor: float, unit: str) -> str:
    """``0.27 ± 0.18``: mean over seeds, and mean half width of the interval over sites."""
    middle, half = mean(values) * factor, mean(halves) * factor
    digits = 3 if factor == 1.0 else 0
    if math.isnan(middle):
        return "–"
    return f"{middle:.{digits}f}" + (f" ± {half:.{digits}f}" if half else "") + unit
