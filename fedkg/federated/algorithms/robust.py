"""FedAvg with an aggregate that a few clients cannot pull where they like."""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.server.robust import Krum, TrimmedMean, TrustedMean


def median() -> Algorithm:
    """The median of the updates in each coordinate (Yin et al. 2018), see `TrimmedMean`."""
    return Algorithm(name="median", aggregate=TrimmedMean(trim=0.5))


def trimmed_mean(*, trim: float = 0.1) -> Algorithm:
    """The mean in each coordinate without the share `trim` of the updates at either end (Yin et al.
    2018), see `TrimmedMean`.
    """
    return Algorithm(name="trimmed_mean", aggregate=TrimmedMean(trim=trim))


def krum(*, attackers: int = 1) -> Algorithm:
    """The one update that lies closest to its neighbours (Blanchard et al. 2017), see `Krum`."""
    return Algorithm(name="krum", aggregate=Krum(attackers=attackers))


def multi_krum(*, attackers: int = 1, keep: int | None = None) -> Algorithm:
    """The mean of the updates that lie closest to their neighbours (Blanchard et al. 2017), see
    `Krum`.
    """
    return Algorithm(name="multi_krum", aggregate=Krum(attackers=attackers, keep=keep))


def fltrust() -> Algorithm:
    """Updates weighted by how far they point where one made by the server does (Cao et al. 2021),
    see `TrustedMean`.
    """
    return Algorithm(name="fltrust", aggregate=TrustedMean())
