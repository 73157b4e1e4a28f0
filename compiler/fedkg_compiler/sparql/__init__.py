"""SPARQL violation queries, partially evaluated: static facts now, observed values as formulas."""

from __future__ import annotations

from collections.abc import Sequence

from fedkg_compiler.binding.outcome import Outcome
from fedkg_compiler.binding.places import Sources
from fedkg_compiler.binding.staged import refuse
from fedkg_compiler.syntax.tree import Load


def bind_queries(loads: Sequence[Load], sources: Sources, outcome: Outcome) -> None:
    """Bind all queries."""
    for load in loads:
        refuse("queries", load.path.span, sources.problems)
