"""Jobs: one file describes what to train, and one run folder holds all results.

Names that need PyTorch are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fedkg.errors import MissingExtra
from fedkg.jobs.events import Event, Listener
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import read_job

if TYPE_CHECKING:
    from fedkg.jobs.runner import Run, resume, run_job

__all__ = ["Event", "Job", "Listener", "Run", "read_job", "resume", "run_job"]

_WITH_TORCH = {"Run", "resume", "run_job"}


def __getattr__(name: str) -> Any:
    """Import a name that needs PyTorch. `Any`: a class or a function."""
    if name not in _WITH_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module("fedkg.jobs.runner"), name)
    except ModuleNotFoundError as error:
        if error.name in {"torch", "yaml"}:
            raise MissingExtra("running jobs", "run") from error
        raise
