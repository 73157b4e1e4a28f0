"""``past x``: the value one step earlier in its trace, read as data even where the model predicts
it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.scope import Fixed, Reading, Scope, Value, View, in_time
from fedkg_compiler.frontends.fkg.syntax.tree import Past
from fedkg_compiler.ir import Book, BookView


def past(node: Past, scope: Scope) -> Value | None:
    """Return the value of an expression one step earlier; report and return None if impossible."""
    earlier = one_step_back(node.span, scope)
    if earlier is None:
        return None
    value = scope.bind_value(node.arg, earlier)
    if isinstance(value, Fixed):
        scope.problems.error(
            "FKG262", node.span, "a fixed number has no earlier value", "remove `past`"
        )
        return None
    return None if value is None else replace(value, span=node.span)


def history(reading: Reading, book: Book) -> Reading:
    """The reading with the columns of what was observed instead of those that the model
    predicts.
    """
    if reading.role == "input":
        return reading
    places = tuple(
        place._replace(column=book.history(place.column), role="input") for place in reading.places
    )
    return replace(reading, places=places)


def one_step_back(span: Span, scope: Scope) -> Scope | None:
    """Return the scope that reads one step earlier; report and return None if it already does."""
    if scope.view.key.startswith(("past", "previous")):
        inside = "`past`" if scope.view.past else "`never`"
        message = f"`past` inside {inside} would be two steps back, and fedkg keeps only one"
        scope.problems.error(
            "FKG262",
            span,
            message,
            "write how long ago, such as `x 2 ago` for steps, or use `previous` for a condition",
        )
        return None
    in_time(span, scope)
    trace = scope.names.timing.trace
    views = [
        BookView(
            kind="previous",
            steps=True,
            groups=tuple(
                dict.fromkeys([*([trace] if trace else []), *(header for header, _ in keys)])
            ),
        )
        for keys in scope.keys
    ]
    ids = np.array([scope.book.view(view) for view in views], dtype=np.int64)
    return replace(scope, view=View(key="past", ids=ids, past=True))
