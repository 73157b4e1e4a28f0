"""The one handle on the knowledge graph: the user's graphs, ontologies and alignments in one store,
closed; the kinds of statements lie in named graphs. Before it, the columns of its properties:
derived from what plant graphs state, and looked up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING
from typing import Literal as OneOf
from urllib.parse import unquote

from fedkg_compiler.diagnostics.record import Diagnostic, Related, Span
from fedkg_compiler.graph import graph_pattern_answers, query_file_answers, select_query_execution
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.client_subgraph import Ownership
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.node_values import Values, node_of
from fedkg_compiler.graph.ontologies import Definition, Vocabulary, closest_name, known_terms
from fedkg_compiler.graph.owl_rl_closure import SUB_CLASS, TYPE
from fedkg_compiler.graph.query_process import QueryProcess, Solutions, query_at
from fedkg_compiler.graph.rdf_reader import DEFAULT, Document, names_graph, with_named_graphs
from fedkg_compiler.graph.rdf_terms import (
    ColumnFact,
    Iri,
    KnownTerm,
    Literal,
    RdfTerm,
    is_iri,
    local_name,
    order_key,
)
from fedkg_compiler.graph.recorded_answers import RecordedAnswers, query_key
from fedkg_compiler.graph.standard_vocabularies import (
    BRICK,
    BRICK_REF,
    DCTERMS,
    FKG,
    QUDT,
    RDF,
    RDFS,
    SKOS,
    SOSA,
)
from fedkg_compiler.graph.triple_locations import locate_triples

if TYPE_CHECKING:
    from fedkg_compiler.graph.triple_locations import Told

# Column names in plant graphs that do not use `fkg:column`: Brick, SOSA, OPC UA and B2MML.
#
# `COLUMN_NAMES` lists where these vocabularies name the time series of a sensor. `derive_columns`
# turns what a graph states in them into the terms that the rest of the compiler reads:
# `fkg:column`, `fkg:alternativeColumn`, `sosa:observes`, `sosa:isHostedBy` and `qudt:hasUnit`.

Subject = ox.NamedNode | ox.BlankNode | ox.Triple
Origins = dict[ox.Quad, ox.Quad]
"""Derived triples, each with the triple of the graph that states it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnName:
    """One way in which a vocabulary names the column of a sensor.

    Attributes:
        path: the properties from the sensor to the text; () for the last part of its IRI.
        vocabulary: the vocabulary.
        version: its versions that have the path.
        reference: the definition.
        explicit: whether the text is meant as the key of a time series. Other names identify the
            sensor: fedkg uses those that belong to one sensor only, and only if neither the graph
            nor an explicit name gives the sensor a column.
    """

    path: tuple[str, ...]
    vocabulary: str
    version: str
    reference: str
    explicit: bool = False


_SOSA_REFERENCE = "https://www.w3.org/TR/vocab-ssn/#SOSASensor"
_OPC_UA_REFERENCE = "https://reference.opcfoundation.org/Core/Part3/v105/docs/5.2"
_B2MML_REFERENCE = "IEC 62264-2: equipment model (B2MML 7.0: EquipmentProperty, ID)"

COLUMN_NAMES = (
    ColumnName(
        path=(BRICK_REF + "hasExternalReference", BRICK_REF + "hasTimeseriesId"),
        vocabulary="Brick",
        version="1.3 and later",
        reference="https://docs.brickschema.org/metadata/timeseries-storage.html",
        explicit=True,
    ),
    ColumnName(
        path=(BRICK + "timeseries", BRICK + "hasTimeseriesId"),
        vocabulary="Brick",
        version="1.2",
        reference="https://docs.brickschema.org/metadata/timeseries-storage.html",
        explicit=True,
    ),
    ColumnName(
        path=(FKG + "qualifiedName",),
        vocabulary="OPC UA (browse path), B2MML (IDs of equipment and property)",
        version="OPC UA 1.05, B2MML 7.0",
        reference=f"{_OPC_UA_REFERENCE}; {_B2MML_REFERENCE}",
    ),
    ColumnName(
        path=(FKG + "nodeId",),
        vocabulary="OPC UA (NodeId)",
        version="1.05",
        reference=_OPC_UA_REFERENCE,
    ),
    ColumnName(
        path=(FKG + "browseName",),
        vocabulary="OPC UA (BrowseName), B2MML (ID)",
        version="OPC UA 1.05, B2MML 7.0",
        reference=f"{_OPC_UA_REFERENCE}; {_B2MML_REFERENCE}",
    ),
    ColumnName(
        path=(DCTERMS + "identifier",),
        vocabulary="SOSA with DCMI Metadata Terms",
        version="SOSA 2017",
        reference=_SOSA_REFERENCE,
    ),
    ColumnName(
        path=(RDFS + "label",), vocabulary="SOSA", version="2017", reference=_SOSA_REFERENCE
    ),
    ColumnName(path=(), vocabulary="SOSA", version="2017", reference=_SOSA_REFERENCE),
    *(
        ColumnName(
            path=(SOSA + "observes", *name),
            vocabulary="SOSA (observed property)",
            version="2017",
            reference=_SOSA_REFERENCE,
        )
        for name in ((DCTERMS + "identifier",), (RDFS + "label",), ())
    ),
)
"""The names of columns, the first that applies is the column, the others are alternatives."""

