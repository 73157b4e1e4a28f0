"""Print the comparison of one or many runs."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from typing import Any

from fedkg.cli.console import print_line, stdout_console
from fedkg.jobs.comparison.summary import violated_cases_text
from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN, MEASURES, Measure, plural_event


def _legend(measure: Measure, shown: Container[str], event: str) -> str:
    """The meaning of the shown columns."""
    name, better = measure.title, "" if measure.higher else " (less is better)"
    first = (
        f"{name}: mean ± spread over seeds, last round{better}"
        if "95 %" in shown
        else f"{name}: of the last round{better}"
    )
    meanings = (
        ("95 %", "interval of its mean, by Student's t over the seeds"),
        ("worst", f"the {name} of the worst site, on its own test rows"),
        ("found", f"{plural_event(event)} found"),
        ("right", "alarms that are right"),
        ("target", "first round to reach it"),
        ("violated", "violated cases of the rules, of all cases with a verdict on the test rows"),
        ("paper zone", "share of rules with a violation, at the worst site"),
        ("sent", "bytes to and from all sites"),
    )
    return (
        "; ".join(
            [first, *(f"{column}: {meaning}" for column, meaning in meanings if column in shown)]
        )
        + "."
    )


def print_comparison(
    results: Sequence[dict[str, Any]], sentences: Iterable[str], last: str
) -> None:
    """Print the comparison, its sentences, and a last line with the place of the report.

    `Any`: rows of `results.json`.
    """
    from rich.table import Table
    from rich.text import Text

    console = stdout_console()
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("setting", overflow="fold")
    table.add_column("algorithm", no_wrap=True)
    measure = MEASURE_BY_COLUMN[results[0]["measure"]] if results else MEASURES["detection"]
    event = results[0].get("event", measure.event) if results else measure.event
    rows = [_cells(row) for row in results]
    shown = _shown(results, measure)
    for header in shown:
        table.add_column(header, justify="right", no_wrap=True)
    for row, cells in zip(results, rows, strict=True):
        table.add_row(
            *(
                Text(cell)
                for cell in (_setting(row), row["title"], *(cells[header] for header in shown))
            )
        )
    console.print(table)
    console.print(Text(_legend(measure, shown, event) + "\n", style="dim"))
    for sentence in sentences:
        print_line(sentence)
    print_line(last)


def _shown(results: Sequence[dict[str, Any]], measure: Measure) -> list[str]:
    """The columns with a value in some row. `Any`: rows of `results.json`."""
    columns = (
        (measure.title, True),
        ("95 %", any(row[measure.name].get("interval") for row in results)),
        ("worst", True),
        ("found", measure.name == "f1"),
        ("right", measure.name == "f1"),
        ("target", any(row.get("target", 0.0) is not None for row in results)),
        ("violated", any(violated_cases_text(row) for row in results)),
        ("paper zone", any(row["rho_worst"]["mean"] is not None for row in results)),
        ("sent", True),
    )
    return [column for column, shown in columns if shown]


def _setting(row: dict[str, Any]) -> str:
    """The varied fields in words. `Any`: a row of `results.json`."""
    setting = [f"{name.rpartition('.')[2]} {value}" for name, value in row["setting"].items()]
    return ", ".join([*setting, f"{row['corrupted']} corrupted"] if row["corrupted"] else setting)


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """A row of the comparison as text by column. `Any`: a row of `results.json`."""
    target = row["rounds_to_target"]["mean"]
    reached = f" ({row['reached']}/{row['seeds']})" if 0 < row["reached"] < row["seeds"] else ""
    measure = MEASURE_BY_COLUMN[row["measure"]]
    main, form = row[measure.name], ".2f" if measure.name == "f1" else f".{measure.digits}f"
    spread, between = main["spread"], main.get("interval")
    low, high = (0.0, 1.0 if measure.higher else math.inf)
    worst = row.get("sites", {}).get(measure.name, {}).get("worst", {"mean": None})
    return {
        measure.title: _mean(main, form) + (f" ±{spread:{form}}" if spread is not None else ""),
        "95 %": f"{max(low, between[0]):{form}} .. {min(high, between[1]):{form}}"
        if between
        else "-",
        "worst": _mean(worst, form),
        "found": _mean(row["recall"], ".0%"),
        "right": _mean(row["precision"], ".0%"),
        "target": (
            "-"
            if row.get("target", target) is None
            else "never"
            if target is None
            else f"{target:.0f}"
        )
        + reached,
        "violated": violated_cases_text(row) or "not evaluated",
        "paper zone": "not evaluated"
        if row["rho_worst"]["mean"] is None
        else f"{_mean(row['rho_worst'], '.0%')} {row['zone']}",
        "sent": _size(row["bytes"]["mean"]),
    }


def _size(found: float | None) -> str:
    """Bytes in MB, or kB for small numbers."""
    return (
        "-"
        if found is None
        else f"{found / 1e6:.1f} MB"
        if found >= 1e5
        else f"{found / 1e3:.0f} kB"
    )


def _mean(value: dict[str, Any], form: str) -> str:
    """A mean over seeds. `Any`: numbers or None."""
    return "-" if value["mean"] is None else f"{value['mean']:{form}}"
