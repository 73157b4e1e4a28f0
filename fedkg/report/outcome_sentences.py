"""The outcome of a run in sentences for a plant operator."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fedkg.jobs.comparison.paired_test import PairedTest, paired_test_on_common_seeds
from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN, plural_event
from fedkg.jobs.folder import EXECUTOR_PREFIX, NOTE_SEPARATOR
from fedkg.report.records import Result, RunRecords
from fedkg.report.trial_groups import Setting, mean
from fedkg.report.violation_zone_advice import is_trained_on_rules, result_zone
from fedkg.violation_rate_zones import classify_rate, describe_rate


def describe_outcome(records: RunRecords) -> list[str]:
    """The outcome, most important first; every sentence uses figures of the run folder."""
    whole = [result for result in records.results if not result.corrupted and not result.baseline]
    figures = (
        *records.sentences,
        _detection(whole, records.event),
        _violation_rates(whole),
        _not_trained_on_rules(records, whole),
    )
    asked = [result for result in records.results if not result.baseline]
    said = (
        describe_unfinished(records),
        _overview(asked),
        *figures,
        _excluded(records),
        *_remarks(records),
    )
    return [sentence for sentence in said if sentence]


def describe_unfinished(records: RunRecords) -> str:
    """Why the results are preliminary or partial; "" if they are not."""
    if records.failed:
        names = "; ".join(f"{name}: {why.splitlines()[0]}" for name, why in records.failed)
        return f"{len(records.failed)} of the runs failed; the report covers the others. {names}"
    if records.open_runs:
        return (
            f"This sweep is not finished: {records.open_runs} of its runs are still open, so "
            "these results are preliminary."
        )
    open_trials = sum(not trial.done for trial in records.trials)
    if not open_trials:
        return ""
    return (
        f"This run is not finished: {open_trials} of {len(records.trials)} trials are still "
        "open, so these results are preliminary."
    )


def _overview(results: Sequence[Result]) -> str:
    """Whether the algorithms differ, in one sentence each without and with corruption."""
    settings: dict[tuple[Setting, str], list[Result]] = {}
    for result in results:
        if not math.isnan(result.main.mean):
            settings.setdefault((result.setting, result.corrupted), []).append(result)
    groups = [group for group in settings.values() if len(group) > 1]
    if len(groups) < 2:
        return ""
    clean, damaged = (
        [g for g in groups if not g[0].corrupted],
        [g for g in groups if g[0].corrupted],
    )
    return " ".join(
        [
            *_clear_winners(clean),
            *_fewest_violations(clean),
            *(_corrupted_outcome(group) for group in damaged),
        ]
    )


def _clear_winners(groups: Sequence[Sequence[Result]]) -> list[str]:
    """How often an algorithm is clearly the best."""
    if not groups:
        return []
    best = [sorted(group, key=lambda result: -_signed_mean(result)) for group in groups]
    clear = Counter(first.title for first, second, *_ in best if clearly_better(first, second))
    if not clear:
        *others, last = (result.title for result in groups[0])
        names = f"{', '.join(others)} and {last}"
        where = "the one setting" if len(groups) == 1 else f"any of the {len(groups)} settings"
        return [f"With sound data, no difference between {names} is significant in {where}."]
    counts = ", ".join(f"{name} is clearly ahead in {count}" for name, count in clear.most_common())
    return [f"With sound data, {counts} of {len(groups)} settings."]


def _fewest_violations(groups: Sequence[Sequence[Result]]) -> list[str]:
    """The algorithm with clearly the lowest violation rate in every setting, in the last round."""
    told = []
    for members in groups:
        group = [one for one in members if not math.isnan(one.figure("violation_rate").mean)]
        if not group:
            return []
        base = next((result for result in group if result.preset == "fedavg"), group[0])
        least = min(group, key=lambda result: result.figure("violation_rate").mean)
        found = _paired(least, base, "violation_rate")
        if found.direction != -1:
            return []
        told.append((least, base))
    names = {(least.title, base.title) for least, base in told}
    if len(names) != 1:
        return []
    (title, plain), (ours, theirs) = (
        names.pop(),
        (mean(pair[i].figure("violation_rate").mean for pair in told) for i in (0, 1)),
    )
    return [
        (f"{title} violates clearly fewer cases than {plain}: {ours:.1%} instead of {theirs:.1%}.")
    ]


def _corrupted_outcome(group: Sequence[Result]) -> str:
    base = next((result for result in group if result.preset == "fedavg"), group[0])
    best, title = max(group, key=_signed_mean), MEASURE_BY_COLUMN[base.measure].title
    article = "an" if title[0] in "AFMR" else "a"
    where = f"With wrong labels at {base.corrupted}, "
    if best is base:
        return f"{where}{base.title} is the best, at {title} {base.main.text()}."
    how = "" if clearly_better(best, base) else ", which is not significant"
    return (
        f"{where}{best.title} reaches {article} {title} of {best.main.text()}, compared with "
        f"{base.main.text()} for {base.title}{how}."
    )


def clearly_better(one: Result, other: Result) -> bool:
    """Whether the figure is significantly better by the paired test."""
    found = _paired(one, other, one.measure)
    return found.direction == MEASURE_BY_COLUMN[one.measure].sign


def _paired(one: Result, other: Result, name: str) -> PairedTest:
    """The paired test of a figure on the seeds of both."""
    known = (
        dict(zip(row.seed_list or range(row.seeds), row.figure(name).values, strict=False))
        for row in (one, other)
    )
    return paired_test_on_common_seeds(*known)


def _signed_mean(result: Result) -> float:
    """The mean of the figure, with the sign that makes larger better."""
    return MEASURE_BY_COLUMN[result.measure].sign * result.main.mean


def _detection(results: Sequence[Result], event: str) -> str:
    """The practical meaning of the figures: events found, alarms that are right."""
    found = [
        result.figure("recall").mean
        for result in results
        if not math.isnan(result.figure("recall").mean)
    ]
    right = [
        result.figure("precision").mean
        for result in results
        if not math.isnan(result.figure("precision").mean)
    ]
    if not found:
        return ""
    if not right:
        return f"At the end the models raise no alarms and find no {event}."
    return (
        f"At the end the models find {_range(found)} of the {plural_event(event)}, and "
        f"{_range(right)} of their alarms are right."
    )


def _range(shares: Sequence[float]) -> str:
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return low if low == high else f"{low} to {high}"


def _violation_rates(results: Sequence[Result]) -> str:
    """Violated cases and the paper's zone in the last round, over settings without corruption."""
    cases, zones = [], []
    for name in dict.fromkeys(result.title for result in results):
        own = [result for result in results if result.title == name]
        violated, evaluated = (
            sum(sum(result.figure(count).values) for result in own)
            for count in ("violated_cases", "evaluated_cases")
        )
        if evaluated:
            cases.append(f"{name} {describe_rate(violated, evaluated)}")
        worst = mean(result.figure("rho_worst").mean for result in own)
        if not math.isnan(worst):
            zones.append(f"{name} {worst:.1%} ({classify_rate(worst)})")
    said = [
        ("Violated cases of the rules in the last round", cases),
        ("Share of the rules with a violation at the worst site (paper zone)", zones),
    ]
    return " ".join(f"{title}: {'; '.join(parts)}." for title, parts in said if parts)


