"""The queries of SPARQL constraints and of custom components, as a file of shapes states them.

Source: SHACL (W3C 2017), sections 5 and 6 and appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal as OneOf

from rdflib import RDF, Literal
from rdflib.term import Node

from fedkg_compiler.frontends.shacl.prebound_query_execution import (
    Functions,
    StoreNode,
    hide_graphs,
    with_constant,
)
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SH,
    Constraint,
    Shape,
    ShapesFile,
    declared_prefixes,
    to_rdflib,
)
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.sparql_syntax.tokens import Token, asks_service, tokens


class Undecidable(Exception):
    """Shapes that cannot be evaluated.

    Attributes:
        shape: the shape that is the reason; None if unknown.
        queries: the queries that may be the reason, as the file has them, with their prefixes.
    """

    def __init__(self, sentence: str, shape: Node | None = None) -> None:
        super().__init__(sentence)
        self.shape = shape
        self.queries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The query of a SPARQL constraint or a custom component, as written in the file.

    Attributes:
        node: the node of the shapes graph that has the query as `sh:select` or `sh:ask`.
        form: a SELECT finds violations; an ASK is true for values that conform.
        text: the text of the query.
        prefixes: the prefixes that the shapes graph declares for the query, with their namespaces.
        parameters: the values of the component's parameters at the shape, by the names of their
            variables.
    """

    node: Node
    form: OneOf["select", "ask"]
    text: str
    prefixes: Mapping[str, str]
    parameters: Mapping[str, Node]

    def original(self, known: Mapping[str, str]) -> str:
        """The query as the file has it, with its prefixes and those known ones that it uses."""
        used = {name: iri for name, iri in known.items() if f"{name}:" in self.text}
        return _with_prefixes(self.text, {**used, **self.prefixes})

    def written(self) -> str:
        """The query with its prefixes, and with the values of the parameters.

        Raises:
            ValueError: a parameter is a blank node, which no query can name.
        """
        return _with_prefixes(with_constants(self.text, self.parameters), self.prefixes)

    def check_prebinding(self) -> None:
        """Check what SHACL asks of queries with variables that are bound beforehand (appendix A).

        Raises:
            Undecidable: the query has a word that SHACL forbids, or hides or rebinds a variable.
        """
        words = tokens(self.text)
        for word in words:
            if word.kind == "word" and word.text.upper() in ("MINUS", "VALUES", "SERVICE"):
                reason = ": it asks another server" if word.text.upper() == "SERVICE" else ""
                raise Undecidable(
                    f"SHACL has no {word.text.upper()} in the query of a constraint{reason}"
                )
        if any(word.kind == "word" and word.text.upper() == "FROM" for word in words):
            raise Undecidable("FROM replaces the data that shapes read")
        bound = {"this", *self.parameters} | ({"value"} if self.form == "ask" else set())
        for before, name in pairwise(words):
            if before.text.upper() == "AS" and name.kind == "variable" and name.text in bound:
                raise Undecidable(
                    f"SHACL binds ${name.text} beforehand, and the query binds it again"
                )
        if self.form == "select" and not _selects_this(words):
            raise Undecidable(
                "the query of a constraint must select `$this`, the focus node that violates it"
            )
        for before, select in pairwise(words):
            if before.text in ("{", "}") and select.text.upper() == "SELECT":
                end = next(
                    (word.start for word in words if word.start > select.end and word.text == "{"),
                    0,
                )
                selected = {
                    word.text
                    for word in words
                    if word.kind == "variable" and select.end <= word.start < end
                }
                hidden = sorted(bound - selected)
                if hidden:
                    raise Undecidable(
                        f"a nested SELECT in the query of a constraint must select ${hidden[0]}"
                    )


