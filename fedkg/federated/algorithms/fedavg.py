"""Federated averaging (McMahan et al., "Communication-efficient learning of deep networks from
decentralized data", 2017).
"""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.server.scoring import ScoreOptions
from fedkg.federated.server.weighting import BySamples


def fedavg(*, hard_tolerance: float = 0.0, soft_tolerance: float = 0.05) -> Algorithm:
    """``w <- w + sum_k (n_k / n) (w_k - w)`` over the sampled clients k; where there are rules they
    are measured and not obeyed.

    Args:
        hard_tolerance, soft_tolerance: how violations are measured, see `ScoreOptions`. Violation
            rates of two algorithms can be
            compared only where they are equal.
    """
    options = ScoreOptions(hard_tolerance=hard_tolerance, soft_tolerance=soft_tolerance)
    return Algorithm(name="fedavg", weighting=BySamples(options=options))
