"""The mapping of the graph to tables: the columns of a property's observations, and the rows about
an entity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property

import pyoxigraph as ox

from fedkg_compiler.graph.graph_terms import ColumnFact, local_name
from fedkg_compiler.graph.node_values import node_of
from fedkg_compiler.graph.owl_rl_closure import SUB_CLASS, TYPE
from fedkg_compiler.graph.recorded_answers import RecordedAnswers
from fedkg_compiler.graph.standard_vocabularies import FKG, SOSA

_COLUMN = ox.NamedNode(FKG + "column")
_ALTERNATIVE = ox.NamedNode(FKG + "alternativeColumn")
_KEY_COLUMN = ox.NamedNode(FKG + "keyColumn")
_KEY_VALUE = ox.NamedNode(FKG + "keyValue")
_OBSERVES = ox.NamedNode(SOSA + "observes")
_STORED = ox.NamedNode(FKG + "storedValueOf")
_HOSTED = ox.NamedNode(SOSA + "isHostedBy")

Resource = ox.NamedNode | ox.BlankNode
Texts = dict[Resource, list[str]]
Links = dict[Resource, list[Resource]]


class Columns:
    """The facts about tables of a closed store, each kind gathered once when first asked for:
    plants have ten thousands of sensors.

    Args:
        answers: what was found out before, in this compilation or an earlier one.
        store: gives the triples; called when they are needed.
        unit_of: gives the unit of a node as text; None if it has none.
    """

    def __init__(
        self,
        answers: RecordedAnswers,
        *,
        store: Callable[[], ox.Store],
        unit_of: Callable[[Resource], str | None],
    ) -> None:
        self._answers = answers
        self._give_store = store
        self._unit_of = unit_of
        self._attached: dict[Resource, Links] = {}
        self._members: Links = {}
        self._common: dict[Resource, frozenset[ColumnFact]] = {}

    @cached_property
    def _store(self) -> ox.Store:
        return self._give_store()

    def property_columns(self, property_iri: str, entity_iri: str | None) -> list[ColumnFact]:
        """Return the columns with a property's observations, sorted.

        With an entity: the columns of its sensors, else the shared one.

        A sensor observes the property itself or a member of it, where it is a class. A sensor
        without `fkg:column` takes the property's.
        """
        wanted = node_of(property_iri)
        hosted = None if entity_iri is None else self._hosted.get(node_of(entity_iri), [])
        own: set[ColumnFact] = set()
        for observed in self._and_members(wanted) if hosted is None or hosted else ():
            common = self._column_texts.get(observed, [])
            common_unit = self._unit_of(observed)
            watching = self._observing.get(observed, [])
            for sensor in (
                watching
                if hosted is None
                else [sensor for sensor in hosted if observed in self._observed[sensor]]
            ):
                hosts = [
                    host.value
                    for host in self._hosts.get(sensor, [])
                    if isinstance(host, ox.NamedNode)
                ]
                unit = self._unit_of(sensor) or common_unit
                for column in self._column_texts.get(sensor) or common:
                    own |= {
                        ColumnFact(
                            column=column,
                            unit=unit,
                            entity=host,
                            sensor=sensor.value,
                            is_stored=(sensor, observed) in self._stored,
                        )
                        for host in hosts or (None,)
                    }
        if entity_iri is not None:
            mine = {fact for fact in own if fact.entity == entity_iri} | self._of_attached(
                wanted, entity_iri
            )
            return _ordered(mine or self._of_all(wanted))
        return _ordered(own | self._of_all(wanted))

    def _of_all(self, wanted: Resource) -> frozenset[ColumnFact]:
        """The columns that a property has for all entities."""
        if wanted not in self._common:
            self._common[wanted] = frozenset(
                ColumnFact(column=column, unit=self._unit_of(observed), entity=None, sensor=None)
                for observed in self._and_members(wanted)
                if observed not in self._observed.get(observed, ())  # a point has its own column
                for column in self._column_texts.get(observed, [])
            )
        return self._common[wanted]

    def at(self, iri: str) -> list[ColumnFact]:
        """Return the columns with the values of a sensor or an observed property, sorted; [] for a
        node without a column.

        A sensor without `fkg:column` takes that of what it observes; the entity is what hosts it. A
        property has none.
        """
        columns = self._answers.columns
        if iri not in columns:
            columns[iri] = self._at(iri)
        return columns[iri]

    def _at(self, iri: str) -> list[ColumnFact]:
        node = node_of(iri)
        hosts = [host.value for host in self._hosts.get(node, []) if isinstance(host, ox.NamedNode)]
        observed: Collection[Resource] = self._observed.get(node, ())
        if len(observed) > 1:
            observed = sorted(observed, key=lambda other: other.value)
        if not hosts and not observed:
            unit = self._unit_of(node)
            return [
                ColumnFact(column=column, unit=unit, entity=None, sensor=None)
                for column in self._column_texts.get(node, [])
            ]
        own = self._column_texts.get(node)
        unit = self._unit_of(node) or next(filter(None, map(self._unit_of, observed)), None)
        found = [
            ColumnFact(column=column, unit=unit, entity=host, sensor=iri)
            for texts in (
                [self._column_texts.get(other, []) for other in observed] if own is None else [own]
            )
            for column in texts
            for host in hosts or (None,)
        ]
        return found if len(found) < 2 else _ordered({*found})

    def alternatives(self) -> Mapping[str, tuple[str, ...]]:
        """Return the further headers (`fkg:alternativeColumn`) of columns, by their header."""
        if self._answers.alternatives is None:
            self._answers.alternatives = self._all_alternatives()
        return self._answers.alternatives

    def _all_alternatives(self) -> dict[str, tuple[str, ...]]:
        texts = self._texts(_ALTERNATIVE)
        found: dict[str, set[str]] = defaultdict(set)
        for node, others in texts.items():
            for column in self._column_texts.get(node, []):
                found[column] |= {*others}
        return {column: tuple(sorted(others)) for column, others in found.items()}

    def is_shared(self, column: str) -> bool:
        """Tell whether the sensors of several entities have their values in a column."""
        if self._answers.shared is None:
            self._answers.shared = self._all_shared()
        return column in self._answers.shared

    def _all_shared(self) -> frozenset[str]:
        """The columns that sensors of several entities have."""
        first: dict[str, Resource] = {}
        found: set[str] = set()
        for sensor in {*self._hosts, *self._observed}:
            observed = self._observed.get(sensor, ())
            for column in self._column_texts.get(sensor) or [
                text for other in observed for text in self._column_texts.get(other, [])
            ]:
                for host in self._hosts.get(sensor) or (sensor,):
                    if first.setdefault(column, host) != host:
                        found.add(column)
        return frozenset(found)

    def key_of(self, entity_iri: str) -> tuple[str, str] | None:
        """Return the key column and the value by which table rows are about an entity.

        None if the graph names no key column.

        The entity or one of its classes (most special class first) states the column; the value is
        `fkg:keyValue`, else the local name.
        """
        if self._answers.keyed is None:
            self._answers.keyed = bool(self._key_columns)
        if not self._answers.keyed:
            return None
        keys = self._answers.keys
        if entity_iri not in keys:
            keys[entity_iri] = self._key(entity_iri)
        return keys[entity_iri]

    def _key(self, entity_iri: str) -> tuple[str, str] | None:
        entity = node_of(entity_iri)
        column = next(iter(self._key_columns.get(entity, [])), None) or self._class_key(entity)
        if column is None:
            return None
        values = self._key_values.get(entity, [])
        return column, values[0] if values else local_name(entity_iri)

    @cached_property
    def _column_texts(self) -> Texts:
        return self._texts(_COLUMN)

    @cached_property
    def _key_columns(self) -> Texts:
        return self._texts(_KEY_COLUMN)

    @cached_property
    def _key_values(self) -> Texts:
        return self._texts(_KEY_VALUE)

    @cached_property
    def _observed(self) -> dict[Resource, set[Resource]]:
        """The observed properties of each sensor."""
        found: dict[Resource, set[Resource]] = defaultdict(set)
        for sensor, observed in (*self._links(_OBSERVES), *self._stored):
            found[sensor].add(observed)
        return found

    @cached_property
    def _stored(self) -> frozenset[tuple[Resource, Resource]]:
        """The sensors with a property that the graph has a value of."""
        return frozenset(self._links(_STORED))

    @cached_property
    def _observing(self) -> Links:
        """The sensors of each property."""
        return _grouped(
            (observed, sensor)
            for sensor, observed in (*self._links(_OBSERVES), *sorted(self._stored, key=str))
        )

    @cached_property
    def _hosts(self) -> Links:
        """The host of each sensor."""
        return _grouped(self._links(_HOSTED))

    @cached_property
    def _hosted(self) -> Links:
        """The sensors of each entity."""
        return _grouped((host, sensor) for sensor, host in self._links(_HOSTED))

    @cached_property
    def _keyed_classes(self) -> Links:
        """The classes of each entity that have a key column."""
        return _grouped(
            (quad.subject, kind)
            for kind in self._key_columns
            for quad in self._store.quads_for_pattern(None, TYPE, kind)
            if not isinstance(quad.subject, ox.Triple)
        )

    def _class_key(self, entity: Resource) -> str | None:
        if entity not in self._keyed_classes:
            return None
        kinds = {kind: self._key_columns[kind][0] for kind in self._keyed_classes[entity]}
        for kind in sorted(kinds, key=lambda node: node.value):
            others = (other for other in kinds if other != kind)
            if not any(
                ox.Quad(other, SUB_CLASS, kind) in self._store
                and ox.Quad(kind, SUB_CLASS, other) not in self._store
                for other in others
            ):
                return kinds[kind]
        return None

    def _of_attached(self, wanted: Resource, entity_iri: str) -> set[ColumnFact]:
        """Return the columns of nodes that the property itself leads to from the entity: ``:zone1
        :temperature [ fkg:column "T1" ]``.
        """
        if isinstance(wanted, ox.BlankNode):
            return set()
        if wanted not in self._attached:
            pairs = (
                (subject, node)
                for subject, node in self._links(wanted)
                if node in self._column_texts
            )
            self._attached[wanted] = _grouped(pairs)
        return {
            ColumnFact(
                column=column, unit=self._unit_of(node), entity=entity_iri, sensor=node.value
            )
            for node in self._attached[wanted].get(node_of(entity_iri), [])
            for column in self._column_texts[node]
        }

    def _and_members(self, wanted: Resource) -> list[Resource]:
        if wanted not in self._members:
            found = self._store.quads_for_pattern(None, TYPE, wanted)
            members = {
                quad.subject for quad in found if not isinstance(quad.subject, ox.Triple)
            } - {wanted}
            self._members[wanted] = [wanted, *sorted(members, key=lambda node: node.value)]
        return self._members[wanted]

    def _texts(self, predicate: ox.NamedNode) -> Texts:
        found: Texts = defaultdict(list)
        for quad in self._store.quads_for_pattern(None, predicate, None):
            if isinstance(quad.object, ox.Literal) and not isinstance(quad.subject, ox.Triple):
                found[quad.subject].append(quad.object.value)
        return {node: sorted(texts) for node, texts in found.items()}

    def _links(self, predicate: ox.NamedNode) -> list[tuple[Resource, Resource]]:
        return [
            (quad.subject, quad.object)
            for quad in self._store.quads_for_pattern(None, predicate, None)
            if isinstance(quad.object, ox.NamedNode | ox.BlankNode)
            and not isinstance(quad.subject, ox.Triple)
        ]


def _grouped(pairs: Iterable[tuple[Resource, Resource]]) -> Links:
    found: Links = defaultdict(list)
    for left, right in pairs:
        found[left].append(right)
    return dict(found)


def _ordered(facts: Collection[ColumnFact]) -> list[ColumnFact]:
    if len(facts) < 2:
        return list(facts)
    return sorted(
        facts, key=lambda fact: (fact.entity or "", fact.column, fact.unit or "", fact.sensor or "")
    )
