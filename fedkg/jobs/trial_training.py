"""Build and train one trial: problem, settings and rounds.

Letters: K sampled sites, S samples.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fedkg._internal.user_code import locate_failure
from fedkg.errors import JobError
from fedkg.federated import (
    Algorithm,
    Choice,
    Clients,
    Problem,
    RoundRecord,
    ServerState,
    Settings,
    initial_state,
    train,
)
from fedkg.federated.attacks import Attack
from fedkg.federated.device_transfer import device_named, on_device
from fedkg.federated.executors import Ranks, Work, WorkerPool
from fedkg.federated.model.constrained_outputs import Projected
from fedkg.federated.pcfedavg.agent_sets import AgentSets
from fedkg.federated.pcfedavg.round_step_sizes import StepWarning
from fedkg.federated.problem import pool
from fedkg.federated.round_steps import Term
from fedkg.federated.settings import MIB, Own
from fedkg.federated.temporal.client_property_mining import Inferred
from fedkg.federated.temporal.hard_rule_forecasts import HardForecasts
from fedkg.jobs.algorithm_builder import build_algorithm
from fedkg.jobs.folder import NOTE_SEPARATOR
from fedkg.jobs.hard_rule_answers import HardRules
from fedkg.jobs.job_privacy import protect_algorithm, trial_seed
from fedkg.jobs.model_builder import head_parameters
from fedkg.jobs.schema.job import Job
from fedkg.jobs.site_models import DeployedModels
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section
from fedkg.models import Model
from fedkg.pack import Pack

if TYPE_CHECKING:
    from fedkg.jobs.experiment.trial import Trial


def trial_settings(config: TrialConfig, pack: Pack, clients: Clients) -> Settings:
    """The federation settings of a trial.

    One local epoch if the job sets neither epochs nor steps.
    """
    training = config.job.training
    epochs = (
        1
        if training.local_epochs is None and training.local_steps is None
        else training.local_epochs
    )
    return Settings(
        rounds=training.rounds,
        participation=training.participation,
        local_epochs=epochs,
        local_steps=training.local_steps,
        batch=training.batch,
        learning_rate=training.learning_rate,
        schedule=training.schedule,
        seed=trial_seed(config, pack, clients),
        own={
            name: Own(
                learning_rate=site.learning_rate, local_epochs=site.local_epochs, batch=site.batch
            )
            for name, site in config.job.sites.items()
            if site.has_own_training
        },
        executor=training.executor,
        workers=training.workers,
        chunk=training.chunk,
        client_memory=training.client_memory * MIB,
        threads=training.threads or 1,
        precision=training.precision,
        wire=training.wire,
        secure_aggregation=training.secure_aggregation
        and algorithm_section(config.job).exchange != "none",
        scores_at_sites=config.job.scoring.at == "sites",
        measure_divergence=config.job.theory is not None,
    )


def build_trial_algorithm(
    config: TrialConfig,
    problem: Problem,
    settings: Settings,
    sets: AgentSets | None,
    *,
    terms: Sequence[Term] = (),
    inferred: Inferred | None = None,
) -> Algorithm:
    """The algorithm of a trial, with privacy if the job asks for it.

    Args:
        sets: parameter sets of the sites.
        terms: of the sites' objective besides the loss.
        inferred: properties mined from the sites' series.
    """
    section = algorithm_section(config.job)
    algorithm = build_algorithm(
        config.preset or config.algorithm,
        section,
        config.job.scoring,
        problem.model,
        sets,
        head=head_parameters(config.job.model, problem.model),
        inferred=inferred,
    ).with_terms(*terms)
    return protect_algorithm(config.job, section, algorithm, problem, settings)


def trial_attack(job: Job) -> Attack | None:
    """The attack of a job's simulation; None without one."""
    section = job.simulation.attacks
    if section.kind == "none" or section.changes == "none":
        return None
    return Attack(
        kind=section.kind,
        share=0.0 if section.sites else section.share,
        clients=section.sites,
        first_round=section.first_round,
        factor=section.factor,
    )


def positive_weight(job: Job, positives: int, negatives: int) -> float:
    """The weight of a row labelled 1 in the loss, for these numbers of training rows.

    Raises:
        JobError: the job asks to balance the labels, and all rows have the same one.
    """
    weight = job.training.positive_weight
    if weight != "balanced":
        return float(weight)
    if not positives:
        raise JobError(
            "training.positive_weight: no training row has the label 1, so fedkg "
            "cannot balance the labels",
            help="set it to a number, or add rows with the label 1",
        )
    if not negatives:
        raise JobError(
            "training.positive_weight: every training row has the label 1, so fedkg "
            "cannot balance the labels",
            help="set it to a number, or add rows with the label 0",
        )
    return negatives / positives


def require_devices(configs: Sequence[TrialConfig]) -> None:
    """Check the device of every trial before anything is read.

    Raises JobError if one is missing.
    """
    for name in dict.fromkeys(config.job.training.device for config in configs):
        device_named(name)
    for name in dict.fromkeys(
        config.job.augment.learning.device
        for config in configs
        if config.job.augment.by == "granger"
    ):
        if name != "cpu":
            device_named(name, "augment.learning.device")


