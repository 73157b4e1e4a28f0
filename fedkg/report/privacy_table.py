"""The report's section on privacy: the spending of each trial, and what the guarantee covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkg.jobs.comparison.privacy_spending import SIMULATED, describe_total_privacy

COVERS = {
    "example": (
        "Covered: everything that a site sends in training, so all models and everything "
        "computed from them. Not covered: files that describe the data (split.json, "
        "checks.csv, forecasts.csv), the number of rows at a site, rows held out for the "
        "test, and models that never leave their site, such as those of local training."
    ),
    "client": (
        "Covered: the server's models and everything computed from them; the server is "
        "trusted and sees every update. Not covered: its records about single sites "
        "(clients.csv, violation rates by round), files that describe the data, rows held "
        "out for the test, and models that never leave their site, such as those of local "
        "training."
    ),
}


def privacy_table(rows: Sequence[Mapping[str, str]]) -> dict[str, Any] | None:
    """The rows of `privacy.csv` as a table; None without any. `Any`: texts and lists of texts."""
    if not rows:
        return None
    units = dict.fromkeys("client" if row["unit"] == "a client" else "example" for row in rows)
    return {
        "notes": [
            *([SIMULATED] if any(row["randomness"] != "system" for row in rows) else []),
            *describe_total_privacy(rows),
            *(COVERS[unit] for unit in units),
        ],
        "rows": [
            {
                "trial": row["trial"],
                "unit": row["unit"],
                "mechanism": _mechanism(row),
                "epsilon": _number(row["epsilon"]),
                "budget": _number(row["budget"]),
                "delta": _number(row["delta"]),
                "accountant": row["accountant"],
            }
            for row in rows
        ],
    }


def _mechanism(row: Mapping[str, str]) -> str:
    if not row["noise"]:
        return f"{row['what']}: {row['releases']} values, epsilon {_number(row['each'])} each"
    often = (
        f"{int(row['releases']):,} noised sums, in each with probability {float(row['rate']):.3g}"
    )
    return (
        f"{row['what']}: {often}; noise {float(row['noise']):.3g} times the clip of "
        f"{float(row['clip']):g}"
    )


def _number(text: str) -> str:
    return f"{float(text):.3g}" if text else "–"
