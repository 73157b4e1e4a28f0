"""What a protected training spends of its budget: known before the first round, because who takes
part and how often is chance of the seed.

Letters: N clients in all, T rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.server.sampling import PoissonSampling
from fedkg.models.model_protocols import Params
from fedkg.privacy import (
    AccountantName,
    Entry,
    Gaussian,
    Ledger,
    Randomness,
    Spent,
    epsilon_of,
    noise_for,
)

if TYPE_CHECKING:
    from fedkg.federated.round_steps import SamplingRule
    from fedkg.federated.settings import Settings
    from fedkg.federated.state import ServerState

Unit = Literal["example", "client"]

DISTINCT = 32
"""Ledgers that are compared as they are; of more, similar ones are taken together, with the largest
rate and the most releases of them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a training releases about each unit in a round, and the privacy loss that it may cause.

    Attributes:
        unit: the protected unit: ``example``, each sample of a client, or ``client``, everything
            that a client has.
        clip: the largest norm of one contribution to a sum.
        noise: the standard deviation of the noise, as a multiple of `clip`.
        delta: delta of the privacy guarantee.
        accountant: the method that adds up privacy losses, see `fedkg.privacy`.
        epsilon: the largest permitted privacy loss; None: no limit.
        rates: the probability to be in a sum: for each client's samples, [N], or for clients, [1].
        releases: the number of sums in a round: for each client that takes part, [N]; for clients
            one sum in every round, [1].
        spent: what was released about each unit before the training.
        randomness: where the noise comes from; ``seeded`` noise is a simulation.
    """

    unit: Unit
    clip: float
    noise: float
    delta: float
    accountant: AccountantName
    epsilon: float | None
    rates: tuple[float, ...]
    releases: tuple[int, ...]
    spent: tuple[Spent, ...] = ()
    randomness: Randomness = "seeded"

    def begin(self) -> Params:
        """What the server's state remembers: the sums released of each client's samples (or of
        clients) so far, the noise on them, and the
        chance to be in one."""
        return {
            "releases": torch.zeros(len(self.rates), dtype=torch.int64),
            "noise": torch.tensor([self.noise], dtype=torch.float64),
            "rates": torch.tensor(self.rates, dtype=torch.float64),
        }

    def after(self, memory: Params, clients: Tensor) -> Params:
        """What is remembered after one more round, in which clients (int64 [K]) took part."""
        added = torch.zeros_like(memory["releases"])
        each = torch.tensor(self.releases, dtype=torch.int64)
        if self.unit == "client":
            added += each
        else:
            chosen = clients.cpu()
            added[chosen] = each[chosen]
        return {**memory, "releases": memory["releases"] + added}

    def ledger(self, unit: str, rate: float, releases: int) -> Ledger:
        """The ledger of a unit that was in sums with this chance."""
        entry = Gaussian(what="training", noise=self.noise, rate=rate, releases=releases)
        return Ledger(unit=unit, entries=(*self.spent, entry))

    def epsilon_after(self, releases: Sequence[int], accountant: str | None = None) -> float:
        """Return the privacy loss of the most exposed unit after the given numbers of sums."""
        return max(
            (
                epsilon_of(
                    self._entries(self.noise, *one), self.delta, accountant or self.accountant
                )
                for one in _front(self.rates, releases)
            ),
            default=0.0,
        )

    def calibrated(self, releases: Sequence[int]) -> Budget:
        """Return the budget with the least noise that no unit exceeds after the given numbers of
        sums.
        """
        assert self.epsilon is not None
        noise = 0.0
        for rate, count in _front(self.rates, releases):
            if (
                not noise
                or epsilon_of(self._entries(noise, rate, count), self.delta, self.accountant)
                > self.epsilon
            ):
                noise = noise_for(
                    self.epsilon,
                    self.delta,
                    partial(self._entries, rate=rate, releases=count),
                    self.accountant,
                )
        return replace(self, noise=noise)

    def _entries(self, noise: float, rate: float, releases: int) -> tuple[Entry, ...]:
        return (*self.spent, Gaussian(what="training", noise=noise, rate=rate, releases=releases))


def planned(
    budget: Budget, sampling: SamplingRule, settings: Settings, population: int
) -> list[Sequence[int]]:
    """The sums released of each by the end of each round, from none to those of all T rounds."""
    memory = budget.begin()
    found: list[Sequence[int]] = [tuple(0 for _ in budget.rates)]
    everybody = settings.participation == 1.0 and not isinstance(sampling, PoissonSampling)
    for number in range(1, settings.rounds + 1):
        if everybody or budget.unit == "client":
            clients = torch.arange(population)
        else:
            size = settings.sampled(population)
            clients = sampling.sample(
                seed=settings.seed, round=number, population=population, size=size
            )
        memory = budget.after(memory, clients)
        found.append(tuple(memory["releases"].tolist()))
    return found


def affordable(budget: Budget, sampling: SamplingRule, settings: Settings, population: int) -> int:
    """How many of the rounds the budget allows.

    Raises:
        JobError: not even one.
    """
    if budget.epsilon is None:
        return settings.rounds
    plan, low, high = planned(budget, sampling, settings, population), 0, settings.rounds
    limit = budget.epsilon

    def within(rounds: int) -> bool:
        quick = budget.accountant == "prv" and budget.epsilon_after(plan[rounds], "rdp") <= limit
        return quick or budget.epsilon_after(plan[rounds]) <= limit

    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if within(middle) else (low, middle - 1)
    if not low:
        cost = budget.epsilon_after(plan[1])
        raise JobError(
            "the privacy budget does not allow a single round",
            expected=f"epsilon of at most {limit:g} at delta {budget.delta:g}",
            received=f"epsilon {cost:.3g} after the first round",
            help="use more noise, fewer steps in a round, or a larger epsilon",
        )
    return low


def ledgers(budget: Budget, state: ServerState, names: Sequence[str]) -> list[Ledger]:
    """The privacy ledger of each unit (a sample of each client, or a client) in a state of the
    training.
    """
    releases = state.joints["privacy"]["releases"].tolist()
    if budget.unit == "client":
        return [budget.ledger("a client", budget.rates[0], releases[0])]
    return [
        budget.ledger(f"a row of {name}", rate, count)
        for name, rate, count in zip(names, budget.rates, releases, strict=True)
    ]


def check_same(
    budget: Budget, state: ServerState, sampling: SamplingRule, settings: Settings, population: int
) -> None:
    """Raises JobError when a state has spent otherwise than a training that is to go on with it has
    planned and would price.
    """
    memory = state.joints.get("privacy")
    if memory is None or len(memory["releases"]) != len(budget.rates):
        raise JobError(
            "the saved state was trained without this privacy protection, so its cost is unknown",
            help="continue with the algorithm that trained the state, or start a new run",
        )
    before = float(memory["noise"])
    if not math.isclose(before, budget.noise, rel_tol=1e-9):
        raise JobError(
            "the saved state was trained with another privacy noise",
            expected=f"{budget.noise:g}",
            received=f"{before:g}",
            help="continue with the settings of the earlier training, or start a new run",
        )
    rates, there = torch.tensor(budget.rates, dtype=torch.float64), memory["rates"].cpu()
    if not torch.allclose(rates, there, rtol=1e-9, atol=0.0):
        place = int((rates - there).abs().argmax())
        raise JobError(
            "the saved state was trained with another share of samples or clients in each step",
            **_unlike(float(rates[place]), float(there[place])),
        )
    if state.round:
        plan, done = (
            planned(budget, sampling, replace(settings, rounds=state.round), population)[-1],
            memory["releases"].tolist(),
        )
        for own, spent in zip(plan, done, strict=True):
            if own != spent:
                raise JobError(
                    "the saved state has released another number of noisy sums than these settings "
                    "plan",
                    **_unlike(own, spent),
                )


def _unlike(planned: float, found: float) -> dict[str, str]:
    return {
        "expected": f"{planned:g}",
        "received": f"{found:g}",
        "help": "continue with the settings of the earlier training, or start a new run",
    }


def _front(rates: Sequence[float], releases: Sequence[int]) -> list[tuple[float, int]]:
    """Rates and releases of those that nobody exceeds in both, the most expensive (roughly) first;
    never less than what is asked for.
    """
    found: list[tuple[float, int]] = []
    for rate, count in sorted(set(zip(rates, releases, strict=True)), reverse=True):
        if count and (not found or count > found[-1][1]):
            found.append((rate, count))
    if len(found) > DISTINCT:
        high, low = found[0][0], found[-1][0]
        width = math.log(high / low) / DISTINCT * (1 + 1e-9)
        bins: dict[int, tuple[float, int]] = {}
        for rate, count in found:
            place = int(math.log(high / rate) / width)
            top, most = bins.get(place, (0.0, 0))
            bins[place] = max(top, rate), max(most, count)
        found = list(bins.values())
    return sorted(found, key=lambda one: one[0] * math.sqrt(one[1]), reverse=True)
