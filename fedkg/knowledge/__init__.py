"""Knowledge models on data, in NumPy: what a pack allows and predicts for each sample."""

from fedkg.knowledge.agreement import Agreement, agreement
from fedkg.knowledge.bins import bin_of, centres, edges, expected, mask_of
from fedkg.knowledge.predictions import predictions
from fedkg.knowledge.ranges import allowed_classes, allowed_interval

__all__ = [
    "Agreement",
    "agreement",
    "allowed_classes",
    "allowed_interval",
    "bin_of",
    "centres",
    "edges",
    "expected",
    "mask_of",
    "predictions",
]
