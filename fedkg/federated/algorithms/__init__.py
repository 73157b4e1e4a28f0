"""Algorithms as values; each is a choice at some joints of the round."""

from collections.abc import Callable

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.algorithms.fedavg import fedavg
from fedkg.federated.algorithms.fedopt import fedadagrad, fedadam, fedyogi
from fedkg.federated.algorithms.fedprox import fedprox
from fedkg.federated.algorithms.fedstl import fedstl
from fedkg.federated.algorithms.non_federated_baselines import centralised, local_only
from fedkg.federated.algorithms.pcfedavg import pcfedavg
from fedkg.federated.algorithms.personal import ditto, fedrep, ifca
from fedkg.federated.algorithms.robust import fltrust, krum, median, multi_krum, trimmed_mean
from fedkg.federated.algorithms.scfa import robust_scfa, scfa
from fedkg.federated.algorithms.variance import scaffnew, scaffold

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "fedavg": fedavg,
    "scfa": scfa,
    "fedprox": fedprox,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "fedadagrad": fedadagrad,
    "scaffold": scaffold,
    "scaffnew": scaffnew,
    "fedrep": fedrep,
    "ditto": ditto,
    "ifca": ifca,
    "pcfedavg": pcfedavg,
    "local_only": local_only,
    "centralised": centralised,
    "median": median,
    "trimmed_mean": trimmed_mean,
    "krum": krum,
    "multi_krum": multi_krum,
    "fltrust": fltrust,
    "robust_scfa": robust_scfa,
}
"""Algorithms that a job may name, with what makes them; beside them FedSTL, which is made of what
was mined in data, see `fedstl`.
"""

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "centralised",
    "ditto",
    "fedadagrad",
    "fedadam",
    "fedavg",
    "fedprox",
    "fedrep",
    "fedstl",
    "fedyogi",
    "fltrust",
    "ifca",
    "krum",
    "local_only",
    "median",
    "multi_krum",
    "pcfedavg",
    "robust_scfa",
    "scaffnew",
    "scaffold",
    "scfa",
    "trimmed_mean",
]
