"""Explain the zones of the report, and give advice for danger and critical."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedkg.report.records import Result, RuleRow, RunRecords
from fedkg.report.trial_groups import mean
from fedkg.violation_rate_zones import ZONES, Zone, classify_rate

MAX_NAMED = 3
"""Number of rules that the advice lists."""

OUTLIER_FACTOR = 2.0
"""The worst site is an outlier if its violation rate exceeds the mean by this factor."""


def zone_legend() -> list[tuple[str, str]]:
    """Each zone and its meaning: ``danger: 10% to 18%, put more weight on the rules``."""
    return [(name, f"{name}: {_between(low, high)}, {action}") for name, low, high, action in ZONES]


def _between(low: float, high: float) -> str:
    if low == 0:
        return f"below {high:.0%}"
    return f"above {low:.0%}" if high == 1 else f"{low:.0%} to {high:.0%}"


def zone_basis(job: Mapping[str, Any]) -> list[str]:
    """How zones are computed, and how reliable their limits are. `Any`: JSON."""
    scoring = job.get("scoring") or {}
    hard, soft = scoring.get("hard_tolerance", 0.0), scoring.get("soft_tolerance", 0.05)
    counts = (
        f"a rule counts as violated if {_more_than(soft)} violate it (a hard rule: "
        f"{_more_than(hard)})"
    )
    number = "the share of rules that the worst site's model violates on rows of the server"
    edges = (
        "The limits come from the data of the SCFA paper, where models with more violations "
        "performed worse"
    )
    limits = (
        "They were not measured on these machines, and a zone does not tell how much harm a "
        "violation does"
    )
    return [f"A zone depends on one number: {number}; {counts}.", f"{edges}. {limits}."]


def _more_than(tolerance: float) -> str:
    return (
        f"more than {_percent(tolerance)} of the rows to which it applies"
        if tolerance
        else "a single row to which it applies"
    )


def _percent(share: float) -> str:
    """``25%``, ``0.3%``: shares above 0 never appear as 0."""
    return f"{100 * share:.3g}%"


def result_zone(result: Result) -> Zone | None:
    """The zone of a result; None if no rule was evaluated."""
    rho = result.figure("rho_worst").mean
    return None if math.isnan(rho) else classify_rate(rho)


def zone_advice(records: RunRecords) -> list[str]:
    """Advice if a model without corruption ends in the zone danger or critical; otherwise empty."""
    grave = [
        one
        for one in records.results
        if not one.corrupted and result_zone(one) in ("danger", "critical")
    ]
    if not grave:
        return []
    steps = (
        _advise_on_rules(records),
        _advise_on_data(records),
        _advise_on_site(grave),
        _advise_on_training(records),
    )
    return [step for step in steps if step]


def _advise_on_rules(records: RunRecords) -> str:
    """The most violated rules of the final models, with their rates."""
    sound = {trial.id for trial in records.trials if not trial.corrupted}
    rates: dict[str, list[RuleRow]] = {}
    for row in records.rules:
        if row.trial in sound and not math.isnan(row.rate):
            rates.setdefault(row.rule, []).append(row)
    if not rates:
        return "Find the rules: this run evaluated none on the test rows."
    order = sorted(rates.values(), key=lambda rows: -mean(row.rate for row in rows))
    worst = [rows for rows in order if mean(row.rate for row in rows) > 0]
    if not worst:
        return (
            "Find the rules: the final models violate none on the test rows, only models of "
            "single sites did during training."
        )
    named = ", ".join(
        f"{_name(rows[0])} ({_percent(mean(row.rate for row in rows))} of its cases)"
        for rows in worst[:MAX_NAMED]
    )
    more = f", and {len(worst) - MAX_NAMED} more" if len(worst) > MAX_NAMED else ""
    return (
        f"Find the rules: final models violate {len(worst)} of {len(rates)}, most often "
        f"{named}{more}."
    )


def _name(row: RuleRow) -> str:
    return f"\u201c{row.title.rstrip('.') or row.rule.replace('_', ' ')}\u201d"


def _advise_on_data(records: RunRecords) -> str:
    """Whether the data violates rules."""
    broken = [row for row in records.checks if row.violated]
    if not broken:
        return ""
    return (
        f"Check the data: it violates {len(broken)} of the {len(records.checks)} rules over "
        "the data alone (below)."
    )


def _advise_on_site(grave: Iterable[Result]) -> str:
    """Whether one site is an outlier."""
    if not any(
        one.figure("rho_worst").mean > OUTLIER_FACTOR * one.figure("rho_mean").mean for one in grave
    ):
        return ""
    return (
        "Find the site: the worst one violates far more rules than the average. Check its "
        "labels, units and machines."
    )


def _advise_on_training(records: RunRecords) -> str:
    """Whether training included the rules."""
    if is_trained_on_rules(records):
        return (
            "Give the rules more weight in training (a larger `penalty`), or train for more rounds."
        )
    return (
        "Include the rules in training: set `training.penalty`, which is 0 here, to add "
        "them to the sites' loss."
    )


def is_trained_on_rules(records: RunRecords) -> bool:
    """Whether some trial includes the rules in its loss, or in its outputs by projection."""
    return any(part.get("penalty") or part.get("projection") for part in _trainings(records.job))


def _trainings(job: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The training fields of the job, and the changes of its algorithms. `Any`: JSON."""
    algorithms = job.get("algorithms") or {}
    return [
        job.get("training") or {},
        *(algorithm.get("training") or {} for algorithm in algorithms.values()),
    ]