_TYPE = ox.NamedNode(RDF + "type")
_COLUMN, _ALTERNATIVE = ox.NamedNode(FKG + "column"), ox.NamedNode(FKG + "alternativeColumn")
_KEY_COLUMN, _QUALIFIED = ox.NamedNode(FKG + "keyColumn"), ox.NamedNode(FKG + "qualifiedName")
_SENSOR, _OBSERVES, _OBSERVED_BY, _MADE_BY, _MADE, _HOSTED, _HOSTS, _PROPERTY, _FEATURE = (
    ox.NamedNode(SOSA + name)
    for name in (
        "Sensor",
        "observes",
        "isObservedBy",
        "madeBySensor",
        "madeObservation",
        "isHostedBy",
        "hosts",
        "observedProperty",
        "hasFeatureOfInterest",
    )
)
_UNIT, _HAS_UNIT = ox.NamedNode(QUDT + "unit"), ox.NamedNode(QUDT + "hasUnit")
_BRICK_UNIT = ox.NamedNode(BRICK + "hasUnit")
_POINT_OF, _HAS_POINT = ox.NamedNode(BRICK + "isPointOf"), ox.NamedNode(BRICK + "hasPoint")

READ_PROPERTIES = frozenset(
    {
        *(ox.NamedNode(step) for name in COLUMN_NAMES for step in name.path),
        *(_TYPE, _OBSERVES, _OBSERVED_BY, _MADE_BY, _MADE, _HOSTED, _HOSTS, _PROPERTY, _FEATURE),
        *(_BRICK_UNIT, _POINT_OF, _HAS_POINT),
    }
)
"""All properties that `derive_columns` reads."""


_MOST_REPORTED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedColumns:
    """What a graph states about columns in other words than `fkg:column`.

    Attributes:
        origins: the derived triples with the triples that state them.
        shared: columns that explicit names give to two nodes: the column, and for each node the
            triple that names it.
    """

    origins: Origins = field(default_factory=dict)
    shared: tuple[tuple[str, ox.Quad, ox.Quad], ...] = ()


def derive_columns(store: ox.Store) -> DerivedColumns:
    """Return the triples about columns that follow from a graph by `COLUMN_NAMES`.

    A sensor with explicit names gets the first as its `fkg:column` and the others as alternatives.
    A sensor of SOSA, a variable of OPC UA or a property of B2MML without any column gets its first
    unique name as its column and its other unique names as alternatives, unless the graph tells
    rows apart by `fkg:keyColumn`.

    Args:
        store: the asserted triples, the user's data in the default graph.
    """
    origins: Origins = {}
    named = _explicit_names(store)
    for node, found in named.items():
        for i, (text, origin) in enumerate(found.items()):
            predicate = _ALTERNATIVE if i else _COLUMN
            origins[ox.Quad(node, predicate, ox.Literal(text))] = origin
            origins |= _link_point(store, node, origin)
    _link_observations(store, origins)
    observing = _observing(store, origins)
    if not _quads(store, None, _KEY_COLUMN):
        origins |= _implied_names(store, named, observing)
    for quad in _quads(store, None, _BRICK_UNIT):
        if not {*_quads(store, quad.subject, _UNIT), *_quads(store, quad.subject, _HAS_UNIT)}:
            origins[ox.Quad(quad.subject, _HAS_UNIT, quad.object)] = quad
    return DerivedColumns(origins=origins, shared=tuple(_shared(named)))


def _quads(
    store: ox.Store, subject: Subject | None, predicate: ox.NamedNode, value: Subject | None = None
) -> list[ox.Quad]:
    """The triples of a pattern, in a fixed order."""
    return sorted(
        (
            quad
            for quad in store.quads_for_pattern(subject, predicate, value, DEFAULT)
            if not isinstance(quad.subject, ox.Triple)
        ),
        key=str,
    )


