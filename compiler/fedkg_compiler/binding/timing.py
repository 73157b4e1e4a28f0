"""That a rule speaks of time: then the rows of the table have an order."""

from __future__ import annotations

from dataclasses import replace

from fedkg_compiler.binding.scope import Scope
from fedkg_compiler.diagnostics.record import Span


def in_time(span: Span, scope: Scope) -> None:
    """Take note that a rule speaks of several rows; without a timeline, their order in the table is time, which is said once a file."""
    names = scope.names
    names.timing = replace(names.timing, ordered=True)
    if not names.timing.declared:
        scope.problems.once(
            "timeline",
            "FKG260",
            span,
            "no timeline is declared: the rows follow each other as they stand in the table, which is one trace",
            'to say otherwise write: timeline step 5 min time column "..." trace column "..."',
        )
