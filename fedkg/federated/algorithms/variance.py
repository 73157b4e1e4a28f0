"""Algorithms that take the clients' differences out of their steps: SCAFFOLD, and Scaffnew beside
it.
"""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.client.variates import ControlVariates, ProxSkip
from fedkg.federated.server.optimisers import AddUpdate


def scaffold(*, rate: float = 1.0) -> Algorithm:
    """FedAvg with control variates at the clients and the server (Karimireddy et al. 2020, option
    II), see `ControlVariates`.

    The first round is FedAvg's, to the bit: all variates are still 0.

    Args:
        rate: of the server.
    """
    return Algorithm(name="scaffold", local=ControlVariates(), server=AddUpdate(rate=rate))


def scaffnew() -> Algorithm:
    """FedAvg with control variates that are never sent (Mishchenko et al. 2022), see `ProxSkip`.

    For all clients in every round and a fixed number of local steps. The first round is FedAvg's,
    to the bit.
    """
    return Algorithm(name="scaffnew", local=ProxSkip())
