"""Members with columns in different units: each is converted to the unit of the first member.

Letter: M members.
"""

from __future__ import annotations

import numpy as np

from fedkg.pack import Term
from fedkg.units.unit import SAME, Unit, conversion, same_dimension
from fedkg_compiler.binding.arithmetic import join_product, join_sum
from fedkg_compiler.binding.bound_values import Moving
from fedkg_compiler.binding.resolved_names import Place, Reading
from fedkg_compiler.binding.scope import Scope
from fedkg_compiler.diagnostics.record import Related, Span


def in_several_units(reading: Reading) -> bool:
    """Whether the places of a reading are not all in one unit; those of an ordinary rule always
    are.
    """
    first = reading.places[0] if reading.places else None
    return first is not None and any(
        (place.stored, place.rule_unit) != (first.stored, first.rule_unit)
        for place in reading.places
    )


def harmonised(reading: Reading, slot: Term, span: Span, scope: Scope) -> Moving | None:
    """The reading in one unit: ``slot * factor + shift`` with the numbers of each member.

    None where members measure different things.
    """
    places = reading.places
    target = next(
        (unit for place in places if (unit := place.rule_unit or place.stored) is not None), None
    )
    if target is None:
        return Moving(term=slot, unit=None, span=span, plain=True, bare=(reading.columns,))
    told = [_table_unit(place, target, span, scope) for place in places]
    for i, unit in enumerate(told):
        if not same_dimension(unit, target):
            scope.problems.error(
                "FKG278",
                span,
                f"`{reading.name}` is in `{target.text}` for some members and in `{unit.text}` for"
                f" {scope.environment.name(i)}: members that are put together measure one thing",
                "correct the units in the graph, or ask for members of one kind",
                (
                    (
                        Related(
                            span=scope.environment.span, message="the members are asked for here"
                        ),
                    )
                    if scope.environment.span
                    else ()
                ),
            )
            return None
    changes = [SAME if unit == target else conversion(unit, target) for unit in told]
    term = slot
    if any(change.factor != 1 or change.turns for change in changes):
        term = join_product(term, scope.rows.param(np.array([change.scale for change in changes])))
    if any(change.shift for change in changes):
        term = join_sum(
            term, scope.rows.param(np.array([float(change.shift) for change in changes]))
        )
    return Moving(term=term, unit=target, span=span, plain=True)


def _table_unit(place: Place, target: Unit, span: Span, scope: Scope) -> Unit:
    """Return the unit of the values in the table; a column without one has that of the others."""
    if place.stored is not None:
        return place.stored
    known = scope.book.compared_unit(place.column)
    if known is None:
        scope.book.tell_unit((np.array([place.column]),), target, span, scope.problems)
    return known or target
