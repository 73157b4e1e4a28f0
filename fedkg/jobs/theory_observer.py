"""The instruments of a training: what it is asked to measure of its own theory, round by round and at its end."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import torch

from fedkg.errors import JobError
from fedkg.federated import RoundRecord, ServerState, initial_state
from fedkg.federated.agents.promised import promised
from fedkg.federated.client.pace import steps_for
from fedkg.federated.executors import Work
from fedkg.federated.problem import pool
from fedkg.federated.server.scoring import ScoreOptions
from fedkg.federated.theory.instruments import sight, theta
from fedkg.jobs.experiment import Trial
from fedkg.jobs.schema.job import Theory
from fedkg.jobs.trials import TrialConfig

Line = dict[str, Any]
"""A line of a CSV file. `Any`: texts and numbers."""


class TheoryObserver:
    """One training under observation; it changes nothing of it."""

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
        """Whether there is one model of all sites, as SCFA's theorems have it."""
        return self._work.algorithm.one_model and not self._work.algorithm.pooled

    def observe_round(self, state: ServerState, record: RoundRecord) -> list[Line]:
        """The line of `theory.csv` for a round, where one is due: at the first, the last, and in between as the job says."""
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
        """The line of `constants.csv`: theta, PC-FedAvg's certificates, and what could not be computed."""
        work, notes = self._work, []
        line: Line = {
            "trial": self._config.id,
            "local_steps": int(steps_for(work, torch.arange(len(work.pool.sizes))).max()),
            "clients": len(work.problem.clients.names),
        }
        if not self.common:
            notes.append("no common model, of which the theorems of SCFA speak")
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
                    "certificates are known for one local step a round alone, on all samples of a site, with a penalty that stays"
                )
        return [line | {"note": "; ".join(notes)}]
