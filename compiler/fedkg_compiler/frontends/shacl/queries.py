"""SPARQL constraints and validators that read the table, as violation queries with `$this` bound to
the focus nodes.

Source: SHACL (W3C 2017), sections 5 and 6 and appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Several
from dataclasses import replace
from itertools import pairwise

import numpy as np
from rdflib import RDF, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import Known, Not, Or, RuleRecord
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.column_triples import TermTriple
from fedkg_compiler.frontends.fkg.binding.signal_columns import Sources
from fedkg_compiler.frontends.shacl.constraint_queries import Asked, asked, with_variable_as
from fedkg_compiler.frontends.shacl.focus_node_columns import Row, Value
from fedkg_compiler.frontends.shacl.model import Constraint, Shape, ShapesFile
from fedkg_compiler.frontends.shacl.read import SH
from fedkg_compiler.frontends.shacl.shape_conditions import Observed, Refused
from fedkg_compiler.frontends.shacl.validation_report import path_sparql
from fedkg_compiler.frontends.sparql.prebound_variables import (
    ROW,
    BoundQuery,
    bind_query,
    facts_of_bound,
)
from fedkg_compiler.frontends.sparql.query_parser import parse_query
from fedkg_compiler.frontends.sparql.query_tree import (
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
from fedkg_compiler.frontends.sparql.query_tree import Path as QueryPath
from fedkg_compiler.frontends.sparql.tokenised_query import SparqlProblem
from fedkg_compiler.frontends.sparql.variable_scope import projected
from fedkg_compiler.graph.graph import Resource
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.graph.sparql_pattern_tokens import Token, tokens
from fedkg_compiler.graph.standard_vocabularies import NUMBERS
from fedkg_compiler.ir import BoundRows

_FORBIDDEN = {Minus: "MINUS", Values: "VALUES", Elsewhere: "SERVICE or GRAPH"}


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

    def is_table_read(self, text: str, prefixes: Mapping[str, str]) -> bool:
        """The same of the text of a query."""
        words, prefixes = self._tokens(text, prefixes)
        if any(
            word.kind == "variable" and word.text in ("shapesGraph", "currentShape")
            for word in words
        ):
            return True
        names = (iri_of(word, prefixes) for word in words if word.kind in ("iri", "pname"))
        return any(self.is_observed(URIRef(name)) for name in names if name)

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
        words, prefixes = self._tokens(found.text, found.prefixes)
        for i, word in enumerate(words):
            prefix = word.text.partition(":")[0]
            if word.kind == "pname" and prefix not in prefixes:
                advice = f"add `PREFIX {prefix}: <...>` to the query, or `sh:prefixes`"
                raise SparqlProblem(
                    "FKG110", (i, i), f"the prefix `{prefix}:` is not known", advice
                )
        if words and words[0].text.upper() == "SELECT" and not _selects_this(words):
            raise Refused(
                "its query does not select `$this`, the focus node that violates the shape"
            )
        if not self.is_table_read(found.text, found.prefixes):
            from rdflib.plugins.sparql import prepareQuery

            try:
                prepareQuery(self._text(found, shape), initNs=prefixes)
            except Exception as error:  # rdflib's parser raises `Exception` itself
                raise SparqlProblem(
                    "FKG341",
                    (0, 0),
                    str(error).strip().split("\n")[0],
                    "write it as SPARQL 1.1 has it",
                ) from error

    def tree(
        self, shape: Shape, constraint: Constraint
    ) -> tuple[Query, tuple[Token, ...], Mapping[str, str], frozenset[str]] | None:
        """The query of a constraint with its words, its prefixes, and the variables that are bound
        beforehand; None if it has none.
        """
        found = asked(self.shapes, shape, constraint)
        if found is None:
            return None
        words, prefixes = self._tokens(found.text, found.prefixes)
        before = {"this", "value", "PATH", "currentShape", "shapesGraph", *found.parameters}
        try:
            return parse_query(words), words, prefixes, frozenset(before)
        except SparqlProblem:
            return None

    def bind(
        self,
        shape: Shape,
        constraint: Constraint,
        focus: Iterable[Value],
        record: RuleRecord,
        where: Span,
    ) -> BoundQuery:
        """The violations of some focus nodes: rows, and what the graph alone tells.

        Raises:
            Refused: SHACL does not allow the query, or it contains something that is not an RDF
                term. SparqlProblem: it cannot be split.
        """
        focus = list(dict.fromkeys(focus))
        text, bound, prefixes = self._bound(shape, constraint, focus)
        return bind_query(text, where, self.sources, bound=bound, record=record, prefixes=prefixes)

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
        words, prefixes = self._tokens(text, found.prefixes)
        for node in walk(parse_query(words)):
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
                self._check_row(node, words, prefixes)

    def _check_row(
        self, triple: Triple, words: tuple[Token, ...], prefixes: Mapping[str, str]
    ) -> None:
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
            iri = "" if first is None else first.text[1:-1] or iri_of(words[first.token], prefixes)
            if this[1] or not iri or not (iri == str(RDF.type) or self.is_observed(URIRef(iri))):
                shown = (
                    local_name(iri)
                    if iri
                    else " ".join(word.text for word in words[triple.at[0] : triple.at[1] + 1])
                )
                raise Refused(
                    f"the table's rows have no `{shown}`: declare a signal for it, or give "
                    f"it an `fkg:column`"
                )

    def _tokens(
        self, text: str, prefixes: Mapping[str, str]
    ) -> tuple[tuple[Token, ...], dict[str, str]]:
        """The words of a query behind its own prologue, and its prefixes."""
        words, known = tokens(text), {**self.known, **prefixes}
        while len(words) > 3 and words[0].text.upper() == "PREFIX":
            known[words[1].text[:-1]] = words[2].text[1:-1]
            words = words[3:]
        return tuple(words), known

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


def _selects_this(words: tuple[Token, ...]) -> bool:
    """Whether a SELECT gives ``$this``: by its name outside of parentheses, or with ``*``."""
    depth = 0
    for word in words:
        depth += {"(": 1, ")": -1}.get(word.text, 0)
        if word.text == "{":
            break
        if depth == 0 and (word.text == "*" or (word.kind == "variable" and word.text == "this")):
            return True
    return False


def conditional(bound: BoundRows, given: Observed) -> BoundRows:
    """Rows that hold if the table has no value that makes a node a focus node.

    Raises Refused if the value is in other table rows.
    """
    place, rows = given.datatypes or given.place, bound.rows
    slot = rows.slot(
        ("shacl", "given"),
        np.full(rows.count, place.column, dtype=np.int64),
        np.zeros(rows.count, dtype=np.int64),
        place.role,
    )
    keys = [dict(key) for key in bound.keys]
    for key in keys if place.key is not None else ():
        assert place.key is not None
        if key.setdefault(*place.key) != place.key[1]:
            raise Refused(f"no table row is about both {key[place.key[0]]} and {place.key[1]}")
    formula = Or(args=(Not(arg=Known(slot=slot.index)), bound.formula))
    return replace(bound, formula=formula, keys=tuple(tuple(sorted(key.items())) for key in keys))


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


def iri_of(word: Token, prefixes: Mapping[str, str]) -> str:
    """The IRI that a word denotes; "" if its prefix is unknown."""
    if word.kind == "iri":
        return word.text[1:-1]
    prefix, _, local = word.text.partition(":")
    return prefixes[prefix] + local if prefix in prefixes else ""


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
