"""Differential privacy of a job: which trials are protected, and what each has spent at its end.

Letters: N sites.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from fedkg.federated import Algorithm, Clients, Problem, ServerState, Settings
from fedkg.federated.privacy.budget import Budget, ledgers
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.jobs.schema.algorithm_section import Algorithm as Section
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section
from fedkg.pack import Pack
from fedkg.pack.file import pack_digest
from fedkg.privacy import Gaussian, Ledger, Spent

MAX_LEDGERS = 20
"""Number of ledgers in `privacy.csv`, largest spending first."""

EXECUTION_FIELDS = (
    "executor",
    "device",
    "workers",
    "chunk",
    "client_memory",
    "threads",
    "checkpoint_every",
)
"""Fields of `training` that affect how fedkg computes, but not the result."""


def trial_seed(config: TrialConfig, pack: Pack, clients: Clients) -> int:
    """The seed of a trial's initial model, client sampling, minibatches and noise.

    For a protected trial it depends on the whole configuration, the rules and every training
    sample. Two trials with equal noise could be subtracted: the noise would cancel, and data that
    differ in one row would reveal that row. Accountants also assume independent sampling and noise.
    """
    section = algorithm_section(config.job)
    if config.job.privacy is None or section.exchange == "none" or has_system_noise(config.job):
        return config.seed
    fields = {"rules", "pack", "output", "sites", "data", "model", "training", "scoring", "privacy"}
    told = config.job.model_dump_json(include=fields, exclude={"training": set(EXECUTION_FIELDS)})
    corrupt = "" if config.corrupt is None else config.corrupt.model_dump_json()
    if config.job.simulation.attacks.changes != "none":
        corrupt += config.job.simulation.model_dump_json()
    return derive_seed(
        config.seed,
        told,
        section.model_dump_json(),
        corrupt,
        pack_digest(pack),
        client_data_digest(clients),
    )


def derive_seed(seed: int, *told: str) -> int:
    """A seed below 2^56 that depends on another seed and on texts."""
    return int.from_bytes(
        hashlib.sha256("\0".join((str(seed), *told)).encode()).digest()[:7], "big"
    )


def client_data_digest(clients: Clients) -> str:
    """SHA-256 of all training data, site by site.

    fedkg never stores it: with it, or with a value derived from it and the seed, an attacker could
    test guesses about the data.
    """
    found = hashlib.sha256()
    columns = {
        "x": clients.x,
        "y": clients.y,
        **{f"key {name}": codes for name, codes in sorted(clients.keys.items())},
    }
    found.update(repr(clients.names).encode())
    for name, parts in columns.items():
        found.update(
            repr((name, [(tuple(part.shape), str(part.dtype)) for part in parts])).encode()
        )
        for part in parts:
            found.update(part.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return found.hexdigest()


def protect_algorithm(
    job: Job, section: Section, algorithm: Algorithm, problem: Problem, settings: Settings
) -> Algorithm:
    """The algorithm with the privacy mechanism of the job; unchanged if sites send nothing.

    Raises:
        JobError: no noise level achieves the privacy target, or a term of the objective couples
            rows.
    """
    privacy = job.privacy
    if privacy is None or section.exchange == "none":
        return algorithm
    promise = Protection(
        unit=privacy.unit,
        clip=privacy.clip,
        delta=privacy.delta,
        noise=privacy.noise,
        epsilon=privacy.epsilon,
        accountant=privacy.accountant,
        randomness=privacy.randomness,
    )
    return protected(algorithm, promise, problem.clients.samples, settings)


def has_system_noise(job: Job) -> bool:
    """Whether the noise of a job comes from the operating system, and thus never again."""
    return job.privacy is not None and job.privacy.randomness == "system"


def privacy_rows(
    config: str, budget: Budget, problem: Problem, state: ServerState
) -> list[dict[str, Any]]:
    """The rows of `privacy.csv` for a finished trial: the entries of the largest ledgers.

    `Any`: texts and numbers.
    """
    every = sorted(
        ledgers(budget, state, problem.clients.names), key=_rough_spending, reverse=True
    )[:MAX_LEDGERS]
    return [
        {
            "trial": config,
            "unit": ledger.unit,
            "what": entry.what,
            "noise": entry.noise if isinstance(entry, Gaussian) else None,
            "rate": entry.rate if isinstance(entry, Gaussian) else None,
            "each": entry.epsilon if isinstance(entry, Spent) else None,
            "releases": entry.releases,
            "epsilon": spent,
            "delta": budget.delta,
            "clip": budget.clip,
            "accountant": budget.accountant,
            "budget": budget.epsilon,
            "randomness": budget.randomness,
        }
        for ledger, spent in _rank_by_epsilon(every, budget)
        for entry in ledger.entries
    ]


def _rank_by_epsilon(every: list[Ledger], budget: Budget) -> list[tuple[Ledger, float]]:
    """Ledgers with their epsilon, largest first."""
    priced = [(ledger, ledger.epsilon(budget.delta, budget.accountant)) for ledger in every]
    return sorted(priced, key=lambda one: one[1], reverse=True)


def _rough_spending(ledger: Ledger) -> float:
    """A cheap estimate of the spending: the sum of rate^2 / noise^2, and known epsilons."""
    return sum(
        entry.releases
        * ((entry.rate / entry.noise) ** 2 if isinstance(entry, Gaussian) else entry.epsilon)
        for entry in ledger.entries
    )
