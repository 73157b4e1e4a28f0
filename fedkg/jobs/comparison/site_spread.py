"""The spread of a figure over sites: a mean hides the site that the model fails."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedkg.jobs.comparison.mean_interval import mean_interval
from fedkg.jobs.measure import MEASURE_BY_COLUMN

HIGHER_IS_BETTER = frozenset({"f1", "precision", "recall", "accuracy"})
"""Figures of which a site's least is its worst; of all others it is its most."""

FIGURES = ("f1", "precision", "recall", "accuracy", "rmse", "mse", "loss", "violation")


def spread_over_sites(seeds: Sequence[Sequence[Mapping[str, str]]]) -> dict[str, dict[str, Any]]:
    """Of every figure of `sites.csv`: mean, standard deviation, worst and 10, 50, 90 % quantiles over the sites, each as a mean over seeds.

    Figures that no site has are left out; sites where one is unknown (no failure among their test rows) do not count in it. `Any`: JSON.

    Args:
        seeds: the lines of each seed, one per site.
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
    """What the sites have of the federation: their own test rows under the common model, and under a model of each site's own.

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
        if not (row["baseline"] and own and common):
            continue
        where = ", ".join(
            f"{field.rpartition('.')[2]} {value}" for field, value in row["setting"].items()
        )
        said.append(
            f"{f'With {where}, on' if where else 'On'} its own test rows a site ends at {MEASURE_BY_COLUMN[row['measure']].title} "
            f"{_mean_and_worst(common)} with {base['title']}, and at {_mean_and_worst(own)} when it trains alone."
        )
    return said


def _mean_and_worst(sites: Mapping[str, Any]) -> str:
    return f"{sites['mean']['mean']:.3f} on average ({sites['worst']['mean']:.3f} at the worst)"
