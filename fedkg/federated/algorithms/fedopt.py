"""Adaptive server steps (Reddi et al., "Adaptive federated optimization", 2021, algorithm 2)."""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.server.optimisers import AdaptiveStep


def fedadam(
    *, rate: float = 0.1, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3
) -> Algorithm:
    """FedAvg with Adam at the server; the options are those of `AdaptiveStep`."""
    return Algorithm(
        name="fedadam",
        server=AdaptiveStep(memory="adam", rate=rate, beta1=beta1, beta2=beta2, tau=tau),
    )


def fedyogi(
    *, rate: float = 0.1, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3
) -> Algorithm:
    """FedAvg with Yogi at the server; the options are those of `AdaptiveStep`."""
    return Algorithm(
        name="fedyogi",
        server=AdaptiveStep(memory="yogi", rate=rate, beta1=beta1, beta2=beta2, tau=tau),
    )


def fedadagrad(*, rate: float = 0.1, beta1: float = 0.0, tau: float = 1e-3) -> Algorithm:
    """FedAvg with Adagrad at the server; the options are those of `AdaptiveStep`."""
    return Algorithm(
        name="fedadagrad", server=AdaptiveStep(memory="adagrad", rate=rate, beta1=beta1, tau=tau)
    )
