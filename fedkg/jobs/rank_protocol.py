"""Train a job with several processes (`torchrun`).

Rank 0 owns the run folder and leads the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedkg._internal.threads import library_threads
from fedkg.federated.executors import Ranks
from fedkg.jobs.code_trust import require_trust
from fedkg.jobs.experiment.experiment import Experiment, create_experiment
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.trial_expansion import TrialConfig, plan_trials
from fedkg.jobs.trial_training import train_rounds
from fedkg.pack import pack_bytes, read_pack

END, JOB, TRIAL = "end", "job", "trial"
"""Messages of rank 0: the end of the run, a job with its pack, the next trial."""


def broadcast_job(ranks: Ranks | None, job: Job, experiment: Experiment) -> None:
    """Send the job and its pack to the other ranks."""
    if ranks is not None:
        ranks.first((JOB, job.model_dump(mode="json"), pack_bytes(experiment.pack)))


def broadcast_trial(ranks: Ranks | None, config: TrialConfig) -> None:
    """Send the next trial to the other ranks."""
    if ranks is not None:
        ranks.first((TRIAL, config.id))


def broadcast_end(ranks: Ranks | None) -> None:
    """Tell the other ranks that the run is over."""
    if ranks is not None:
        ranks.first((END,))


def follow_rank_zero(ranks: Ranks, trust_code: bool = False) -> None:
    """Train what rank 0 sends until it ends the run; the main loop of all other ranks.

    Args:
        trust_code: whether code that the job imports (`model.path`) may run; each rank decides.

    Raises:
        UsageError: the job imports untrusted code.
        JobError: another rank failed or disappeared, or this rank found an error.
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
