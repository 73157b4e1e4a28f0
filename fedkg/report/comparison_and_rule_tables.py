"""Tables and lists of the report as plain data for the template."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN
from fedkg.jobs.folder import EXECUTOR_PREFIX, NOTE_SEPARATOR
from fedkg.report.records import Json, Result, RuleRow, RunRecords
from fedkg.report.trial_groups import Scenario, mean, setting_text
from fedkg.violation_rate_zones import classify_rate

MAX_RULES = 8
Cell = tuple[str, str, str]
"""Label, text, and the zone of its tint ("" for none)."""


def comparison_table(
    results: Sequence[Result], target: float, colour: Mapping[str, str]
) -> dict[str, Any]:
    """Headers, and per setting one row per algorithm; empty before the first result.

    `Any`: texts and lists of texts.
    """
    if not results:
        return {}
    groups: dict[str, list[dict[str, Any]]] = {}
    ruled = any(not math.isnan(result.figure("rho_worst").mean) for result in results)
    for result in results:
        cells = _cells(result, target, ruled)
        row = {
            "name": result.title,
            "colour": colour.get(result.algorithm, "#526175"),
            "cells": cells,
        }
        groups.setdefault(setting_text(result.setting, result.corrupted), []).append(row)
    titled = any(groups)
    headers = [
        *(["setting"] if titled else []),
        "algorithm",
        *(label for label, _, _ in _cells(results[0], target, ruled)),
    ]
    return {
        "headers": headers,
        "groups": [
            {"title": (title or "as given") if titled else "", "rows": rows}
            for title, rows in groups.items()
        ],
        "numeric_from": 3 if titled else 2,
    }


def _cells(result: Result, target: float, ruled: bool) -> list[Cell]:
    """The figures of a row; violated cases and paper zone only if `ruled`."""
    reach = result.figure("rounds_to_target").mean
    seeds = f" ({result.reached}/{result.seeds})" if result.seeds > 1 else ""
    measure = MEASURE_BY_COLUMN[result.measure]
    found = [
        ("recall", result.figure("recall").text(0, factor=100, unit=" %"), ""),
        ("precision", result.figure("precision").text(0, factor=100, unit=" %"), ""),
    ]
    beside = (
        found
        if measure.name == "f1"
        else [("RMSE", result.figure("rmse").text(3), "")]
        if measure.name == "mse"
        else []
    )
    broken = [
        ("violated cases", result.violated or "not evaluated", ""),
        (
            "rules with a violation, worst site",
            result.figure("rho_worst").text(1, factor=100, unit=" %"),
            "",
        ),
        ("paper zone", result.zone or "not evaluated", result.zone),
    ]
    cells = [
        (measure.title, result.main.text(2 if measure.name == "f1" else measure.digits), ""),
        *beside,
        ("rounds to target", f"{reach:.0f}{seeds}" if result.reached else f"never{seeds}", ""),
        *(broken if ruled else []),
        ("sent", size_text(result.figure("bytes").mean), ""),
    ]
    return [cell for cell in cells if cell[0] != "rounds to target" or not math.isnan(target)]


def size_text(size: float) -> str:
    """A number of bytes with a suitable unit."""
    if math.isnan(size):
        return "–"
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def most_violated(
    records: RunRecords, found: Sequence[Scenario], colour: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The rules with the highest violation rates, with a bar per algorithm and an example.

    `Any`: texts and lists.
    """
    algorithm = {
        trial.id: trial.algorithm
        for trial in records.trials
        if not trial.corrupted or all(a.corrupted for a in records.trials)
    }
    names = {c.algorithm: c.name for s in found for c in s.contenders}
    grouped: dict[str, list[RuleRow]] = {}
    for row in records.rules:
        if row.trial in algorithm and not math.isnan(row.rate):
            grouped.setdefault(row.rule, []).append(row)
    worst = sorted(grouped.values(), key=lambda rows: -mean(row.rate for row in rows))
    worst = [rows for rows in worst if max(row.rate for row in rows) > 0][:MAX_RULES]
    return [_violated(rows, algorithm, names, colour, records.rule_texts) for rows in worst]


def _violated(
    rows: Sequence[RuleRow],
    algorithm: Mapping[str, str],
    names: Mapping[str, str],
    colour: Mapping[str, str],
    texts: Mapping[str, str],
) -> dict[str, Any]:
    bars = []
    for key in names:
        own = [row for row in rows if algorithm[row.trial] == key]
        rate = mean(row.rate for row in own)
        if not math.isnan(rate):
            width = max(round(rate * 100, 1), 0.6 if rate else 0)
            violated, evaluated = (
                sum(row.violated for row in own),
                sum(row.evaluations for row in own),
            )
            text = f"{rate:.1%} ({violated:,} of {evaluated:,})"
            bars.append({"name": names[key], "text": text, "width": width, "colour": colour[key]})
    shown = max((row for row in rows if row.example), key=lambda row: row.rate, default=None)
    first = rows[0]
    return {
        "title": first.title or first.rule.replace("_", " "),
        "kind": first.kind,
        "bars": bars,
        "example": shown.example if shown else "",
        "source": texts.get(first.rule, ""),
    }


