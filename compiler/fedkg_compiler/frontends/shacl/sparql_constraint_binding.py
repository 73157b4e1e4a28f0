"""SPARQL constraints and validators that read the table, as violation queries with `$this` bound to
the focus nodes.

Source: SHACL (W3C 2017), sections 5 and 6 and appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Several
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np
from rdflib import RDF, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import Known, RuleRecord
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.formulas.formula_algebra import implies
from fedkg_compiler.frontends.fkg.binding.column_assignment_triples import TermTriple
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.shacl.constraint_queries import Asked, asked, with_variable_as
from fedkg_compiler.frontends.shacl.query_syntax_problem import (
    QuerySyntaxProblem,
    find_syntax_problem,
)
from fedkg_compiler.frontends.shacl.shape_conditions import Observed, Refused, Row, Value
from fedkg_compiler.frontends.shacl.shapes_graph_reader import SH, Constraint, Shape, ShapesFile
from fedkg_compiler.frontends.shacl.validation_report import path_sparql
from fedkg_compiler.frontends.sparql.prebound_variables import (
    ROW,
    BoundQuery,
    bind_query,
    facts_of_bound,
)
from fedkg_compiler.graph.graph import Resource
from fedkg_compiler.graph.rdf_reader import names_graph
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.sparql_syntax.parser import parse_query
from fedkg_compiler.graph.sparql_syntax.query_form_and_constants import Reader
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText, SparqlProblem
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.graph.sparql_syntax.tree import (
    Bind,
    Const,
    Elsewhere,
    Minus,
    Predicate,
    Query,
    SubSelect,
    Triple,
    Values,
    Var,
    walk,
)
from fedkg_compiler.graph.sparql_syntax.tree import Path as QueryPath
from fedkg_compiler.graph.sparql_syntax.variable_scope import projected
from fedkg_compiler.graph.standard_vocabularies import NUMBERS
from fedkg_compiler.ir import BoundRows, SlotColumn

_FORBIDDEN = {Minus: "MINUS", Values: "VALUES", Elsewhere: "SERVICE"}


class Queries:
    """The queries of one file of shapes."""

    def __init__(
        self, shapes: ShapesFile, sources: Sources, is_observed: Callable[[URIRef], bool]
    ) -> None:
        self.shapes, self.sources, self.is_observed = shapes, sources, is_observed
        assert sources.graph is not None, "the pipeline loads a graph where shapes are"
        self.known = sources.graph.vocabulary.prefixes

    def reads_table(self, shape: Shape, constraint: Constraint) -> bool:
        """Whether the query reads an observed property or the shapes graph, which the
        validator does not show to queries.
        """
        found = asked(self.shapes, shape, constraint)
        if found is None:
            return False
        return self.is_table_read(found.text, found.prefixes)

    def names_graph(self, shape: Shape, constraint: Constraint) -> bool:
        """Whether the query addresses a named graph."""
        found = asked(self.shapes, shape, constraint) if constraint.is_query else None
        return found is not None and names_graph(found.text)

    def is_table_read(self, text: str, prefixes: Mapping[str, str]) -> bool:
        """The same of the text of a query."""
        query = self._read(text, prefixes)
        if any(
            word.kind == "variable" and word.text in ("shapesGraph", "currentShape")
            for word in query.tokens
        ):
            return True
        names = (
            query.prologue.iri(word.text) for word in query.tokens if word.kind in ("iri", "pname")
        )
        return any(self.is_observed(URIRef(name[1:-1])) for name in names if name)

    def check(self, shape: Shape, constraint: Constraint) -> None:
        """Check the requirements of SHACL on the query of a SPARQL constraint (section 5.1) before
        binding; custom components are not checked.

        Raises:
            Refused: it is not a SELECT of ``$this``. SparqlProblem: it is not SPARQL, or has an
                undeclared prefix.
        """
        if constraint.custom:
            return
        found = asked(self.shapes, shape, constraint)
        if found is None:
            raise Refused("it has no `sh:select` with a query that finds violations")
        if found.form == "ask":
            raise Refused(
                "sh:sparql has no `sh:ask`: give it a `sh:select` that finds violations, "
                "or make the ASK a validator of a component"
            )
        query = self._read(found.text, found.prefixes)
        for i, word in enumerate(query.tokens):
            prefix = word.text.partition(":")[0]
            if word.kind == "pname" and prefix not in query.prologue.prefixes:
                advice = f"add `PREFIX {prefix}: <...>` to the query, or `sh:prefixes`"
                raise SparqlProblem(
                    "FKG110", (i, i), f"the prefix `{prefix}:` is not known", advice
                )
        with suppress(SparqlProblem):
            tree = parse_query(query.tokens)
            selected = () if tree.projection is None else tree.projection
            if selected and all(item.variable.name != "this" or item.expr for item in selected):
                raise Refused(
                    "its query does not select `$this`, the focus node that violates the shape"
                )
        if (problem := self.syntax_problem(shape, constraint)) is not None:
            raise SparqlProblem("FKG341", (0, 0), problem.sentence, problem.help)

    def syntax_problem(self, shape: Shape, constraint: Constraint) -> QuerySyntaxProblem | None:
        """What is wrong with the syntax of a constraint's query, with its place in the file."""
        found = asked(self.shapes, shape, constraint)
        return (
            None
            if found is None
            else find_syntax_problem(self.shapes, [found.original(self.known)])
        )

    def tree(
        self, shape: Shape, constraint: Constraint
    ) -> tuple[Query, QueryText, frozenset[str]] | None:
        """The query of a constraint with its text, and the variables that are bound beforehand;
        None if it has none.
        """
        found = asked(self.shapes, shape, constraint)
        if found is None:
            return None
        query = self._read(found.text, found.prefixes)
        before = {"this", "value", "PATH", "currentShape", "shapesGraph", *found.parameters}
        try:
            return parse_query(query.tokens), query, frozenset(before)
        except SparqlProblem:
            return None

    def bind(
        self,
        shape: Shape,
        constraint: Constraint,
        focus: Iterable[Value],
        record: RuleRecord,
        where: Span,
        names: Mapping[str, str] | None = None,
    ) -> BoundQuery:
        """The violations of some focus nodes, by their `names`: rows, and what the graph alone
        tells.

        Raises:
            Refused: SHACL does not allow the query, or it contains something that is not an RDF
                term. SparqlProblem: it cannot be split.
        """
        focus = list(dict.fromkeys(focus))
        text, bound, prefixes = self._bound(shape, constraint, focus)
        return bind_query(
            text, where, self.sources, bound=bound, record=record, prefixes=prefixes, names=names
        )

    def facts(
        self, shape: Shape, constraint: Constraint, focus: URIRef, where: Span
    ) -> list[TermTriple]:
        """The triples behind the rows of a constraint's query for a focus node.

        Raises as `bind`.
        """
        text, bound, prefixes = self._bound(shape, constraint, [focus])
        return facts_of_bound(
            text, where, self.sources, bound=bound, node=self._node(focus), prefixes=prefixes
        )

    def target_facts(self, select: str, node: URIRef, where: Span) -> list[TermTriple]:
        """The triples that make a node a focus node of a target with a query.

        Raises SparqlProblem.
        """
        return facts_of_bound(
            select, where, self.sources, bound={"this": [_written(node)]}, node=self._node(node)
        )

    def _node(self, iri: URIRef) -> Resource:
        assert self.sources.graph is not None, "the pipeline loads a graph where shapes are"
        return self.sources.graph.node(str(iri))

    def _bound(
        self, shape: Shape, constraint: Constraint, focus: Several[Value]
    ) -> tuple[str, dict[str, list[str]], Mapping[str, str]]:
        """The query of a constraint as a violation query, the values of its variables, and its
        prefixes. Raises as `bind`.
        """
        found = asked(self.shapes, shape, constraint)
        if found is None:
            raise Refused("its query is missing, or it has none for this kind of shape")
        text = self._text(found, shape)
        self._check(text, found, of_rows=any(isinstance(node, Row) for node in focus))
        bound = {"this": [_written(node) for node in focus]}
        bound |= {name: [_written(value)] for name, value in found.parameters.items()}
        if isinstance(shape.node, URIRef):
            bound |= {"currentShape": [_written(shape.node)], "shapesGraph": [f"<{SH}>"]}
        return text, bound, found.prefixes

    def target(self, select: str, node: Node | Row, record: RuleRecord, where: Span) -> BoundQuery:
        """When a node is a focus node of a target with a query that reads the table: the rows hold
        if it is not one.

        Raises:
            SparqlProblem: the query cannot be split.
        """
        return bind_query(
            select, where, self.sources, bound={"this": [_written(node)]}, record=record
        )

    def _check(self, text: str, found: Asked, *, of_rows: bool) -> None:
        """Reject constructs that SHACL forbids for pre-bound variables (appendix A), or that no
        table row has.

        Raises:
            Refused: SHACL does not allow the query. SparqlProblem: it is not SPARQL.
        """
        query = self._read(text, found.prefixes)
        for node in walk(parse_query(query.tokens)):
            for form, word in _FORBIDDEN.items():
                if isinstance(node, form):
                    raise Refused(f"SHACL has no {word} in the query of a constraint")
            if isinstance(node, SubSelect) and "this" not in projected(node.query):
                raise Refused("a nested SELECT in the query of a constraint must select $this")
            if isinstance(node, Bind) and node.variable.name in ("this", *found.parameters):
                raise Refused(
                    f"SHACL binds ${node.variable.name} beforehand, and the query binds it again"
                )
            if of_rows and isinstance(node, Triple):
                self._check_row(node, query)

    def _check_row(self, triple: Triple, query: QueryText) -> None:
        """A table row has observed properties and its class.

        Raises Refused for what else is asked of it.
        """
        this = [
            isinstance(node, Var) and node.name == "this"
            for node in (triple.subject, triple.object)
        ]
        if not any(this):
            return
        for first in _first_steps(triple.predicate):
            iri = "" if first is None else iri_of(first, query)
            if this[1] or not iri or not (iri == str(RDF.type) or self.is_observed(URIRef(iri))):
                shown = local_name(iri) if iri else query.written(triple.at)
                raise Refused(
                    f"the table's rows have no `{shown}`: declare a signal for it, or give "
                    f"it an `fkg:column`"
                )

    def _read(self, text: str, prefixes: Mapping[str, str]) -> QueryText:
        """The query of a text."""
        return Reader({**self.known, **prefixes}).read(text)

    def _text(self, found: Asked, shape: Shape) -> str:
        """The query as a separate violation query: paths written out, the condition of an ASK
        negated.
        """
        path = None if shape.path is None else path_sparql(shape.path)
        text = _without_shapes_graph(found.text)
        if path is not None:
            text = with_variable_as(text, "PATH", path)
        start = next((word.start for word in tokens(text) if word.text == "{"), len(text))
        if found.form == "ask":
            body = text[start:]
            head = f"?this {path} ?value . " if path is not None else ""
            body = body if path is not None else with_variable_as(body, "value", "$this")
            text = f"SELECT DISTINCT $this WHERE {{ {head}FILTER NOT EXISTS {body} }}"
        return (
            "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in sorted(found.prefixes.items()))
            + text
        )


