"""What jobs need of graphs: what these say, as models read it, and what endpoints held that were asked; it meets the compiler here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fedkg.authoring import CompileError, needs_compiler, render, resolve_source


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """What graphs say, as graph encoders read it.

    Attributes:
        nodes: their names. edges: positions of two nodes. columns: the node behind each column that is named (`fkg:column`).
        checksums: of each graph by its name: of a file's bytes, or of what a store or an endpoint holds.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    columns: dict[str, int]
    checksums: dict[str, str]


def load_node_table(graphs: Sequence[str]) -> NodeTable:
    """What graph files, stores on disk and endpoints say together.

    Raises:
        CompileError: one cannot be read. UsageError: there is none.
    """
    with needs_compiler("reading graphs"):
        from fedkg_compiler.ontology.node_table import load_node_table as table_of
        from fedkg_compiler.ontology.stores.opening import open_graph
        from fedkg_compiler.ontology.stores.parts import StoredTriples

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
    """What an endpoint held when it was asked.

    Attributes:
        address: without what stands after ``?``. triples: how many. sha256: of their sorted lines, as packs have it of their graph.
    """

    address: str
    triples: int
    sha256: str


@contextmanager
def record_fetches() -> Iterator[list[EndpointFetch]]:
    """A list of what endpoints held that were asked in the block; it is filled when the block ends without an error."""
    found: list[EndpointFetch] = []
    with needs_compiler("reading graphs"):
        from fedkg_compiler.inputs import recording
    with recording() as inputs:
        yield found
    found += [
        EndpointFetch(address=name, triples=count, sha256=digest)
        for name, count, digest in sorted(inputs.held)
    ]
