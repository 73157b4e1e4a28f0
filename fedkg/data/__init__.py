"""Tables for federations: the milling data set, splits over sites, standardisation, units of sites' columns."""

from fedkg.data.frame import Frame, concatenate, from_table
from fedkg.data.partition import Split, by_column, deal, dirichlet, hold_out, iid
from fedkg.data.standardise import Scaling, pooled
from fedkg.data.units import conversion

__all__ = [
    "Frame",
    "Scaling",
    "Split",
    "by_column",
    "concatenate",
    "conversion",
    "deal",
    "dirichlet",
    "from_table",
    "hold_out",
    "iid",
    "pooled",
]
