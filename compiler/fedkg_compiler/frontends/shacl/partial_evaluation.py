"""Evaluates shapes as far as the graph allows: a constraint on a focus node becomes true, false or
a condition on the table. Single values of the table are compared with numbers and terms.

A column of texts with known categories (`fkg:category`, or the members of an `rdfs:range`) is
decided when rules are compiled: the conforming categories become a condition on the text. A text
outside the categories conforms to nothing.

Source: SHACL (W3C 2017), sections 2 and 4. Over the graph alone it is a plain validator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations, product
from math import comb

from rdflib import RDF, XSD, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import RuleRecord
from fedkg.units.unit import same_dimension
from fedkg_compiler.frontends.shacl.shape_conditions import (
    BLANK,
    CATEGORY_OF,
    MOST,
    PASSING,
    RESOURCE,
    TEXTS,
    Beside,
    Expr,
    Has,
    Is,
    Number,
    Observed,
    Observer,
    Operator,
    Refused,
    Row,
    Value,
    Whole,
    any_of,
    at_least,
    every,
    exactly_one,
    guarded,
    is_number,
    negate,
)
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    PAIRS,
    SHAPE_VALUED,
    Alternative,
    Constraint,
    Data,
    Inverse,
    Path,
    PathSequence,
    Repeat,
    Shape,
    ShapesFile,
    Step,
    StoredTerms,
    path_text,
    steps_in,
)
from fedkg_compiler.frontends.shacl.sparql_constraint_binding import Queries
from fedkg_compiler.frontends.shacl.static_value_checks import ORDERED, ordered, value_test
from fedkg_compiler.graph.rdf_terms import Quantity, local_name
from fedkg_compiler.graph.sparql_syntax.query_text import SparqlProblem
from fedkg_compiler.graph.standard_vocabularies import FKG, NUMBERS, WHOLE_NUMBERS

MOST_CATEGORIES = 1000
"""Conforming categories that are written out at most; above this, the others are written out."""

ALIKE = 100
"""Two columns of texts with more categories in common are not compared when values are counted."""

_LITERALS = ("", BLANK, RESOURCE, TEXTS)
"""Values of `Observed.datatype` that do not name a datatype."""


_NOT_FINITE: dict[Node, Node] = {
    Literal(text, datatype=kind): Literal(text, datatype=kind, normalize=False)
    for text in ("INF", "-INF", "NaN")
    for kind in (XSD.double, XSD.float)
}
"""Numbers as the graph behind rdflib has them, in small letters, and as XML Schema writes them."""


def _test(constraint: Constraint) -> Callable[[Node], bool]:
    """The test of a component that looks at one value. Raises Refused for others."""
    test = value_test(constraint)
    if test is None:
        raise Refused(f"fedkg cannot decide sh:{constraint.name} for each value separately")
    return test


class Judge:
    """Judges values over one graph and what the table has."""

    def __init__(self, data: Data, observer: Observer) -> None:
        self.data, self.observer = data, observer

    # one value

    def value(self, constraint: Constraint, value: Value) -> Expr:
        """A component that looks at one value alone. Raises Refused."""
        if isinstance(value, Row):
            raise Refused(
                f"sh:{constraint.name} depends on what a table row is, which no table states"
            )
        if not isinstance(value, Observed):
            return _test(constraint)(_NOT_FINITE.get(value, value))
        name, argument = (
            constraint.name,
            constraint.values[0] if constraint.values else constraint.node,
        )
        if name in ORDERED:
            return self._ordered(constraint, argument, value)
        if name == "in":
            return any_of(self.same(value, member) for member in constraint.values)
        if name == "expression":
            raise Refused("fedkg cannot evaluate a node expression on graph and table together")
        if name == "datatype":
            return self._decide(constraint, value, _datatype(value, str(argument)))
        if name == "nodeKind":
            return self._decide(constraint, value, _kind(value, str(argument)))
        if _is_numeric(value):
            return _written_number(constraint, value)
        return self.any_category(
            value, _test(constraint), f"sh:{name} looks at how a value is written"
        )

    def of_class(self, value: Value, kind: Node) -> Expr:
        """Whether a value is a member of a class. Raises Refused."""
        if isinstance(value, Row):
            rows = self.observer.sources.names.rows_class
            return rows is not None and kind in self.data.superclasses(URIRef(rows))
        if isinstance(value, Observed):
            if _is_numeric(value) or (value.datatypes is None and value.datatype not in _LITERALS):
                return False  # a literal
            return self.any_category(
                value, lambda term: self.of_class(term, kind) is True, "sh:class asks for an entity"
            )
        stated = (
            (value, predicate, sub)
            for sub in self.data.subclasses(kind)
            for predicate in (RDF.type, CATEGORY_OF)
        )
        return not isinstance(value, Literal) and any(
            triple in self.data.graph for triple in stated
        )

    def any_category(self, value: Observed, conforms: Callable[[Node], bool], why: str) -> Expr:
        """The condition that a text is one of the categories that conform.

        Raises Refused if they are not known.
        """
        found = self._categories(value)
        if found is None:
            raise Refused(
                f"{why}, and nothing tells which texts `{local_name(value.property)}` has: "
                f"give it `fkg:category`"
            )
        good = [term for term in found if conforms(term)]
        if len(good) <= MOST_CATEGORIES:
            return any_of(self._is(value, term) for term in good)
        bad = [term for term in found if not conforms(term)]
        if len(bad) > MOST_CATEGORIES:
            raise Refused(
                f"{why}, and more than {MOST_CATEGORIES:,} categories of "
                f"`{local_name(value.property)}` conform, and as many do not"
            )
        return every(negate(self._is(value, term)) for term in bad)

    def _categories(self, value: Observed) -> Sequence[Node] | None:
        return self.observer.categories(URIRef(value.property)) if value.kind == "text" else None

    def _decide(self, constraint: Constraint, value: Observed, told: Expr | None) -> Expr:
        """The condition from the column itself, else from its categories."""
        if (
            value.kind == "text"
            and value.datatype == ""
            and value.datatypes is None
            and self._categories(value) is not None
        ):
            return self.any_category(value, _test(constraint), "")
        if told is None:
            raise Refused(
                f"a table does not tell whether a value is of "
                f"{local_name(str(constraint.values[0]))}"
            )
        return told

    def _ordered(self, constraint: Constraint, argument: Node, value: Observed) -> Expr:
        bound = self.number(argument)
        if value.kind == "text":
            if bound is not None and value.datatypes is None:
                return False  # a text, or a date, is not compared with numbers
            return self.any_category(
                value, _test(constraint), f"a text is compared with {argument}"
            )
        if bound is None:
            raise Refused(f"the bound {argument} is not a number")
        op: Operator = "le" if constraint.name.endswith("Inclusive") else "lt"
        return (
            Beside(op, bound, value)
            if constraint.name.startswith("min")
            else Beside(op, value, bound)
        )

    # two values

    def less(self, name: str, left: Value, right: Value) -> Expr:
        """``sh:lessThan`` and ``sh:lessThanOrEquals``. Raises Refused."""
        if isinstance(left, Node) and isinstance(right, Node):
            return ordered(name, left, right)
        if isinstance(left, Observed) and left.kind == "text":
            return self._pairs(left, right, lambda one, other: ordered(name, one, other))
        if isinstance(right, Observed) and right.kind == "text":
            return self._pairs(right, left, lambda one, other: ordered(name, other, one))
        one, other = self._side(left), self._side(right)
        if one is None or other is None:
            return False
        return Beside("lt" if name == "lessThan" else "le", one, other)

    def _pairs(self, text: Observed, other: Value, conforms: Callable[[Node, Node], bool]) -> Expr:
        """A text beside another value: decided for each pair of categories."""
        if isinstance(other, Node) and not isinstance(other, Row):
            return self.any_category(text, lambda term: conforms(term, other), "a text is compared")
        if isinstance(other, Observed) and other.kind == "number":
            return False
        terms = self._categories(text)
        if terms is None or not isinstance(other, Observed):
            raise Refused(
                f"a text is compared, and nothing tells which texts "
                f"`{local_name(text.property)}` has: give it `fkg:category`"
            )
        return any_of(
            every(
                (
                    self._is(text, term),
                    self.any_category(
                        other,
                        lambda second, first=term: conforms(  # type: ignore[misc]  # the default
                            first, second
                        ),
                        "two texts are compared",
                    ),
                )
            )
            for term in terms
        )

    def same(self, left: Value, right: Value) -> Expr:
        """Whether two value nodes are the same term.

        Numbers of the table are the same where they are equal. Raises Refused.
        """
        if isinstance(left, Node) and isinstance(right, Node):
            return left == right
        if isinstance(right, Observed) and not isinstance(left, Observed):
            left, right = right, left
        if not isinstance(left, Observed) or isinstance(right, Row):
            raise Refused("a table row is not a value")
        if isinstance(right, Observed):
            if left.kind == right.kind == "text":
                return self._pairs(left, right, lambda one, other: one == other)
            if "text" in (left.kind, right.kind):
                return False
        elif left.kind == "text":
            return self._is(left, right)
        elif left.datatypes is not None and not is_number(right):
            raise Refused(
                "fedkg compares a property with values of several kinds only with numbers"
            )
        side = self._side(right)
        return False if side is None else Beside("eq", left, side)

    def unique_languages(self, values: Sequence[Value]) -> Expr:
        """No two of the values have one language.

        Raises Refused if the language of a text is not known.
        """
        languages = [self._languages(value) for value in values] if len(values) > 1 else []
        pairs = [
            (i, j, word)
            for i, j in combinations(range(len(languages)), 2)
            for word in languages[i]
            if word in languages[j]
        ]
        equal = self.equal(values) if pairs else {}
        return every(
            negate(
                every((languages[i][word], languages[j][word], negate(equal.get((i, j), False))))
            )
            for i, j, word in pairs
        )

    def equal(self, values: Sequence[Value]) -> dict[tuple[int, int], Expr]:
        """When two of the values are one value node, by their positions.

        Nothing for two that never are.
        """
        pairs = combinations(enumerate(values), 2)
        found = {(i, j): self._alike(one, other) for (i, one), (j, other) in pairs}
        return {pair: condition for pair, condition in found.items() if condition is not False}

    def _alike(self, left: Value, right: Value) -> Expr:
        """Whether two different value nodes are one after all, as far as that is known: a number of
        the table is in no unit in SHACL.
        """
        if not isinstance(left, Observed):
            left, right = right, left
        if not isinstance(left, Observed) or isinstance(right, Row):
            return False
        if isinstance(right, Observed):
            if left.datatypes is not None and right.datatypes is not None:
                return False  # an RDF file was read; each of its columns has a different term
            if left.kind == right.kind == "number":
                one, other = left.place.stored, right.place.stored
                alike = one is None or other is None or same_dimension(one, other)
                return alike and Beside("eq", left, right, alike=True)
            terms, others = self._categories(left) or (), frozenset(self._categories(right) or ())
            both = [term for term in terms if term in others]
            return len(both) <= ALIKE and any_of(
                every((self._is(left, term), self._is(right, term))) for term in both
            )
        if left.kind == "text":
            return self._is(left, right)
        return (
            is_number(right)
            and isinstance(right, Literal)
            and Beside("eq", left, Number(float(right.value)))
        )

    def _languages(self, value: Value) -> dict[str, Expr]:
        """The languages that a value may have, each with the condition that it has it."""
        if not isinstance(value, Observed):
            return (
                {value.language.lower(): True}
                if isinstance(value, Literal) and value.language
                else {}
            )
        if _is_numeric(value) or (
            value.datatypes is None and value.datatype not in ("", TEXTS, str(RDF.langString))
        ):
            return {}
        terms = self._categories(value)
        if terms is None:
            raise Refused(
                f"nothing tells in which language the texts of "
                f"`{local_name(value.property)}` are: give it `fkg:category`"
            )
        found: dict[str, list[Expr]] = {}
        for term in terms:
            if isinstance(term, Literal) and term.language:
                found.setdefault(term.language.lower(), []).append(self._is(value, term))
        return {language: any_of(conditions) for language, conditions in found.items()}

    # terms

    def number(self, node: Node) -> Number | None:
        """A literal, or a quantity of the graph, as a number."""
        if isinstance(node, Literal):
            if not is_number(node):
                return None
            return Number(float(node.value))
        graph = self.observer.sources.graph
        found = (
            None
            if graph is None
            else graph.term_of(f"_:{node}" if isinstance(node, BNode) else str(node))
        )
        return Number(found.value, found.unit) if isinstance(found, Quantity) else None

    def _side(self, value: Value) -> Observed | Number | None:
        """A value as one side of a comparison of numbers; None if it is none."""
        if isinstance(value, Observed):
            return None if value.kind == "text" else value
        return None if isinstance(value, Row) else self.number(value)

    def _is(self, value: Observed, node: Node) -> Expr:
        """Whether a category is a term: the key value of an entity represents it, else its name.

        Of a literal its text.
        """
        told = value.datatypes is not None or value.datatype != ""
        if told or isinstance(node, Literal):
            own, text = RESOURCE, str(node)
            if isinstance(node, Literal):
                own = str(RDF.langString) if node.language else str(node.datatype or XSD.string)
                text = f"{node}@{node.language}" if told and node.language else text
            if value.datatypes is not None:
                return every(
                    (
                        Is(value, text),
                        Is(
                            Observed(property=value.property, place=value.datatypes, kind="text"),
                            own,
                        ),
                    )
                )
            return Is(value, text) if value.datatype in ("", own) else False
        graph = self.observer.sources.graph
        assert graph is not None, "the pipeline loads a graph where shapes are"
        return Is(value, graph.category_of(f"_:{node}" if isinstance(node, BNode) else str(node)))


def _is_numeric(value: Observed) -> bool:
    """Whether every value is a number."""
    return value.kind == "number" and value.datatypes is None


def _written_number(constraint: Constraint, value: Observed) -> Expr:
    """The condition that holds for any number in any notation. Raises Refused for other values."""
    if constraint.name == "languageIn":
        return False
    if constraint.name == "minLength" and int(str(constraint.values[0])) <= 1:
        return True
    raise Refused(
        f"sh:{constraint.name} looks at how a value is written, and "
        f"`{local_name(value.property)}` is read as a number"
    )


def _datatype(value: Observed, wanted: str) -> Expr | None:
    """The datatype conditions that a table can decide: that a number is whole, or true or false.

    Else what the reader noted. None: it does not tell.
    """
    if value.datatypes is not None:
        return Is(Observed(property=value.property, place=value.datatypes, kind="text"), wanted)
    if value.datatype:
        return value.datatype == wanted
    if value.kind == "text":
        return True if wanted == str(XSD.string) else None
    if wanted == str(XSD.boolean):
        return any_of((Beside("eq", value, Number(0.0)), Beside("eq", value, Number(1.0))))
    if wanted in WHOLE_NUMBERS:
        return Whole(value)
    return wanted in NUMBERS


def _kind(value: Observed, wanted: str) -> Expr:
    """Whether a value is a literal, an entity or a blank node: a literal, unless the reader noted
    otherwise.
    """
    words = {
        "Literal": "Literal" in wanted,
        RESOURCE: "IRI" in wanted,
        BLANK: "BlankNode" in wanted,
    }
    if value.datatypes is None:
        return words.get(value.datatype, words["Literal"])
    told = Observed(property=value.property, place=value.datatypes, kind="text")
    others = [iri for iri in (RESOURCE, BLANK) if words[iri] != words["Literal"]]
    found = any_of(Is(told, iri) for iri in others)
    return negate(found) if words["Literal"] else found


DEPTH = 40
"""Shapes that refer to shapes are followed so deep; SHACL leaves recursion undefined."""


class Partial:
    """The evaluator for one file of shapes over one graph and what the table has."""

    def __init__(self, shapes: ShapesFile, data: Data, observer: Observer) -> None:
        self.shapes, self.data, self.observer = shapes, data, observer
        self.judge = Judge(data, observer)
        self._touching: dict[Node, bool] = {}

    @cached_property
    def _derived(self) -> frozenset[tuple[Node, Node, Node]]:
        """The triples that fedkg has added to the data: no one stated them."""
        graph = self.observer.sources.graph
        assert graph is not None, "the pipeline loads a graph where shapes are"
        quads = () if graph.told is None else graph.told.origins()
        terms = StoredTerms()
        return frozenset(
            (terms[quad.subject], terms[quad.predicate], terms[quad.object]) for quad in quads
        )

    @cached_property
    def queries(self) -> Queries:
        """The queries of the file; most files of shapes have none."""
        return Queries(self.shapes, self.observer.sources, self.observer.is_observed)

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
        return constraint.name in SHAPE_VALUED and any(map(self.shape_touches, constraint.values))

    def shape_touches(self, node: Node) -> bool:
        """Whether a shape, or one that it leads to, reads the table."""
        above: dict[Node, Node | None] = {node: None}
        waiting = [node] if node not in self._touching else []
        while waiting:
            at: Node | None = waiting.pop()
            assert at is not None
            shape = self.shapes.shapes.get(at)
            if shape is None or shape.deactivated:
                continue
            if self._touching.get(at) or self._touches_itself(shape):
                while at is not None:
                    self._touching[at], at = True, above[at]
                return True
            inner = (
                value
                for constraint in shape.constraints
                if constraint.name in SHAPE_VALUED
                for value in constraint.values
                if value not in above and self._touching.get(value, True)
            )
            for value in inner:
                above[value] = at
                waiting.append(value)
        for shape_node in above:  # all that these lead to is among them, or does not read it
            self._touching.setdefault(shape_node, False)
        return self._touching[node]

    def _touches_itself(self, shape: Shape) -> bool:
        return (shape.path is not None and self._path_touches(shape.path)) or any(
            self.touches(shape, constraint)
            for constraint in shape.constraints
            if constraint.name not in SHAPE_VALUED
        )

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
            case PathSequence():
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
                    f"the path {path_text(path)} leads through a value of the table, which has no "
                    "properties"
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
        values: Sequence[Value],
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
            if not str(one).startswith(FKG)
            and not self.observer.has_column(thing)
            and (value, one, thing) not in self._derived
        }
        observed = set(self.observer.properties())
        if said - allowed - observed:
            return False
        return every(
            negate(Has(v))
            for p in sorted(observed - allowed)
            for v in self.observer.values(p, value)
        )

    def _count(self, constraint: Constraint, values: Sequence[Value]) -> Expr:
        count = int(str(constraint.values[0]))
        if constraint.name == "minCount":
            return self._at_least(count, values, _there)
        return negate(self._at_least(count + 1, values, _there))

    def _at_least(
        self, count: int, values: Sequence[Value], condition: Callable[[Value], Expr]
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
        self, shape: Shape, constraint: Constraint, values: Sequence[Value], depth: int
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

    def _pair(self, constraint: Constraint, focus: Value, values: Sequence[Value]) -> Expr:
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
