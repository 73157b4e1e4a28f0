"""Merge the results of many runs into one comparison, over the seeds of all runs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkg._internal.safe_text import escape_csv_cell
from fedkg.jobs.comparison.paired_test import mean_interval
from fedkg.jobs.comparison.summary import Result, summarise_seeds
from fedkg.jobs.folder import RESULTS, RunFolder
from fedkg.jobs.sweep.grid import Cell
from fedkg.jobs.sweep.stored_plan import merge_setting
from fedkg.violation_rate_zones import classify_rate

Key = tuple[tuple[tuple[str, str], ...], str, str]
"""Setting, corrupted site, algorithm."""


def merge_results(folder: Path, cells: Sequence[Cell]) -> list[Result]:
    """The comparison over the finished runs, in the order of the cells."""
    parts: dict[Key, list[Result]] = {}
    for cell in cells:
        run = RunFolder(folder / cell.id)
        for row in run.read_json(RESULTS)["rows"] if run.is_finished() else ():
            setting = merge_setting(cell, row["setting"])
            parts.setdefault(
                (tuple(setting.items()), row["corrupted"], row["algorithm"]), []
            ).append(row | {"setting": setting})
    scenarios = list(dict.fromkeys(key[:2] for key in parts))
    return [
        _merge_rows(parts[key])
        for key in sorted(
            parts, key=lambda key: (scenarios.index(key[:2]), parts[key][0]["baseline"])
        )
    ]


def _merge_rows(rows: Sequence[Result]) -> Result:
    """Merge rows of one setting and algorithm with different seeds."""
    if len(rows) == 1:
        return rows[0]
    order = sorted(
        (seed, r, i) for r, row in enumerate(rows) for i, seed in enumerate(row["seed_list"])
    )
    first, merged = rows[0], {}
    for name, value in first.items():
        if isinstance(value, dict) and "values" in value:
            picked = [
                (rows[r][name] or {}).get("values", [None] * len(rows[r]["seed_list"]))[i]
                for _, r, i in order
            ]
            merged[name] = summarise_seeds(
                [math.nan if figure is None else figure for figure in picked]
            )
        else:
            merged[name] = value
    worst = merged["rho_worst"]["mean"]
    return merged | {
        "seeds": len(order),
        "seed_list": [seed for seed, _, _ in order],
        "reached": sum(row["reached"] for row in rows),
        "zone": "" if worst is None else classify_rate(worst),
        "sites": _merge_sites([row["sites"] for row in rows]),
    }


def _merge_sites(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures over sites as means over the runs. `Any`: JSON."""
    found: dict[str, Any] = {}
    for figure in dict.fromkeys(name for part in parts for name in part):
        known = [part[figure] for part in parts if figure in part]
        found[figure] = {}
        for name in known[0]:
            values = [one[name]["mean"] for one in known if one[name]["mean"] is not None]
            found[figure][name] = {
                "mean": math.fsum(values) / len(values) if values else None,
                "interval": mean_interval(values),
            }
    return found


def comparison_csv(results: Sequence[Result]) -> str:
    """The comparison as CSV: the setting, then mean, spread and 95 % interval of every figure.

    Unknown values are empty.
    """
    settings = list(dict.fromkeys(field for row in results for field in row["setting"]))
    figures = list(
        dict.fromkeys(
            name
            for row in results
            for name, value in row.items()
            if isinstance(value, dict) and "values" in value
        )
    )
    parts = ("mean", "spread", "low", "high")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            *settings,
            "corrupted",
            "algorithm",
            "baseline",
            "seeds",
            "zone",
            *(f"{f}_{p}" for f in figures for p in parts),
        ]
    )
    for row in results:
        cells = [row["setting"].get(field, "") for field in settings]
        cells += [
            row["corrupted"],
            row["algorithm"],
            str(row["baseline"]).lower(),
            row["seeds"],
            row["zone"],
        ]
        for figure in figures:
            value = row[figure] or {"mean": None, "spread": None, "interval": None}
            low, high = value["interval"] or (None, None)
            cells += [
                "" if number is None else repr(number)
                for number in (value["mean"], value["spread"], low, high)
            ]
        writer.writerow([escape_csv_cell(cell) for cell in cells])
    return out.getvalue()
