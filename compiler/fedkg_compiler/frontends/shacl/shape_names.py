"""Names of shapes, focus nodes and arguments in messages."""

from __future__ import annotations

import re

from rdflib import BNode, Literal, URIRef
from rdflib.term import Node

from fedkg_compiler.frontends.shacl.focus import Focus
from fedkg_compiler.frontends.shacl.focus_node_columns import Row
from fedkg_compiler.frontends.shacl.model import Constraint, Shape, path_text
from fedkg_compiler.frontends.sparql.answer_frames import Answer
from fedkg_compiler.graph.graph_terms import Iri, local_name


def shape_name(shape: Shape) -> str:
    """A shape."""
    return shape.name or "a shape without a name"


def part_name(root: Shape, path: str, word: str) -> str:
    """A component as reports and rules call it: ``PumpShape.pressure.minInclusive``."""
    head = root.name or f"shape_{root.line}"
    return ".".join(part for part in (re.sub(r"\s+", "_", head), path, word) if part)


def shape_path(shape: Shape) -> str:
    """The path of a shape from its focus node."""
    return "the focus node" if shape.path is None else path_text(shape.path)


def focus_term(focus: Focus) -> Node:
    """A focus node as a term; a text for the table row."""
    return Literal("every table row") if isinstance(focus.root, Row) else focus.root


def rdf_term(term: Answer) -> Node:
    """An answer of a query as a term; a text for the table row."""
    if term is None:
        return Literal("every table row")
    return URIRef(term.value) if isinstance(term, Iri) else Literal(term.lexical)


def said_of(constraint: Constraint) -> str:
    """The arguments of a component, blank nodes left out."""
    texts = [
        str(value) if isinstance(value, Literal) else local_name(str(value))
        for value in constraint.values
    ]
    return ", ".join(
        text
        for text, value in zip(texts, constraint.values, strict=True)
        if not isinstance(value, BNode)
    )
