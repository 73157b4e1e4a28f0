"""Mining of the parameters of temporal templates from each client's traces."""

from fedkg.mining.level_selection import Pick, least, private, quantile
from fedkg.mining.template_enumeration import Property, enumerate_inferences, mine_properties
from fedkg.mining.tightest_parameters import MiningResult, mine, satisfied_traces

__all__ = [
    "MiningResult",
    "Pick",
    "Property",
    "enumerate_inferences",
    "least",
    "mine",
    "mine_properties",
    "private",
    "quantile",
    "satisfied_traces",
]
