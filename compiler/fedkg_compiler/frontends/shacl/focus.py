"""The focus nodes of a shape: nodes of the graph, and with `rows are CLASS` the table row itself
(SHACL, section 2.1.3).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rdflib import BNode, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import RuleRecord
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.shacl.data_graph import Data
from fedkg_compiler.frontends.shacl.focus_node_columns import ROW, Observer, Row, Value
from fedkg_compiler.frontends.shacl.model import Constraint, Shape, Target
from fedkg_compiler.frontends.shacl.queries import Queries
from fedkg_compiler.frontends.shacl.shape_conditions import Observed
from fedkg_compiler.frontends.sparql.answer_frames import Answer
from fedkg_compiler.graph.graph_terms import Iri, local_name
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.ir import BoundRows


@dataclass(frozen=True, slots=True)
class Focus:
    """A focus node of a component: what a row is about, the node itself, and values that must be
    there for it to be one.
    """

    root: Node | Row
    node: Value
    given: tuple[Observed, ...] = ()
    unless: tuple[BoundRows, ...] = ()
    """Rows that all hold if the table makes the node not a focus node (the target's query reads the
    table); () if it always is one."""

    @property
    def depends(self) -> bool:
        """Whether the table says if it is a focus node."""
        return bool(self.given or self.unless)


@dataclass(frozen=True, slots=True)
class TargetQueries:
    """Asks queries of targets that read the table."""

    queries: Queries
    observer: Observer
    span: Span

    def foci(self, target: Target) -> list[Focus]:
        """The entities with columns, and the table row, that may be focus nodes.

        Raises ValueError if the query cannot be split.
        """
        if re.search(r"[?$]this\b", target.select) is None:
            raise ValueError("it does not select ?this")
        record = RuleRecord(name="target", file="", line=1)
        found: list[Focus] = []
        rows = [] if self.observer.sources.names.rows_class is None else [ROW]
        for node in (*self.observer.keyed(), *rows):
            if not isinstance(node, URIRef | Row):
                continue
            try:
                asked = self.queries.target(target.select, node, record, self.span)
            except SparqlProblem as problem:
                raise ValueError(str(problem)) from problem
            if asked.violations:
                found.append(Focus(node, node))
            elif asked.rows:
                found.append(Focus(node, node, (), asked.rows))
        return found


def focus_nodes(
    shape: Shape, data: Data, observer: Observer, asked: TargetQueries
) -> tuple[list[Focus], list[str]]:
    """The focus nodes of a shape, each once, and what is wrong with its targets: sentences."""
    found: dict[Focus, None] = {}
    wrong: list[str] = []
    for target in shape.targets:
        if target.kind == "unknown":
            wrong.append("is of no known kind")
            continue
        try:
            if target.kind == "sparql" and asked.queries.is_table_read(target.select, {}):
                found.update(dict.fromkeys(asked.foci(target)))
                continue
            found.update(
                dict.fromkeys(
                    Focus(node, node) for node in sorted(data.target_nodes(target), key=str)
                )
            )
        except ValueError as error:
            wrong.append(f"cannot be asked: {error}")
        found.update(dict.fromkeys(_observed(target, data, observer)))
    return list(found), wrong


def _observed(target: Target, data: Data, observer: Observer) -> list[Focus]:
    """Those for which the table counts: table rows, and subjects and values of an observed property
    where it has one.
    """
    rows = observer.sources.names.rows_class
    if target.kind == "class":
        return (
            [Focus(ROW, ROW)]
            if rows is not None and target.value in data.superclasses(URIRef(rows))
            else []
        )
    if (
        target.kind not in ("subjects", "objects")
        or not isinstance(target.value, URIRef)
        or not observer.is_observed(target.value)
    ):
        return []
    subjects: list[Node | Row] = [*observer.keyed(), *([ROW] if rows is not None else [])]
    if target.kind == "objects":
        return [
            Focus(node, value, (value,))
            for node in subjects
            for value in observer.values(target.value, node)
        ]
    return [
        Focus(node, node, values[:1])
        for node in subjects
        if (values := observer.values(target.value, node))
    ]


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
