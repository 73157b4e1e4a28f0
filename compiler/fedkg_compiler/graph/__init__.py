"""Ontologies and the knowledge graph: the catalogue, the loader, the closed graph that rule files
ask.

Its names are imported when they are first touched: most rule files need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkg_compiler.graph.catalog_listing import EntryInfo, TermInfo, list_entries, show_entry
    from fedkg_compiler.graph.graph import Graph
    from fedkg_compiler.graph.load import load_graph
    from fedkg_compiler.graph.ontologies import (
        Added,
        Alignment,
        Catalog,
        Entry,
        Official,
        load_catalog,
    )
    from fedkg_compiler.graph.rdf_terms import (
        ColumnFact,
        Iri,
        KnownTerm,
        Literal,
        Quantity,
        RdfTerm,
    )
    from fedkg_compiler.graph.user_ontology_catalog import add_entry, remove_entry

_EXPORTS = {
    "ontologies": ("Added", "Alignment", "Catalog", "Entry", "Official", "load_catalog"),
    "catalog_listing": ("EntryInfo", "TermInfo", "list_entries", "show_entry"),
    "graph": ("Graph",),
    "load": ("load_graph",),
    "user_ontology_catalog": ("add_entry", "remove_entry"),
    "rdf_terms": ("ColumnFact", "Iri", "KnownTerm", "Literal", "Quantity", "RdfTerm"),
}
_MODULES = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    """The name from its module (`Any`: a class or a function)."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__all__ = [
    "Added",
    "Alignment",
    "Catalog",
    "ColumnFact",
    "Entry",
    "EntryInfo",
    "Graph",
    "Iri",
    "KnownTerm",
    "Literal",
    "Official",
    "Quantity",
    "RdfTerm",
    "TermInfo",
    "add_entry",
    "list_entries",
    "load_catalog",
    "load_graph",
    "remove_entry",
    "show_entry",
]
