"""``past grade is A``: the class that was observed one step earlier, of a label too."""

from __future__ import annotations

from dataclasses import replace

from fedkg.pack import Formula
from fedkg_compiler.column_registry import BookColumn
from fedkg_compiler.frontends.fkg.binding.category_conditions import is_class, membership
from fedkg_compiler.frontends.fkg.binding.past_values import one_step_back
from fedkg_compiler.frontends.fkg.binding.scope import Scope
from fedkg_compiler.frontends.fkg.binding.signal_columns import Place, Reading, Readings
from fedkg_compiler.frontends.fkg.syntax.tree import IsClass, Membership, Past, Reference


def past_class(node: IsClass | Membership, subject: Past, scope: Scope) -> Formula | None:
    """The atom for ``past subject is value`` and ``past subject in values``."""
    earlier = one_step_back(subject.span, scope)
    if earlier is None:
        return None
    if isinstance(subject.arg, Reference) and subject.arg.name in scope.names.labels:
        earlier = _as_data(subject.arg.name, earlier)
    if isinstance(node, IsClass):
        return is_class(replace(node, subject=subject.arg), earlier)
    return membership(replace(node, subject=subject.arg), earlier)


def _as_data(name: str, scope: Scope) -> Scope:
    """The scope in which a label is a column of categories: what was observed, not what is
    predicted.
    """
    label = scope.names.labels[name]
    column = scope.book.column(BookColumn(name=f"{name} (history)", source=label.column))
    reading = Reading(name=name, places=(Place(column=column),) * scope.rows.count)
    labels = {other: entry for other, entry in scope.names.labels.items() if other != name}
    return replace(
        scope,
        names=replace(scope.names, labels=labels),
        readings=Readings(
            found={**scope.readings.found, (name, ""): reading}, headers=scope.readings.headers
        ),
    )