def conditional(bound: BoundRows, given: Observed) -> BoundRows:
    """Rows that hold if the table has no value that makes a node a focus node.

    Raises Refused if the value is in other table rows.
    """
    place, rows = given.datatypes or given.place, bound.rows
    slot = SlotColumn(
        columns=np.full(rows.count, place.column, dtype=np.int64),
        views=np.zeros(rows.count, dtype=np.int64),
        role=place.role,
    )
    keys = [dict(key) for key in bound.keys]
    for key in keys if place.key is not None else ():
        assert place.key is not None
        if key.setdefault(*place.key) != place.key[1]:
            raise Refused(f"no table row is about both {key[place.key[0]]} and {place.key[1]}")
    formula = implies(Known(slot=len(rows.slots)), bound.formula)
    assert not isinstance(formula, bool), "it reads the table"
    return replace(
        bound,
        formula=formula,
        rows=replace(rows, slots=(*rows.slots, slot)),
        keys=tuple(tuple(sorted(key.items())) for key in keys),
    )


def _first_steps(predicate: Predicate) -> list[Const | None]:
    """The properties that a path may begin with; None for anything that is not a property."""
    match predicate:
        case Const():
            return [predicate]
        case QueryPath(op="|"):
            return [step for arg in predicate.args for step in _first_steps(arg)]
        case QueryPath(op="/"):
            return _first_steps(predicate.args[0])
        case _:
            return [None]


def iri_of(constant: Const, query: QueryText) -> str:
    """The IRI that a constant denotes; "" if its prefix is unknown."""
    try:
        return query.value(constant)[1:-1]
    except SparqlProblem:
        return ""


def _without_shapes_graph(text: str) -> str:
    """``GRAPH $shapesGraph { ... }`` is a group like any other: files of shapes count as graphs."""
    words = tokens(text)
    pairs = [
        (one, two)
        for one, two in pairwise(words)
        if one.text.upper() == "GRAPH" and two.text == "shapesGraph"
    ]
    for one, two in reversed(pairs):
        text = text[: one.start] + text[two.end :]
    return text


def _written(node: Value) -> str:
    """A focus node or parameter as SPARQL writes it."""
    match node:
        case Row():
            return ROW
        case URIRef():
            return f"<{node}>"
        case Literal() if str(node.datatype) in NUMBERS:
            return str(node)
        case Literal():
            return node.n3()
        case BNode():
            raise Refused("a blank node has no name by which a query could ask for it")
        case _:
            raise Refused("its focus nodes are values of the table, which a query cannot read")
