"""What the graph says about tables: in which column a property's observations stand, and which rows are about an entity."""

from __future__ import annotations

from collections.abc import Iterator

import pyoxigraph as ox

from fedkg_compiler.ontology.closure import SUB_CLASS, TYPE
from fedkg_compiler.ontology.standard import FKG, SOSA
from fedkg_compiler.ontology.terms import ColumnFact, local_name
from fedkg_compiler.ontology.values import Values, node_of

_COLUMN = ox.NamedNode(FKG + "column")
_KEY_COLUMN = ox.NamedNode(FKG + "keyColumn")
_KEY_VALUE = ox.NamedNode(FKG + "keyValue")
_OBSERVES = ox.NamedNode(SOSA + "observes")
_HOSTED = ox.NamedNode(SOSA + "isHostedBy")

Resource = ox.NamedNode | ox.BlankNode


def columns_of(store: ox.Store, values: Values, property_iri: str, entity_iri: str | None) -> list[ColumnFact]:
    """Return where the observations of a property stand, sorted; with an entity: its own sensors' columns, else the shared one.

    A sensor observes the property itself or a member of it, where it is a class. A sensor without `fkg:column` takes the property's.
    """
    wanted = node_of(property_iri)
    shared: set[ColumnFact] = set()
    own: set[ColumnFact] = set()
    for observed in _and_members(store, wanted):
        common = _texts(store, observed, _COLUMN)
        common_unit = values.unit_of(observed)
        shared |= {ColumnFact(column=column, unit=common_unit, entity=None, sensor=None) for column in common}
        for sensor in _resources(store.quads_for_pattern(None, _OBSERVES, observed), subject=True):
            hosts = [host.value for host in _resources(store.quads_for_pattern(sensor, _HOSTED, None)) if isinstance(host, ox.NamedNode)]
            unit = values.unit_of(sensor) or common_unit
            for column in _texts(store, sensor, _COLUMN) or common:
                own |= {ColumnFact(column=column, unit=unit, entity=host, sensor=sensor.value) for host in hosts or (None,)}
    if entity_iri is not None:
        mine = {fact for fact in own if fact.entity == entity_iri} | _attached(store, values, wanted, entity_iri)
        return _ordered(mine or shared)
    return _ordered(own | shared)


def _attached(store: ox.Store, values: Values, wanted: Resource, entity_iri: str) -> set[ColumnFact]:
    """Return the columns of nodes that the property itself leads to from the entity: ``:zone1 :temperature [ fkg:column "T1" ]``."""
    found: set[ColumnFact] = set()
    if isinstance(wanted, ox.BlankNode):
        return found
    for node in _resources(store.quads_for_pattern(node_of(entity_iri), wanted, None)):
        unit = values.unit_of(node)
        found |= {ColumnFact(column=column, unit=unit, entity=entity_iri, sensor=node.value) for column in _texts(store, node, _COLUMN)}
    return found


def key_of(store: ox.Store, entity_iri: str) -> tuple[str, str] | None:
    """Return the key column and the value by which table rows are about an entity; None where the graph names no key column.

    The column stands on the entity or on a class of it, the most special class first; the value is `fkg:keyValue`, else the local name.
    """
    entity = node_of(entity_iri)
    column = next(iter(_texts(store, entity, _KEY_COLUMN)), None) or _class_key(store, entity)
    if column is None:
        return None
    values = _texts(store, entity, _KEY_VALUE)
    return column, values[0] if values else local_name(entity_iri)


def _class_key(store: ox.Store, entity: Resource) -> str | None:
    kinds = {
        kind: texts[0] for kind in _resources(store.quads_for_pattern(entity, TYPE, None)) if (texts := _texts(store, kind, _KEY_COLUMN))
    }
    for kind in sorted(kinds, key=lambda node: node.value):
        others = (other for other in kinds if other != kind)
        if not any(ox.Quad(other, SUB_CLASS, kind) in store and ox.Quad(kind, SUB_CLASS, other) not in store for other in others):
            return kinds[kind]
    return None


def _and_members(store: ox.Store, wanted: Resource) -> list[Resource]:
    return [
        wanted,
        *sorted(set(_resources(store.quads_for_pattern(None, TYPE, wanted), subject=True)) - {wanted}, key=lambda node: node.value),
    ]


def _resources(quads: Iterator[ox.Quad], *, subject: bool = False) -> list[Resource]:
    nodes = (quad.subject if subject else quad.object for quad in quads)
    return [node for node in nodes if isinstance(node, ox.NamedNode | ox.BlankNode)]


def _texts(store: ox.Store, node: Resource, predicate: ox.NamedNode) -> list[str]:
    return sorted(quad.object.value for quad in store.quads_for_pattern(node, predicate, None) if isinstance(quad.object, ox.Literal))


def _ordered(facts: set[ColumnFact]) -> list[ColumnFact]:
    return sorted(facts, key=lambda fact: (fact.entity or "", fact.column, fact.unit or "", fact.sensor or ""))
