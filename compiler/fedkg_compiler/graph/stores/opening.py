"""Opens a graph in a file, in a store on disk, or behind an endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.rdf_reader import Document, read_file
from fedkg_compiler.input_tracking import is_endpoint, is_store

if TYPE_CHECKING:
    from fedkg_compiler.graph.stores.relevant_terms import Relevance


def open_graph(
    path: Path | str, *, at_once: bool = False, relevance: Relevance | None = None
) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return what a graph says, and what is wrong with it; None if nothing at all could be read.

    Args:
        path: a file, a store, or the address of an endpoint.
        at_once: as for `fedkg_compiler.graph.rdf_reader.read_rdf`.
        relevance: what matters of an endpoint that holds very much; None: everything.
    """
    if is_endpoint(path):
        from fedkg_compiler.graph.stores.endpoint_graph import read_endpoint

        return read_endpoint(str(path), relevance=relevance)
    if is_store(Path(path)):
        from fedkg_compiler.graph.stores.folder import open_store

        return open_store(Path(path))
    return read_file(Path(path), at_once=at_once)
