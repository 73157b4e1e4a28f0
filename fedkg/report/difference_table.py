"""The report's table of paired differences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedkg.jobs.comparison.paired_test import PairedDifference, compare_pairs
from fedkg.report.records import Result

VERDICTS = {1: "clearly better", -1: "clearly worse", 0: "not significant"}


def difference_table(results: Sequence[Result]) -> list[dict[str, str]]:
    """One row per pair as text; empty if no pair has two seeds."""
    rows = [
        {
            "setting": dict(result.setting),
            "corrupted": result.corrupted,
            "baseline": result.baseline,
            "preset": result.preset,
            "title": result.title,
            "seed_list": result.seed_list,
            "measure": result.measure,
            result.measure: {
                "values": [None if math.isnan(value) else value for value in result.main.values]
            },
        }
        for result in results
        if result.main.values
    ]
    found = compare_pairs(rows)
    return (
        [_line(pair) for pair in found]
        if any(len(pair.test.differences) > 1 for pair in found)
        else []
    )


def _line(pair: PairedDifference) -> dict[str, str]:
    found = pair.test
    low, high = found.interval or (math.nan, math.nan)
    return {
        "where": pair.where,
        "one": pair.one,
        "other": pair.other,
        "mean": "–" if math.isnan(found.mean) else f"{found.mean:+.3f}",
        "interval": "–" if math.isnan(low) else f"{low:+.3f} to {high:+.3f}",
        "ahead": (
            f"{found.higher if pair.measure.higher else found.lower} of {len(found.differences)}"
        ),
        "verdict": VERDICTS[found.direction * pair.measure.sign]
        if len(found.differences) > 1
        else "one seed only",
    }
