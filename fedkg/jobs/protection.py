"""The privacy of a job: which arms it protects, and what each has spent at its end.

Letters: N sites.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from fedkg.federated import Algorithm, Clients, Problem, ServerState, Settings
from fedkg.federated.privacy.budget import Budget, ledgers
from fedkg.federated.privacy.protected import Protection, protected
from fedkg.jobs.schema.algorithm_section import Algorithm as Section
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trials import TrialConfig, algorithm_section
from fedkg.pack import Pack
from fedkg.pack.file import pack_digest
from fedkg.privacy import Gaussian, Ledger, Spent

MAX_LEDGERS = 20
"""Ledgers that are written down: of the units that have spent most."""

EXECUTION_FIELDS = (
    "executor",
    "device",
    "workers",
    "chunk",
    "client_memory",
    "threads",
    "checkpoint_every",
)
"""Fields of `training` that say how it is computed, and not what is trained."""


def trial_seed(config: TrialConfig, pack: Pack, clients: Clients) -> int:
    """The seed of an arm's start, sampling, minibatches and noise.

    Of a protected arm it hangs on all that tells the arm from others, on the rules, and on every sample that is trained on: two trainings
    with the same noise could be subtracted from each other, which would take the noise off and, of data that differ in one row, leave that
    row; and accountants compose draws and noise that are independent.
    """
    section = algorithm_section(config.job)
    if config.job.privacy is None or section.exchange == "none":
        return config.seed
    fields = {"rules", "pack", "output", "sites", "data", "model", "training", "scoring", "privacy"}
    told = config.job.model_dump_json(include=fields, exclude={"training": set(EXECUTION_FIELDS)})
    corrupt = "" if config.corrupt is None else config.corrupt.model_dump_json()
    return derive_seed(
        config.seed,
        told,
        section.model_dump_json(),
        corrupt,
        pack_digest(pack),
        client_data_digest(clients),
    )


def derive_seed(seed: int, *told: str) -> int:
    """A seed of its own for what these texts tell, below 2^56."""
    return int.from_bytes(
        hashlib.sha256("\0".join((str(seed), *told)).encode()).digest()[:7], "big"
    )


def client_data_digest(clients: Clients) -> str:
    """SHA-256 of all that the sites train on, site by site: the same for the same samples alone.

    It is written nowhere. Whoever sees it, or what follows from it and the seed, can try which of a few guessed data it is of.
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
    """The algorithm under the job's privacy; as it is where nothing is sent, and so nothing can be told.

    Raises:
        JobError: when no noise keeps the promise, or a term of the objective couples rows.
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
    )
    return protected(algorithm, promise, problem.clients.samples, settings)


def privacy_rows(
    config: str, budget: Budget, problem: Problem, state: ServerState
) -> list[dict[str, Any]]:
    """The lines of `privacy.csv` for an arm that is over: each entry of the ledgers that have spent most. `Any`: texts and numbers."""
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
        }
        for ledger, spent in _rank_by_epsilon(every, budget)
        for entry in ledger.entries
    ]


def _rank_by_epsilon(every: list[Ledger], budget: Budget) -> list[tuple[Ledger, float]]:
    """Ledgers with what they have spent, the most first."""
    priced = [(ledger, ledger.epsilon(budget.delta, budget.accountant)) for ledger in every]
    return sorted(priced, key=lambda one: one[1], reverse=True)


def _rough_spending(ledger: Ledger) -> float:
    """About how much was spent, without an accountant: the sum of rate^2 over noise^2 of all releases, and what is known."""
    return sum(
        entry.releases
        * ((entry.rate / entry.noise) ** 2 if isinstance(entry, Gaussian) else entry.epsilon)
        for entry in ledger.entries
    )
