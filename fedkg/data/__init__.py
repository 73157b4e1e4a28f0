"""Tables for federations: milling data, splits over sites, standardisation and units; see also
`fedkg.data.sets`.
"""

from fedkg.data.column_units import unit_conversion
from fedkg.data.frame import Frame, concatenate, from_table
from fedkg.data.partition import Split, by_column, deal_names, dirichlet, hold_out, iid
from fedkg.data.skews import by_site, classes_per_site, dirichlet_sizes, quantity_skew
from fedkg.data.split_summary import SplitTable, load_split, save_split, split_table
from fedkg.data.standardise import Scaling, pooled_scaling

__all__ = [
    "Frame",
    "Scaling",
    "Split",
    "SplitTable",
    "by_column",
    "by_site",
    "classes_per_site",
    "concatenate",
    "deal_names",
    "dirichlet",
    "dirichlet_sizes",
    "from_table",
    "hold_out",
    "iid",
    "load_split",
    "pooled_scaling",
    "quantity_skew",
    "save_split",
    "split_table",
    "unit_conversion",
]
