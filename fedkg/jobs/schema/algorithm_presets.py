"""Algorithm presets: for each, the round steps that differ from FedAvg, as in a job file."""

from __future__ import annotations

from collections.abc import Mapping

PRESETS: Mapping[str, Mapping[str, object]] = {
    "fedavg": {},
    "scfa": {"weighting": "scfa"},
    "fedprox": {"proximal": 0.01},
    "fedadam": {"server": {"adam": {}}},
    "fedyogi": {"server": {"yogi": {}}},
    "fedadagrad": {"server": {"adagrad": {}}},
    "scaffold": {"local": {"scaffold": {}}},
    "scaffnew": {"local": {"scaffnew": {}}},
    "fedrep": {"private": {"first": 0.5}},
    "ditto": {"personal": {}},
    "ifca": {"grouping": {"ifca": {}}},
    "fedstl": {"grouping": {"fedstl": {}}, "private": {}},
    "pcfedavg": {"agents": {}},
    "local_only": {"exchange": "none"},
    "centralised": {"exchange": "data"},
    "median": {"aggregate": {"median": {}}},
    "trimmed_mean": {"aggregate": {"trimmed_mean": {}}},
    "krum": {"aggregate": {"krum": {}}},
    "multi_krum": {"aggregate": {"multi_krum": {}}},
    "fltrust": {"aggregate": {"fltrust": {}}},
    "robust_scfa": {"weighting": "scfa", "aggregate": {"multi_krum": {}}},
}
"""Presets by name."""

TITLES: Mapping[str, str] = {
    "fedavg": "FedAvg",
    "scfa": "SCFA",
    "fedprox": "FedProx",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "fedadagrad": "FedAdagrad",
    "scaffold": "SCAFFOLD",
    "scaffnew": "Scaffnew",
    "fedrep": "FedRep",
    "ditto": "Ditto",
    "ifca": "IFCA",
    "fedstl": "FedSTL",
    "pcfedavg": "PC-FedAvg",
    "local_only": "Each site alone",
    "centralised": "All data in one place",
    "median": "Median",
    "trimmed_mean": "Trimmed mean",
    "krum": "Krum",
    "multi_krum": "Multi-Krum",
    "fltrust": "FLTrust",
    "robust_scfa": "Robust SCFA",
}
"""Names of presets in reports."""
