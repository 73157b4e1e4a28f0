"""The report's table of causal edges, for trials with augmented states."""

from __future__ import annotations

from typing import Any

from fedkg.report.records import CauseRow, RunRecords
from fedkg.report.trial_groups import setting_text

MAX_EDGES = 12
"""Number of edges shown per discovery, strongest first; `causes.csv` has all."""


def causal_edge_table(records: RunRecords) -> list[dict[str, Any]]:
    """The strongest edges of each setting; all trials of a setting share one discovery.

    `Any`: JSON.
    """
    trials = {trial.id: trial for trial in records.trials}
    found: dict[str, dict[tuple[str, str], CauseRow]] = {}
    for row in records.causes:
        found.setdefault(setting_text(trials[row.trial].setting, ""), {}).setdefault(
            (row.driver, row.driven), row
        )
    tables = []
    for where, edges in found.items():
        ordered = sorted(edges.values(), key=lambda row: -row.strength)
        rows = [
            {
                "driver": row.driver,
                "driven": row.driven,
                "strength": f"{row.strength:.3g}",
                "lag": str(row.lag),
            }
            for row in ordered[:MAX_EDGES]
        ]
        tables.append(
            {"where": where or "as given", "rows": rows, "more": len(ordered) - len(rows)}
        )
    return tables