def _explicit_names(store: ox.Store) -> dict[Subject, dict[str, ox.Quad]]:
    """The explicit names of each node, with the triples that contain them."""
    found: dict[Subject, dict[str, ox.Quad]] = defaultdict(dict)
    for name in COLUMN_NAMES:
        if not name.explicit:
            continue
        first, last = map(ox.NamedNode, name.path)
        texts: list[tuple[str, ox.Quad]] = []
        for link in _quads(store, None, first):
            if isinstance(link.object, ox.NamedNode | ox.BlankNode):
                # A bare blank node says nothing to a reader: the link shows both nodes.
                texts += [
                    (quad.object.value, link)
                    for quad in _quads(store, link.object, last)
                    if isinstance(quad.object, ox.Literal)
                ]
        for quad in _quads(store, None, last):
            is_reference = bool(_quads(store, None, first, quad.subject))
            if not is_reference and isinstance(quad.object, ox.Literal):
                texts.append((quad.object.value, quad))
        # In the order of the texts, because that of blank nodes differs from run to run.
        for text, origin in sorted(texts, key=itemgetter(0)):
            found[origin.subject].setdefault(text, origin)
    stated = {node for node in found if _quads(store, node, _COLUMN)}
    return {node: names for node, names in found.items() if node not in stated}


def _link_point(store: ox.Store, node: Subject, origin: ox.Quad) -> Origins:
    """The host of a Brick point, and that it observes itself: a point is both the sensor and the
    observed quantity.
    """
    found: Origins = {}
    for quad in _quads(store, node, _POINT_OF):
        found[ox.Quad(node, _HOSTED, quad.object)] = quad
    for quad in _quads(store, None, _HAS_POINT, node):
        found.setdefault(ox.Quad(node, _HOSTED, quad.subject), quad)
    if not _quads(store, node, _OBSERVES):
        found[ox.Quad(node, _OBSERVES, node)] = origin
    return found


def _link_observations(store: ox.Store, origins: Origins) -> None:
    """What sensors observe, and of what, if only their observations say it.

    A sensor with observations of several features of interest has no host.
    """
    observations: dict[Subject, list[tuple[Subject, ox.Quad]]] = defaultdict(list)
    for quad in _quads(store, None, _MADE_BY):
        if not isinstance(quad.object, ox.Literal | ox.Triple):
            observations[quad.object].append((quad.subject, quad))
    for quad in _quads(store, None, _MADE):
        if not isinstance(quad.object, ox.Literal | ox.Triple):
            observations[quad.subject].append((quad.object, quad))
    for sensor, made in observations.items():
        hosts = [*_quads(store, sensor, _HOSTED), *_quads(store, None, _HOSTS, sensor)]
        for stated, link, target in (
            (_quads(store, sensor, _OBSERVES), _PROPERTY, _OBSERVES),
            (hosts, _FEATURE, _HOSTED),
        ):
            ends = {quad.object: quad for node, _ in made for quad in _quads(store, node, link)}
            if not stated and (link == _PROPERTY or len(ends) == 1):
                origins |= {ox.Quad(sensor, target, end): quad for end, quad in ends.items()}


def _observing(store: ox.Store, origins: Origins) -> dict[Subject, list[ox.Quad]]:
    """The sensors of the graph, each with the triples that say what it observes."""
    found: dict[Subject, list[ox.Quad]] = defaultdict(list)
    for quad in [*_quads(store, None, _OBSERVES), *origins]:
        if quad.predicate == _OBSERVES and not isinstance(quad.subject, ox.Triple):
            found[quad.subject].append(quad)
    for quad in _quads(store, None, _OBSERVED_BY):
        if isinstance(quad.object, ox.NamedNode | ox.BlankNode):
            found[quad.object].append(ox.Quad(quad.object, _OBSERVES, quad.subject))
    for quad in [*_quads(store, None, _TYPE, _SENSOR), *_quads(store, None, _QUALIFIED)]:
        found.setdefault(quad.subject, [])
    return found


def _implied_names(
    store: ox.Store, named: Iterable[Subject], observing: dict[Subject, list[ox.Quad]]
) -> Origins:
    """The columns and alternatives of sensors without an explicit name."""
    columns = _quads(store, None, _COLUMN)
    stated = {quad.subject for quad in columns} | {*named}
    taken = {quad.object.value for quad in columns if isinstance(quad.object, ox.Literal)}
    names = {
        sensor: dict(_names(store, sensor, seen))
        for sensor, seen in observing.items()
        if sensor not in stated and not any(quad.object in stated for quad in seen)
    }
    owners: dict[str, set[Subject]] = defaultdict(set)
    for sensor, own in names.items():
        for text in own:
            owners[text].add(sensor)
    found: Origins = {}
    for sensor, own in names.items():
        unique = [text for text in own if len(owners[text]) == 1 and text not in taken]
        for i, text in enumerate(unique):
            predicate = _ALTERNATIVE if i else _COLUMN
            found[ox.Quad(sensor, predicate, ox.Literal(text))] = own[text]
    return found


