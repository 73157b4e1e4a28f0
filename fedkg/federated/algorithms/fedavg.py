"""Federated averaging (McMahan et al., "Communication-efficient learning of deep networks from
decentralized data", 2017).
"""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.server.scoring import ScoreOptions
from fedkg.federated.server.weighting import BySamples


def fedavg(*, hard_tolerance: float = 0.0, soft_tolerance: float = 0.05) -> Algorithm:
    """``w <- w + sum_k (n_k / n) (w_k - w)`` over the sampled clients k. Rules are measured if
    there are any, but have no effect.

    Violation rates of two algorithms are comparable only if both tolerances are equal.

    Args:
        hard_tolerance: the violation rate up to which a hard rule counts as satisfied; see
            `ScoreOptions`.
        soft_tolerance: the violation rate up to which a soft rule counts as satisfied.
    """
    options = ScoreOptions(hard_tolerance=hard_tolerance, soft_tolerance=soft_tolerance)
    return Algorithm(name="fedavg", weighting=BySamples(options=options))
