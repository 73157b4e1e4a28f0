"""fedkg: declarative rules and knowledge graphs for federated learning.

Public names are imported on first use, so ``import fedkg`` stays fast: it imports torch only for
names that need torch, and the rule compiler only for ``compile``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkg.authoring import CompileError, RuleWarning, compile  # noqa: A004
    from fedkg.constraints.binding.layout import columns, logit, probability, scores
    from fedkg.constraints.module import ConstraintModule
    from fedkg.errors import FedkgError
    from fedkg.evaluation import evaluate
    from fedkg.export import export_model
    from fedkg.jobs import run_job as run
    from fedkg.knowledge.injected_model import inject
    from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge
    from fedkg.pack import Pack, load
    from fedkg.tables import read_table

    __version__: str

__all__ = [
    "CompileError",
    "ConstraintModule",
    "FedkgError",
    "Pack",
    "PredictionKnowledge",
    "RangeKnowledge",
    "RuleWarning",
    "__version__",
    "columns",
    "compile",
    "evaluate",
    "export_model",
    "inject",
    "load",
    "logit",
    "probability",
    "read_table",
    "run",
    "scores",
]

_HOMES = {
    "CompileError": ("fedkg.authoring", "CompileError"),
    "ConstraintModule": ("fedkg.constraints.module", "ConstraintModule"),
    "FedkgError": ("fedkg.errors", "FedkgError"),
    "Pack": ("fedkg.pack", "Pack"),
    "PredictionKnowledge": ("fedkg.knowledge.tensor_knowledge", "PredictionKnowledge"),
    "RangeKnowledge": ("fedkg.knowledge.tensor_knowledge", "RangeKnowledge"),
    "RuleWarning": ("fedkg.authoring", "RuleWarning"),
    "columns": ("fedkg.constraints.binding.layout", "columns"),
    "compile": ("fedkg.authoring", "compile"),
    "evaluate": ("fedkg.evaluation", "evaluate"),
    "export_model": ("fedkg.export", "export_model"),
    "inject": ("fedkg.knowledge.injected_model", "inject"),
    "load": ("fedkg.pack", "load"),
    "logit": ("fedkg.constraints.binding.layout", "logit"),
    "probability": ("fedkg.constraints.binding.layout", "probability"),
    "read_table": ("fedkg.tables", "read_table"),
    "run": ("fedkg.jobs", "run_job"),
    "scores": ("fedkg.constraints.binding.layout", "scores"),
}
"""Module and name there of each public name."""


def __getattr__(name: str) -> Any:
    """Import and return the public name `name`. `Any`: a class, a function or a string."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("fedkg")
    if name not in _HOMES:
        raise AttributeError(f"module 'fedkg' has no attribute '{name}'")
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
