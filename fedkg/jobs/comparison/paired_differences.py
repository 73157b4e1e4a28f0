"""Differences between algorithms on the same seeds, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedkg.jobs.comparison.paired_test import PairedTest, paired_test
from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN, Measure

Result = dict[str, Any]
"""A row of `results.json`. `Any`: texts, numbers and small mappings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """A row of the comparison against a reference row.

    Attributes:
        where: the common setting in words.
        one: name of the row.
        other: name of the reference.
        test: the paired test of one minus other.
        measure: the compared figure.
    """

    where: str
    one: str
    other: str
    test: PairedTest
    measure: Measure


def compare_pairs(results: Sequence[Result]) -> list[PairedDifference]:
    """Every row against FedAvg in its setting (or the first row), on the common seeds.

    If every setting has only one algorithm, this compares the settings with the first one.
    """
    scenarios: dict[tuple[Any, ...], list[Result]] = {}
    figure = results[0]["measure"] if results else "f1"
    for row in results:
        scenarios.setdefault((tuple(row["setting"].items()), row["corrupted"]), []).append(row)
    if all(
        len([row for row in scenario if not row["baseline"]]) < 2 for scenario in scenarios.values()
    ):
        asked = [row for row in results if not row["baseline"]]
        return [
            _compare("", _row_name(row), _row_name(asked[0]), row, asked[0], figure)
            for row in asked[1:]
        ] + _against_baseline(scenarios, figure)
    compared = []
    for scenario in scenarios.values():
        base = next((row for row in scenario if row["preset"] == "fedavg"), scenario[0])
        compared += [
            _compare(_setting_text(row), row["title"], base["title"], row, base, figure)
            for row in scenario
            if row is not base
        ]
    return compared


def describe_setting_differences(results: Sequence[Result]) -> list[str]:
    """Sentences about differences between settings, which `describe_comparison` leaves out."""
    title = MEASURE_BY_COLUMN[results[0]["measure"]].title if results else ""
    return [
        _sentence(pair, title)
        for pair in compare_pairs(results)
        if not pair.where and pair.test.differences
    ]


def _against_baseline(
    scenarios: dict[tuple[Any, ...], list[Result]], figure: str
) -> list[PairedDifference]:
    """Local training against the first row of its setting."""
    return [
        _compare(_setting_text(row), row["title"], scenario[0]["title"], row, scenario[0], figure)
        for scenario in scenarios.values()
        for row in scenario[1:]
        if row["baseline"]
    ]


def _compare(
    where: str, one: str, other: str, row: Result, base: Result, figure: str
) -> PairedDifference:
    seeds = sorted(set(row["seed_list"]) & set(base["seed_list"]))
    return PairedDifference(
        where=where,
        one=one,
        other=other,
        test=paired_test(
            _values_on_seeds(row, seeds, figure), _values_on_seeds(base, seeds, figure)
        ),
        measure=MEASURE_BY_COLUMN[figure],
    )


def _values_on_seeds(row: Result, seeds: Sequence[int], figure: str) -> list[float | None]:
    known = dict(zip(row["seed_list"], row[figure]["values"], strict=True))
    return [known[seed] for seed in seeds]


def _setting_text(row: Result) -> str:
    parts = [f"{field.rpartition('.')[2]} {value}" for field, value in row["setting"].items()]
    return (
        ", ".join(parts + ([f"{row['corrupted']} corrupted"] if row["corrupted"] else []))
        or "as given"
    )


def _row_name(row: Result) -> str:
    """The setting of a row, or its algorithm if it has no setting."""
    return row["title"] if _setting_text(row) == "as given" else _setting_text(row)


def _sentence(pair: PairedDifference, title: str) -> str:
    test = pair.test
    if math.isnan(test.mean):
        return ""
    low, high = test.interval or (math.nan, math.nan)
    by = (
        f"{'higher' if test.mean > 0 else 'lower'} by {abs(test.mean):.3f}"
        if test.mean
        else "equal"
    )
    if len(test.differences) == 1:
        return f"{title} with {pair.one} against {pair.other}: {by}, on one seed only."
    clear = "clearly" if test.direction else "not significant:"
    return (
        f"{title} with {pair.one} against {pair.other}: {clear} {by} (95 % interval "
        f"{low:+.3f} to {high:+.3f}, {len(test.differences)} seeds)."
    )
