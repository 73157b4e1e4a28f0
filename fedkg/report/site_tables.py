"""The report's tables of single sites: each on its own test rows, and the spread over sites."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedkg.jobs.comparison_metric import MEASURES, Measure, plural_event
from fedkg.report.records import Result, RunRecords, SiteRow
from fedkg.report.trial_groups import Scenario, mean

MAX_SITES = 30
"""Number of sites shown; if there are more, those with the worst figures."""

MIN_SITES_FOR_QUANTILES = 10
"""Fewest evaluated sites for showing tenths."""

SPREADS = (
    ("mean", "mean of all sites"),
    ("deviation", "standard deviation"),
    ("worst", "worst site"),
)
QUANTILES = (
    ("q10", "9 of 10 sites have more than"),
    ("q50", "half of the sites have more than"),
    ("q90", "1 of 10 sites has more than"),
)


def run_measure(records: RunRecords) -> Measure:
    """The figure that decides comparisons in the run."""
    name = records.environment.get("measure", "f1")
    return next(one for one in MEASURES.values() if one.name == name)


def site_tables(records: RunRecords, found: Sequence[Scenario]) -> list[dict[str, Any]]:
    """One table per scenario: one row per site, and rows with the spread over sites.

    `Any`: texts and lists of texts.
    """
    rows: dict[str, list[SiteRow]] = {}
    for row in records.sites:
        rows.setdefault(row.trial, []).append(row)
    tables = [_table(records, scenario, rows, run_measure(records)) for scenario in found]
    return [table for table in tables if table["rows"]]


def _table(
    records: RunRecords, scenario: Scenario, rows: Mapping[str, Sequence[SiteRow]], measure: Measure
) -> dict[str, Any]:
    by_site: dict[str, dict[str, list[SiteRow]]] = {}
    for contender in scenario.contenders:
        for trial in contender.trials:
            for row in rows.get(trial.id, ()):
                by_site.setdefault(row.client, {}).setdefault(contender.algorithm, []).append(row)
    shown = _worst_first(by_site, measure) if len(by_site) > MAX_SITES else list(by_site)
    algorithms = [contender.algorithm for contender in scenario.contenders]
    ruled = any(
        not math.isnan(row.violation)
        for found in by_site.values()
        for own in found.values()
        for row in own
    )
    headers = [
        "site",
        "rows",
        "own test rows",
        *([plural_event(records.event)] if measure.name == "f1" else []),
    ]
    each = [
        (f"{one.name}: {measure.title}", f"{one.name}: violations")[: 2 if ruled else 1]
        for one in scenario.contenders
    ]
    judged = sum(
        any(not math.isnan(getattr(row, measure.name)) for own in found.values() for row in own)
        for found in by_site.values()
    )
    return {
        "title": scenario.title,
        "headers": headers,
        "labels": [*headers[1:], *(label for pair in each for label in pair)],
        "ruled": ruled,
        "algorithms": [(contender.name, measure.title) for contender in scenario.contenders],
        "rows": [_line(site, by_site[site], algorithms, measure, ruled) for site in shown],
        "spread": _spread(records.results, scenario, measure, ruled, judged),
        "left_out": len(by_site) - len(shown),
    }


def _worst_first(
    by_site: Mapping[str, Mapping[str, Sequence[SiteRow]]], measure: Measure
) -> list[str]:
    def figure(site: str) -> float:
        value = mean(getattr(row, measure.name) for rows in by_site[site].values() for row in rows)
        return math.inf if math.isnan(value) else value if measure.higher else -value

    return sorted(by_site, key=figure)[:MAX_SITES]


def _line(
    site: str,
    found: Mapping[str, Sequence[SiteRow]],
    algorithms: Sequence[str],
    measure: Measure,
    ruled: bool,
) -> dict[str, Any]:
    """A site's facts, and per algorithm its figure and, if `ruled`, its violation rate.

    `Any`: texts.
    """
    every = [row for rows in found.values() for row in rows]
    counted = (
        ("samples", "test_rows", "positives") if measure.name == "f1" else ("samples", "test_rows")
    )
    facts = [mean(getattr(row, name) for row in every) for name in counted]
    cells = [f"{fact:,.0f}" if not math.isnan(fact) else "–" for fact in facts]
    for algorithm in algorithms:
        own = found.get(algorithm, ())
        value, broken = (
            mean(getattr(row, name) for row in own) for name in (measure.name, "violation")
        )
        cells += _pair(value, broken, measure)[: 2 if ruled else 1]
    return {"site": site, "cells": cells}


def _spread(
    results: Sequence[Result], scenario: Scenario, measure: Measure, ruled: bool, judged: int
) -> list[dict[str, Any]]:
    """Rows with mean, deviation, worst value and quantiles over the sites.

    Tenths need at least `MIN_SITES_FOR_QUANTILES` sites.
    """
    own = {
        result.algorithm: result
        for result in results
        if (result.setting, result.corrupted) == (scenario.setting, scenario.corrupted)
    }
    lines = []
    quantiles = [one for one in QUANTILES if judged >= MIN_SITES_FOR_QUANTILES or one[0] == "q50"]
    for name, label in (*SPREADS, *quantiles):
        cells = []
        for contender in scenario.contenders:
            sites = own[contender.algorithm].sites if contender.algorithm in own else {}
            value, broken = (
                sites.get(figure, {}).get(name, math.nan) for figure in (measure.name, "violation")
            )
            cells += _pair(value, broken, measure)[: 2 if ruled else 1]
        if any(cell != "–" for cell in cells):
            lines.append({"label": label, "cells": cells})
    return lines


def _pair(value: float, broken: float, measure: Measure) -> list[str]:
    return [
        "–" if math.isnan(value) else f"{value:.{measure.digits}f}",
        "–" if math.isnan(broken) else f"{broken:.1%}",
    ]
