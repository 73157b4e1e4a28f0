"""The beginning of a run's report: a verdict, three key figures and recommended actions."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from fedkg._internal.safe_text import list_first
from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN, plural_event
from fedkg.report.forecast_curves import best_baseline
from fedkg.report.outcome_sentences import describe_unfinished
from fedkg.report.records import Result, RunRecords
from fedkg.report.violation_zone_advice import result_zone, zone_advice

MAX_NAMED = 3
"""Number of rules or sites that an action names."""

Context = dict[str, Any]
"""Template variables. `Any`: texts and lists of texts."""


def run_verdict(records: RunRecords) -> Context:
    """The verdict, `key_figures` and `actions` of a run; empty before the first result."""
    best = _best(records)
    return {
        "verdict": _verdict(records, best),
        "key_figures": [] if best is None else _key_figures(records, best),
        "actions": _actions(records, best),
    }


def advice_on_best(records: RunRecords) -> list[str]:
    """`zone_advice` if the best result itself is in danger; else empty: use it, not the others."""
    best = _best(records)
    in_danger = best is None or result_zone(best) in ("danger", "critical")
    return zone_advice(records) if in_danger else []


def _best(records: RunRecords) -> Result | None:
    """The best result on sound data; without sound data, of all."""
    measured = [one for one in records.results if not math.isnan(one.main.mean)]
    asked = [one for one in measured if not one.baseline] or measured
    sound = [one for one in asked if not one.corrupted] or asked
    return max(
        sound, key=lambda one: MEASURE_BY_COLUMN[one.measure].sign * one.main.mean, default=None
    )


def _verdict(records: RunRecords, best: Result | None) -> str:
    unfinished = describe_unfinished(records)
    if best is None:
        return unfinished or "No training round has been finished yet."
    measure = MEASURE_BY_COLUMN[best.measure]
    others = {one.algorithm for one in records.results if not one.baseline} - {best.algorithm}
    what = {
        "f1": f"finds {plural_event(records.event)}",
        "accuracy": "finds the classes",
        "rmse": "predicts the target",
        "mse": "forecasts",
        "concordance": "ranks survival",
    }[measure.name]
    digits = 2 if measure.name == "f1" else measure.digits
    said = (
        f"{best.title} {what} {'best' if others else 'with'}"
        f"{', with' if others else ''} {measure.title} {best.main.text(digits)}."
    )
    return " ".join(filter(None, (unfinished, said, _against_trivial(records, best), _rules(best))))


def _against_trivial(records: RunRecords, best: Result) -> str:
    """Whether the model beats answers without a model."""
    if best.measure == "mse" and records.baselines:
        name, error, own = best_baseline(records, best)
        if math.isnan(error) or math.isnan(own):
            return ""
        if own < error:
            gain = f"{1 - own / error:.0%}"
            return f"Its error is {gain} below that of the best simple forecast ({name})."
        return f"The best simple forecast ({name}) is better: use it instead."
    if math.isnan(records.trivial):
        return ""
    measure = MEASURE_BY_COLUMN[best.measure]
    if measure.sign * best.main.mean > measure.sign * records.trivial:
        return ""
    return (
        f"It is no better than the best constant answer ({measure.title} {records.trivial:.2f}), "
        "so do not use it yet."
    )


def _rules(best: Result) -> str:
    """Whether the model satisfies the rules, by the zone of the paper."""
    zone = result_zone(best)
    rate = best.figure("rho_worst").mean
    if zone is None:
        return "No rule about its answers was evaluated."
    if rate == 0:
        return "Its models satisfy all evaluated rules."
    verdict = {
        "safe": "Its models satisfy nearly all rules",
        "warning": "Its models violate some rules",
        "danger": "Its models violate too many rules",
        "critical": "Its models violate far too many rules",
    }[zone]
    return f"{verdict}: {rate:.1%} of them at the worst site ({zone})."


def _key_figures(records: RunRecords, best: Result) -> list[Context]:
    measure = MEASURE_BY_COLUMN[best.measure]
    figures: list[Context] = [
        {
            "value": best.main.text(2 if measure.name == "f1" else measure.digits),
            "label": f"{measure.title} of {best.title}",
        }
    ]
    violated, evaluated = (
        sum(best.figure(name).values) for name in ("violated_cases", "evaluated_cases")
    )
    figures.append(
        {
            "value": f"{violated / evaluated:.1%}" if evaluated else "not evaluated",
            "label": "of cases in which its models violate a rule"
            if evaluated
            else "rules about its answers",
        }
    )
    judged = [row for row in records.checks if not math.isnan(row.rate)]
    if records.checks:
        broken = sum(bool(row.violated) for row in judged)
        figures.append(
            {
                "value": f"{broken} of {len(judged)}" if judged else "not evaluated",
                "label": "rules violated by the data",
            }
        )
    else:
        sites = len({row.client for row in records.clients})
        lost = len({row["client"] for row in records.exclusions})
        figures.append({"value": f"{lost} of {sites}", "label": "sites with missing updates"})
    return figures


def _actions(records: RunRecords, best: Result | None) -> list[str]:
    """What to do, most urgent first."""
    actions = [
        f"Repeat the failed run {name}: {why.splitlines()[0]}"
        for name, why in records.failed[:MAX_NAMED]
    ]
    if describe_unfinished(records) and not records.failed:
        actions.append(
            "Continue the run, because it is not finished: "
            f"`fedkg run --resume {records.folder.name}`."
        )
    advice = advice_on_best(records)
    actions += advice
    broken = sorted((row for row in records.checks if row.violated), key=lambda row: -row.rate)
    if broken and not advice:
        titles = [f"“{row.title.rstrip('.') or row.rule.replace('_', ' ')}”" for row in broken]
        named = list_first(titles, MAX_NAMED)
        actions.append(f"Check the data: it violates {named} (see Data).")
    lost = Counter(row["client"] for row in records.exclusions)
    if lost:
        named = ", ".join(name for name, _ in lost.most_common(MAX_NAMED))
        actions.append(f"Check the sites with missing updates (see Missing updates): {named}.")
    rules = [(row.rule, row.title, row.rate) for row in records.rules]
    rules += [(row.rule, row.title, row.rate) for row in records.checks]
    names = dict.fromkeys(
        title.rstrip(".") or name.replace("_", " ")
        for name, title, rate in rules
        if math.isnan(rate)
    )
    if names:
        shown = list_first([f"“{name}”" for name in names], MAX_NAMED)
        actions.append(f"Make the data for rules available that were not evaluated: {shown}.")
    if best is not None and _against_trivial(records, best).endswith(("instead.", "yet.")):
        actions.append("Train for more rounds, or add inputs: simple answers are as good as this.")
    return actions or (["No action is needed."] if best is not None else [])
