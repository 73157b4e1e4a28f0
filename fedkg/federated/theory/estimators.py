"""Estimates of the constants in SCFA's theorems from what a run can see.

Letters: K clients, P parameters, I parameter vectors.
"""

from __future__ import annotations

import math

from torch import Tensor

from fedkg.evaluation.violation_rate_drift import wilson_interval


def hypothesis_share(valid: Tensor) -> tuple[float, tuple[float, float]]:
    """theta: the share of sampled parameter vectors at which all constraints hold (bool [I]), with
    Wilson's 95 % interval.
    """
    count = int(valid.sum())
    return count / len(valid), wilson_interval(count, len(valid))


def divergence(updates: Tensor) -> float:
    """``mean_k |update_k - mean|^2 / |mean|^2`` of one round's updates [K, P], a squared quantity;
    infinite when the mean is 0.
    """
    mean = updates.mean(0)
    length = float(mean.square().sum())
    return float((updates - mean).square().sum(1).mean()) / length if length > 0 else math.inf
