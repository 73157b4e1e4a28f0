"""The spread of figures over sites: a mean hides the site that the model fails."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedkg.jobs.comparison.paired_test import mean_interval
from fedkg.jobs.comparison_metric import FIGURE_COLUMNS, MEASURE_BY_COLUMN
from fedkg.jobs.trial_expansion import BASELINE

HIGHER_IS_BETTER = frozenset({"f1", "precision", "recall", "accuracy", "concordance"})
"""Figures with the minimum as worst value; for all others it is the maximum."""

FIGURES = (*FIGURE_COLUMNS, "violation")


def spread_over_sites(seeds: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, dict[str, Any]]:
    """Mean, deviation, worst value and quantiles (10, 50, 90 %) of each figure over the sites.

    Each is a mean over seeds. Figures that no site has are left out; a site without a value (no
    failure among its test rows) does not count. `Any`: JSON.

    Args:
        seeds: the rows of `sites.csv` for each seed, one per site.
    """
    found = {}
    for figure in FIGURES:
        values = [[float(line[figure]) for line in lines if line.get(figure)] for lines in seeds]
        if any(values):
            found[figure] = {
                name: _mean_over_seeds([fold(own) if own else math.nan for own in values])
                for name, fold in _folds(figure).items()
            }
    return found


def _folds(figure: str) -> dict[str, Callable[[Sequence[float]], float]]:
    return {
        "mean": statistics.fmean,
        "deviation": lambda own: statistics.stdev(own) if len(own) > 1 else math.nan,
        "worst": min if figure in HIGHER_IS_BETTER else max,
        "q10": lambda own: float(np.quantile(own, 0.1)),
        "q50": statistics.median,
        "q90": lambda own: float(np.quantile(own, 0.9)),
    }


def _mean_over_seeds(values: Sequence[float]) -> dict[str, Any]:
    known = [value for value in values if not math.isnan(value)]
    return {"mean": statistics.fmean(known) if known else None, "interval": mean_interval(known)}


def describe_local_training(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence per setting.

    The sites' own test rows with the common model, and with local models.

    `Any`: rows of `results.json`.
    """
    said = []
    for row in results:
        beside = [
            other
            for other in results
            if (other["setting"], other["corrupted"]) == (row["setting"], row["corrupted"])
        ]
        base = next((other for other in beside if other["preset"] == "fedavg"), beside[0])
        own, common = (one["sites"].get(row["measure"]) for one in (row, base))
        if not (row["preset"] == BASELINE and row["baseline"] and own and common):
            continue
        where = ", ".join(
            f"{field.rpartition('.')[2]} {value}" for field, value in row["setting"].items()
        )
        said.append(
            f"{f'With {where}, on' if where else 'On'} its own test rows a site ends at "
            f"{MEASURE_BY_COLUMN[row['measure']].title} "
            f"{_mean_and_worst(common)} with {base['title']}, and at "
            f"{_mean_and_worst(own)} when it trains alone."
        )
    return said


def _mean_and_worst(sites: Mapping[str, Any]) -> str:
    return f"{sites['mean']['mean']:.3f} on average ({sites['worst']['mean']:.3f} at the worst)"
