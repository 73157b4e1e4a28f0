"""Knowledge graphs as models and jobs read them; one of the modules that import the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fedkg.authoring import CompileError, needs_compiler, render, resolve_source


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
        from fedkg_compiler.graph.stores.triple_files import StoredTriples

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
        from fedkg_compiler.input_tracking import recording
    with recording() as inputs:
        yield found
    found += [
        EndpointFetch(address=name, triples=count, sha256=digest)
        for name, count, digest in sorted(inputs.held)
    ]