def _names(store: ox.Store, sensor: Subject, seen: list[ox.Quad]) -> Iterator[tuple[str, ox.Quad]]:
    """The names of a sensor that are not explicit, each once, in the order of `COLUMN_NAMES`, with
    the triples that contain them.
    """
    mentions = [
        *seen,
        *_quads(store, sensor, _TYPE),
        *_quads(store, None, _MADE_BY, sensor),
        *_quads(store, sensor, _MADE),
    ]
    known: set[str] = set()
    for name in COLUMN_NAMES:
        if name.explicit:
            continue
        of_property = bool(name.path) and name.path[0] == _OBSERVES.value
        steps = name.path[1:] if of_property else name.path
        for node, origin in [(q.object, q) for q in seen] if of_property else [(sensor, None)]:
            if isinstance(node, ox.Literal | ox.Triple):
                continue
            if steps:
                found = [
                    (quad.object.value, quad)
                    for quad in _quads(store, node, ox.NamedNode(steps[0]))
                    if isinstance(quad.object, ox.Literal)
                ]
            elif isinstance(node, ox.NamedNode) and (origin or mentions):
                found = [(unquote(local_name(node.value)), origin or mentions[0])]
            else:
                found = []
            for text, quad in found:
                if text not in known:
                    known.add(text)
                    yield text, quad


def _shared(named: dict[Subject, dict[str, ox.Quad]]) -> Iterator[tuple[str, ox.Quad, ox.Quad]]:
    """Each column that explicit names give to several nodes, with the first two nodes."""
    first: dict[str, ox.Quad] = {}
    told: set[str] = set()
    for node in sorted(named, key=str):
        for text, origin in named[node].items():
            other = first.setdefault(text, origin)
            if other is not origin and text not in told:
                told.add(text)
                yield text, other, origin


def shared_columns(
    store: ox.Store, derived: DerivedColumns, documents: Sequence[Document]
) -> list[Diagnostic]:
    """Return a warning for each column that explicit names give to several nodes, with the places
    of the first two.
    """
    shown = derived.shared[:_MOST_REPORTED]
    triples = [(quad.subject, quad.predicate, quad.object) for _, *pair in shown for quad in pair]
    places = locate_triples(documents, triples) if triples else {}
    values = Values(store)
    found = []
    for i, (text, first, second) in enumerate(shown):
        names = [local_name(str(quad.subject).strip("<>")) for quad in (first, second)]
        here, other = (
            places.get((quad.subject, quad.predicate, quad.object), point(""))
            for quad in (second, first)
        )
        units = [
            values.unit_of(quad.subject)
            for quad in (first, second)
            if isinstance(quad.subject, ox.NamedNode | ox.BlankNode)
        ]
        in_units = (
            f", in `{units[0]}` and in `{units[1]}`" if all(units) and units[0] != units[-1] else ""
        )
        more = len(derived.shared) - _MOST_REPORTED if i == _MOST_REPORTED - 1 else 0
        problem = report(
            "FKG129",
            here,
            f"`{names[0]}` and `{names[1]}` name the same column, `{text}`{in_units}"
            + (f", and {more} more columns have several nodes" if more > 0 else ""),
            help="correct the identifier of one of them, or remove the node that has no data",
            severity="warning",
        )
        related = Related(span=other, message=f"`{names[0]}` names it here")
        found.append(replace(problem, related=(related,)))
    return found


def several_units(
    store: ox.Store, derived: DerivedColumns, documents: Sequence[Document]
) -> list[Diagnostic]:
    """Return a warning for each node with a number or a column that has different units, with the
    places of two.
    """
    found = []
    for node, units in [*Values(store).several_units().items()][:_MOST_REPORTED]:
        stated = [derived.origins.get(quad, quad) for quad in units.values()]
        triples = [(quad.subject, quad.predicate, quad.object) for quad in stated]
        places = locate_triples(documents, triples)
        first, second = sorted(places.get(triple, point("")) for triple in triples)[:2]
        name = f"`{local_name(node.value)}`" if isinstance(node, ox.NamedNode) else "this quantity"
        problem = report(
            "FKG216",
            second,
            f"{name} has several units: {', '.join(f'`{text}`' for text in units)}",
            help="keep the one in which the values are",
            severity="warning",  # no rule may read it: one that does has an error
        )
        related = Related(span=first, message="another unit")
        found.append(replace(problem, related=(related,) if first != second else ()))
    return found


# The mapping of the graph to tables: the columns of a property's observations, and the rows about
# an entity.

_KEY_VALUE = ox.NamedNode(FKG + "keyValue")
_STORED = ox.NamedNode(FKG + "storedValueOf")

