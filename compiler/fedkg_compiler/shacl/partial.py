"""Evaluates shapes as far as the graph allows: a constraint on a focus node becomes true, false or a condition on the table.

Source: SHACL (W3C 2017), sections 2 and 4. Over the graph alone it is a plain validator.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from itertools import product

from rdflib import RDF, XSD, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg_compiler.ontology.terms import Quantity, local_name
from fedkg_compiler.shacl.checks import ORDERED, fixed, ordered
from fedkg_compiler.shacl.data import Data
from fedkg_compiler.shacl.logic import (
    Beside,
    Expr,
    Has,
    Is,
    Number,
    Observed,
    Operator,
    Refused,
    Whole,
    at_least,
    every,
    exactly_one,
    guarded,
    negate,
    some,
)
from fedkg_compiler.shacl.model import (
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
from fedkg_compiler.shacl.observe import BLANK, NUMBERS, PASSING, RESOURCE, WHOLE, Observer, Row, Value, is_number

DEPTH = 40
"""Shapes that refer to shapes are followed so deep; SHACL leaves recursion undefined."""


class Partial:
    """The evaluator for one file of shapes over one graph and what the table has."""

    def __init__(self, shapes: ShapesFile, data: Data, observer: Observer) -> None:
        self.shapes, self.data, self.observer = shapes, data, observer
        self._touching: dict[tuple[Node, int], bool] = {}
        self._looking: set[Node] = set()

    # which parts need the table

    def touches(self, shape: Shape, constraint: Constraint) -> bool:
        """Whether a component of a shape speaks of anything that stands in the table, itself or through the shapes it refers to."""
        if shape.path is not None and self._path_touches(shape.path):
            return True
        if constraint.name in ("equals", "disjoint", "lessThan", "lessThanOrEquals"):
            return isinstance(constraint.values[0], URIRef) and self.observer.is_observed(constraint.values[0])
        if constraint.name == "sparql":
            return self._query_touches(constraint.node)
        if constraint.name in ("and", "or", "xone", "not", "node", "property", "qualifiedMinCount", "qualifiedMaxCount"):
            return any(self.shape_touches(node) for node in constraint.values)
        return False

    def shape_touches(self, node: Node) -> bool:
        """Whether any part of a shape speaks of the table."""
        shape = self.shapes.shapes.get(node)
        if shape is None or shape.deactivated or node in self._looking:
            return False
        key = node, 0
        if key not in self._touching:
            self._looking.add(node)
            found = shape.path is not None and self._path_touches(shape.path)
            self._touching[key] = found or any(self.touches(shape, constraint) for constraint in shape.constraints)
            self._looking.discard(node)
        return self._touching[key]

    def _path_touches(self, path: Path) -> bool:
        return any(
            self.observer.is_observed(step.property) or step.property in PASSING or step.property in self.observer.attached
            for step in steps_in(path)
        )

    def _query_touches(self, node: Node) -> bool:
        from fedkg_compiler.shacl.read import SH

        text = " ".join(str(value) for name in ("select", "ask") for value in self.shapes.graph.objects(node, SH[name]))
        observed = {signal.property for signal in self.observer.sources.names.signals.values() if signal.property}
        observed |= {str(subject) for subject in self.data.graph.subjects(URIRef("https://w3id.org/fedkg/ns#column"), None)}
        return any(iri in text or local_name(iri) in text for iri in observed)

    # value nodes

    def values(self, path: Path, focus: Value) -> list[Value]:
        """The value nodes of a path. Raises Refused where the path goes on behind a value of the table."""
        if isinstance(focus, Node) and not self._path_touches(path):
            return list(self.data.values(focus, path))
        match path:
            case Step():
                return self._step(path.property, focus)
            case Sequence():
                at: list[Value] = [focus]
                for part in path.paths:
                    at = list(dict.fromkeys(value for node in at for value in self.values(part, node)))
                return at
            case Alternative():
                return list(dict.fromkeys(value for part in path.paths for value in self.values(part, focus)))
            case Inverse() | Repeat():
                raise Refused(f"the path {path_text(path)} cannot be walked through a value of the table")

    def _step(self, predicate: URIRef, focus: Value) -> list[Value]:
        if isinstance(focus, Observed):
            if predicate in PASSING:
                return [focus]
            raise Refused(f"the table has no `{local_name(str(predicate))}` of a value of `{local_name(focus.property)}`")
        if predicate in PASSING and isinstance(focus, Node) and self.observer.has_column(focus):
            return list(self.observer.of_sensor(focus))
        if self.observer.is_observed(predicate):
            return list(self.observer.values(predicate, focus))
        if isinstance(focus, Row):
            raise Refused(f"the table's rows have no `{local_name(str(predicate))}`: declare a signal for it, or give it an `fkg:column`")
        found: list[Value] = []
        for node in self.data.values(focus, Step(predicate)):
            found += self.observer.of_sensor(node) if isinstance(node, BNode) and self.observer.has_column(node) else [node]
        return found

    # shapes and components

    def conforms(self, node: Node, focus: Value, depth: int = 0) -> Expr:
        """Whether a focus node conforms to a shape. Raises Refused."""
        shape = self.shapes.shapes.get(node)
        if shape is None:
            raise Refused("it refers to a shape that is not there")
        if depth > DEPTH:
            raise Refused("the shapes refer to each other in a circle, which SHACL leaves undefined")
        if shape.deactivated:
            return True
        values = [focus] if shape.path is None else self.values(shape.path, focus)
        return every(self.component(shape, constraint, focus, values, depth) for constraint in shape.constraints)

    def component(self, shape: Shape, constraint: Constraint, focus: Value, values: Several[Value], depth: int = 0) -> Expr:
        """Whether the value nodes of a focus node conform to one component of a shape. Raises Refused."""
        arguments = constraint.values
        match constraint.name:
            case "minCount" | "maxCount":
                return self._count(constraint, values)
            case "qualifiedMinCount" | "qualifiedMaxCount":
                return self._qualified(shape, constraint, values, depth)
            case "hasValue":
                return some(every((_there(value), self._same(value, arguments[0]))) for value in values)
            case "equals" | "disjoint" | "lessThan" | "lessThanOrEquals":
                return self._pair(constraint, focus, values)
            case "and":
                return every(guarded([v], every(self.conforms(node, v, depth + 1) for node in arguments)) for v in values)
            case "or":
                return every(guarded([v], some([self.conforms(node, v, depth + 1) for node in arguments])) for v in values)
            case "xone":
                return every(guarded([v], exactly_one([self.conforms(node, v, depth + 1) for node in arguments])) for v in values)
            case "not":
                return every(guarded([v], negate(self.conforms(arguments[0], v, depth + 1))) for v in values)
            case "node" | "property":
                return every(guarded([v], self.conforms(arguments[0], v, depth + 1)) for v in values)
            case "closed":
                return every(self._closed(shape, constraint, v) for v in values)
            case "uniqueLang":
                languages = [v.language.lower() for v in values if isinstance(v, Literal) and v.language]
                return len(set(languages)) == len(languages)
            case "class":
                return every(self._of_class(v, arguments[0]) for v in values)
            case "sparql":
                raise Refused(
                    "a SPARQL constraint that reads the table is not split: write the query in a file, and load it with `queries`"
                )
            case _ if constraint.custom:
                raise Refused("a constraint component of one's own cannot be split between graph and table")
            case _:
                return every(guarded([v], self._value(constraint, v)) for v in values)

    def _value(self, constraint: Constraint, value: Value) -> Expr:
        """A component that looks at one value alone."""
        if isinstance(value, Row):
            raise Refused(f"sh:{constraint.name} asks what a table row is, which no table says")
        if not isinstance(value, Observed):
            return fixed(constraint, value)
        name, argument = constraint.name, constraint.values[0] if constraint.values else constraint.node
        if name in ORDERED:
            bound = self._number(argument)
            if bound is None:
                raise Refused(f"the bound {argument} is no number")
            if value.kind == "text":
                return False
            op: Operator = "le" if name.endswith("Inclusive") else "lt"
            return Beside(op, bound, value) if name.startswith("min") else Beside(op, value, bound)
        if name == "in":
            return some(self._same(value, member) for member in constraint.values)
        if name == "datatype":
            return _datatype(value, str(argument))
        if name == "nodeKind":
            return _kind(value, str(argument))
        raise Refused(f"sh:{name} looks at how a value is written, and a table has values")

    def _of_class(self, value: Value, kind: Node) -> Expr:
        if isinstance(value, Row):
            rows = self.observer.sources.names.rows_class
            return rows is not None and kind in self.data.superclasses(URIRef(rows))
        if isinstance(value, Observed):
            raise Refused("sh:class asks for an entity, and the table has values")
        return not isinstance(value, Literal) and any((value, RDF.type, sub) in self.data.graph for sub in self.data.subclasses(kind))

    def _closed(self, shape: Shape, constraint: Constraint, value: Value) -> Expr:
        allowed = set(constraint.values)
        for item in shape.constraints:
            inner = self.shapes.shapes.get(item.values[0]) if item.name == "property" else None
            if inner is not None and isinstance(inner.path, Step):
                allowed.add(inner.path.property)
        if isinstance(value, Row):
            raise Refused("sh:closed asks for all that is said of a table row, and a table has more columns than its rules read")
        if isinstance(value, Observed | Literal):
            return True
        return all(predicate in allowed or self.observer.is_observed(predicate) for predicate in set(self.data.graph.predicates(value)))  # type: ignore[arg-type]

    def _count(self, constraint: Constraint, values: Several[Value]) -> Expr:
        there = [_there(value) for value in values]
        count = int(str(constraint.values[0]))
        return at_least(count, there) if constraint.name == "minCount" else negate(at_least(count + 1, there))

    def _qualified(self, shape: Shape, constraint: Constraint, values: Several[Value], depth: int) -> Expr:
        siblings = self._siblings(shape, constraint) if constraint.disjoint else ()
        found = []
        for value in values:
            others = (negate(self.conforms(other, value, depth + 1)) for other in siblings)
            found.append(every((_there(value), self.conforms(constraint.values[0], value, depth + 1), *others)))
        if constraint.name == "qualifiedMinCount":
            return at_least(constraint.count, found)
        return negate(at_least(constraint.count + 1, found))

    def _siblings(self, shape: Shape, constraint: Constraint) -> list[Node]:
        """The qualified shapes of the other property shapes of the same parents (SHACL, section 4.7.3)."""
        found: dict[Node, None] = {}
        for parent in self.shapes.shapes.values():
            inner = [item.values[0] for item in parent.constraints if item.name == "property"]
            if shape.node in inner:
                for node in inner:
                    other = self.shapes.shapes.get(node)
                    qualified = (item for item in (other.constraints if other else ()) if item.name.startswith("qualified"))
                    found.update(dict.fromkeys(item.values[0] for item in qualified if item.values[0] != constraint.values[0]))
        return list(found)

    # pairs of values

    def _pair(self, constraint: Constraint, focus: Value, values: Several[Value]) -> Expr:
        predicate = constraint.values[0]
        assert isinstance(predicate, URIRef)
        others = self._step(predicate, focus)
        match constraint.name:
            case "equals":
                here = (some((negate(_there(v)), *(every((_there(w), self._same(v, w))) for w in others))) for v in values)
                there = (some((negate(_there(w)), *(every((_there(v), self._same(v, w))) for v in values))) for w in others)
                return every((*here, *there))
            case "disjoint":
                return every(guarded([v, w], negate(self._same(v, w))) for v, w in product(values, others))
            case _:
                return every(guarded([v, w], self._less(constraint.name, v, w)) for v, w in product(values, others))

    def _less(self, name: str, left: Value, right: Value) -> Expr:
        if isinstance(left, Node) and isinstance(right, Node):
            return ordered(name, left, right)
        one, other = self._side(left), self._side(right)
        if one is None or other is None:
            return False
        return Beside("lt" if name == "lessThan" else "le", one, other)

    def _same(self, left: Value, right: Value) -> Expr:
        """Whether two value nodes are the same term; numbers of the table are the same where they are equal."""
        if isinstance(left, Node) and isinstance(right, Node):
            return left == right
        if isinstance(right, Observed) and not isinstance(left, Observed):
            left, right = right, left
        if not isinstance(left, Observed) or isinstance(right, Row):
            raise Refused("a table row is no value")
        if isinstance(right, Observed):
            if "text" in (left.kind, right.kind):
                raise Refused("two texts of the table cannot be compared")
        elif left.kind == "text":
            return self._is(left, right)
        elif left.datatypes is not None and not is_number(right):
            raise Refused("a property with values of several kinds is compared with numbers alone")
        side = self._side(right)
        return False if side is None else Beside("eq", left, side)

    def _side(self, value: Value) -> Observed | Number | None:
        """A value as one side of a comparison of numbers; None where it is none."""
        if isinstance(value, Observed):
            return None if value.kind == "text" else value
        return None if isinstance(value, Row) else self._number(value)

    def _number(self, node: Node) -> Number | None:
        """A literal, or a quantity of the graph, as a number."""
        if isinstance(node, Literal):
            if not is_number(node):
                return None
            return Number(float(node.value))
        graph = self.observer.sources.graph
        found = None if graph is None else graph.term_of(f"_:{node}" if isinstance(node, BNode) else str(node))
        return Number(found.value, found.unit) if isinstance(found, Quantity) else None

    def _is(self, value: Observed, node: Node) -> Expr:
        """Whether a category is a term: an entity's key value stands for it, else its name; of a literal its text."""
        told = value.datatypes is not None or value.datatype != ""
        if told or isinstance(node, Literal):
            own, text = RESOURCE, str(node)
            if isinstance(node, Literal):
                own = str(RDF.langString) if node.language else str(node.datatype or XSD.string)
                text = f"{node}@{node.language}" if told and node.language else text
            if value.datatypes is not None:
                return every((Is(value, text), Is(Observed(property=value.property, place=value.datatypes, kind="text"), own)))
            return Is(value, text) if value.datatype in ("", own) else False
        graph = self.observer.sources.graph
        key = graph.key_of(str(node)) if graph is not None and isinstance(node, URIRef) else None
        return Is(value, local_name(str(node)) if key is None else key[1])