def train_rounds(
    config: TrialConfig,
    trial: Trial,
    state: ServerState | None,
    choice: Choice | None,
    *,
    crew: WorkerPool | None = None,
    folder: Path | None = None,
    ranks: Ranks | None = None,
) -> Iterator[tuple[ServerState, RoundRecord]]:
    """The state and record after each further round of a trial, trained on the job's device.

    Args:
        state: the state to continue from; None to start.
        choice: the executor that an earlier trial measured, so that all trials of a run use the
            same
            arithmetic.
        crew: worker processes of the run.
        folder: for client state that does not fit in memory.
        ranks: the processes that train together.
    """
    problem, algorithm, settings = trial.problem, trial.algorithm, trial.settings
    here, device = torch.device("cpu"), device_named(config.job.training.device)
    if device != here:
        problem, algorithm, state = on_device((problem, algorithm, state), device)
    if state is None and choice is not None and trial.remote is None:
        state = replace(initial_state(problem, algorithm, settings), choice=choice)
    said, rounds = (
        trial.notes,
        train(
            problem,
            algorithm,
            settings,
            state,
            crew=crew,
            folder=folder,
            ranks=ranks,
            sites=trial.remote,
        ),
    )
    while True:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", StepWarning)
            try:
                found = next(rounds, None)
            except Exception as error:
                failure = locate_failure(error)
                if failure is None:
                    raise
                raise failure from error
        for warning in caught:
            if not issubclass(warning.category, StepWarning):
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
        if found is None:
            return
        state, record = found
        steps = dict.fromkeys(
            str(warning.message) for warning in caught if issubclass(warning.category, StepWarning)
        )
        if device != here:
            state, record = on_device((state, record), here)  # evaluation and checkpoints use it
        yield (
            state,
            replace(record, notes=(*record.notes, *(said if record.round == 1 else ()), *steps)),
        )


def note_missing_sets(config: TrialConfig, pack: Pack) -> tuple[str, ...]:
    """A note if the algorithm uses parameter sets and the rules define none."""
    section = algorithm_section(config.job)
    if (section.agents is None and section.sets is None) or any(
        projected.on == "parameters" for projected in pack.manifest.sets
    ):
        return ()
    return (
        (
            f"{config.algorithm} has no effect on parameters: the rules define no `set ... "
            "keep parameters in ...`"
        ),
    )


def note_projection(model: Model, hard: HardRules | None) -> tuple[str, ...]:
    """A note on which rules every answer satisfies, and which hard rules not."""
    if isinstance(model, HardForecasts):
        return (f"every forecast satisfies every hard rule: {', '.join(model.rules.names)}",)
    if isinstance(model, Projected):
        free = model.rules.not_projected
        projected = [
            rule.name
            for rule in model.rules.pack.manifest.rules
            if rule.output and rule.name not in free
        ]
        but = f"; not, or only in part, onto {', '.join(free)}" if free else ""
        return (f"answers are projected onto {', '.join(projected) or 'no rule'}{but}",)
    said = []
    if hard is not None and hard.enforced:
        said.append(
            f"every answer satisfies the hard rules {', '.join(hard.enforced)} (unless they "
            "contradict each other on its row)"
        )
    if hard is not None and hard.not_enforced:
        said.append(
            f"answers may violate the hard rules {', '.join(hard.not_enforced)}, which are not "
            "linear or compare answers"
        )
    return tuple(said)


def deployed_models(trial: Trial) -> DeployedModels:
    """The models that the sites of a trial deploy."""
    problem = trial.problem
    return DeployedModels(
        work=Work(
            problem=problem,
            algorithm=trial.algorithm,
            settings=trial.settings,
            pool=pool(problem.clients),
        )
    )


def round_row(
    config: TrialConfig, record: RoundRecord, figures: dict[str, float], parameters: int
) -> dict[str, Any]:
    """The row of `rounds.csv` for a round. `Any`: texts and numbers."""
    return {
        "trial": config.id,
        "round": record.round,
        **figures,
        "train_loss": record.train_loss,
        "rho_worst": record.rho_worst,
        "rho_mean": record.rho_mean,
        "zone": record.zone or "",
        "bytes": record.bytes_up + record.bytes_down,
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "bytes_paper": 4 * parameters,
        "seconds": round(record.seconds, 4),
        "notes": NOTE_SEPARATOR.join((*record.notes, *_note_unevaluated_rules(record))),
    }


def _note_unevaluated_rules(record: RoundRecord) -> Iterator[str]:
    """Rules that the first round cannot evaluate on the probe: one sentence per reason."""
    if record.round > 1 or record.violated is None:
        return
    by_reason: dict[str, Counter[str]] = {}
    for name, reason in record.not_evaluated.items():
        by_reason.setdefault(reason, Counter())[name.partition("[")[0]] += 1
    for reason, rules in by_reason.items():
        named = ", ".join(f"{rule} ({count})" for rule, count in rules.items())
        yield (
            f"{rules.total()} of {record.violated.shape[1]} bound rows are not evaluated"
            f" on the probe: {named}; {reason}"
        )


def client_rows(config: TrialConfig, record: RoundRecord) -> list[dict[str, Any]]:
    """The rows of `clients.csv` for a round: one per sampled site. `Any`: texts and numbers."""
    total = sum(record.samples)
    validity = record.validity or (math.nan,) * len(record.clients)
    rows = []
    for name, samples, s, alpha in zip(
        record.clients, record.samples, validity, record.alpha, strict=True
    ):
        status = "corrupted" if config.corrupt is not None and config.corrupt.site == name else ""
        if name in record.attackers:
            status = f"attacks: {config.job.simulation.attacks.kind}"
        if name in record.excluded:
            status = f"excluded: {record.excluded[name]}"
        rows.append(
            {
                "trial": config.id,
                "round": record.round,
                "client": name,
                "samples": samples,
                "validity": s,
                "alpha": alpha,
                "share": samples / total,
                "status": status,
            }
        )
    return rows
