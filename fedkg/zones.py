"""The zones of a violation rate, as J. Arafat, "Semantic-Constrained Federated Aggregation" (SCFA), draws them. Needs nothing else."""

from __future__ import annotations

from typing import Literal

Zone = Literal["safe", "warning", "danger", "critical"]

ZONES: tuple[tuple[Zone, float, float, str], ...] = (
    ("safe", 0.0, 0.05, "normal operation"),
    ("warning", 0.05, 0.10, "monitor closely"),
    ("danger", 0.10, 0.18, "tighten the rules' grip"),
    ("critical", 0.18, 1.0, "intervene"),
)
"""Zones, best first: name, lower and upper edge, what to do."""


def zone(rho: float) -> Zone:
    """The zone of a violation rate: safe < 0.05 <= warning < 0.10 <= danger <= 0.18 < critical."""
    if rho < 0.05:
        return "safe"
    if rho < 0.10:
        return "warning"
    return "danger" if rho <= 0.18 else "critical"