def _there(value: Value) -> Expr:
    return Has(value) if isinstance(value, Observed) else True


def _datatype(value: Observed, wanted: str) -> Expr:
    """What a table can say of datatypes: that a number is whole, or true or false; else what the reader noted."""
    if value.datatypes is not None:
        return Is(Observed(property=value.property, place=value.datatypes, kind="text"), wanted)
    if value.datatype:
        return value.datatype == wanted
    if value.kind == "text":
        return wanted == str(XSD.string) or _untold(wanted)
    if wanted == str(XSD.boolean):
        return some((Beside("eq", value, Number(0.0)), Beside("eq", value, Number(1.0))))
    if wanted in WHOLE:
        return Whole(value)
    return wanted in NUMBERS or _untold(wanted)


def _kind(value: Observed, wanted: str) -> Expr:
    """Whether a value is a literal, an entity or a blank node: a literal, unless the reader noted otherwise."""
    words = {"Literal": "Literal" in wanted, RESOURCE: "IRI" in wanted, BLANK: "BlankNode" in wanted}
    if value.datatypes is None:
        return words.get(value.datatype, words["Literal"])
    told = Observed(property=value.property, place=value.datatypes, kind="text")
    others = [iri for iri in (RESOURCE, BLANK) if words[iri] != words["Literal"]]
    found = some(Is(told, iri) for iri in others)
    return negate(found) if words["Literal"] else found


def _untold(wanted: str) -> bool:
    raise Refused(f"a table does not tell whether a value is of {local_name(wanted)}")
