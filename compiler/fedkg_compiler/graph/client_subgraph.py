"""The owners of the nodes of a graph, and the graph without nodes that belong to other clients
alone.

Who owns what is read from the closed graph, so that inverse, more special and transitive properties
count; what is cut are the triples as they were read, so that nothing is concluded from what was
cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.owl_rl_closure import SUB_CLASS, TYPE
from fedkg_compiler.graph.standard_vocabularies import FKG, OWL, QUDT, RDF, RDFS, SOSA

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
Links = dict[Node, set[Node]]

_ISA95 = "http://www.w3id.org/hsu-aut/DINEN62264-2#"
_FKG_ISA95 = "https://w3id.org/fedkg/isa95#"
_SCHEMA_ORG = "https://schema.org/"
_LEVELS = (("Enterprise", "Site"), ("Site", "Area"), ("Area", "Center"), ("Center", "Unit"))


def _named(space: str, names: str) -> tuple[ox.NamedNode, ...]:
    return tuple(ox.NamedNode(space + name) for name in names.split())


UP = (
    *_named(
        SOSA,
        "isHostedBy hasFeatureOfInterest madeBySensor madeByActuator madeBySampler "
        "isResultOf isSampleOf",
    ),
    *_named(FKG, "limitOf"),
    *_named(_ISA95, "isPartOf hasParent"),
    *_named(_FKG_ISA95, "sublotOf"),
    *_named(_ISA95, " ".join(f"{part}IsPartOf{whole}" for whole, part in _LEVELS)),
    *_named(_SCHEMA_ORG, "isPartOf"),
)
"""Properties by which a subject is its object's: a sensor, a part, a limit."""

DOWN = (
    *_named(
        SOSA,
        "hosts isFeatureOfInterestOf madeObservation madeActuation madeSampling hasResult "
        "hasSample",
    ),
    *_named(FKG, "hasLimit"),
    *_named(_ISA95, "consistsOf hasChild"),
    *_named(
        _FKG_ISA95,
        "hasSublot containsSublot hasEquipmentProperty hasPhysicalAssetProperty "
        "hasPersonProperty hasMaterialLotProperty recordsEquipmentTest recordsMaterialTest "
        "recordsQualificationTest",
    ),
    *_named(_ISA95, " ".join(f"{whole}ConsistsOf{part}" for whole, part in _LEVELS)),
    *_named(_SCHEMA_ORG, "hasPart"),
)
"""Properties by which an object is its subject's."""

_CLIENT = ox.NamedNode(FKG + "client")
_SAME = ox.NamedNode(OWL + "sameAs")
_VALUES = (*_named(QUDT, "numericValue value"), *_named(FKG, "column"))
_OF_ALL = frozenset(
    (
        *_named(SOSA, "observes observedProperty"),
        *_named(FKG, "limits"),
        *_named(QUDT, "unit hasUnit"),
        TYPE,
    )
)
"""Properties that lead to what is everybody's: observed properties, units, classes."""

