"""Zones of a violation rate, after J. Arafat, "Semantic-Constrained Federated Aggregation"
(SCFA)."""

from __future__ import annotations

from typing import Literal

Zone = Literal["safe", "warning", "danger", "critical"]

ZONES: tuple[tuple[Zone, float, float, str], ...] = (
    ("safe", 0.0, 0.05, "nothing to do"),
    ("warning", 0.05, 0.10, "watch it"),
    ("danger", 0.10, 0.18, "put more weight on the rules"),
    ("critical", 0.18, 1.0, "see which rules before the model is used"),
)
"""Zones, best first: name, lower and upper edge, what to do. SCFA's words: normal operation,
monitor, tighten constraints, intervene.
"""


def describe_rate(violated: float, evaluated: float) -> str:
    """The violation rate with both counts; "" if no case has a verdict."""
    if not evaluated:
        return ""
    return f"{violated / evaluated:.1%} ({violated:,.0f} of {evaluated:,.0f})"


def classify_rate(rho: float) -> Zone:
    """Return the zone of a violation rate: safe < 0.05 <= warning < 0.10 <= danger <= 0.18 <
    critical.
    """
    if rho < 0.05:
        return "safe"
    if rho < 0.10:
        return "warning"
    return "danger" if rho <= 0.18 else "critical"
