"""Knowledge models on data, in NumPy: the classes that a pack allows and predicts for each
sample."""

from fedkg.knowledge.allowed_answers import allowed_classes, allowed_interval
from fedkg.knowledge.knowledge_data_agreement import Agreement, agreement
from fedkg.knowledge.predictions import predictions
from fedkg.knowledge.target_bins import (
    bin_centres,
    bin_edges,
    bin_of,
    bins_in_interval,
    expected_number,
)
from fedkg.knowledge.trust_cross_validation import ChosenTrust, choose_trust, folds

__all__ = [
    "Agreement",
    "ChosenTrust",
    "agreement",
    "allowed_classes",
    "allowed_interval",
    "bin_centres",
    "bin_edges",
    "bin_of",
    "bins_in_interval",
    "choose_trust",
    "expected_number",
    "folds",
    "predictions",
]
