"""Rules evaluated: on tables by the NumPy interpreter, on models by tensors.

Names that need torch load it when first touched.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedkg.constraints.binding.layout import (
    InputLayout,
    OutputLayout,
    columns,
    logit,
    probability,
    scores,
)
from fedkg.constraints.meaning.interpreter import BankValues, Timing, evaluate_bank
from fedkg.constraints.meaning.trace_robustness import (
    trace_robustness,
    trace_satisfaction,
    trace_values,
)
from fedkg.errors import MissingExtra

if TYPE_CHECKING:
    from fedkg.constraints.module import ConstraintModule, ConstraintWarning
    from fedkg.constraints.probe_scores import Probe, ProbeScores
    from fedkg.constraints.report import ConstraintReport
    from fedkg.constraints.specialised import Specialised

_WITH_TORCH = {
    "ConstraintModule": "fedkg.constraints.module",
    "ConstraintReport": "fedkg.constraints.report",
    "ConstraintWarning": "fedkg.constraints.module",
    "Probe": "fedkg.constraints.probe_scores",
    "ProbeScores": "fedkg.constraints.probe_scores",
    "Specialised": "fedkg.constraints.specialised",
}

__all__ = [
    "BankValues",
    "ConstraintModule",
    "ConstraintReport",
    "ConstraintWarning",
    "InputLayout",
    "OutputLayout",
    "Probe",
    "ProbeScores",
    "Specialised",
    "Timing",
    "columns",
    "evaluate_bank",
    "logit",
    "probability",
    "scores",
    "trace_robustness",
    "trace_satisfaction",
    "trace_values",
]


def __getattr__(name: str) -> Any:
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_WITH_TORCH[name]), name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise MissingExtra(f"fedkg.constraints.{name}", "torch") from error
        raise
