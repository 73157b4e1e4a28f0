"""Ontologies and the knowledge graph: the catalogue, the loader, the closed graph that rule files ask.

Only this package speaks to pyoxigraph and oxrdflib.
"""

from fedkg_compiler.ontology.catalog import Added, Alignment, Catalog, Entry, Official, load_catalog
from fedkg_compiler.ontology.entries import EntryInfo, TermInfo, list_entries, show_entry
from fedkg_compiler.ontology.graph import Graph
from fedkg_compiler.ontology.load import load_graph
from fedkg_compiler.ontology.shelf import add_entry, remove_entry
from fedkg_compiler.ontology.terms import ColumnFact, Iri, KnownTerm, Literal, Quantity, RdfTerm

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
