"""Finds the nodes of an OPC UA node set that are things of a plant, with their names, values and
units.

A type of OPC UA lists its parts as nodes too (instance declarations). These nodes are parts of a
type; all others are the objects and variables of the plant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.node_values import literal
from fedkg_compiler.graph.sources.opcua_nodes import (
    MODELLING_RULE,
    PARTS,
    SUBTYPE,
    TYPE_DEFINITION,
    NodeId,
    NodeSet,
    UaNode,
)
from fedkg_compiler.graph.sources.opcua_standard_nodes import (
    AGGREGATING,
    DATATYPES,
    GROUPING,
    UA,
    UNIT_CODES,
    unit_code,
)
from fedkg_compiler.graph.standard_vocabularies import NUMBERS, UNIT, XSD

ARGUMENTS = frozenset({"InputArguments", "OutputArguments"})
ENCODINGS = frozenset({(UA, "i=76"), (UA, "i=69"), (UA, "i=72")})
_METADATA = (UA, "i=11616")
_DEEPEST = 30
"""Wholes in a name; a node below more of them is called by its number. Real plants have fewer than
ten."""
_TEXTS = {
    ("LocalizedText", "Text"),
    ("QualifiedName", "Name"),
    ("NodeId", "Identifier"),
    ("ExpandedNodeId", "Identifier"),
    ("Guid", "String"),
}
_NO_NUMBERS = frozenset({"NaN", "INF", "-INF"})
_UN_CEFACT = "un/cefact"


@dataclass(slots=True)
class Plant:
    """The objects and variables of a node set that belong to no type.

    Attributes:
        nodes: the objects and variables that belong to no type, in the order of the file.
        declared: the types, the nodes that only design tools use, and all nodes below these.
        wholes: for each node, the nodes that it is a component or property of.
        groups: for each node, the nodes that group it in another way (Organizes).
        types: the type definitions that the file states for nodes, each with line and column.
    """

    nodes: dict[NodeId, UaNode] = field(default_factory=dict)
    declared: set[NodeId] = field(default_factory=set)
    wholes: dict[NodeId, list[NodeId]] = field(default_factory=dict)
    groups: dict[NodeId, list[NodeId]] = field(default_factory=dict)
    types: dict[NodeId, tuple[NodeId, tuple[int, int]]] = field(default_factory=dict)


def plant_of(found: NodeSet) -> Plant:
    """Return the objects and variables that belong to no type."""
    parents = _parents(found)
    parts: dict[NodeId, list[NodeId]] = defaultdict(list)
    for child, above in parents.items():
        for parent in above:
            parts[parent].append(child)
    types = dict(_definitions(found))
    declared = _below(
        (
            node.id
            for node in found.nodes.values()
            if node.sort.endswith("Type")
            or node.is_model
            or _is_loose_declaration(node, parents, found)
        ),
        parts,
    )
    left_out = _below(
        (
            node.id
            for node in found.nodes.values()
            if node.sort == "Method"
            or node.name in ARGUMENTS
            or (node.id in types and types[node.id][0] in (*ENCODINGS, _METADATA))
        ),
        parts,
    )
    elsewhere = declared | left_out
    nodes = {
        node.id: node
        for node in found.nodes.values()
        if node.sort in ("Object", "Variable") and node.id not in elsewhere
    }
    plant = Plant(nodes=nodes, declared=declared, types=types)
    for child, node in nodes.items():
        above = parents.get(child, {})
        here = sorted((one for one in above if one in nodes), key=lambda one: one != node.parent)
        plant.wholes[child] = [one for one in here if above[one]]
        plant.groups[child] = [one for one in here if not above[one]]
    return plant


def _definitions(found: NodeSet) -> Iterator[tuple[NodeId, tuple[NodeId, tuple[int, int]]]]:
    """Each node with its type definition and the place of the reference, whichever of the two
    states it.
    """
    for node in found.nodes.values():
        for one in node.references:
            if one.kind == TYPE_DEFINITION:
                ends = (node.id, one.target) if one.forward else (one.target, node.id)
                yield ends[0], (ends[1], (one.line, one.column))


def _parents(found: NodeSet) -> dict[NodeId, dict[NodeId, bool]]:
    """The nodes above each node by hierarchical references in either direction.

    True if it is a part of it, not in a group.
    """
    parents: dict[NodeId, dict[NodeId, bool]] = defaultdict(dict)
    kinds: dict[NodeId, bool | None] = {}
    for node in found.nodes.values():
        for one in node.references:
            if one.kind not in kinds:
                kinds[one.kind] = _aggregates(one.kind, found)
            aggregates = kinds[one.kind]
            if aggregates is not None:
                child, parent = (one.target, node.id) if one.forward else (node.id, one.target)
                parents[child][parent] = parents[child].get(parent, False) or aggregates
        if node.parent is not None and node.sort in PARTS:
            parents[node.id].setdefault(node.parent, True)
    return parents


def _aggregates(kind: NodeId, found: NodeSet) -> bool | None:
    """Whether a reference type joins a whole and a part (True), a group and a member (False), or
    neither (None).

    A reference type of another file joins a group and a member: what else it says is not known.
    """
    seen: set[NodeId] = set()
    while kind not in seen:
        seen.add(kind)
        if kind in AGGREGATING:
            return True
        if kind in GROUPING:
            return False
        node = found.nodes.get(kind)
        if node is None:
            return None if kind[0] == UA else False
        above = (one.target for one in node.references if one.kind == SUBTYPE and not one.forward)
        kind = next(above, kind)
    return None


def _is_loose_declaration(
    node: UaNode, parents: dict[NodeId, dict[NodeId, bool]], found: NodeSet
) -> bool:
    """Tell whether a node is a part of a type of another file: it has a modelling rule, and nothing
    of this file is above it.
    """
    return (
        node.sort in PARTS
        and node.target(MODELLING_RULE) is not None
        and not any(parent in found.nodes for parent in parents.get(node.id, ()))
    )


def _below(roots: Iterable[NodeId], parts: dict[NodeId, list[NodeId]]) -> set[NodeId]:
    """These nodes and all that is below them."""
    found = set(roots)
    waiting = list(found)
    while waiting:
        for child in parts.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def plant_names(plant: Plant, taken: set[str]) -> dict[NodeId, tuple[str, str]]:
    """Return namespace and local name of each node: its browse name behind those of its wholes,
    such as ``Press1.Temperature``.

    Where two outermost wholes would share a name, the groups of both are put in front
    (``Line2.Press1``); if that does not tell them apart, each is followed by its number.

    Args:
        taken: names of types, each as its namespace, a blank and the local name.
    """
    paths = {node_id: _upwards(plant, node_id) for node_id in plant.nodes}
    names = {node_id: _text(plant, path) for node_id, path in paths.items() if len(path) == 1}
    for node_id in _namesakes(names, set()):
        names[node_id] = _text(plant, _upwards(plant, node_id, grouped=True)) or names[node_id]
    for node_id in _namesakes(names, set()):
        names[node_id] += f"_{_number(node_id)}"
    for node_id, path in paths.items():
        if len(path) != 1:
            names[node_id] = f"{names[path[0]]}.{_text(plant, path[1:])}" if path else ""
    for node_id in _namesakes(names, taken):
        names[node_id] = f"{names[node_id] or 'node'}_{_number(node_id)}"
    return {node_id: (node_id[0], name) for node_id, name in names.items()}


def _namesakes(names: dict[NodeId, str], taken: set[str]) -> list[NodeId]:
    """The nodes without a unique name."""
    counts = Counter((node_id[0], name) for node_id, name in names.items())
    return [
        node_id
        for node_id, name in names.items()
        if not name or counts[node_id[0], name] > 1 or f"{node_id[0]} {name}" in taken
    ]


def _upwards(plant: Plant, node_id: NodeId, *, grouped: bool = False) -> list[NodeId]:
    """A node behind its wholes, and groups with `grouped`, the outermost first; [] if there are
    too many or they go in a circle.
    """
    path: list[NodeId] = []
    here: NodeId | None = node_id
    while here is not None:
        if len(path) > _DEEPEST:
            return []
        path.append(here)
        above = [*plant.wholes[here], *(plant.groups[here] if grouped else ())]
        here = above[0] if above else None
    return path[::-1]


def _text(plant: Plant, path: list[NodeId]) -> str:
    return ".".join(quote(plant.nodes[node_id].name, safe="-_~") for node_id in path)


def _number(node_id: NodeId) -> str:
    return quote(node_id[1].replace("=", ""), safe="-_~")


def value_of(node: UaNode) -> ox.Literal | str | None:
    """Return the single value of a variable: a number, a truth value, a text or a time.

    None if it has none, a text where it is wrong.
    """
    texts = [(path, text) for path, text in node.value if path[-1] != "Locale"]
    match texts:
        case [((sort,), text)] if sort in DATATYPES and sort != "ByteString":
            datatype = DATATYPES[sort]
        case [(path, text)] if path in _TEXTS:
            datatype = XSD + "string"
        case _:
            return None
    value = ox.Literal(text, datatype=ox.NamedNode(datatype))
    if datatype in NUMBERS or datatype == XSD + "boolean":
        if text in _NO_NUMBERS:
            return None
        if isinstance(literal(value).value, str):
            return f"`{text[:60]}` is not a value of the type {texts[0][0][0]}"
    return value


def unit_in(node: UaNode) -> ox.NamedNode | ox.Literal | None:
    """Return the unit that an EUInformation names: by its UN/ECE code, else the text that it shows.

    None for any other value.
    """
    told = {
        path[path.index("EUInformation") + 1 :]: text
        for path, text in node.value
        if "EUInformation" in path
    }
    number = told.get(("UnitId",), "")
    if _UN_CEFACT in told.get(("NamespaceUri",), "").lower() and number.isdecimal():
        code = unit_code(int(number)) if len(number) < 10 else ""
        if code in UNIT_CODES:
            return ox.NamedNode(UNIT + UNIT_CODES[code])
    text = told.get(("DisplayName", "Text"), "") or told.get(("DisplayName",), "")
    return ox.Literal(text) if text else None
