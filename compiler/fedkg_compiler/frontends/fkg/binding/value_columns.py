"""Finds the columns of ``value(...)``: those that texts of a sheet name, and those that the graph
gives sensors and observed properties.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, same_dimension, same_scale
from fedkg_compiler.column_registry import BookColumn, quoted
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.quantifier_values import Cell
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    NOWHERE,
    Key,
    Place,
    Sources,
    declared_place,
    header_place,
    plain_place,
)
from fedkg_compiler.frontends.fkg.binding.unknown_units import strange_unit
from fedkg_compiler.graph.graph_terms import ColumnFact

SHOWN = 3
"""Maximum number of entities without a column that a message names."""


def value_places(
    cells: Sequence[Cell | None],
    owners: Sequence[Cell | None] | None,
    units: Sequence[str],
    sources: Sources,
    span: Span,
) -> tuple[Place, ...]:
    """The places of ``value(?x)`` or ``value(?x, ?owner)``, for each of R rows.

    A text is the header of a column. A sensor has the column that it or what it observes is given
    in the graph (`fkg:column`), a property
    its column; with an owner, the column of the observed property of this entity, and its rows.

    Args:
        units: [R], of the columns that texts name, from the sheet; or empty.
    """
    found: dict[tuple[str, str], Place] = {}
    without: list[str] = []
    places = []
    for i, cell in enumerate(cells):
        owner = owners[i] if owners is not None else None
        if cell is None or (owners is not None and owner is None):
            places.append(NOWHERE)
        elif not cell.iri:
            place = _text_place(cell, units[i] if units else "", sources, span)
            places.append(
                place
                if owner is None or place.column < 0
                else replace(place, key=owner.key, shared=owner.key is None)
            )
        else:
            key = cell.iri, owner.iri if owner is not None else ""
            if key not in found:
                found[key] = _entity_place(cell, owner, sources, span, without)
            places.append(found[key])
    if without:
        _tell_without(without, len(found), sources, span)
    return tuple(places)


def _tell_without(without: Sequence[str], all_of_them: int, sources: Sources, span: Span) -> None:
    """Say which entities have no column: nothing can be checked there.

    In the rule library it is to be expected.
    """
    shown = ", ".join(without[:SHOWN]) + (
        f" and {len(without) - SHOWN} more" if len(without) > SHOWN else ""
    )
    message = f"no column for {shown}: left out there"
    advice = (
        "give the sensor or the property an `fkg:column`; where entities share it, tell their table"
        " rows apart with `fkg:keyColumn`"
    )
    if span.file in sources.names.library:
        sources.problems.info("FKG542", span, message, advice)
    elif len(without) == all_of_them:
        sources.problems.error("FKG542", span, message.removesuffix(": left out there"), advice)
    else:
        sources.problems.warning("FKG542", span, message, advice)


def _entity_place(
    cell: Cell, owner: Cell | None, sources: Sources, span: Span, without: list[str]
) -> Place:
    shown = cell.text if owner is None else f"{cell.text} of {owner.text}"
    facts = _facts(cell.iri, owner, sources)
    own = [fact for fact in facts if fact.entity is not None]
    columns = {fact.column: fact for fact in reversed(own or facts)}
    if len(columns) > 1:
        headers = ", ".join(f"`{header}`" for header in sorted(columns)[:4])
        sources.problems.error(
            "FKG207", span, f"{shown} has several columns: {headers}", "ask for one sensor"
        )
        return NOWHERE
    if not columns:
        without.append(shown)
        return NOWHERE
    (fact,) = columns.values()
    key: Key | None = None
    if owner is not None and fact.entity is None:
        key = owner.key
    elif (
        fact.entity is not None
        and sources.graph is not None
        and sources.graph.is_shared(fact.column)
    ):
        key = sources.graph.key_of(fact.entity)
    elif fact.entity is not None or owner is None:
        place = _column(fact, shown, sources, span)
        return replace(place, shared=True) if fact.entity is None else place
    if key is None:
        without.append(shown)
        return NOWHERE
    return replace(_column(fact, shown, sources, span), key=key)


def _facts(iri: str, owner: Cell | None, sources: Sources) -> Sequence[ColumnFact]:
    if sources.graph is None or (owner is not None and not owner.iri):
        return ()
    return sources.graph.column_at(iri) if owner is None else sources.columns_of(iri, owner.iri)


def _column(fact: ColumnFact, shown: str, sources: Sources, span: Span) -> Place:
    """The column of a fact: as a signal declares it, else by its header, in the unit that the graph
    gives.
    """
    place = declared_place(fact.column, sources, span)
    if place is not None:
        return place
    unit: Unit | None = None
    if fact.unit is not None:
        parsed = parse_unit(fact.unit)
        if isinstance(parsed, UnitProblem):
            said = strange_unit(
                parsed,
                fact.unit,
                f"the graph gives the column `{fact.column}` of {shown} the unit",
                sources.graph,
            )
            sources.problems.error("FKG211", span, *said)
            return NOWHERE
        unit = parsed
    column = sources.book.column(BookColumn(name=fact.column, source=fact.column, unit=unit))
    if unit is None:
        sources.book.tell_by_header(column, span)
    stored = sources.book.compared_unit(column)
    return Place(column=column, stored=stored, rule_unit=stored)


def _text_place(cell: Cell, unit: str, sources: Sources, span: Span) -> Place:
    """The column that a text names; `unit` is the sheet's, or ""."""
    place = _tag_place(cell.text, sources, span)
    return (
        _with_sheet_unit(place, unit, cell.text, sources, span)
        if unit and place.column >= 0
        else place
    )


def _tag_place(tag: str, sources: Sources, span: Span) -> Place:
    signal = sources.names.signals.get(tag) or sources.names.by_header(tag)
    return (
        plain_place(signal, sources, span)
        if signal is not None and not signal.family
        else header_place(tag, sources, span)
    )


def _with_sheet_unit(place: Place, text: str, tag: str, sources: Sources, span: Span) -> Place:
    """The place, with the unit of the sheet as the unit of the rule."""
    unit = parse_unit(text)
    if isinstance(unit, UnitProblem):
        sources.problems.error(
            "FKG211",
            span,
            *strange_unit(unit, text, f"the sheet gives `{tag}` the unit", sources.graph),
        )
        return NOWHERE
    if place.stored is None:
        sources.book.tell_by_sheet(place.column, unit, span)
        return replace(place, stored=unit, rule_unit=unit)
    if not same_dimension(place.stored, unit):
        why, hint = "", "correct the unit in the sheet or in the declaration of the signal"
        if sources.book.headed(place.column):
            why, hint = (
                ", as its header says",
                (
                    f"correct the sheet, or declare what the column is in: `signal {quoted(tag)} in"
                    f" {text}`"
                ),
            )
        sources.problems.error(
            "FKG213",
            span,
            f"the sheet gives `{tag}` the unit `{text}`, but it is in `{place.stored.text}`{why}",
            hint,
        )
        return NOWHERE
    if sources.book.told_at(place.column) is not None and not same_scale(place.stored, unit):
        message = (
            f"the sheet gives `{tag}` the unit `{text}`, elsewhere it is taken to be in"
            f" `{place.stored.text}`: in which is its column?"
        )
        sources.problems.error(
            "FKG216", span, message, f"declare it: `signal {quoted(tag)} in {place.stored.text}`"
        )
        return NOWHERE
    return replace(place, rule_unit=unit)
