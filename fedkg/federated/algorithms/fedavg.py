"""Federated averaging (McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017)."""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm


def fedavg() -> Algorithm:
    """``w <- w + sum_k (n_k / n) (w_k - w)`` over the sampled clients k; where there are rules they are measured and not obeyed."""
    return Algorithm(name="fedavg")
