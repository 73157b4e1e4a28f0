"""The nodes of a plant graph that findings are about, by the names that runs use for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from fedkg_compiler.graph.graph import Graph
from fedkg_compiler.graph.rdf_terms import Iri, Literal, local_name
from fedkg_compiler.graph.standard_vocabularies import FKG, RDFS, SOSA

_COLUMNS = f"""SELECT DISTINCT ?n ?text ?p WHERE {{
  ?n <{FKG}column>|<{FKG}alternativeColumn> ?text OPTIONAL {{ ?n <{SOSA}observes> ?p }}
}}"""
_CLIENTS = f"SELECT DISTINCT ?n ?text WHERE {{ ?n <{FKG}client> ?text }}"
_LABELS = f"SELECT DISTINCT ?n ?text WHERE {{ ?n <{RDFS}label> ?text }}"
_SUBJECTS = "SELECT DISTINCT ?n WHERE { ?n ?p ?o }"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantNodes:
    """IRIs of a plant graph.

    Attributes:
        columns: the node with the values of each column.
        clients: the node of each client.
    """

    columns: dict[str, str] = field(default_factory=dict)
    clients: dict[str, str] = field(default_factory=dict)


def plant_nodes(graph: Graph, clients: Iterable[str]) -> PlantNodes:
    """Return the nodes that columns and clients stand for; names with several nodes are left out.

    The node of a column is the sensor that has it, else the observed property. The node of a client
    is the one with this `fkg:client`; of several, or without one, the node with the client's name
    as label or last part of its IRI; else the node of the column with this name.

    Args:
        clients: the names of the clients in the findings.
    """
    columns: dict[str, set[str]] = defaultdict(set)
    sensors: dict[str, set[str]] = defaultdict(set)
    for node, text, observed in graph.answers(_COLUMNS):
        if isinstance(node, Iri) and isinstance(text, Literal) and _is_named(node):
            columns[text.lexical].add(node.value)
            if observed is not None:
                sensors[text.lexical].add(node.value)
    by_column = _single({text: sensors.get(text) or nodes for text, nodes in columns.items()})
    owned, called = _by_text(graph, _CLIENTS), _by_text(graph, _LABELS)
    for (node,) in graph.answers(_SUBJECTS):
        if isinstance(node, Iri) and _is_named(node):
            called[local_name(node.value)].add(node.value)
    found: dict[str, str] = {}
    for name in {*clients} - {""}:
        own, same = owned.get(name, set()), called.get(name, set())
        nodes = own if len(own) == 1 else own & same if own else same
        iri = next(iter(nodes)) if len(nodes) == 1 else by_column.get(name, "")
        if iri:
            found[name] = iri
    return PlantNodes(columns=by_column, clients=found)


def _by_text(graph: Graph, query: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for node, text in graph.answers(query):
        if isinstance(node, Iri) and isinstance(text, Literal) and _is_named(node):
            found[text.lexical].add(node.value)
    return found


def _single(found: dict[str, set[str]]) -> dict[str, str]:
    return {text: next(iter(nodes)) for text, nodes in found.items() if len(nodes) == 1}


def _is_named(node: Iri) -> bool:
    return not node.value.startswith("_:")
