"""A graph as graph encoders read it: its nodes, its edges, and which node each column of a table
observes.

Letters: V nodes, E edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.graph import derive_columns
from fedkg_compiler.graph.standard_vocabularies import FKG, SOSA

_COLUMNS = (FKG + "column", FKG + "alternativeColumn")
_OBSERVES = SOSA + "observes"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """The relations between things as a list of nodes and edges.

    Attributes:
        nodes: V names: every IRI and blank node that is a subject or an object, classes among them,
            sorted.
        edges: E pairs of positions, from subject to object, each once, sorted; literals make no
            edges.
        columns: position of the node by its column (`fkg:column`, or a name of `COLUMN_NAMES`). If
            several nodes name one column, the sensor takes precedence over the observed property,
            then the first by name.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    columns: dict[str, int]


def node_table(triples: Sequence[ox.Quad]) -> NodeTable:
    """The nodes, edges and columns of triples; the same for the same triples in any order."""
    found: set[str] = set()
    links: set[tuple[str, str]] = set()
    named: list[tuple[str, str]] = []
    sensors: set[str] = set()
    for quad in triples:
        if isinstance(quad.subject, ox.Triple):
            continue
        subject = str(quad.subject)
        found.add(subject)
        if isinstance(quad.object, ox.NamedNode | ox.BlankNode):
            found.add(str(quad.object))
            links.add((subject, str(quad.object)))
            if quad.predicate.value == _OBSERVES:
                sensors.add(subject)
        elif isinstance(quad.object, ox.Literal) and quad.predicate.value in _COLUMNS:
            named.append((quad.object.value, subject))
    store = ox.Store()
    store.extend(triples)
    named += [
        (quad.object.value, str(quad.subject))
        for quad in derive_columns(store).origins
        if isinstance(quad.object, ox.Literal) and quad.predicate.value in _COLUMNS
    ]
    nodes = tuple(sorted(found))
    place = {name: number for number, name in enumerate(nodes)}
    columns: dict[str, int] = {}
    for text, node in sorted(named, key=lambda one: (one[0], one[1] not in sensors, one[1])):
        columns.setdefault(text, place[node])
    return NodeTable(
        nodes=nodes, edges=tuple(sorted((place[a], place[b]) for a, b in links)), columns=columns
    )
