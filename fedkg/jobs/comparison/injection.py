"""What injected knowledge gained or cost, from the comparison and `knowledge.csv`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedkg.jobs.comparison.paired_test import compare_on_common_seeds
from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN, Measure
from fedkg.jobs.trial_expansion import INJECT, TrialConfig

FIGURES: Mapping[str, str] = {
    "violation": "range_violation",
    "knowledge": "knowledge_alone",
    "contained": "knowledge_contained",
    "masked": "masked",
}
"""Columns of `knowledge.csv`, and their names in `results.json`."""

SHOWN = 5e-4
"""The least loss that three decimals show."""


def knowledge_values(
    seeds: Sequence[str], lines: Iterable[Mapping[str, str]]
) -> dict[str, list[float]]:
    """The figures of knowledge over all test samples, by name in `results.json`.

    Args:
        seeds: the trials of a row of the comparison, one per seed.
        lines: the rows of `knowledge.csv`.
    """
    found = {line["trial"]: line for line in lines if not line["client"]}
    own = [found[trial] for trial in seeds if trial in found]
    if len(own) < len(seeds):
        return {}
    return {
        name: [float(line[column]) if line[column] else math.nan for line in own]
        for column, name in FIGURES.items()
    }


def describe_injection(
    results: Sequence[Mapping[str, Any]],
    configs: Sequence[TrialConfig] = (),
    sites: Sequence[Mapping[str, str]] = (),
) -> list[str]:
    """One to three sentences for each trained setting with knowledge.

    Args:
        results: rows of `results.json`; `Any`: JSON.
        configs: the trials, to name the site that loses most; sweeps have none.
        sites: the rows of `sites.csv`.
    """
    said = []
    for row in results:
        if FIGURES["violation"] not in row or row["setting"].get(INJECT) == "False":
            continue
        measure = MEASURE_BY_COLUMN[row["measure"]]
        setting = _without_injection(row)
        plain = next(
            (
                other
                for other in results
                if other["setting"].get(INJECT) == "False"
                and FIGURES["violation"] in other
                and other["algorithm"] == row["algorithm"]
                and other["corrupted"] == row["corrupted"]
                and _without_injection(other) == setting
            ),
            None,
        )
        own = _known(row[measure.name])
        alone = _known(row[FIGURES["knowledge"]])
        parts = [f"{row['title']} with knowledge ends at {measure.title} {own}"]
        if plain is not None:
            parts.append(f"without at {_known(plain[measure.name])}")
            parts.append(f"without, but with the ranges at use, at {_known(plain['masked'])}")
        parts.append(
            f"the knowledge alone at {alone}" if alone else "the knowledge alone predicts nothing"
        )
        violations = f"{_share(row)} of its answers are outside the ranges"
        if plain is not None:
            violations += f", without knowledge {_share(plain)}"
        said.append(f"{', '.join(parts)}. {violations}.")
        if plain is not None:
            found = compare_on_common_seeds(row, plain, measure.name)
            if found.mean * measure.sign < 0:
                sure = "hurts" if found.direction else "seems to hurt"
                said.append(
                    f"The knowledge {sure} {row['title']}: {measure.title} changes by "
                    f"{found.mean:+.3f}; compare a smaller `trust`, or correct the knowledge."
                )
            said += _worst_loss(
                _by_site(row, configs, sites), _by_site(plain, configs, sites), measure
            )
    return said


def _by_site(
    row: Mapping[str, Any], configs: Sequence[TrialConfig], sites: Sequence[Mapping[str, str]]
) -> dict[str, tuple[float, str]]:
    """The metric of each site, as a mean over the seeds of a row, and its number of test rows."""
    trials = {
        config.id
        for config in configs
        if (config.algorithm, dict(config.setting)) == (row["algorithm"], row["setting"])
        and ("" if config.corrupt is None else config.corrupt.site) == row["corrupted"]
    }
    own = [line for line in sites if line["trial"] in trials and line.get(row["measure"])]
    return {
        name: (
            statistics.fmean(float(line[row["measure"]]) for line in own if line["client"] == name),
            next(line["test_rows"] for line in own if line["client"] == name),
        )
        for name in dict.fromkeys(line["client"] for line in own)
    }


def _worst_loss(
    known: Mapping[str, tuple[float, str]], plain: Mapping[str, tuple[float, str]], measure: Measure
) -> list[str]:
    """A sentence about the site that loses most by knowledge: a total hides it."""
    gains = {
        name: measure.sign * (known[name][0] - plain[name][0]) for name in known if name in plain
    }
    worst = min(gains, key=lambda name: gains[name], default="")
    if not worst or gains[worst] > -SHOWN:
        return []
    rows = f"{known[worst][1]} test {'row' if known[worst][1] == '1' else 'rows'}"
    change = f"from {plain[worst][0]:.3f} to {known[worst][0]:.3f} ({rows})"
    return [f"With the knowledge, site {worst} loses most: its {measure.title} changes {change}."]


def _without_injection(row: Mapping[str, Any]) -> dict[str, str]:
    """The setting of a row without fields about injection. `Any`: JSON."""
    return {
        field: value
        for field, value in row["setting"].items()
        if field != INJECT and not field.startswith(f"{INJECT}.")
    }


def _known(figure: Mapping[str, Any]) -> str:
    """The mean as text; "" if nothing was measured. `Any`: JSON."""
    return "" if figure["mean"] is None else f"{figure['mean']:.3f}"


def _share(row: Mapping[str, Any]) -> str:
    mean = row[FIGURES["violation"]]["mean"]
    return "an unknown share" if mean is None else f"{mean:.1%}"
