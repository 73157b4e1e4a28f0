"""What the zone of a run rests on, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedkg.report.comparison import mean
from fedkg.report.records import Result, RuleRow, RunRecords
from fedkg.violation_zones import ZONES, Zone, classify_rate

MAX_NAMED = 3
"""So many rules are named."""

OUTLIER_FACTOR = 2.0
"""The worst site stands apart where it breaks so many times the rules that the sites break on average."""


def zone_legend() -> list[tuple[str, str]]:
    """Each zone and its meaning: ``danger: 10% to 18%, put more weight on the rules``."""
    return [(name, f"{name}: {_between(low, high)}, {action}") for name, low, high, action in ZONES]


def _between(low: float, high: float) -> str:
    if low == 0:
        return f"below {high:.0%}"
    return f"above {low:.0%}" if high == 1 else f"{low:.0%} to {high:.0%}"


def zone_basis(job: Mapping[str, Any]) -> list[str]:
    """What a zone is made of, and what its edges are worth. `Any`: JSON."""
    scoring = job.get("scoring") or {}
    hard, soft = scoring.get("hard_tolerance", 0.0), scoring.get("soft_tolerance", 0.05)
    counts = f"a rule counts as broken when {_more_than(soft)} break it (a hard rule: {_more_than(hard)})"
    number = "the share of the rules that the model of the worst site breaks, on rows that the server holds"
    edges = "The edges are those that the paper behind SCFA found on its own data, where models that broke more rules found failures worse"
    limits = "They are not measured on these machines, and a zone does not say how much harm a broken rule does"
    return [f"A zone rests on one number: {number}; {counts}.", f"{edges}. {limits}."]


def _more_than(tolerance: float) -> str:
    return (
        f"more than {_percent(tolerance)} of the rows to which it applies"
        if tolerance
        else "a single row to which it applies"
    )


def _percent(share: float) -> str:
    """``25%``, ``0.3%``: no share above 0 is told as 0."""
    return f"{100 * share:.3g}%"


def result_zone(result: Result) -> Zone | None:
    """The zone in which a setting of a run ends; None where no rule was measured."""
    rho = result.figure("rho_worst").mean
    return None if math.isnan(rho) else classify_rate(rho)


def zone_advice(records: RunRecords) -> list[str]:
    """What to do where some model of a run without damage ends in the zone danger or critical; nothing elsewhere."""
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
    """The rules that finished models break most, with their rates."""
    sound = {trial.id for trial in records.trials if not trial.corrupted}
    rates: dict[str, list[RuleRow]] = {}
    for row in records.rules:
        if row.trial in sound and not math.isnan(row.rate):
            rates.setdefault(row.rule, []).append(row)
    if not rates:
        return (
            "See which rules it is: none was evaluated on the test rows, so this run does not tell."
        )
    order = sorted(rates.values(), key=lambda rows: -mean(row.rate for row in rows))
    worst = [rows for rows in order if mean(row.rate for row in rows) > 0]
    if not worst:
        return "See which rules it is: the finished models break none on the test rows, only single sites' models did on the way."
    named = ", ".join(
        f"{_name(rows[0])} ({_percent(mean(row.rate for row in rows))} of its cases)"
        for rows in worst[:MAX_NAMED]
    )
    more = f", and {len(worst) - MAX_NAMED} more" if len(worst) > MAX_NAMED else ""
    return f"See which rules it is: {len(worst)} of {len(rates)} are broken by finished models, most of all {named}{more}."


def _name(row: RuleRow) -> str:
    return f"\u201c{row.title.rstrip('.') or row.rule.replace('_', ' ')}\u201d"


def _advise_on_data(records: RunRecords) -> str:
    """Whether the data itself contradicts rules."""
    broken = [row for row in records.checks if row.violated]
    if not broken:
        return ""
    return f"See whether the data is right: it breaks {len(broken)} of the {len(records.checks)} rules over the data alone (below)."


def _advise_on_site(grave: Iterable[Result]) -> str:
    """Whether one site stands apart from the others."""
    if not any(
        one.figure("rho_worst").mean > OUTLIER_FACTOR * one.figure("rho_mean").mean for one in grave
    ):
        return ""
    return "See which site it is: the worst one breaks far more than all do on average. Look at its labels, its units and its machines."


def _advise_on_training(records: RunRecords) -> str:
    """Whether the models were taught the rules."""
    if is_trained_on_rules(records):
        return (
            "Give the rules more weight in training (a larger `penalty`), or train for more rounds."
        )
    return "Teach the models the rules: `training.penalty` puts them into the sites' loss; here it is 0, and labels alone teach none."


def is_trained_on_rules(records: RunRecords) -> bool:
    """Whether the rules are part of some training: of its loss, or of its answers by projection."""
    return any(part.get("penalty") or part.get("projection") for part in _trainings(records.job))


def _trainings(job: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The job's training fields, and those in which its algorithms differ. `Any`: JSON."""
    algorithms = job.get("algorithms") or {}
    return [
        job.get("training") or {},
        *(algorithm.get("training") or {} for algorithm in algorithms.values()),
    ]
