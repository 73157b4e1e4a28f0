"""Measure the constants of the theorems during a training, round by round and at its end."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import torch

from fedkg.errors import JobError
from fedkg.federated import RoundRecord, ServerState, initial_state
from fedkg.federated.client.per_client_settings import steps_for
from fedkg.federated.executors import Work
from fedkg.federated.pcfedavg.bound_comparison import promised
from fedkg.federated.problem import pool
from fedkg.federated.server.scoring import ScoreOptions
from fedkg.federated.theory.scfa_constants import sight, theta
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.schema.job import Theory
from fedkg.jobs.trial_expansion import TrialConfig

Line = dict[str, Any]
"""A line of a CSV file. `Any`: texts and numbers."""


class TheoryObserver:
    """Observes one trial without changing it."""

    def __init__(
        self, config: TrialConfig, trial: Trial, asked: Theory, state: ServerState | None
    ) -> None:
        settings = trial.settings
        problem = trial.problem
        self._config, self._asked = config, asked
        self._work = Work(
            problem=problem,
            algorithm=trial.algorithm,
            settings=settings,
            pool=pool(problem.clients),
        )
        self._begun = initial_state(problem, trial.algorithm, settings)
        self._before = self._begun if state is None else state
        scoring = config.job.scoring
        self._options = ScoreOptions(
            hard_tolerance=scoring.hard_tolerance, soft_tolerance=scoring.soft_tolerance
        )

    @property
    def common(self) -> bool:
        """Whether all sites share one model, as SCFA's theorems assume."""
        return self._work.algorithm.one_model and not self._work.algorithm.pooled

    def observe_round(self, state: ServerState, record: RoundRecord) -> list[Line]:
        """The row of `theory.csv` for a round: the first, the last, every `theory.every`-th."""
        before, self._before = self._before, state
        due = (
            record.round in (1, self._work.settings.rounds) or record.round % self._asked.every == 0
        )
        if not (due and self.common):
            return []
        seen = sight(self._work, self._options, before.params, state.params, record)
        return [
            {
                "trial": self._config.id,
                **asdict(seen),
                "valid": "" if seen.valid is None else int(seen.valid),
            }
        ]

    def final_lines(self, state: ServerState) -> list[Line]:
        """The row of `constants.csv`.

        Theta, PC-FedAvg's certificates, and notes about missing values.
        """
        work, notes = self._work, []
        line: Line = {
            "trial": self._config.id,
            "local_steps": int(steps_for(work, torch.arange(len(work.pool.sizes))).max()),
            "clients": len(work.problem.clients.names),
        }
        if not self.common:
            notes.append("SCFA's theorems assume one common model, and this algorithm has none")
        elif work.problem.scorer is not None and work.problem.scorer.rows.count:
            try:
                found = theta(
                    work.problem.scorer,
                    self._options,
                    state.params,
                    self._begun.params,
                    draws=self._asked.draws,
                    radius=self._asked.radius,
                    seed=self._config.seed,
                )
                low, high = found.interval
                line |= {
                    "theta": found.share,
                    "theta_low": low,
                    "theta_high": high,
                    "draws": found.draws,
                    "radius": found.radius,
                }
            except JobError as error:
                notes.append(error.message)
        promise = promised(work, self._begun, state)
        if promise is not None:
            line |= asdict(promise)
            if math.isnan(promise.bound):
                notes.append(
                    "certificates exist only for one local step per round on all samples "
                    "of a site, with a constant penalty"
                )
        return [line | {"note": "; ".join(notes)}]
