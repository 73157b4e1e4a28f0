"""Personalised algorithms: FedRep, Ditto, IFCA."""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.client.optimisers import PrivateFirst
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.client.start_points import BestModel, GlobalStart, OwnModel, PrivateLayers
from fedkg.federated.round_steps import StartRule


def fedrep(*, private: tuple[str, ...], first: float = 0.5) -> Algorithm:
    """Shared layers and private ones, trained one after the other (Collins et al. 2021, algorithm
    1).

    Args:
        private: prefixes of the names of the private parameters, such as ``layers.2.``; they never
            leave a client.
        first: the share of local steps that train the private layers, before the others train the
            shared ones.
    """
    return Algorithm(
        name="fedrep",
        start=PrivateLayers(private=private),
        local=PrivateFirst(private=private, share=first),
    )


def ditto(*, strength: float = 0.1, common: StartRule | None = None) -> Algorithm:
    """FedAvg, and beside it a model of each client's own, pulled towards the common one (Li et al.,
    "Ditto", 2021, algorithm 1).

    Each client trains both in a round, on the same minibatches: the common model as in FedAvg, its
    own by ``v <- v - rate (g(v) + strength (v - w_received))``. The common model is FedAvg's
    whatever the strength, to the bit, while personal models are finite: a client with NaN in its
    own is left out.

    Args:
        strength: lambda, at least 0; 0 trains each personal model independently.
        common: where the common models begin, several with `BestModel`; by default at the one model
            of the server.
    """
    start = GlobalStart() if common is None else common
    own = Algorithm(
        name="own",
        start=OwnModel(room="own", common=start),
        terms=(Proximal(strength=strength),) if strength else (),
    )
    return Algorithm(name="ditto", start=start, beside=own)


def ifca(*, models: int = 2) -> Algorithm:
    """FedAvg within clusters that clients choose themselves (Ghosh et al. 2020), see `BestModel`.

    Args:
        models: how many the server holds; 1 is FedAvg, to the bit.
    """
    return Algorithm(name="ifca", start=BestModel(models=models))
