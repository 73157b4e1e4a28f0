"""What came out of a run, in sentences for somebody who runs a plant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from fedkg.jobs.comparison.paired_test import paired_test
from fedkg.jobs.folder import EXECUTOR_PREFIX, NOTE_SEPARATOR
from fedkg.jobs.measure import MEASURE_BY_COLUMN, plural_event
from fedkg.report.comparison import Setting, mean
from fedkg.report.records import Result, RunRecords
from fedkg.report.zone_advice import is_trained_on_rules, result_zone
from fedkg.violation_zones import classify_rate


def describe_outcome(records: RunRecords) -> list[str]:
    """The outcome, most important first; every sentence is made of figures of the run folder."""
    whole = [result for result in records.results if not result.corrupted and not result.baseline]
    figures = (
        *records.sentences,
        _detection(whole, records.event),
        _violation_rates(whole),
        _not_trained_on_rules(records, whole),
    )
    asked = [result for result in records.results if not result.baseline]
    said = (
        _unfinished(records),
        _overview(asked),
        *figures,
        _excluded(records),
        *_remarks(records),
    )
    return [sentence for sentence in said if sentence]


def _unfinished(records: RunRecords) -> str:
    if records.failed:
        names = "; ".join(f"{name}: {why.splitlines()[0]}" for name, why in records.failed)
        return (
            f"{len(records.failed)} of the runs failed, and what is shown is of the others. {names}"
        )
    if records.open_runs:
        return f"This sweep is not finished: {records.open_runs} of its runs are still open, and what is shown is preliminary."
    open_trials = sum(not trial.done for trial in records.trials)
    if not open_trials:
        return ""
    return f"This run is not finished: {open_trials} of {len(records.trials)} trainings are still open, and what is shown is preliminary."


def _overview(results: Sequence[Result]) -> str:
    """Whether it made a difference, in one sentence: without damage, and with it."""
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
        return [f"With sound data, no difference between {names} is clear of chance in {where}."]
    counts = ", ".join(f"{name} is clearly ahead in {count}" for name, count in clear.most_common())
    return [f"With sound data, {counts} of {len(groups)} settings."]


def _fewest_violations(groups: Sequence[Sequence[Result]]) -> list[str]:
    """Which algorithm's models clearly break the fewest rules in every setting, at the worst site of the last round."""
    told = []
    for members in groups:
        group = [one for one in members if not math.isnan(one.figure("rho_worst").mean)]
        if not group:
            return []
        base = next((result for result in group if result.preset == "fedavg"), group[0])
        least = min(group, key=lambda result: result.figure("rho_worst").mean)
        found = paired_test(least.figure("rho_worst").values, base.figure("rho_worst").values)
        if found.direction != -1:
            return []
        told.append((least, base))
    names = {(least.title, base.title) for least, base in told}
    if len(names) != 1:
        return []
    (title, plain), (ours, theirs) = (
        names.pop(),
        (mean(pair[i].figure("rho_worst").mean for pair in told) for i in (0, 1)),
    )
    return [
        f"Of the rules, {title} breaks clearly fewer: {ours:.0%} at the worst site, {plain} {theirs:.0%}."
    ]


def _corrupted_outcome(group: Sequence[Result]) -> str:
    base = next((result for result in group if result.preset == "fedavg"), group[0])
    best, title = max(group, key=_signed_mean), MEASURE_BY_COLUMN[base.measure].title
    article = "an" if title[0] in "AFMR" else "a"
    where = f"With wrong labels at {base.corrupted}, "
    if best is base:
        return f"{where}{base.title} is the best, at {title} {base.main.text()}."
    how = "" if clearly_better(best, base) else ", a difference that may be chance"
    return f"{where}{best.title} keeps {article} {title} of {best.main.text()} where {base.title} ends at {base.main.text()}{how}."


def clearly_better(one: Result, other: Result) -> bool:
    """Whether the figure is better beyond chance, as `verdict` judges it."""
    return (
        paired_test(one.main.values, other.main.values).direction
        == MEASURE_BY_COLUMN[one.measure].sign
    )


def _signed_mean(result: Result) -> float:
    """The figure's mean, turned so that more is better."""
    return MEASURE_BY_COLUMN[result.measure].sign * result.main.mean


def _detection(results: Sequence[Result], event: str) -> str:
    """What the figures mean at a machine: events found, alarms that are right."""
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
        return f"At the end the models raise no alarm: they find no {event}."
    return f"At the end the models find {_range(found)} of the {plural_event(event)}, and {_range(right)} of their alarms are right."


def _range(shares: Sequence[float]) -> str:
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return low if low == high else f"{low} to {high}"


def _violation_rates(results: Sequence[Result]) -> str:
    """The violation rate of the last round per algorithm, averaged over the settings without damage."""
    parts = []
    for name in dict.fromkeys(result.title for result in results):
        worst = mean(result.figure("rho_worst").mean for result in results if result.title == name)
        every = mean(result.figure("rho_mean").mean for result in results if result.title == name)
        if not math.isnan(worst):
            parts.append(
                f"{name} {worst:.1%} at the worst site ({classify_rate(worst)}) and {every:.1%} on average"
            )
    return (
        f"Share of the rules that the sites' models broke in the last round: {'; '.join(parts)}."
        if parts
        else ""
    )


def _not_trained_on_rules(records: RunRecords, results: Sequence[Result]) -> str:
    """Why rules are broken by models that nobody taught them."""
    if is_trained_on_rules(records) or not any(
        result_zone(result) == "critical" for result in results
    ):
        return ""
    return (
        "No model was trained on the rules here: the server only weighs sites by them, and labels alone do not teach them. "
        "`training.penalty` puts the rules into the sites' loss."
    )


def _remarks(records: RunRecords) -> list[str]:
    """What rounds noted, with how often and by whom; by which executor they were trained is said beside the settings."""
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
    """Whose rounds noted something, and in how many; of a single one the note itself says when."""
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
    return f"Some updates were unusable and left out, by name: {places}."
