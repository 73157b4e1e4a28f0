"""What a federation is compared with: no exchange at all, and all data in one place."""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.client.start_points import OwnModel


def local_only() -> Algorithm:
    """Every client trains a separate model on its samples; nothing is sent.

    All start from the same model.
    """
    return Algorithm(name="local_only", start=OwnModel())


def centralised() -> Algorithm:
    """One model trained on all samples in one place, as FedAvg of one client; with one client it is
    FedAvg, to the bit.
    """
    return Algorithm(name="centralised", pooled=True)
