"""A trial as in `theory.json`."""

from __future__ import annotations

from typing import Any


def training(title: str, seed: int, total: float) -> dict[str, Any]:
    """One with a bound of this total, half of which is drift."""
    terms = {
        "optimisation": total / 2,
        "variance": 0.0,
        "drift": total / 2,
        "violation": 0.0,
        "total": total,
        "step_small_enough": seed == 0,
    }
    return {
        "id": f"fedavg-{seed}",
        "title": title,
        "setting": {"data.alpha": "1"},
        "corrupted": "",
        "seed": seed,
        "note": "a note",
        "bound": terms,
        "gamma": 0.4,
        "zones": {"safe": 3, "warning": 0, "danger": 0, "critical": 1},
        "constants": {"theta": 0.1, "theta_low": 0.05, "theta_high": 0.2, "infeasibility": None},
        "violation_fit": {
            "intercept": 0.8,
            "slope": 0.4,
            "r2": 0.9,
            "r2_interval": [0.8, 0.95],
            "residual_above": None,
        },
        "rate_fit": None,
    }