def _selects_this(words: Sequence[Token]) -> bool:
    """Whether a SELECT has `$this` among its variables, outside the expressions of others."""
    depth = 0
    for word in words:
        depth += (word.text == "(") - (word.text == ")")
        if word.text == "{":
            return False
        if depth == 0 and (word.text == "*" or (word.kind, word.text) == ("variable", "this")):
            return True
    return False


def asked(shapes: ShapesFile, shape: Shape, constraint: Constraint) -> Asked | None:
    """The query of a constraint; None if it has none of the kind that the shape needs."""
    graph = shapes.graph
    if not constraint.custom:
        return _query_of(shapes, constraint.node, {})
    kinds = (SH.nodeValidator if shape.path is None else SH.propertyValidator, SH.validator)
    component = constraint.component
    values = {
        local_name(str(path)): value
        for one in graph.objects(component, SH.parameter)
        if (path := graph.value(one, SH.path)) is not None
        and (value := graph.value(shape.node, path)) is not None
    }
    values[local_name(str(constraint.predicate))] = constraint.node
    for kind in kinds:
        for validator in sorted(graph.objects(component, kind), key=str):
            if (found := _query_of(shapes, validator, values)) is not None:
                return found
    return None


def _query_of(shapes: ShapesFile, node: Node, parameters: Mapping[str, Node]) -> Asked | None:
    for form in ("select", "ask"):
        text = shapes.graph.value(node, SH[form])
        if isinstance(text, Literal):
            prefixes = declared_prefixes(shapes.graph, node)
            return Asked(
                node=node, form=form, text=str(text), prefixes=prefixes, parameters=parameters
            )
    return None


def with_variable_as(text: str, variable: str, by: str) -> str:
    """Write a text into a query in place of a variable."""
    for word in reversed(
        [word for word in tokens(text) if word.kind == "variable" and word.text == variable]
    ):
        text = f"{text[: word.start]}{by}{text[word.end :]}"
    return text


def define_functions(shapes: ShapesFile, store: ox.Store, prefixes: Mapping[str, str]) -> Functions:
    """The functions that a shapes graph defines for queries (SHACL-AF 2017, section 4).

    Args:
        store: the data, which the functions ask when they are called.
        prefixes: those of functions that do not state them.
    """
    graph = shapes.graph
    found: Functions = {}
    for node in graph.subjects(RDF.type, SH.SPARQLFunction):
        query = _query_of(shapes, node, {})
        if query is None or asks_service(query.text):
            continue
        parameters = sorted(
            (float(str(graph.value(one, SH.order) or 0)), local_name(str(path)))
            for one in graph.objects(node, SH.parameter)
            if (path := graph.value(one, SH.path)) is not None
        )
        names = [name for _, name in parameters]
        found[ox.NamedNode(str(node))] = _function(query, names, store, prefixes, found)
    return found


def _function(
    query: Asked,
    names: Sequence[str],
    store: ox.Store,
    prefixes: Mapping[str, str],
    functions: Functions,
) -> Callable[..., StoreNode | None]:
    visible = hide_graphs(query.text)

    def call(*arguments: StoreNode) -> StoreNode | None:
        given = dict(zip(names, map(to_rdflib, arguments), strict=False))
        text = _with_prefixes(with_constants(visible, given), query.prefixes)
        answer = store.query(text, prefixes=dict(prefixes), custom_functions=functions)
        if isinstance(answer, ox.QueryBoolean):
            return ox.Literal(bool(answer))
        if isinstance(answer, ox.QuerySolutions):
            for solution in answer:
                first: StoreNode | None = solution[0]
                return first
        return None

    return call


def _with_prefixes(text: str, prefixes: Mapping[str, str]) -> str:
    head = "".join(f"PREFIX {name}: <{iri}>\n" for name, iri in sorted(prefixes.items()))
    return head + text


def with_constants(text: str, values: Mapping[str, Node]) -> str:
    """Write terms into a query in place of variables. Raises ValueError for blank nodes."""
    for name, term in values.items():
        text = with_constant(text, name, term)
    return text
