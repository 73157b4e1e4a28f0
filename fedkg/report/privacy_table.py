"""The report's section on privacy: what each training has spent, and what its promise covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkg.jobs.comparison.privacy_spending import describe_total_privacy

COVERS = {
    "example": "Covered: everything that a site sends while it trains, and so all models and what is computed from them. Not covered: "
    "files that describe the data themselves (split.json, checks.csv, forecasts.csv), how many rows a site has, rows held out for the"
    " test, and models that never leave their site, such as those of sites trained alone.",
    "client": "Covered: the server's models, and what is computed from them; the server itself is trusted and sees every update. "
    "Not covered: what it notes of single sites (clients.csv, violation rates by round), files that describe the data themselves, rows held"
    " out for the test, and models that never leave their site, such as those of sites trained alone.",
}


def privacy_table(rows: Sequence[Mapping[str, str]]) -> dict[str, Any] | None:
    """The lines of `privacy.csv` as a table, None where nothing was promised. `Any`: texts and lists of them."""
    if not rows:
        return None
    units = dict.fromkeys("client" if row["unit"] == "a client" else "example" for row in rows)
    return {
        "notes": [*describe_total_privacy(rows), *(COVERS[unit] for unit in units)],
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
    often = f"{int(row['releases']):,} noised sums, in each with chance {float(row['rate']):.3g}"
    return f"{row['what']}: {often}; noise {float(row['noise']):.3g} times the clip of {float(row['clip']):g}"


def _number(text: str) -> str:
    return f"{float(text):.3g}" if text else "–"