def data_checks(records: RunRecords) -> list[dict[str, str]]:
    """The rules over the data alone, highest violation rate first, those not evaluated last."""
    rows = sorted(records.checks, key=lambda row: math.inf if math.isnan(row.rate) else -row.rate)
    return [
        {
            "text": "not evaluated"
            if math.isnan(row.rate)
            else f"violated {row.violated:,} of {row.evaluations:,} times",
            "zone": ""
            if math.isnan(row.rate)
            else classify_rate(max(row.rate, 0.05))
            if row.violated
            else "safe",
            "title": row.title or row.rule.replace("_", " "),
            "reason": row.reason,
            "example": row.example,
        }
        for row in rows
    ]


def unevaluated_table(records: RunRecords) -> list[dict[str, str]]:
    """Rules about outputs with unevaluated bound rows: title, share, and reason."""
    found: dict[str, RuleRow] = {}
    for row in records.rules:
        least = found.get(row.rule, row)
        found[row.rule] = min(least, row, key=lambda one: (math.isnan(one.rate), one.not_evaluated))
    return [
        {
            "title": row.title.rstrip(".") or row.rule.replace("_", " "),
            "share": ""
            if math.isnan(row.rate)
            else f"{row.not_evaluated} of {row.bound_rows} limits",
            "reason": row.reason,
        }
        for row in found.values()
        if row.reason
    ]


def never_violated(records: RunRecords) -> str:
    """The rules that no final model violates, as one text."""
    broken = {row.rule for row in records.rules if row.rate > 0}
    kept = dict.fromkeys(
        (row.rule, row.title)
        for row in records.rules
        if row.rule not in broken and not math.isnan(row.rate)
    )
    return "; ".join(title.rstrip(".") or rule.replace("_", " ") for rule, title in kept)


def settings_facts(job: Json) -> list[tuple[str, str]]:
    """The settings that have an effect, with dotted names.

    Sites and long lists appear in the job file below only.
    """
    short = {
        key: value for key, value in job.items() if key not in ("sites", "title", "algorithms")
    }
    idle = _unused_fields(job)
    return [
        (name, text)
        for name, text in flatten(short)
        if text not in ("", "–") and len(text) <= 60 and name not in idle
    ]


def _unused_fields(job: Json) -> set[str]:
    """Fields that have no effect in this job, and fields that `compare` varies."""
    data: Json = job.get("data") or {}
    split, idle = data.get("split"), set(job.get("compare") or {})
    if (job.get("augment") or {}).get("by", "none") == "none":
        idle |= {name for name, _ in flatten(job.get("augment") or {}, "augment.")}
    if data.get("set"):
        idle |= {
            "data.label",
            "data.machine",
            "data.rows",
            "scoring.probe",
            "scoring.rows_per_rule",
        }
    else:
        idle.add("data.standardise")
    if any(site.get("table") for site in (job.get("sites") or {}).values()):
        split = None
        idle |= {"data.rows", "data.split"}
    if data.get("path"):
        idle.add("data.rows")
    concerns = {
        "alpha": ("dirichlet", "sizes"),
        "size_alpha": ("dirichlet",),
        "classes_per_site": ("classes",),
        "shares": ("quantity",),
        "site_column": ("column",),
    }
    idle |= {f"data.{field}" for field, splits in concerns.items() if split not in splits}
    if not job.get("rules") and not job.get("pack"):
        idle |= {f"scoring.{field}" for field in job.get("scoring") or {}} | {
            "training.penalty",
            "training.projection",
        }
    return idle


def environment_facts(records: RunRecords) -> list[tuple[str, str]]:
    """Software, machine and executor of the run; job and features appear elsewhere."""
    known = {
        key: value
        for key, value in records.environment.items()
        if key not in ("job", "features", "sources", "causes") and value != []
    }
    facts = flatten(known)
    notes = dict.fromkeys(
        note
        for row in records.rounds
        for note in row.notes.split(NOTE_SEPARATOR)
        if note.startswith(EXECUTOR_PREFIX)
    )
    return [*facts, *(("executor", note.removeprefix(EXECUTOR_PREFIX)) for note in notes)]


def flatten(value: Json, prefix: str = "") -> list[tuple[str, str]]:
    """``{"a": {"b": 1}}`` as ``[("a.b", "1")]``."""
    pairs: list[tuple[str, str]] = []
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, Mapping):
            pairs += flatten(dict(item), f"{name}.")
        else:
            pairs.append((name, _format_value(item)))
    return pairs


def _format_value(item: Any) -> str:
    if item is None:
        return "–"
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping):
        return " ".join(f"{key} {_format_value(entry)}" for key, entry in item.items())
    if isinstance(item, Iterable):
        return ", ".join(_format_value(entry) for entry in item)
    return f"{item:g}" if isinstance(item, float) else str(item)
