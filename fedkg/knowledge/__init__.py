"""Knowledge models on data, in NumPy: what a pack allows and predicts for each sample."""

from fedkg.knowledge.agreement import Agreement, agreement
from fedkg.knowledge.bins import bin_of, centres, edges, expected, mask_of
from fedkg.knowledge.predictions import predictions
from fedkg.knowledge.ranges import allowed_classes, allowed_interval
from fedkg.knowledge.trust import ChosenTrust, chosen_trust, folds

__all__ = [
    "Agreement",
    "ChosenTrust",
    "agreement",
    "allowed_classes",
    "allowed_interval",
    "bin_of",
    "centres",
    "chosen_trust",
    "edges",
    "expected",
    "folds",
    "mask_of",
    "predictions",
]
