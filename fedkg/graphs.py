"""Knowledge graphs as models and jobs read them; one of the modules that import the compiler."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedkg.authoring import CompileError, is_authored, needs_compiler, render, resolve_source


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """The nodes and edges of graphs, for graph encoders.

    Attributes:
        nodes: their names.
        edges: pairs of positions in `nodes`.
        columns: by column name (`fkg:column`), the position of its node.
        checksums: by graph name, the checksum of its file, or of the content of its store or
            endpoint.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    columns: dict[str, int]
    checksums: dict[str, str]


def load_node_table(graphs: Sequence[str]) -> NodeTable:
    """Read graph files, stores on disk and endpoints into one table of nodes.

    Raises:
        CompileError: a graph cannot be read.
        UsageError: a graph does not exist.
    """
    with needs_compiler("reading graphs"):
        from fedkg_compiler.graph.encoder_graph import node_table as table_of
        from fedkg_compiler.graph.load import open_graph
        from fedkg_compiler.graph.stores.stored_triples import StoredTriples

        triples, checksums = [], {}
        for name in graphs:
            document, diagnostics = open_graph(resolve_source(name))
            if document is not None:
                triples += list(document.triples)
                checksums[name] = document.sha256
                if (
                    isinstance(document.triples, StoredTriples)
                    and document.triples.problem is not None
                ):
                    diagnostics = (*diagnostics, document.triples.problem)
            if document is None or any(item.severity == "error" for item in diagnostics):
                raise CompileError(diagnostics, render(diagnostics))
        found = table_of(triples)
        return NodeTable(
            nodes=found.nodes, edges=found.edges, columns=found.columns, checksums=checksums
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFetch:
    """The content of an endpoint at the time of the query.

    Attributes:
        address: without the part after ``?``.
        triples: their number.
        sha256: checksum of their sorted lines, as packs store it for their graph.
    """

    address: str
    triples: int
    sha256: str


@contextmanager
def record_fetches() -> Iterator[list[EndpointFetch]]:
    """Record the endpoints that are queried inside the block; the list is filled when the block
    ends without an error.
    """
    found: list[EndpointFetch] = []
    with needs_compiler("reading graphs"):
        from fedkg_compiler.input_files import recording
    with recording() as inputs:
        yield found
    found += [
        EndpointFetch(address=name, triples=count, sha256=digest)
        for name, count, digest in sorted(inputs.held)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A thing next to another one in a graph.

    Attributes:
        relation: the property between them, in readable form: ``part of``.
        name: the name of the thing.
        kind: the name of its class.
        is_subject: whether the statement goes from the neighbour to the thing: ``feeds`` of a
            subject means that the neighbour feeds the thing.
        others: the names of other things with the same relation to the neighbour, such as the other
            machines of a line.
    """

    relation: str
    name: str
    kind: str
    is_subject: bool
    others: tuple[str, ...] = ()


_ABOUT_TERMS = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#",
)
"""Vocabularies that describe terms and not the plant."""
_TYPE = _ABOUT_TERMS[0] + "type"


def find_neighbours(
    paths: Sequence[str | Path], names: Collection[str]
) -> dict[str, tuple[Neighbour, ...]]:
    """Find what graphs state about things: the line of a machine, its tool, what it feeds.

    Asserted statements alone count, because inferred ones repeat them with other properties.

    Args:
        paths: the rule files and graphs that were compiled; a pack among them names no graph.
        names: names of things as packs write entities: their labels, with commas between several.
            A label of several things names none of them.

    Returns:
        By name, the neighbours that are named in the graph; a name without any is left out.

    Raises:
        UsageError: a file does not exist.
    """
    if not names:
        return {}
    with needs_compiler("reading graphs"):
        files = [resolve_source(path) for path in paths if is_authored(path)]
        from fedkg_compiler.pipeline import look_up

        graph = look_up(files)[0].graph
    if graph is None or graph.told is None:
        return {}
    from fedkg_compiler.graph.oxigraph import NamedNode
    from fedkg_compiler.graph.rdf_terms import local_name

    triples = [
        (quad.subject.value, quad.predicate.value, quad.object.value)
        for quad in graph.told.triples()
        if isinstance(quad.subject, NamedNode) and isinstance(quad.object, NamedNode)
    ]
    kinds: dict[str, str] = {}
    for thing, relation, kind in triples:
        if relation == _TYPE and not kind.startswith(_ABOUT_TERMS):
            kinds.setdefault(thing, graph.label_of(kind))
    links = [
        (subject, relation, other)
        for subject, relation, other in triples
        if not relation.startswith(_ABOUT_TERMS) and subject in kinds and other in kinds
    ]
    sharing: dict[tuple[str, str], dict[str, None]] = {}
    for subject, relation, other in links:
        sharing.setdefault((relation, other), {})[subject] = None
    labels = {iri: graph.label_of(iri) for iri in kinds}
    by_label: dict[str, list[str]] = {}
    for iri, label in labels.items():
        by_label.setdefault(label, []).append(iri)
    entities: dict[str, list[str]] = {}
    for name in names:
        for label in _labels_in(name, by_label):
            for iri in by_label[label] if len(by_label[label]) == 1 else ():
                entities.setdefault(iri, []).append(name)
    found: dict[str, dict[str, Neighbour]] = {}
    for is_subject in (False, True):  # an inverse of a statement that was found adds nothing
        for subject, relation, other in links:
            thing, next_to = (other, subject) if is_subject else (subject, other)
            for name in entities.get(thing, ()):
                others = () if is_subject else tuple(sharing[relation, other])
                found.setdefault(name, {}).setdefault(
                    next_to,
                    Neighbour(
                        relation=re.sub(r"(?<=[a-z])(?=[A-Z])", " ", local_name(relation)).lower(),
                        name=labels[next_to],
                        kind=kinds[next_to],
                        is_subject=is_subject,
                        others=tuple(labels[one] for one in others if one != thing),
                    ),
                )
    return {name: tuple(each.values()) for name, each in found.items()}


def _labels_in(name: str, labels: Collection[str]) -> Iterator[str]:
    """The labels that a name consists of. A label may contain commas, so the longest counts."""
    parts = name.split(", ")
    while parts:
        ends = range(len(parts), 0, -1)
        end = next((end for end in ends if ", ".join(parts[:end]) in labels), 0)
        if end:
            yield ", ".join(parts[:end])
        parts = parts[end or 1 :]
