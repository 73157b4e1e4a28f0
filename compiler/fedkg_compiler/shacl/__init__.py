"""SHACL shapes: bank rows over observed properties, pySHACL over static facts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedkg_compiler.binding.outcome import Outcome
from fedkg_compiler.binding.places import Sources
from fedkg_compiler.binding.staged import refuse
from fedkg_compiler.syntax.tree import Load


def bind_shapes(loads: Sequence[Load], graph_paths: Sequence[Path], sources: Sources, outcome: Outcome) -> None:
    """Bind all shapes."""
    for load in loads:
        refuse("shapes", load.path.span, sources.problems)
