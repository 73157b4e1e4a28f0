"""Group the trials of a run: scenarios (settings that the job varied), algorithms, and seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fedkg.report.records import RoundRow, RunRecords, TrialRecord

Setting = tuple[tuple[str, str], ...]
"""What a job varied: field and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One algorithm in one scenario: its trials, one per seed, with their rounds in order."""

    algorithm: str
    name: str
    trials: tuple[TrialRecord, ...]
    rounds: tuple[tuple[RoundRow, ...], ...]

    def curve(
        self, read: Callable[[RoundRow], float]
    ) -> tuple[list[int], list[float], list[float], list[float]]:
        """Round numbers, mean, minimum and maximum of a figure over seeds."""
        at: dict[int, list[float]] = {}
        for rows in self.rounds:
            for row in rows:
                if not math.isnan(value := read(row)):
                    at.setdefault(row.round, []).append(value)
        numbers = sorted(at)
        return (
            numbers,
            [statistics.fmean(at[n]) for n in numbers],
            [min(at[n]) for n in numbers],
            [max(at[n]) for n in numbers],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The settings that all its algorithms share."""

    setting: Setting
    corrupted: str
    contenders: tuple[Contender, ...]

    @property
    def title(self) -> str:
        """``alpha 0.1, graz corrupted``; empty if the job varies nothing."""
        return setting_text(self.setting, self.corrupted)


def setting_text(setting: Setting, corrupted: str) -> str:
    """A setting in words, with the last part of dotted fields."""
    parts = [f"{name.rpartition('.')[2].replace('_', ' ')} {value}" for name, value in setting]
    return ", ".join([*parts, f"{corrupted} corrupted"] if corrupted else parts)


def scenarios(records: RunRecords) -> tuple[Scenario, ...]:
    """The scenarios of a run in the order of its trials, those with a corrupted site last."""
    rows: dict[str, list[RoundRow]] = {trial.id: [] for trial in records.trials}
    for row in records.rounds:
        rows.setdefault(row.trial, []).append(row)
    grouped: dict[tuple[Setting, str], dict[str, list[TrialRecord]]] = {}
    for trial in sorted(records.trials, key=lambda trial: bool(trial.corrupted)):
        grouped.setdefault((trial.setting, trial.corrupted), {}).setdefault(
            trial.algorithm, []
        ).append(trial)
    return tuple(
        Scenario(
            setting=setting,
            corrupted=corrupted,
            contenders=tuple(_contender(trials, rows) for trials in algorithms.values()),
        )
        for (setting, corrupted), algorithms in grouped.items()
    )


def _contender(trials: Sequence[TrialRecord], rows: dict[str, list[RoundRow]]) -> Contender:
    ordered = tuple(tuple(sorted(rows[trial.id], key=lambda row: row.round)) for trial in trials)
    return Contender(
        algorithm=trials[0].algorithm, name=trials[0].title, trials=tuple(trials), rounds=ordered
    )


def mean(values: Iterable[float]) -> float:
    """The mean of the values other than NaN; NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.fmean(known) if known else math.nan
