"""Rules about time require an order of the table's rows."""

from __future__ import annotations

from dataclasses import replace

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.scope import Scope


def in_time(span: Span, scope: Scope) -> None:
    """Record that a rule reads several rows; note once per file if no timeline orders them."""
    names = scope.names
    names.timing = replace(names.timing, ordered=True)
    if not names.timing.declared:
        scope.problems.info_per_file(
            "timeline",
            "FKG260",
            span,
            "no timeline is declared: the table is read as one trace, in the order of its rows",
            'to change this, write: timeline step 5 min time column "..." trace column "..."',
        )
