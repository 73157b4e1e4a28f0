"""Mining: the parameters of temporal templates, found in the traces of each client."""

from fedkg.mining.mining_result import Mined
from fedkg.mining.pick import Pick, least, private, quantile
from fedkg.mining.template_free import Property, enumerated, mine_properties
from fedkg.mining.tightest_parameters import mine, satisfied

__all__ = [
    "Mined",
    "Pick",
    "Property",
    "enumerated",
    "least",
    "mine",
    "mine_properties",
    "private",
    "quantile",
    "satisfied",
]
