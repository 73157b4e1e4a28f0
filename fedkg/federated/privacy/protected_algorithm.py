"""An algorithm under differential privacy: which joints change, and how much noise the budget asks
for.

Letters: N clients in all, m clients expected in a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import JobError
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.client.batches import steps_of
from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.privacy.budget import Budget, Unit, planned
from fedkg.federated.privacy.dp_sgd import ClippedGradient, parted
from fedkg.federated.privacy.update_noise import ClippedClients
from fedkg.federated.round_steps import OnAllInvalid, WeightingRule
from fedkg.federated.server.sampling import PoissonSampling
from fedkg.federated.server.scoring import ProbeScores, ScoredRows, Weighed
from fedkg.federated.server.weighted_mean import Sums, WeightedMean
from fedkg.federated.settings import Settings
from fedkg.federated.temporal.distinct_mined_properties import used_properties
from fedkg.models.model_protocols import Params
from fedkg.privacy import AccountantName, Randomness, Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """The differential privacy of a training.

    Attributes:
        unit: the protected unit: one sample (``example``) or one client with all its samples
            (``client``).
        clip: the largest norm of a sample's gradient, or of a client's update.
        delta: the delta of the guarantee; choose it well below 1 / number of units.
        noise: standard deviation of the noise, in units of `clip`; None: the least noise that keeps
            all rounds within `epsilon`.
        epsilon: the budget; the training ends before the round that would exceed it. None: no
            limit.
        accountant: the method that composes releases, see `fedkg.privacy`.
        spent: earlier releases about each unit, such as mined parameters.
        randomness: where the noise, and the chance to take part, come from: ``seeded``, a
            simulation that can be repeated and protects nothing, or ``system``.

    Raises:
        JobError: a number is out of its range, or neither noise nor epsilon is given.
    """

    unit: Unit
    clip: float
    delta: float
    noise: float | None = None
    epsilon: float | None = None
    accountant: AccountantName = "rdp"
    spent: tuple[Spent, ...] = ()
    randomness: Randomness = "seeded"

    def __post_init__(self) -> None:
        if self.unit not in ("example", "client"):
            raise JobError(
                "`unit` of the privacy has an unknown value",
                expected="example or client",
                received=repr(self.unit),
            )
        if not self.clip > 0 or not 0 < self.delta < 1:
            raise JobError(
                "`clip` or `delta` of the privacy is out of range",
                expected="clip > 0 and 0 < delta < 1",
                received=f"clip {self.clip}, delta {self.delta}",
            )
        if self.noise is None and self.epsilon is None:
            raise JobError(
                "the privacy needs `noise`, or `epsilon`, from which fedkg computes the noise"
            )
        if (self.noise is not None and not self.noise > 0) or (
            self.epsilon is not None and not self.epsilon > 0
        ):
            raise JobError(
                "`noise` and `epsilon` of the privacy must be above 0",
                received=", ".join(
                    f"{name} {value}"
                    for name, value in (("noise", self.noise), ("epsilon", self.epsilon))
                    if value is not None
                ),
            )


def protected(
    algorithm: Algorithm, protection: Protection, samples: Sequence[int], settings: Settings
) -> Algorithm:
    """The algorithm under a protection.

    All other steps of the round stay as they are, such as the server's use of the updates.

    Args:
        samples: n_k of each client, which are assumed to be public.
        settings: the settings of the training.

    Raises:
        JobError: a term couples samples, an aggregate has no bound for one client's share, or no
            noise satisfies the epsilon.
    """
    if protection.unit == "example":
        spent = _known_parts(algorithm, protection)
        sizes = torch.tensor(list(samples), dtype=torch.int64)
        rates = tuple(min(1.0, settings.batch / count) for count in samples)
        releases = tuple(steps_of(sizes, settings).tolist())
    else:
        if type(algorithm.aggregate) is not WeightedMean:
            raise JobError(
                "the privacy of clients needs a bound for the effect of one client, and the "
                f"aggregate {type(algorithm.aggregate).__name__} has none",
                help=(
                    "use `aggregate: mean`, or protect rows (`unit: example`), which works with "
                    "every aggregate"
                ),
            )
        spent, rates, releases = protection.spent, (settings.participation,), (1,)
    budget = Budget(
        unit=protection.unit,
        clip=protection.clip,
        noise=protection.noise or 0.0,
        delta=protection.delta,
        accountant=protection.accountant,
        epsilon=protection.epsilon,
        rates=rates,
        releases=releases,
        spent=spent,
        randomness=protection.randomness,
    )
    if protection.noise is None:
        budget = budget.calibrated(planned(budget, algorithm.sampling, settings, len(samples))[-1])
    if protection.unit == "example":
        return replace(
            algorithm,
            differentiation=ClippedGradient(
                clip=budget.clip, noise=budget.noise, randomness=budget.randomness
            ),
            budget=budget,
        )
    return _of_clients(algorithm, budget, settings.participation, len(samples))


def _known_parts(algorithm: Algorithm, protection: Protection) -> tuple[Spent, ...]:
    """What was released before, with the properties that teach and cluster clients.

    Raises JobError for terms that couple samples.
    """
    parted(algorithm.terms)
    mined = tuple(
        Spent(
            what="mined properties", epsilon=one.epsilon / one.parameters, releases=one.parameters
        )
        for one in used_properties(algorithm)
        if one.epsilon is not None
    )
    return (*protection.spent, *mined)


def _of_clients(
    algorithm: Algorithm, budget: Budget, participation: float, population: int
) -> Algorithm:
    expected = participation * population
    return replace(
        algorithm,
        sampling=PoissonSampling(rate=participation, randomness=budget.randomness)
        if participation < 1.0
        else algorithm.sampling,
        privacy=ClippedClients(
            clip=budget.clip, noise=budget.noise, expected=expected, randomness=budget.randomness
        ),
        weighting=AtMostOne(inner=algorithm.weighting),
        aggregate=FixedMean(expected=expected),
        budget=budget,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMostOne:
    """Weights of another kind for clients of equal size, at most 1 each: a client's own matter, and
    bounded.

    The rules' score of an update depends on that update alone, so that SCFA's weights stay within
    what is noised.

    Args:
        inner: by which clients are weighted.
    """

    inner: WeightingRule

    @property
    def on_all_invalid(self) -> OnAllInvalid:
        """See `WeightingRule.on_all_invalid`: a sum of nothing is noised like any other, and
        nothing else tells that it was one.
        """
        return "skip"

    @property
    def needs_scores(self) -> bool:
        """See `WeightingRule.needs_scores`."""
        return self.inner.needs_scores

    def weigh(
        self, samples: Tensor, scores: ProbeScores | None, rows: ScoredRows | None
    ) -> Weighed:
        """See `WeightingRule.weigh`."""
        weights, validity = self.inner.weigh(torch.ones_like(samples), scores, rows)
        return Weighed(weights.clamp(0.0, 1.0), validity)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedMean(WeightedMean):
    """``sum_k w_k update_k / m`` with m fixed before: the sum of weights would tell of clients,
    too.

    Args:
        expected: m.
    """

    expected: float

    @override
    def finish(self, fold: Sums) -> Params:
        """See `AggregationRule.finish`."""
        inverse = torch.full_like(fold.weight, 1.0 / self.expected)
        return {name: total * per_client(inverse, total) for name, total in fold.update.items()}
