"""The ends of the range of every numeric option of an algorithm.

The last allowed value is accepted; the next is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fedkg.errors import JobError
from fedkg.federated import algorithms as product
from fedkg.federated.client.optimisers import SGD, Adam
from fedkg.federated.pcfedavg.penalty import PenaltySchedule
from fedkg.federated.server.optimisers import AdaptiveStep

LEAST = 5e-324
"""The smallest number above 0."""
RANGES: list[tuple[Callable[..., Any], str, tuple[Any, ...], tuple[Any, ...]]] = [
    (product.fedprox, "mu", (0.0, LEAST), (-LEAST,)),
    (product.ditto, "strength", (0.0,), (-LEAST,)),
    (product.ifca, "models", (1,), (0,)),
    (product.trimmed_mean, "trim", (0.0, 0.5), (-LEAST, 0.50001)),
    (product.krum, "attackers", (0,), (-1,)),
    (product.multi_krum, "keep", (None, 1), (0,)),
    (product.fedrep, "first", (0.0, 1.0), (-LEAST, 1.00001)),
    (product.scfa, "beta", (1.0,), (0.99999, float("nan"))),
    (product.scfa, "hard_tolerance", (0.0, 1.0), (-LEAST, 1.00001)),
    (product.scfa, "soft_tolerance", (0.0, 1.0), (-LEAST, 1.00001)),
    (product.pcfedavg, "strength", (0.0, [0.0, 1.0]), (-LEAST, [0.0, -LEAST], [])),
    (product.pcfedavg, "penalty", (0.0, None), (-LEAST, float("inf"), float("nan"))),
    (product.pcfedavg, "smooth", (LEAST, None), (0.0,)),
    (partial(PenaltySchedule, growing=True), "first", (0.0,), (None,)),
    (SGD, "momentum", (0.0, 0.99999), (-LEAST, 1.0)),
    (SGD, "weight_decay", (0.0,), (-LEAST,)),
    (Adam, "beta1", (0.0, 0.99999), (-LEAST, 1.0)),
    (Adam, "beta2", (0.0, 0.99999), (-LEAST, 1.0)),
    (Adam, "tau", (LEAST,), (0.0,)),
    (partial(AdaptiveStep, memory="yogi"), "rate", (LEAST,), (0.0,)),
    (partial(AdaptiveStep, memory="yogi"), "beta1", (0.0, 0.99999), (-LEAST, 1.0)),
    (partial(AdaptiveStep, memory="yogi"), "beta2", (0.0, 1.0), (-LEAST, 1.00001)),
    (partial(AdaptiveStep, memory="yogi"), "tau", (LEAST,), (0.0,)),
]


@pytest.mark.parametrize(
    ("make", "name", "accepted", "rejected"),
    RANGES,
    ids=[f"{i}-{one[1]}" for i, one in enumerate(RANGES)],
)
def test_the_ends_of_a_range(
    make: Callable[..., Any], name: str, accepted: tuple[Any, ...], rejected: tuple[Any, ...]
) -> None:
    given = {"private": ("layers.1.",)} if make is product.fedrep else {}
    for value in accepted:
        make(**given, **{name: value})
    for value in rejected:
        with pytest.raises(JobError):
            make(**given, **{name: value})
