"""A job that several processes train together (`torchrun`): rank 0 has the run folder, the others do as it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedkg._internal.threads import library_threads
from fedkg.federated.executors import Ranks
from fedkg.jobs.experiment import Experiment
from fedkg.jobs.experiment_factory import create_experiment
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.training import train_rounds
from fedkg.jobs.trials import TrialConfig, plan_trials
from fedkg.jobs.trust import require_trust
from fedkg.pack import pack_bytes, read_pack

END, JOB, TRIAL = "end", "job", "trial"
"""What rank 0 may say: all is over; a job and its pack; the next arm of it."""


def broadcast_job(ranks: Ranks | None, job: Job, experiment: Experiment) -> None:
    """Tell the other ranks what is trained; with a pack and files that are the same for all."""
    if ranks is not None:
        ranks.first((JOB, job.model_dump(mode="json"), pack_bytes(experiment.pack)))


def broadcast_trial(ranks: Ranks | None, config: TrialConfig) -> None:
    """Tell the other ranks which arm is next."""
    if ranks is not None:
        ranks.first((TRIAL, config.id))


def broadcast_end(ranks: Ranks | None) -> None:
    """Tell the other ranks that all is over."""
    if ranks is not None:
        ranks.first((END,))


def follow_rank_zero(ranks: Ranks, trust_code: bool = False) -> None:
    """Train what rank 0 says until it says that all is over; what a rank but the first one does.

    Args:
        trust_code: whether code that the job imports (`model.path`) may run; every rank decides for itself.

    Raises:
        UsageError: the job imports code that is not trusted.
        JobError: when rank 0 or another one is gone or met an error; as for rank 0, when something is wrong here.
    """
    configs: dict[str, TrialConfig] = {}
    experiment: Experiment | None = None
    while True:
        told: tuple[Any, ...] = ranks.first(())
        match told:
            case ("job", document, body):
                job = parse_job(document, name="the job of rank 0", base=Path())
                require_trust((job,), trust_code)
                experiment = create_experiment(job, read_pack(body, name="the pack of rank 0"))
                configs = {config.id: config for config in plan_trials(job)}
                experiment.prepare(list(configs.values()))
            case ("trial", name):
                assert experiment is not None
                config = configs[name]
                with library_threads(config.job.training.threads or 1):
                    for _ in train_rounds(
                        config, experiment.build_trial(config), None, None, ranks=ranks
                    ):
                        pass
            case _:
                return