Entity = ox.NamedNode | ox.BlankNode
Texts = dict[Entity, list[str]]
Links = dict[Entity, list[Entity]]


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
        unit_of: Callable[[Entity], str | None],
    ) -> None:
        self._answers = answers
        self._give_store = store
        self._unit_of = unit_of
        self._attached: dict[Entity, Links] = {}
        self._members: Links = {}
        self._common: dict[Entity, frozenset[ColumnFact]] = {}

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

    def _of_all(self, wanted: Entity) -> frozenset[ColumnFact]:
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
        observed: Collection[Entity] = self._observed.get(node, ())
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
        first: dict[str, Entity] = {}
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
    def _observed(self) -> dict[Entity, set[Entity]]:
        """The observed properties of each sensor."""
        found: dict[Entity, set[Entity]] = defaultdict(set)
        for sensor, observed in (*self._links(_OBSERVES), *self._stored):
            found[sensor].add(observed)
        return found

    @cached_property
    def _stored(self) -> frozenset[tuple[Entity, Entity]]:
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

    def _class_key(self, entity: Entity) -> str | None:
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

    def _of_attached(self, wanted: Entity, entity_iri: str) -> set[ColumnFact]:
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

    def _and_members(self, wanted: Entity) -> list[Entity]:
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

    def _links(self, predicate: ox.NamedNode) -> list[tuple[Entity, Entity]]:
        return [
            (quad.subject, quad.object)
            for quad in self._store.quads_for_pattern(None, predicate, None)
            if isinstance(quad.object, ox.NamedNode | ox.BlankNode)
            and not isinstance(quad.subject, ox.Triple)
        ]


def _grouped(pairs: Iterable[tuple[Entity, Entity]]) -> Links:
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


# The graph itself.

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
Resource = ox.NamedNode | ox.BlankNode | ox.Literal
"""Terms that a variable can be bound to."""
_CLIENT = ox.NamedNode(FKG + "client")
_LABELS = (ox.NamedNode(RDFS + "label"), ox.NamedNode(SKOS + "prefLabel"))
_FEW_LABELS = 200
"""Nodes that are looked up one by one before the names of all are read."""


