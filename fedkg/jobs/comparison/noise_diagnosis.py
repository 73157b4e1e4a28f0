"""Protected trainings of which nothing is left under their noise: told, with what would leave more of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedkg.jobs.measure import MEASURE_BY_COLUMN
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trials import TrialConfig, trial_title

MAX_NAMED = 4
"""How many trainings a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedTrial:
    """A protected training at its end.

    Attributes:
        title: of its algorithm. job: with its setting. measure: the figure's column. figure: on the test rows, in the last round that was
            judged. trivial: what the same answer for every test row comes to.
    """

    title: str
    job: Job
    measure: str
    figure: float
    trivial: float

    @property
    def learnt(self) -> bool:
        """Whether it is better than the same answer for every row, as far as that is known."""
        sign = MEASURE_BY_COLUMN[self.measure].sign
        return not sign * self.figure <= sign * self.trivial  # NaN is no reason to say anything


def protected_trials(
    configs: Sequence[TrialConfig],
    rounds: Iterable[Mapping[str, str]],
    private: Iterable[Mapping[str, str]],
    measure: str,
    trivial: float,
) -> list[ProtectedTrial]:
    """The arms that promise something and are over.

    Args:
        rounds, private: the lines of `rounds.csv` and `privacy.csv`. measure: the figure that arms are compared by. trivial: see `Ended`.
    """
    figures = {
        row["trial"]: float(row[measure]) for row in rounds if row[measure]
    }  # of several rounds the last
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
    """What is likely to be the cause where trainings are no better at their end than the same answer for every row, and what would help."""
    lost = [one for one in ended if not one.learnt]
    if not lost:
        return
    measure, trivial = MEASURE_BY_COLUMN[lost[0].measure], lost[0].trivial
    each = ", ".join(f"{one.title} at {one.figure:.{measure.digits}f}" for one in lost[:MAX_NAMED])
    more = f" and {len(lost) - MAX_NAMED} more" if len(lost) > MAX_NAMED else ""
    count = (
        "The protected training ends"
        if len(ended) == 1
        else f"{len(lost)} of {len(ended)} protected trainings end"
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
        f"{count} no better than the same answer for every test row ({measure.text(trivial)}): {each}{more}."
        f" The likely cause is the noise that hides {' or '.join(units)}, or too little training: few `training.rounds` (now {rounds}),"
        f" a small `training.learning_rate` (now {rates}). The same job without `privacy` shows which: what is learnt without noise."
        f" What leaves more of a training under it: {', '.join(_ways_to_less_noise(jobs))}."
    )


def _ways_to_less_noise(jobs: Sequence[Job]) -> Iterator[str]:
    """What makes the noise smaller beside what is summed."""
    promises = [job.privacy for job in jobs if job.privacy is not None]
    found = [one.epsilon for one in promises if one.noise is None and one.epsilon is not None]
    if found:
        yield f"a larger `privacy.epsilon` (now {_format_current(found)})"
        yield "fewer `training.rounds`, where so many are not needed, for which less noise will do"
    if given := [one.noise for one in promises if one.noise is not None]:
        yield f"less `privacy.noise` (now {_format_current(given)})"
    if any(one.unit == "example" for one in promises):
        yield f"a larger `training.batch` (now {_format_current(job.training.batch for job in jobs)}), in whose sum the same noise counts less"
        yield "more rows at each site"
    if any(one.unit == "client" for one in promises):
        yield "more sites"
        if part := [share for share in (job.training.participation for job in jobs) if share < 1]:
            yield f"a larger `training.participation` (now {_format_current(part)})"


def _format_current(values: Iterable[float]) -> str:
    return " and ".join(f"{value:g}" for value in dict.fromkeys(values))