def _not_trained_on_rules(records: RunRecords, results: Sequence[Result]) -> str:
    """Why models violate rules that training does not include."""
    if is_trained_on_rules(records) or not any(
        result_zone(result) == "critical" for result in results
    ):
        return ""
    return (
        "Training did not include the rules. "
        "Set `training.penalty` to add the rules to the sites' loss."
    )


def _remarks(records: RunRecords) -> list[str]:
    """The notes of rounds, with their number and the algorithm.

    The settings section shows the executor.
    """
    titles = {trial.id: trial.title for trial in records.trials}
    found: dict[str, Counter[str]] = {}
    for row in records.rounds:
        for note in row.notes.split(NOTE_SEPARATOR):
            if note and not note.startswith(EXECUTOR_PREFIX):
                found.setdefault(note, Counter())[titles[row.trial]] += 1
    return [
        f"{note[0].upper()}{note[1:]} ({', '.join(map(_format_count, counts.items()))})."
        for note, counts in found.items()
    ]


def _format_count(counted: tuple[str, int]) -> str:
    """The algorithm of a note and its number of rounds; a single round needs no number."""
    title, count = counted
    return f"{title}: {count} of its rounds" if count > 1 else title


def _excluded(records: RunRecords) -> str:
    counts = Counter(row.client for row in records.clients if row.status.startswith("excluded"))
    if not counts:
        return ""
    places = ", ".join(
        f"{site} ({count} {'round' if count == 1 else 'rounds'})"
        for site, count in counts.most_common()
    )
    return f"The server excluded unusable updates from: {places}."