class Graph:
    """Everything that is known, with its closure; nothing changes it after it was loaded.

    Args:
        store: the triples of the closure: the user's data and what it entails in the default graph,
            the others in their named graphs; or a function that reads them, called when an answer
            needs triples.
        vocabulary: the names that rule files may use.
        defined: the definitions of names in ontologies and graphs, by IRI.
        ownership: the owners of nodes, for a private pack; the triples of other clients have been
            removed. None for a public pack.
        told: the asserted triples before the closure, to explain why something holds; None if
            explanations are not needed.
        named: gives the quads of the named graphs that are not in the store: copies of what is in
            the default graph, by source.
        whole: all triples of the closure, where `store` holds only those that rules touch; they
            answer what may be asked of any name. Default: `store`, which is not a function then.
        answers: earlier answers of the same triples; default: none.
    """

    def __init__(
        self,
        store: ox.Store | Callable[[], ox.Store],
        vocabulary: Vocabulary,
        defined: Mapping[str, Definition],
        ownership: Ownership | None = None,
        told: Told | None = None,
        named: Callable[[ox.Store], Iterable[ox.Quad]] | None = None,
        whole: ox.Store | None = None,
        answers: RecordedAnswers | None = None,
    ) -> None:
        self._named = named
        if whole is None:
            assert isinstance(store, ox.Store), "`whole` is missing"
            whole = store
        self._whole = whole
        self._given = store
        self._answers = RecordedAnswers() if answers is None else answers
        self._columns = self._new_columns()
        self._defined = defined
        self._plain: dict[Node | None, select_query_execution.Plain] = {}
        self.vocabulary = vocabulary
        self.ownership = ownership
        self.told = told

    @cached_property
    def _store(self) -> ox.Store:
        """The triples that rules touch; read when they are first needed."""
        return self._given if isinstance(self._given, ox.Store) else self._given()

    @cached_property
    def _values(self) -> Values:
        return Values(self._store)

    def _new_columns(self) -> Columns:
        return Columns(
            self._answers,
            store=lambda: self._store,
            unit_of=lambda node: self._values.unit_of(node),
        )

    @property
    def store(self) -> ox.Store:
        """The store with all triples, those of the closure included; only to read."""
        return self._whole

    def with_named_graphs(self) -> ox.Store:
        """Return a copy of the store in memory, with the graphs that it lacks."""
        return with_named_graphs(self._store, self._named)

    def solutions(self, query: str, prefixes: Mapping[str, str]) -> Solutions:
        """Return the answer to a whole query as the store gives it (`QueryProcess.select`).

        Raises LimitError, and what the store raises for a query that it cannot answer.
        """
        return self._process.select(query, prefixes=prefixes)

    def extend(self, triples: Sequence[ox.Quad]) -> None:
        """Add triples, such as those of rules; nothing is concluded from them.

        A store on disk is not changed: its content is copied into memory first.
        """
        self.close()
        try:
            self._whole.extend(triples)
        except RuntimeError:  # it is read-only
            store = ox.Store()
            store.bulk_extend(iter(self._whole))
            store.extend(triples)
            self._whole = store
        self._store = self._whole
        for name in ("_process", "_whole_process", "_values", "_all_labels"):
            self.__dict__.pop(name, None)
        self.vocabulary.forget_local_names()
        self._answers = RecordedAnswers()
        self._columns = self._new_columns()

    def keep_answers(self) -> None:
        """Write the answers so far beside the closure that they are from, for the next compilation;
        nothing for a graph in memory.
        """
        if self._answers.path is not None:
            self._answers.keep()

    def close(self) -> None:
        """End the processes that queries run in; another query starts them anew."""
        for name in ("_process", "_whole_process"):
            if (process := self.__dict__.get(name)) is not None:
                process.close()

    @cached_property
    def _whole_process(self) -> QueryProcess:
        """Answers queries over all triples; made for the first query."""
        return QueryProcess(self._whole, self._named)

    @cached_property
    def _process(self) -> QueryProcess:
        """Answers queries over the triples that rules touch."""
        if self._whole is self._store:
            return self._whole_process
        return QueryProcess(self._store, self._named)

    def __len__(self) -> int:
        """Return the number of triples, those of the closure included."""
        return len(self._whole)

    def select(
        self, where: str, variables: Sequence[str], *, span: Span, given: str = ""
    ) -> tuple[list[tuple[RdfTerm | None, ...]], tuple[Diagnostic, ...]]:
        """Return the distinct solutions of a SPARQL group graph pattern.

        Args:
            where: the text between the braces.
            variables: the names without ``?``, in the order of the columns of the rows.
            span: the span of `where`.
            given: VALUES to join the pattern with, on one line.

        Returns:
            Rows, sorted; None for an unbound variable. Diagnostics with positions inside `span`;
                after an error the rows are empty.
        """

        def answer(text: str) -> list[tuple[RdfTerm | None, ...]]:
            key = query_key(text, self.vocabulary.prefixes)
            self._answers.asked.add(key)
            if key not in self._answers.solutions:
                found = self._process.select(text, prefixes=self.vocabulary.prefixes)
                rows = graph_pattern_answers.sorted_rows(found, variables, self._values)
                if names_graph(text):  # the other graphs are not all in the closure
                    return rows
                self._answers.solutions[key] = rows
            return self._answers.solutions[key]

        with query_at(span.file, span.line):
            return graph_pattern_answers.select(
                answer, self.vocabulary, where, variables, span, given
            )

    def select_file(
        self, text: str, file: str, variables: Sequence[tuple[str, Span]]
    ) -> tuple[list[tuple[RdfTerm | None, ...]], tuple[Diagnostic, ...]]:
        """Return what a SELECT in a query file gives for some of its variables, as `select` does.

        Problems at their places in the file.

        Args:
            text: the query.
            file: the name of the file in diagnostics.
            variables: the names without ``?``, each with the place where it is asked for.
        """
        with query_at(file):
            return query_file_answers.select_file(
                self._process, self._values, self.vocabulary, text, file, variables
            )

    def answers(
        self, query: str, *, everywhere: bool = False
    ) -> list[tuple[Iri | Literal | None, ...]]:
        """Return the solutions of a whole SELECT query, as the store gives them.

        Raises ValueError if it cannot.

        Args:
            everywhere: look in all graphs at once, not in the default graph alone.
        """
        terms, rows = self.numbered_answers(query, everywhere=everywhere)
        return [tuple([terms[i] for i in row]) for row in rows]

    def numbered_answers(
        self, query: str, *, everywhere: bool = False
    ) -> tuple[list[Iri | Literal | None], list[tuple[int, ...]]]:
        """Return what `answers` does as the terms, each once, and rows of positions of terms."""
        process = self._whole_process if everywhere else self._process
        return select_query_execution.numbered_answers(
            process, query, self._plain, everywhere=everywhere
        )

    def nodes(
        self, query: str, given: Mapping[str, Resource] | None = None, *, everywhere: bool = False
    ) -> list[dict[str, Resource]]:
        """Return the solutions of a SELECT query as nodes, by their variables without ``?``.

        The prefixes of the rule files are known.

        Args:
            given: terms that some variables are bound to.
            everywhere: look in all graphs at once, not in the default graph alone.
        """
        found = self._whole_process.select(
            query, prefixes=self.vocabulary.prefixes, given=given, everywhere=everywhere
        )
        return [
            {
                name: node
                for name, node in zip(found.names, row, strict=True)
                if isinstance(node, Resource)
            }
            for row in found.rows
        ]

    def is_true(self, query: str) -> bool:
        """Return the answer to an ASK query over all graphs at once.

        The prefixes of the rule files are known.
        """
        return bool(
            self._whole.query(
                query, prefixes=dict(self.vocabulary.prefixes), use_default_graph_as_union=True
            )
        )

    def node(self, iri: str) -> Resource:
        """Return the node of an IRI, or of a blank node (``_:b0``).

        Raises ValueError for what is neither.
        """
        return node_of(iri)

    def sparql_problem(self, query: str) -> tuple[str, int, int] | None:
        """Return what is wrong with the text of a query, with line and column, or None if it is
        SPARQL.
        """
        return select_query_execution.sparql_problem(query, self.vocabulary.prefixes)

    def instances(self, iri: str, *, vocabularies: bool = False) -> list[str]:
        """Return the named members of a class and of its subclasses in the user's data, sorted.

        With `vocabularies` those that only a vocabulary describes too.
        """
        members = self._answers.members
        key = f"{iri} {vocabularies}"
        if key not in members:
            graph = None if vocabularies else DEFAULT
            found = {
                quad.subject.value
                for quad in self._store.quads_for_pattern(None, TYPE, ox.NamedNode(iri), graph)
                if isinstance(quad.subject, ox.NamedNode)
            }
            members[key] = sorted(found)
        return members[key]

    def resolve(
        self, text: str, form: OneOf["pname", "iri", "name"], span: Span
    ) -> tuple[str | None, tuple[Diagnostic, ...]]:
        """Return the IRI of a name as the rule file writes it; None with an error."""
        match form:
            case "name":
                return self._by_name(text, span)
            case "pname":
                iri, problems = self.vocabulary.expand(text, span)
            case "iri":
                if not is_iri(text):
                    return None, (
                        report(
                            "FKG108",
                            span,
                            f"<{text}> is not an IRI",
                            help="an IRI has a scheme and no spaces: "
                            "`<https://example.org/plant#A>`",
                        ),
                    )
                iri, problems = text, ()
        if iri is None:
            return None, problems
        problems = self.vocabulary.check(iri, f"<{text}>" if form == "iri" else text, span)
        return (None if any(problem.severity == "error" for problem in problems) else iri), problems

    def _by_name(self, name: str, span: Span) -> tuple[str | None, tuple[Diagnostic, ...]]:
        found = self.vocabulary.by_local_name(name)
        match found:
            case [iri]:
                return iri, ()
            case []:
                meant = closest_name(name, self.vocabulary.all_local_names())
                advice = (
                    f"did you mean `{meant}`?"
                    if meant
                    else "write it with its prefix, or load the ontology that has it with `use`"
                )
                return None, (
                    report(
                        "FKG113",
                        span,
                        f"no loaded ontology or graph has a term `{name}`",
                        help=advice,
                    ),
                )
            case _:
                names = [self.vocabulary.shorten(iri) for iri in found]
                problem = report(
                    "FKG114",
                    span,
                    f"`{name}` may be {' or '.join(names)}",
                    help=f"write which one, `{names[0]}` for example",
                )
                return None, (problem,)

    def columns_of(self, property_iri: str, entity_iri: str | None) -> list[ColumnFact]:
        """Return the table columns with the observations of a property, sorted; [] if the graph
        does not name them.

        With an entity: the columns of its sensors, else those that the property has for all
        entities (`ColumnFact.entity` is None).
        """
        if not is_iri(property_iri):
            return []
        found = self._answers.observations
        asked = f"{property_iri} {entity_iri or ''}"
        if asked not in found:
            found[asked] = self._columns.property_columns(property_iri, entity_iri)
        return found[asked]

    def column_at(self, iri: str) -> list[ColumnFact]:
        """Return the table columns with the values of a sensor, or of an observed property for all
        entities; [] if there are none.
        """
        return self._columns.at(iri)

    def alternative_columns(self) -> Mapping[str, tuple[str, ...]]:
        """Return the further headers that the graph knows for columns, sorted, by their header."""
        return self._columns.alternatives()

    def is_shared(self, column: str) -> bool:
        """Tell whether the sensors of several entities have their values in a column."""
        return self._columns.is_shared(column)

    def key_of(self, entity_iri: str) -> tuple[str, str] | None:
        """Return key column and key value of the table rows that are about an entity.

        None if the graph names no key column.
        """
        return self._columns.key_of(entity_iri)

    def category_of(self, entity_iri: str) -> str:
        """Return the text that represents an entity in a column: its key value, else the last part
        of its IRI.
        """
        key = None if entity_iri.startswith("_:") else self.key_of(entity_iri)
        return local_name(entity_iri) if key is None else key[1]

    def label_of(self, iri: str) -> str:
        """Return the entity's name for people: its label in English, else without a language, else
        in any, else the local name.
        """
        labels = self._answers.labels
        if iri not in labels:
            labels[iri] = self._label(iri)
        return labels[iri]

    def names_of(self, iris: Iterable[str]) -> dict[str, str]:
        """Return the names of entities for people, which tell them apart: labels, and prefixed
        names where a label repeats.

        Identifiers of blank nodes differ between runs, so that these keep their labels.
        """
        labels = {iri: self.label_of(iri) for iri in iris}
        times = Counter(label.casefold() for label in labels.values())
        return {
            iri: label
            if times[label.casefold()] == 1 or iri.startswith("_:")
            else self.vocabulary.shorten(iri)
            for iri, label in labels.items()
        }

    def _label(self, iri: str) -> str:
        if len(self._answers.labels) < _FEW_LABELS:
            found = self._label_quads(node_of(iri))
            texts = [quad.object for quad in found if isinstance(quad.object, ox.Literal)]
        else:
            texts = self._all_labels.get(iri, [])
        if not texts:
            return local_name(iri)
        if len(texts) == 1:
            return texts[0].value
        return min(
            texts, key=lambda item: (_language_rank(item.language), item.language or "", item.value)
        ).value

    def _label_quads(self, node: ox.NamedNode | ox.BlankNode | None) -> Iterator[ox.Quad]:
        """The triples with the names of a node, or of all."""
        for predicate in _LABELS:
            yield from self._store.quads_for_pattern(node, predicate, None)

    @cached_property
    def _all_labels(self) -> dict[str, list[ox.Literal]]:
        """The names of all nodes: read at once, they take a tenth of the time."""
        found: dict[str, list[ox.Literal]] = {}
        for quad in self._label_quads(None):
            node = quad.subject
            if isinstance(quad.object, ox.Literal) and not isinstance(node, ox.Triple):
                iri = f"_:{node.value}" if isinstance(node, ox.BlankNode) else node.value
                found.setdefault(iri, []).append(quad.object)
        return found

    def unit_text(self, iri: str) -> str:
        """Return a unit's IRI as rule files write the unit (``unit:N-M`` is ``N.m``), or the IRI
        where no text is known.
        """
        return self._values.unit_text(iri)

    def nearest_unit(self, iri: str) -> str | None:
        """Return the unit that an IRI without a known text was probably meant to be, as ``unit:K``,
        or None.
        """
        return self._values.nearest_unit(iri)

    def values_of(self, subject_iri: str, property_iri: str) -> list[RdfTerm]:
        """Return what a property says of a subject, as plain values, sorted as rows are."""
        rows = self._whole.quads_for_pattern(node_of(subject_iri), ox.NamedNode(property_iri), None)
        found = {term for quad in rows if (term := self._values.term(quad.object)) is not None}
        return sorted(found, key=order_key)

    @property
    def states_owners(self) -> bool:
        """Whether the user's data gives an entity to a client."""
        if self._answers.owners is None:
            self._answers.owners = any(self._store.quads_for_pattern(None, _CLIENT, None, DEFAULT))
        return self._answers.owners

    def pairs_of(self, property_iri: str) -> list[tuple[RdfTerm | None, ...]]:
        """Return the subjects and values of a property in the user's data, as plain values."""
        pairs = self._answers.pairs
        if property_iri not in pairs:
            values, name = self._values, ox.NamedNode(property_iri)
            quads = self._store.quads_for_pattern(None, name, None, DEFAULT)
            pairs[property_iri] = [
                (values.term(quad.subject), values.term(quad.object)) for quad in quads
            ]
        return pairs[property_iri]

    def properties_between(self, subject_iri: str, text: str) -> list[str]:
        """Return the properties of a subject with a literal of this text, sorted by IRI."""
        rows = self._whole.quads_for_pattern(node_of(subject_iri), None, None)
        return sorted(
            {
                quad.predicate.value
                for quad in rows
                if isinstance(quad.object, ox.Literal) and quad.object.value == text
            }
        )

    def term_of(self, iri: str) -> RdfTerm | None:
        """Return a node as a plain value: a quantity where it has a number, else itself."""
        return self._values.term(node_of(iri))

    def terms(self) -> tuple[KnownTerm, ...]:
        """Return the classes, properties and individuals that ontologies and graphs define, sorted
        by IRI.
        """
        return known_terms(self._defined, self.vocabulary)

    def has(self, iri: str) -> bool:
        """Whether any triple contains the IRI."""
        return self.vocabulary.mentioned(iri)


def _language_rank(language: str | None) -> int:
    if language is None:
        return 1
    return 0 if language.lower().split("-")[0] == "en" else 2
