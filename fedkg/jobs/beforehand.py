"""What can be known of every training before a folder is made."""

from __future__ import annotations

from collections.abc import Sequence

from fedkg.federated import initial_state
from fedkg.federated.composed import check
from fedkg.federated.privacy.budget import affordable
from fedkg.jobs.experiment import Experiment
from fedkg.jobs.trials import TrialConfig


def check_trials(ground: Experiment, arms: Sequence[TrialConfig]) -> None:
    """Every algorithm with every model once, so that what does not fit is said before others are trained.

    Raises:
        JobError: an algorithm and a model that do not fit each other; a budget of privacy that not even one round stays within.
    """
    firsts: dict[tuple[str, ...], TrialConfig] = {}
    for arm in arms:
        parts = arm.job.model, arm.job.privacy
        firsts.setdefault(
            (arm.algorithm, *("" if part is None else part.model_dump_json() for part in parts)),
            arm,
        )
    for arm in firsts.values():
        course = ground.course(arm)
        settings, algorithm = course.settings, course.algorithm
        check(algorithm, settings, len(course.problem.clients.names))
        initial_state(course.problem, algorithm, settings)
        if algorithm.budget is not None:
            affordable(
                algorithm.budget, algorithm.sampling, settings, len(course.problem.clients.names)
            )
