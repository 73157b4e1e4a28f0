"""Which properties of the graph are observed: read from the table, row by row, rather than known
when rules are compiled.

A property is observed when a signal or output is declared with it (``signal torque(?m) is
plant:torque``), or when the graph gives it, or
a sensor of it, a column (`fkg:column`) and no value. Shapes and queries are split along this line.
"""

from __future__ import annotations

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.quantifier_values import Cell
from fedkg_compiler.frontends.fkg.binding.resolved_names import Place
from fedkg_compiler.frontends.fkg.binding.signal_columns import Sources, family_places
from fedkg_compiler.frontends.fkg.binding.symbol_table import DeclaredSignal
from fedkg_compiler.graph.graph_terms import local_name


def signal_of(property_iri: str, sources: Sources, span: Span) -> DeclaredSignal | None:
    """The signal that reads a property: the declared one, else one made up from the graph's
    columns; None for a static property.
    """
    for signal in sources.names.signals.values():
        if signal.property == property_iri:
            return signal
    if all(fact.is_stored for fact in sources.columns_of(property_iri, None)):
        return None
    return DeclaredSignal(
        name=local_name(property_iri),
        role="input",
        family="focus",
        property=property_iri,
        unit=None,
        span=None,
        column=None,
        place=span,
    )


def is_observed(property_iri: str, sources: Sources, span: Span) -> bool:
    """Return whether the table contains the values of a property."""
    return signal_of(property_iri, sources, span) is not None


def observed_place(property_iri: str, focus: Cell, sources: Sources, span: Span) -> Place | None:
    """Where the table has the property's value for an entity, or with `focus.row` for each table
    row; None for a static property.

    A place with column -1 (`NOWHERE`): the property is observed, but nothing tells where for this
    entity, which has been said.
    """
    signal = signal_of(property_iri, sources, span)
    return None if signal is None else family_places(signal, [focus], sources, span)[0]
