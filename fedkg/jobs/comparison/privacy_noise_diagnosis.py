"""Explain protected trials that learned nothing under their noise, and suggest remedies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedkg._internal.safe_text import list_first
from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trial_expansion import TrialConfig, trial_title

MAX_NAMED = 4
"""Number of trials that a sentence lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedTrial:
    """A finished protected trial.

    Attributes:
        title: name of its algorithm.
        job: the job with the trial's settings.
        measure: column of the figure.
        figure: on the test rows, in the last evaluated round.
        trivial: figure of the best constant answer.
    """

    title: str
    job: Job
    measure: str
    figure: float
    trivial: float

    @property
    def has_learned(self) -> bool:
        """Whether the trial beats the best constant answer, as far as is known."""
        sign = MEASURE_BY_COLUMN[self.measure].sign
        return not sign * self.figure <= sign * self.trivial  # NaN: unknown, so no complaint


def protected_trials(
    configs: Sequence[TrialConfig],
    rounds: Iterable[Mapping[str, str]],
    private: Iterable[Mapping[str, str]],
    measure: str,
    trivial: float,
) -> list[ProtectedTrial]:
    """The finished trials with a privacy guarantee.

    Args:
        rounds: rows of `rounds.csv`.
        private: rows of `privacy.csv`.
        measure: the figure that decides comparisons.
        trivial: see `ProtectedTrial`.
    """
    figures = {
        row["trial"]: float(row[measure]) for row in rounds if row[measure]
    }  # the last round wins
    kept = {row["trial"] for row in private}
    return [
        ProtectedTrial(
            title=trial_title(config),
            job=config.job,
            measure=measure,
            figure=figures.get(config.id, math.nan),
            trivial=trivial,
        )
        for config in configs
        if config.id in kept
    ]


def explain_lost_training(ended: Sequence[ProtectedTrial]) -> Iterator[str]:
    """A sentence with likely causes and remedies if trials do not beat the best constant answer."""
    lost = [one for one in ended if not one.has_learned]
    if not lost:
        return
    measure, trivial = MEASURE_BY_COLUMN[lost[0].measure], lost[0].trivial
    figures = [f"{one.title} at {one.figure:.{measure.digits}f}" for one in lost]
    count = (
        "The protected trial ends"
        if len(ended) == 1
        else f"{len(lost)} of {len(ended)} protected trials end"
    )
    units = dict.fromkeys(
        "a row" if one.job.privacy is not None and one.job.privacy.unit == "example" else "a site"
        for one in lost
    )
    jobs = [one.job for one in lost]
    rounds, rates = (
        _format_current(job.training.rounds for job in jobs),
        _format_current(job.training.learning_rate for job in jobs),
    )
    yield (
        f"{count} no better than the best constant answer ({measure.text(trivial)}): "
        f"{list_first(figures, MAX_NAMED)}."
        f" The likely cause is the noise that protects {' or '.join(units)}, or too "
        f"little training: few `training.rounds` (now {rounds}),"
        f" a small `training.learning_rate` (now {rates}). Run the same job without "
        "`privacy` to find out."
        f" These settings reduce the effect of noise: {', '.join(_ways_to_less_noise(jobs))}."
    )


def _ways_to_less_noise(jobs: Sequence[Job]) -> Iterator[str]:
    """Settings that reduce the noise relative to the sum."""
    promises = [job.privacy for job in jobs if job.privacy is not None]
    found = [one.epsilon for one in promises if one.noise is None and one.epsilon is not None]
    if found:
        yield f"a larger `privacy.epsilon` (now {_format_current(found)})"
        yield "fewer `training.rounds`, which need less noise"
    if given := [one.noise for one in promises if one.noise is not None]:
        yield f"less `privacy.noise` (now {_format_current(given)})"
    if any(one.unit == "example" for one in promises):
        yield (
            "a larger `training.batch` (now "
            f"{_format_current(job.training.batch for job in jobs)}), which dilutes the noise"
        )
        yield "more rows at each site"
    if any(one.unit == "client" for one in promises):
        yield "more sites"
        if part := [share for share in (job.training.participation for job in jobs) if share < 1]:
            yield f"a larger `training.participation` (now {_format_current(part)})"


def _format_current(values: Iterable[float]) -> str:
    return " and ".join(f"{value:g}" for value in dict.fromkeys(values))
