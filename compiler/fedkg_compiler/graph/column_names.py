"""Column names in plant graphs that do not use `fkg:column`: Brick, SOSA, OPC UA and B2MML.

`COLUMN_NAMES` lists where these vocabularies name the time series of a sensor. `derive_columns`
turns what a graph states in them into the terms that the rest of the compiler reads: `fkg:column`,
`fkg:alternativeColumn`, `sosa:observes`, `sosa:isHostedBy` and `qudt:hasUnit`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import pyoxigraph as ox

from fedkg_compiler.diagnostics.record import Diagnostic, Related
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.graph.named_graphs import DEFAULT
from fedkg_compiler.graph.rdf_reader import Document
from fedkg_compiler.graph.span_construction import point, report
from fedkg_compiler.graph.standard_vocabularies import (
    BRICK,
    BRICK_REF,
    DCTERMS,
    FKG,
    QUDT,
    RDF,
    RDFS,
    SOSA,
)
from fedkg_compiler.graph.triple_locations import locate_triples

Resource = ox.NamedNode | ox.BlankNode | ox.Triple
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

    A sensor with an explicit name gets it as its `fkg:column`. A sensor of SOSA, a variable of OPC
    UA or a property of B2MML without any column gets its first unique name as its column and its
    other unique names as alternatives, unless the graph tells rows apart by `fkg:keyColumn`.

    Args:
        store: the asserted triples, the user's data in the default graph.
    """
    origins: Origins = {}
    named = _explicit_names(store)
    for node, found in named.items():
        for text, origin in found.items():
            origins[ox.Quad(node, _COLUMN, ox.Literal(text))] = origin
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
    store: ox.Store,
    subject: Resource | None,
    predicate: ox.NamedNode,
    value: Resource | None = None,
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


def _explicit_names(store: ox.Store) -> dict[Resource, dict[str, ox.Quad]]:
    """The explicit names of each node, with the triples that contain them."""
    found: dict[Resource, dict[str, ox.Quad]] = defaultdict(dict)
    for name in COLUMN_NAMES:
        if not name.explicit:
            continue
        first, last = map(ox.NamedNode, name.path)
        for link in _quads(store, None, first):
            if isinstance(link.object, ox.NamedNode | ox.BlankNode):
                for quad in _quads(store, link.object, last):
                    if isinstance(quad.object, ox.Literal):
                        # A bare blank node says nothing to a reader: the link shows both nodes.
                        found[link.subject].setdefault(quad.object.value, link)
        for quad in _quads(store, None, last):
            is_reference = bool(_quads(store, None, first, quad.subject))
            if not is_reference and isinstance(quad.object, ox.Literal):
                found[quad.subject].setdefault(quad.object.value, quad)
    stated = {node for node in found if _quads(store, node, _COLUMN)}
    return {node: names for node, names in found.items() if node not in stated}


def _link_point(store: ox.Store, node: Resource, origin: ox.Quad) -> Origins:
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
    observations: dict[Resource, list[tuple[Resource, ox.Quad]]] = defaultdict(list)
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


def _observing(store: ox.Store, origins: Origins) -> dict[Resource, list[ox.Quad]]:
    """The sensors of the graph, each with the triples that say what it observes."""
    found: dict[Resource, list[ox.Quad]] = defaultdict(list)
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
    store: ox.Store, named: Iterable[Resource], observing: dict[Resource, list[ox.Quad]]
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
    owners: dict[str, set[Resource]] = defaultdict(set)
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


def _names(store: ox.Store, sensor: Resource, seen: list[ox.Quad]) -> Iterator[tuple[str, ox.Quad]]:
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


def _shared(named: dict[Resource, dict[str, ox.Quad]]) -> Iterator[tuple[str, ox.Quad, ox.Quad]]:
    """Each column that explicit names give to several nodes, with the first two nodes."""
    first: dict[str, ox.Quad] = {}
    told: set[str] = set()
    for node in sorted(named, key=str):
        for text, origin in named[node].items():
            other = first.setdefault(text, origin)
            if other is not origin and text not in told:
                told.add(text)
                yield text, other, origin


def shared_columns(derived: DerivedColumns, documents: Sequence[Document]) -> list[Diagnostic]:
    """Return a warning for each column that explicit names give to several nodes, with the places
    of the first two.
    """
    shown = derived.shared[:_MOST_REPORTED]
    triples = [(quad.subject, quad.predicate, quad.object) for _, *pair in shown for quad in pair]
    places = locate_triples(documents, triples) if triples else {}
    found = []
    for i, (text, first, second) in enumerate(shown):
        names = [local_name(str(quad.subject).strip("<>")) for quad in (first, second)]
        here, other = (
            places.get((quad.subject, quad.predicate, quad.object), point(""))
            for quad in (second, first)
        )
        more = len(derived.shared) - _MOST_REPORTED if i == _MOST_REPORTED - 1 else 0
        problem = report(
            "FKG129",
            here,
            f"`{names[0]}` and `{names[1]}` name the same column, `{text}`"
            + (f", and {more} more columns have several nodes" if more > 0 else ""),
            help="correct the identifier of one of them, or remove the node that has no data",
            severity="warning",
        )
        related = Related(span=other, message=f"`{names[0]}` names it here")
        found.append(replace(problem, related=(related,)))
    return found
