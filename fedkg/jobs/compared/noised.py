"""Protected trainings of which nothing is left under their noise: told, with what would leave more of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedkg.jobs.arms import Arm, title_of
from fedkg.jobs.file.schema import Job
from fedkg.jobs.measure import BY_NAME

NAMED = 4
"""How many trainings a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
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
        sign = BY_NAME[self.measure].sign
        return not sign * self.figure <= sign * self.trivial  # NaN is no reason to say anything


def protected_arms(
    arms: Sequence[Arm],
    rounds: Iterable[Mapping[str, str]],
    private: Iterable[Mapping[str, str]],
    measure: str,
    trivial: float,
) -> list[Ended]:
    """The arms that promise something and are over.

    Args:
        rounds, private: the lines of `rounds.csv` and `privacy.csv`. measure: the figure that arms are compared by. trivial: see `Ended`.
    """
    figures = {
        row["arm"]: float(row[measure]) for row in rounds if row[measure]
    }  # of several rounds the last
    kept = {row["arm"] for row in private}
    return [
        Ended(
            title=title_of(arm),
            job=arm.job,
            measure=measure,
            figure=figures.get(arm.id, math.nan),
            trivial=trivial,
        )
        for arm in arms
        if arm.id in kept
    ]


def drowned(ended: Sequence[Ended]) -> Iterator[str]:
    """What is likely to be the cause where trainings are no better at their end than the same answer for every row, and what would help."""
    lost = [one for one in ended if not one.learnt]
    if not lost:
        return
    measure, trivial = BY_NAME[lost[0].measure], lost[0].trivial
    each = ", ".join(f"{one.title} at {one.figure:.{measure.digits}f}" for one in lost[:NAMED])
    more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
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
        _now(job.training.rounds for job in jobs),
        _now(job.training.learning_rate for job in jobs),
    )
    yield (
        f"{count} no better than the same answer for every test row ({measure.text(trivial)}): {each}{more}."
        f" The likely cause is the noise that hides {' or '.join(units)}, or too little training: few `training.rounds` (now {rounds}),"
        f" a small `training.learning_rate` (now {rates}). The same job without `privacy` shows which: what is learnt without noise."
        f" What leaves more of a training under it: {', '.join(_ways(jobs))}."
    )


def _ways(jobs: Sequence[Job]) -> Iterator[str]:
    """What makes the noise smaller beside what is summed."""
    promises = [job.privacy for job in jobs if job.privacy is not None]
    found = [one.epsilon for one in promises if one.noise is None and one.epsilon is not None]
    if found:
        yield f"a larger `privacy.epsilon` (now {_now(found)})"
        yield "fewer `training.rounds`, where so many are not needed, for which less noise will do"
    if given := [one.noise for one in promises if one.noise is not None]:
        yield f"less `privacy.noise` (now {_now(given)})"
    if any(one.unit == "example" for one in promises):
        yield f"a larger `training.batch` (now {_now(job.training.batch for job in jobs)}), in whose sum the same noise counts less"
        yield "more rows at each site"
    if any(one.unit == "client" for one in promises):
        yield "more sites"
        if part := [share for share in (job.training.participation for job in jobs) if share < 1]:
            yield f"a larger `training.participation` (now {_now(part)})"


def _now(values: Iterable[float]) -> str:
    return " and ".join(f"{value:g}" for value in dict.fromkeys(values))
