"""FedProx (Li et al., "Federated optimization in heterogeneous networks", 2020)."""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.client.proximal import Proximal


def fedprox(*, mu: float = 0.01) -> Algorithm:
    """FedAvg with a proximal term: ``mu / 2 |w - w_received|^2`` is added to the objective of the
    clients.

    Args:
        mu: at least 0; 0 is FedAvg, to the bit.
    """
    return Algorithm(name="fedprox", terms=(Proximal(strength=mu),) if mu else ())