_SCHEMA_KINDS = (
    *_named(OWL, "Class Restriction Ontology ObjectProperty DatatypeProperty AnnotationProperty"),
    *_named(RDFS, "Class Datatype"),
    *_named(RDF, "Property"),
    *_named(SOSA, "ObservableProperty"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The clients of a graph and the nodes of one client.

    Attributes:
        clients: the names and node IRIs of all clients.
        own: the nodes that belong to the client, by IRI; blank nodes as ``_:label``.
    """

    clients: frozenset[str]
    own: frozenset[str]


@dataclass(slots=True)
class _Owners:
    """The nodes by what is known of their owners, while it is found out.

    Attributes:
        own: the nodes that belong to the client.
        foreign: the nodes that belong only to other clients, or that are withheld together with
            such nodes.
        parents: the parents of each node, by `UP`, `DOWN` and `owl:sameAs`.
        children: the inverse of `parents`.
    """

    own: set[Node] = field(default_factory=set)
    foreign: set[Node] = field(default_factory=set)
    parents: Links = field(default_factory=dict)
    children: Links = field(default_factory=dict)


def cut(
    triples: Sequence[ox.Quad], closed: ox.Store, client: str
) -> tuple[Callable[[ox.Quad], bool], Ownership]:
    """Return whether a triple is kept, because it is not of other clients, and what belongs to the
    client.

    Args:
        triples: the triples as they were read.
        closed: a store with the same triples and everything that follows from them.
        client: the name or the node IRI of the client.

    A node with `fkg:client` belongs to the clients it names, and a client's node to that client. A
    node without it belongs to the owners of its nearest parents (`UP`, `DOWN`, `owl:sameAs`).
    Beside nodes that belong to others alone, these are withheld: nodes that name such a node and
    none of the client's; quantities, columns and blank nodes that nothing else leads to; and their
    children.
    """
    said = _stated_clients(closed)
    names = _reached(client, said)
    own_names = frozenset({client}) | names
    direct: dict[Node, frozenset[str]] = {
        node: _reached(_name(node), said) for node in _subjects(closed)
    }
    for quad in closed.quads_for_pattern(None, _CLIENT, None):
        if isinstance(quad.object, ox.NamedNode | ox.BlankNode):
            direct[quad.object] = (
                direct.get(quad.object, frozenset())
                | {_name(quad.object)}
                | _reached(_name(quad.object), said)
            )
    for quad in triples:
        if _name(quad.subject) == client:
            direct[quad.subject] = direct.get(quad.subject, frozenset()) | {client}
    state = _Owners()
    state.children, state.parents = _hanging(closed)
    for node, owners in _inherited(direct, state).items():
        (state.foreign if own_names.isdisjoint(owners) else state.own).add(node)
    _withhold(triples, closed, state)
    strangers = {
        (quad.subject, quad.object)
        for quad in closed.quads_for_pattern(None, _CLIENT, None)
        if quad.object not in state.own and _name(quad.object) not in own_names
    }

    def is_kept(quad: ox.Quad) -> bool:
        ends = quad.subject, quad.object
        mentioned = (quad.subject, quad.predicate, quad.object)
        return not _mentions_any(state.foreign, mentioned) and ends not in strangers

    everyone = (
        frozenset(name for owners in direct.values() for name in owners) if said else frozenset()
    )
    return is_kept, Ownership(clients=everyone, own=frozenset(_name(node) for node in state.own))


def _name(node: Node) -> str:
    match node:
        case ox.NamedNode() | ox.Literal():
            return node.value
        case ox.BlankNode():
            return f"_:{node.value}"
        case _:
            return str(node)


def _stated_clients(closed: ox.Store) -> dict[str, set[str]]:
    """The clients that `fkg:client` names for each node."""
    found: dict[str, set[str]] = defaultdict(set)
    for quad in closed.quads_for_pattern(None, _CLIENT, None):
        found[_name(quad.subject)].add(_name(quad.object))
    return dict(found)


def _subjects(closed: ox.Store) -> set[Node]:
    return {quad.subject for quad in closed.quads_for_pattern(None, _CLIENT, None)}


def _reached(name: str, said: dict[str, set[str]]) -> frozenset[str]:
    """The clients of a node with all their further names."""
    found: set[str] = set()
    waiting = [*said.get(name, ())]
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += said.get(other, ())
    return frozenset(found)


def _hanging(closed: ox.Store) -> tuple[Links, Links]:
    """The children of each node, and the parents of each node."""
    children: Links = defaultdict(set)
    parents: Links = defaultdict(set)
    for predicates, turned in ((UP, False), (DOWN, True), ((_SAME,), False), ((_SAME,), True)):
        for predicate in predicates:
            for quad in closed.quads_for_pattern(None, predicate, None):
                low, high = (quad.object, quad.subject) if turned else (quad.subject, quad.object)
                if (
                    low != high
                    and not isinstance(low, ox.Literal)
                    and not isinstance(high, ox.Literal)
                ):
                    children[high].add(low)
                    parents[low].add(high)
    return dict(children), dict(parents)


def _inherited(direct: dict[Node, frozenset[str]], state: _Owners) -> dict[Node, frozenset[str]]:
    """The owners of every node that has owners: its own, else those of its nearest ancestors."""
    above: dict[Node, set[Node]] = {}
    nearest: Links = {}
    owners = dict(direct)
    waiting = list(direct)
    while waiting:
        node = waiting.pop()
        for child in state.children.get(node, ()):
            if child in direct:
                continue
            if child not in nearest:
                nearest[child] = _nearest(child, state.parents, above)
            known = owners.get(child, frozenset())
            if node in nearest[child] and not owners[node] <= known:
                owners[child] = known | owners[node]
                waiting.append(child)
    return owners


def _nearest(node: Node, parents: Links, above: dict[Node, set[Node]]) -> set[Node]:
    """The direct parents of a node: transitive properties also lead past the nearest whole to all
    others.
    """
    found = parents.get(node, set())
    if len(found) < 2:
        return found
    beyond: set[Node] = set()
    for other in found:
        if other not in above:
            above[other] = _all_above(other, parents)
        if node not in above[other]:
            beyond |= {
                far for far in above[other] & found if other not in _above(far, parents, above)
            }
    return found - beyond


def _above(node: Node, parents: Links, above: dict[Node, set[Node]]) -> set[Node]:
    if node not in above:
        above[node] = _all_above(node, parents)
    return above[node]


def _all_above(node: Node, parents: Links) -> set[Node]:
    found: set[Node] = set()
    waiting = [*parents.get(node, ())]
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += parents.get(other, ())
    return found


def _withhold(triples: Sequence[ox.Quad], closed: ox.Store, state: _Owners) -> None:
    """Add to the foreign nodes those without an owner that mention them, are their children, or are
    only their values.
    """
    schema = _schema(triples, closed)
    _withhold_subjects(triples, schema, state)
    values = _value_nodes(triples) - schema - state.own
    while True:
        before = len(state.foreign)
        waiting = list(state.foreign)
        while waiting:
            for child in state.children.get(waiting.pop(), ()):
                if child not in state.own and child not in state.foreign:
                    state.foreign.add(child)
                    waiting.append(child)
        _withhold_values(triples, values, state)
        if len(state.foreign) == before:
            return


def _schema(triples: Iterable[ox.Quad], closed: ox.Store) -> set[Node]:
    """Classes and properties, which are everybody's."""
    found: set[Node] = {
        quad.subject
        for kind in _SCHEMA_KINDS
        for quad in closed.quads_for_pattern(None, TYPE, kind)
    }
    for quad in triples:
        found.add(quad.predicate)
        if quad.predicate in (TYPE, SUB_CLASS):
            found.add(quad.object)
        if quad.predicate == SUB_CLASS:
            found.add(quad.subject)
    return {node for node in found if isinstance(node, ox.NamedNode)}


def _withhold_subjects(triples: Iterable[ox.Quad], schema: set[Node], state: _Owners) -> None:
    """Add the nodes that name foreign nodes and none of the client's, except the parents of foreign
    nodes.
    """
    foreign, own = set[Node](), set[Node]()
    for quad in triples:
        subject, value = quad.subject, quad.object
        if value in state.own:
            own.add(subject)
        elif _mentions_any(state.foreign, (value,)) and subject not in state.parents.get(value, ()):
            foreign.add(subject)
    state.foreign |= foreign - own - state.own - schema


def _value_nodes(triples: Iterable[ox.Quad]) -> set[Node]:
    """Blank nodes, quantities, and nodes with a column."""
    found: set[Node] = set()
    for quad in triples:
        if quad.predicate in _VALUES:
            found.add(quad.subject)
        found |= {node for node in (quad.subject, quad.object) if isinstance(node, ox.BlankNode)}
    return found


def _withhold_values(triples: Iterable[ox.Quad], values: set[Node], state: _Owners) -> None:
    """Values to which foreign nodes lead, and no other node does."""
    leading: Links = defaultdict(set)
    for quad in triples:
        if quad.object in values and quad.predicate not in _OF_ALL and quad.subject != quad.object:
            leading[quad.subject].add(quad.object)
    free = _led_to(
        [node for node in leading if node not in state.foreign and node not in values],
        leading,
        values - state.foreign,
    )
    unled = values - {value for found in leading.values() for value in found} - state.foreign
    free |= _led_to([*unled], leading, values - state.foreign)
    state.foreign |= (
        _led_to([node for node in leading if node in state.foreign], leading, values) - free
    )


def _led_to(starts: Sequence[Node], leading: Links, values: set[Node]) -> set[Node]:
    found: set[Node] = set()
    waiting = [*starts]
    while waiting:
        for other in leading.get(waiting.pop(), ()):
            if other in values and other not in found:
                found.add(other)
                waiting.append(other)
    return found


def _mentions_any(foreign: set[Node], nodes: Iterable[Node]) -> bool:
    return any(
        node in foreign
        or (
            isinstance(node, ox.Triple)
            and _mentions_any(foreign, (node.subject, node.predicate, node.object))
        )
        for node in nodes
    )
