"""Evaluates shapes as far as the graph allows: a constraint on a focus node becomes true, false or
a condition on the table.

Source: SHACL (W3C 2017), sections 2 and 4. Over the graph alone it is a plain validator.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Several
from itertools import product
from math import comb

from rdflib import RDF, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import RuleRecord
from fedkg_compiler.frontends.shacl.data_graph import Data
from fedkg_compiler.frontends.shacl.focus_node_columns import PASSING, Observer, Row, Value
from fedkg_compiler.frontends.shacl.model import (
    PAIRS,
    Alternative,
    Constraint,
    Inverse,
    Path,
    Repeat,
    Sequence,
    Shape,
    ShapesFile,
    Step,
    path_text,
    steps_in,
)
from fedkg_compiler.frontends.shacl.queries import Queries
from fedkg_compiler.frontends.shacl.shape_conditions import (
    MOST,
    Expr,
    Has,
    Observed,
    Refused,
    any_of,
    at_least,
    every,
    exactly_one,
    guarded,
    negate,
)
from fedkg_compiler.frontends.shacl.value_constraints import Judge
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.standard_vocabularies import FKG

DEPTH = 40
"""Shapes that refer to shapes are followed so deep; SHACL leaves recursion undefined."""


class Partial:
    """The evaluator for one file of shapes over one graph and what the table has."""

    def __init__(self, shapes: ShapesFile, data: Data, observer: Observer) -> None:
        self.shapes, self.data, self.observer = shapes, data, observer
        self.judge = Judge(data, observer)
        self.queries = Queries(shapes, observer.sources, observer.is_observed)
        self._touching: dict[tuple[Node, int], bool] = {}
        self._looking: set[Node] = set()

    # which parts need the table

    def touches(self, shape: Shape, constraint: Constraint) -> bool:
        """Whether a component of a shape reads the table, directly or through the shapes that it
        refers to.
        """
        if shape.path is not None and self._path_touches(shape.path):
            return True
        if constraint.name in PAIRS:
            return isinstance(constraint.values[0], URIRef) and self.observer.is_observed(
                constraint.values[0]
            )
        if constraint.name == "closed":
            return bool(self.observer.properties())
        if constraint.name == "expression":
            return self._expression_touches(constraint.node)
        if constraint.is_query:
            return not constraint.deactivated and self.queries.reads_table(shape, constraint)
        if constraint.name in (
            "and",
            "or",
            "xone",
            "not",
            "node",
            "property",
            "qualifiedMinCount",
            "qualifiedMaxCount",
        ):
            return any(self.shape_touches(node) for node in constraint.values)
        return False

    def shape_touches(self, node: Node) -> bool:
        """Whether any part of a shape reads the table."""
        shape = self.shapes.shapes.get(node)
        if shape is None or shape.deactivated or node in self._looking:
            return False
        key = node, 0
        if key not in self._touching:
            self._looking.add(node)
            found = shape.path is not None and self._path_touches(shape.path)
            self._touching[key] = found or any(
                self.touches(shape, constraint) for constraint in shape.constraints
            )
            self._looking.discard(node)
        return self._touching[key]

    def _expression_touches(self, node: Node) -> bool:
        """Whether a node expression (SHACL-AF, section 5) names an observed property."""
        waiting, seen = [node], set[Node]()
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            if isinstance(at, BNode):
                waiting += [
                    term
                    for _, predicate, value in self.shapes.graph.triples((at, None, None))
                    for term in (predicate, value)
                ]
        return any(isinstance(item, URIRef) and self.observer.is_observed(item) for item in seen)

    def _path_touches(self, path: Path) -> bool:
        return any(
            self.observer.is_observed(step.property)
            or step.property in PASSING
            or step.property in self.observer.attached
            for step in steps_in(path)
        )

    # value nodes

    def values(self, path: Path, focus: Value) -> list[Value]:
        """The value nodes of a path.

        Raises Refused if the path goes on behind a value of the table.
        """
        if isinstance(focus, Node) and not self._path_touches(path):
            return list(self.data.values(focus, path))
        match path:
            case Step():
                return self._step(path.property, focus)
            case Sequence():
                at: list[Value] = [focus]
                for part in path.paths:
                    at = list(
                        dict.fromkeys(value for node in at for value in self.values(part, node))
                    )
                return at
            case Alternative():
                return list(
                    dict.fromkeys(
                        value for part in path.paths for value in self.values(part, focus)
                    )
                )
            case Inverse() | Repeat():
                raise Refused(
                    f"the path {path_text(path)} cannot be walked through a value of the table"
                )

    def _step(self, predicate: URIRef, focus: Value) -> list[Value]:
        if isinstance(focus, Observed):
            if predicate in PASSING:
                return [focus]
            raise Refused(
                f"the table has no `{local_name(str(predicate))}` of a value of "
                f"`{local_name(focus.property)}`"
            )
        if predicate in PASSING and isinstance(focus, Node) and self.observer.has_column(focus):
            return list(self.observer.of_sensor(focus, predicate))
        if self.observer.is_observed(predicate):
            return list(self.observer.values(predicate, focus))
        if isinstance(focus, Row):
            raise Refused(
                f"the table's rows have no `{local_name(str(predicate))}`: declare a "
                f"signal for it, or give it an `fkg:column`"
            )
        found: list[Value] = []
        for node in self.data.values(focus, Step(predicate)):
            found += (
                self.observer.of_sensor(node, predicate)
                if isinstance(node, BNode) and self.observer.has_column(node)
                else [node]
            )
        return found

    # shapes and components

    def conforms(self, node: Node, focus: Value, depth: int = 0) -> Expr:
        """Whether a focus node conforms to a shape. Raises Refused."""
        shape = self.shapes.shapes.get(node)
        if shape is None:
            raise Refused("it refers to a shape that is not there")
        if depth > DEPTH:
            raise Refused(
                "the shapes refer to each other in a circle, which SHACL leaves undefined"
            )
        if shape.deactivated:
            return True
        values = [focus] if shape.path is None else self.values(shape.path, focus)
        return every(
            self.component(shape, constraint, focus, values, depth)
            for constraint in shape.constraints
        )

    def component(
        self,
        shape: Shape,
        constraint: Constraint,
        focus: Value,
        values: Several[Value],
        depth: int = 0,
    ) -> Expr:
        """Whether the value nodes of a focus node conform to one component of a shape.

        Raises Refused.
        """
        arguments = constraint.values
        match constraint.name:
            case "minCount" | "maxCount":
                return self._count(constraint, values)
            case "qualifiedMinCount" | "qualifiedMaxCount":
                return self._qualified(shape, constraint, values, depth)
            case "hasValue":
                return any_of(
                    every((_there(value), self.judge.same(value, arguments[0]))) for value in values
                )
            case "equals" | "disjoint" | "lessThan" | "lessThanOrEquals":
                return self._pair(constraint, focus, values)
            case "and":
                return every(
                    guarded([v], every(self.conforms(node, v, depth + 1) for node in arguments))
                    for v in values
                )
            case "or":
                return every(
                    guarded([v], any_of([self.conforms(node, v, depth + 1) for node in arguments]))
                    for v in values
                )
            case "xone":
                return every(
                    guarded(
                        [v], exactly_one([self.conforms(node, v, depth + 1) for node in arguments])
                    )
                    for v in values
                )
            case "not":
                return every(
                    guarded([v], negate(self.conforms(arguments[0], v, depth + 1))) for v in values
                )
            case "node" | "property":
                return every(
                    guarded([v], self.conforms(arguments[0], v, depth + 1)) for v in values
                )
            case "closed":
                return every(self._closed(shape, constraint, v) for v in values)
            case "uniqueLang":
                return self.judge.unique_languages(values)
            case "class":
                return every(guarded([v], self.judge.of_class(v, arguments[0])) for v in values)
            case _ if constraint.is_query:
                return self._asked(shape, constraint, focus)
            case _:
                return every(guarded([v], self.judge.value(constraint, v)) for v in values)

    def _asked(self, shape: Shape, constraint: Constraint, focus: Value) -> bool:
        """A query inside another component: the graph alone answers it."""
        if constraint.deactivated:
            return True
        if self.touches(shape, constraint):
            raise Refused(
                "a query of the table inside another component is not split: give its "
                "shape a separate target"
            )
        record = RuleRecord(name=constraint.name, file="", line=shape.line)
        try:
            return not self.queries.bind(
                shape, constraint, [focus], record, self.observer.span
            ).violations
        except SparqlProblem as problem:
            raise Refused(str(problem)) from problem

    def _closed(self, shape: Shape, constraint: Constraint, value: Value) -> Expr:
        """A node has no other properties, neither in the graph (except its column mapping) nor in a
        separate column.
        """
        allowed = set(constraint.values)
        for item in shape.constraints:
            inner = self.shapes.shapes.get(item.values[0]) if item.name == "property" else None
            if inner is not None and isinstance(inner.path, Step):
                allowed.add(inner.path.property)
        if isinstance(value, Observed | Literal):
            return True
        facts = (
            [(RDF.type, RDF.type)]
            if isinstance(value, Row)
            else self.data.graph.predicate_objects(value)
        )
        said = {
            one
            for one, thing in facts
            if not str(one).startswith(FKG) and not self.observer.has_column(thing)
        }
        observed = set(self.observer.properties())
        if said - allowed - observed:
            return False
        return every(
            negate(Has(v))
            for p in sorted(observed - allowed)
            for v in self.observer.values(p, value)
        )

    def _count(self, constraint: Constraint, values: Several[Value]) -> Expr:
        count = int(str(constraint.values[0]))
        if constraint.name == "minCount":
            return self._at_least(count, values, _there)
        return negate(self._at_least(count + 1, values, _there))

    def _at_least(
        self, count: int, values: Several[Value], condition: Callable[[Value], Expr]
    ) -> Expr:
        """A given number of value nodes satisfy a condition.

        Equal values of several columns count once.
        """
        equal = {}
        if 1 < count <= len(values) and comb(len(values), count) <= MOST:
            values = [self.observer.compared(value) for value in values]
            equal = self.judge.equal(values)
        return at_least(count, [condition(value) for value in values], equal)

    def _qualified(
        self, shape: Shape, constraint: Constraint, values: Several[Value], depth: int
    ) -> Expr:
        siblings = self._siblings(shape, constraint) if constraint.disjoint else ()

        def conforms(value: Value) -> Expr:
            others = (negate(self.conforms(other, value, depth + 1)) for other in siblings)
            return every(
                (_there(value), self.conforms(constraint.values[0], value, depth + 1), *others)
            )

        if constraint.name == "qualifiedMinCount":
            return self._at_least(constraint.count, values, conforms)
        return negate(self._at_least(constraint.count + 1, values, conforms))

    def _siblings(self, shape: Shape, constraint: Constraint) -> list[Node]:
        """The qualified shapes of the other property shapes of the same parents (SHACL, section
        4.7.3).
        """
        found: dict[Node, None] = {}
        for parent in self.shapes.shapes.values():
            inner = [item.values[0] for item in parent.constraints if item.name == "property"]
            if shape.node in inner:
                for node in inner:
                    other = self.shapes.shapes.get(node)
                    qualified = (
                        item
                        for item in (other.constraints if other else ())
                        if item.name.startswith("qualified")
                    )
                    found.update(
                        dict.fromkeys(
                            item.values[0]
                            for item in qualified
                            if item.values[0] != constraint.values[0]
                        )
                    )
        return list(found)

    # pairs of values

    def _pair(self, constraint: Constraint, focus: Value, values: Several[Value]) -> Expr:
        predicate = constraint.values[0]
        assert isinstance(predicate, URIRef)
        others = self._step(predicate, focus)
        match constraint.name:
            case "equals":
                here = (
                    any_of(
                        (
                            negate(_there(v)),
                            *(every((_there(w), self.judge.same(v, w))) for w in others),
                        )
                    )
                    for v in values
                )
                there = (
                    any_of(
                        (
                            negate(_there(w)),
                            *(every((_there(v), self.judge.same(v, w))) for v in values),
                        )
                    )
                    for w in others
                )
                return every((*here, *there))
            case "disjoint":
                return every(
                    guarded([v, w], negate(self.judge.same(v, w)))
                    for v, w in product(values, others)
                )
            case _:
                return every(
                    guarded([v, w], self.judge.less(constraint.name, v, w))
                    for v, w in product(values, others)
                )


def _there(value: Value) -> Expr:
    return Has(value) if isinstance(value, Observed) else True
