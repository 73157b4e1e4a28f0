"""Evaluates shapes on a graph, each constraint component for all focus nodes at once.

`COMPONENTS` and `value_test` hold the meaning of each component. The validator finds value nodes,
follows shapes inside shapes, and turns violations into results.

Sources: SHACL (W3C 2017), sections 2 to 6; for node expressions, SHACL Advanced Features (W3C
Working Group Note 2017), section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product

from rdflib import RDF, XSD, BNode, Graph, Literal, URIRef
from rdflib.term import Node

from fedkg_compiler.frontends.shacl.constraint_queries import (
    Asked,
    Undecidable,
    asked,
    define_functions,
    with_variable_as,
)
from fedkg_compiler.frontends.shacl.prebound_query_execution import (
    MEMBERS,
    SHAPES,
    StoreNode,
    hide_graphs,
    select,
    to_store,
    triple_to_store,
    with_closures_last,
    with_constant,
    with_members,
)
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SH,
    Constraint,
    Data,
    IndexedGraph,
    Path,
    Shape,
    ShapesFile,
    Step,
    items,
    read_path,
    to_rdflib,
)
from fedkg_compiler.frontends.shacl.static_value_checks import VALUE_TESTS, ordered, value_test
from fedkg_compiler.frontends.shacl.validation_report import (
    Result,
    fill_message,
    message_text,
    message_values,
    path_sparql,
    sorted_results,
)
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.sparql_syntax.tokens import names_graph, tokens

MOST_NESTED = 50
"""Shapes inside shapes that are followed. A shape that names itself may never end."""
Values = Mapping[Node, Sequence[Node]]
"""The value nodes of each focus node, without repetitions."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A focus node that violates a component.

    Attributes:
        value: the value node; None if the violation is about no single one.
        path: the path of the result, if it is not that of the shape.
        solution: the variables of a query, and the parameters of a custom component.
    """

    focus: Node
    value: Node | None = None
    path: Path | None = None
    solution: Mapping[str, Node] = field(default_factory=dict)


class Validator:
    """Evaluates shapes on a graph. If the graph grows between questions, call `forget`.

    Args:
        shapes: the shapes. data: the graph with the data and the shapes. store: the same triples,
            for queries. prefixes: those of queries that do not state them. left_out: components of
            shapes that are decided elsewhere.

    Raises:
        Undecidable: the shapes cannot be evaluated. All methods raise it.
    """

    def __init__(
        self,
        shapes: ShapesFile,
        data: Data,
        store: ox.Store,
        prefixes: Mapping[str, str],
        left_out: Iterable[tuple[Shape, Constraint]] = (),
    ) -> None:
        self.shapes, self.data, self.store, self.prefixes = shapes, data, store, prefixes
        self._left_out = {(shape.node, constraint) for shape, constraint in left_out}
        self._failing: dict[Node, dict[Node, bool]] = {}
        """Whether nodes violate a shape, by shape."""
        self._open: dict[Node, dict[Node, bool]] = {}
        """The same for shapes that are being evaluated, as far as is known: shapes may refer to
        each other in a circle."""
        self._assumed: set[tuple[Node, Node]] = set()
        """The shapes and nodes that are being evaluated and that other evaluations have read."""
        self._detailed: dict[Node, set[Node]] = {}
        self._values: dict[Path, dict[Node, tuple[Node, ...]]] = {}
        self._stores_members = False
        self._depth = 0
        self._stores_shapes = False
        self.functions = define_functions(shapes, store, prefixes)

    def forget(self, predicates: Collection[str]) -> None:
        """Forget what depends on triples with these properties, because there are new ones."""
        self._failing.clear()
        self._values.clear()
        self._stores_members = False
        self.data.forget(predicates)

    def results(self, shape: Node, focus_nodes: Iterable[Node]) -> list[Result]:
        """Validate focus nodes against a shape, whether or not they are its targets."""
        found = self._results(shape, list(dict.fromkeys(focus_nodes)))
        return [result for results in found.values() for result in results]

    def conforming(self, shape: Node, focus_nodes: Sequence[Node]) -> list[Node]:
        """The focus nodes that conform to a shape."""
        failing = self.failing(shape, focus_nodes)
        return [node for node in focus_nodes if node not in failing]

    def values(self, expression: Node, focus: Node) -> set[Node]:
        """The values of a node expression (W3C SHACL-AF 2017, section 5)."""
        graph = self.shapes.graph
        if expression == SH.this:
            return {focus}
        if not isinstance(expression, BNode):
            return {expression}
        for name, join in (("union", set.union), ("intersection", set.intersection)):
            if (head := graph.value(expression, SH[name])) is not None:
                with self._deeper():
                    parts = [self.values(part, focus) for part in items(graph, head) or ()]
                return join(*parts) if parts else set()
        if (at := graph.value(expression, SH.path)) is not None:
            path = read_path(graph, at)
            if path is None:
                raise Undecidable("the sh:path of a node expression is not a SHACL path")
            return set(self.path_values(path, focus))
        if (shape := graph.value(expression, SH.filterShape)) is not None:
            nodes = graph.value(expression, SH.nodes)
            with self._deeper():
                found = {focus} if nodes is None else self.values(nodes, focus)
            return found - self.failing(shape, found)
        return self._called(expression, focus)

    def _called(self, expression: Node, focus: Node) -> set[Node]:
        """The values of a function with the values of its arguments."""
        graph = self.shapes.graph
        for name, head in graph.predicate_objects(expression):
            function = self.functions.get(ox.NamedNode(str(name)))
            if function is None:
                continue
            with self._deeper():
                arguments = [self.values(part, focus) for part in items(graph, head) or ()]
            found = (function(*map(to_store, given)) for given in product(*arguments))
            return {to_rdflib(term) for term in found if term is not None}
        raise Undecidable("a node expression is neither a path, a set nor a known function")

    def failing(self, shape: Node, nodes: Iterable[Node]) -> set[Node]:
        """The nodes that do not conform to a shape."""
        open_nodes = self._open.setdefault(shape, {})
        known = self._failing.setdefault(shape, {})
        wanted = dict.fromkeys(nodes)
        self._assumed.update((shape, node) for node in wanted if node in open_nodes)
        found = {node for node in wanted if open_nodes.get(node, known.get(node, False))}
        unknown = [node for node in wanted if node not in known and node not in open_nodes]
        return found | self._evaluate(shape, unknown) if unknown else found

    def _evaluate(self, shape: Node, nodes: Sequence[Node]) -> set[Node]:
        """The nodes that do not conform to a shape, none of which is known or being evaluated.

        SHACL leaves shapes that refer to each other in a circle undefined. Here nodes conform
        unless a chain of shapes leads to a violation: they are first assumed to conform, and
        evaluated again until nothing changes. What rests on assumptions about nodes around is not
        remembered.
        """
        around, open_nodes = self._assumed, self._open[shape]
        open_nodes.update(dict.fromkeys(nodes, False))
        own = {(shape, node) for node in nodes}
        try:
            for _ in range(len(nodes) + 1):
                self._assumed = set()
                failing = self._find_failing(shape, nodes)
                found = {node: node in failing for node in nodes}
                changed = any(open_nodes[node] != fails for node, fails in found.items())
                if not changed or own.isdisjoint(self._assumed):
                    break
                open_nodes.update(found)
            else:
                raise Undecidable(
                    "the shape requires its own violation, through a circle of shapes", shape
                )
            if self._assumed <= own:
                self._failing.setdefault(shape, {}).update(found)
        finally:
            self._assumed = around | (self._assumed - own)
            for node in nodes:
                del open_nodes[node]
        return failing

    def _find_failing(self, node: Node, focus_nodes: Sequence[Node]) -> set[Node]:
        shape = self.shapes.shapes.get(node)
        failing: set[Node] = set()
        if shape is None or shape.deactivated:
            return failing
        values = self._value_nodes(shape, focus_nodes)
        with self._deeper(node):
            for constraint in self._constraints(shape):
                if constraint.name == "property":
                    inner = self.failing(constraint.node, _all_values(values))
                    found = {focus for focus, own in values.items() if not inner.isdisjoint(own)}
                else:
                    found = {one.focus for one in self._violations(shape, constraint, values)}
                if found:
                    failing |= found
                    values = {focus: own for focus, own in values.items() if focus not in found}
        return failing

    def _results(self, node: Node, focus_nodes: Sequence[Node]) -> dict[Node, list[Result]]:
        """The results by the node that was validated; those of inner shapes have others."""
        shape = self.shapes.shapes.get(node)
        found: dict[Node, list[Result]] = {}
        if shape is None or shape.deactivated or not focus_nodes:
            return found
        values = self._value_nodes(shape, focus_nodes)
        with self._deeper(node):
            for constraint in self._constraints(shape):
                if constraint.name == "property":
                    inner = self._results(constraint.node, _all_values(values))
                    for focus, own in values.items() if inner else ():
                        for value in own:
                            found.setdefault(focus, []).extend(inner.get(value, ()))
                    continue
                violations = self._violations(shape, constraint, values)
                details: dict[Node, list[Result]] = {}
                if constraint.name == "node":
                    failing = dict.fromkeys(one.value for one in violations if one.value)
                    details = self._details(constraint.node, failing)
                for one in violations:
                    of_value = details.get(one.value, []) if one.value else []
                    result = self._result(shape, constraint, one, of_value)
                    found.setdefault(one.focus, []).append(result)
        return found

    def _details(self, shape: Node, nodes: Iterable[Node]) -> dict[Node, list[Result]]:
        """The results of an inner shape, without those of nodes around it in a circle."""
        around = self._detailed.setdefault(shape, set())
        inner = [node for node in nodes if node not in around]
        around.update(inner)
        try:
            return self._results(shape, inner)
        finally:
            around.difference_update(inner)

    def _constraints(self, shape: Shape) -> Iterator[Constraint]:
        for constraint in shape.constraints:
            if not constraint.deactivated and (shape.node, constraint) not in self._left_out:
                yield constraint

    def _violations(self, shape: Shape, constraint: Constraint, values: Values) -> list[Violation]:
        if not values:
            return []
        component = _custom if constraint.custom else COMPONENTS[constraint.name]
        try:
            return list(component(self, shape, constraint, values))
        except ValueError as error:
            if not constraint.is_query:
                raise
            raise Undecidable(str(error), shape.node) from error  # a query names no blank node
        except Undecidable as error:
            error.shape = error.shape or shape.node
            if isinstance(error.__cause__, SyntaxError) and constraint.is_query:
                query = asked(self.shapes, shape, constraint)
                error.queries = () if query is None else (query.original(self.prefixes),)
            raise

    def _value_nodes(self, shape: Shape, focus_nodes: Iterable[Node]) -> Values:
        if shape.path is None:
            return {node: (node,) for node in focus_nodes}
        if isinstance(shape.path, Step) and isinstance(self.data.graph, IndexedGraph):
            return self.data.graph.values(focus_nodes, shape.path.property)
        return {node: self.path_values(shape.path, node) for node in focus_nodes}

    def path_values(self, path: Path, node: Node) -> tuple[Node, ...]:
        """The value nodes of a path, each once."""
        known = self._values.setdefault(path, {})
        found = known.get(node)
        if found is None:
            if isinstance(path, Step):
                found = tuple(self.data.graph.objects(node, path.property))
            else:
                found = tuple(self.data.values(node, path))
            known[node] = found
        return found

    @contextmanager
    def _deeper(self, shape: Node | None = None) -> Iterator[None]:
        self._depth += 1
        try:
            if self._depth > MOST_NESTED:
                raise Undecidable(
                    f"the shapes are nested more than {MOST_NESTED} deep, or name themselves "
                    "in a cycle of nodes",
                    shape,
                )
            yield
        finally:
            self._depth -= 1

    def solutions(
        self, text: str, shape: Shape, nodes: Iterable[Node], bound: str = "this"
    ) -> list[tuple[Node, dict[str, Node]]]:
        """The solutions of a SELECT query for nodes, each with its node.

        Args:
            bound: the variable that stands for the nodes.
        """
        has_graph = names_graph(text)
        if shape.path is not None and "PATH" in text:
            text = with_variable_as(text, "PATH", path_sparql(shape.path))
        elif "$PATH" in text:
            raise Undecidable("a query has $PATH, but its shape has no path", shape.node)
        if "shapesGraph" in text:
            self._store_shapes()
            text = with_constant(text, "shapesGraph", URIRef(SHAPES.value))
        if "currentShape" in text:
            text = with_constant(text, "currentShape", shape.node)
        try:
            # The members of a class in one graph are not those in the data.
            text = hide_graphs(text) if has_graph else with_members(text)
            text = with_closures_last(text)
            if str(MEMBERS) in text:
                self._store_members()
            return select(self.store, text, list(nodes), self.prefixes, bound, self.functions)
        except (SyntaxError, ValueError, RuntimeError, OSError) as error:
            sentence = str(error).strip().split("\n")[0]
            raise Undecidable(f"the query cannot be evaluated: {sentence}", shape.node) from error

    def _store_members(self) -> None:
        """Add the members of all classes to the store, for `with_members`."""
        if self._stores_members:
            return
        self._stores_members = True
        self.store.remove_graph(MEMBERS)
        classes: dict[StoreNode, list[StoreNode]] = {
            to_store(kind): [to_store(one) for one in self.data.superclasses(kind)]
            for kind in self.data.graph.objects(None, RDF.type, unique=True)
        }
        typed = self.store.quads_for_pattern(
            None, ox.NamedNode(str(RDF.type)), None, ox.DefaultGraph()
        )
        self.store.extend(
            [
                ox.Quad(quad.subject, MEMBERS, other, MEMBERS)
                for quad in typed
                for other in classes.get(quad.object, ())
            ]
        )

    def _store_shapes(self) -> None:
        """Add the shapes graph to the store, for queries with `$shapesGraph`."""
        if not self._stores_shapes:
            self.store.extend(triple_to_store(triple, SHAPES) for triple in self.shapes.graph)
            self._stores_shapes = True

    def as_written(self, focus: Node, term: Node) -> Node:
        """A literal as the data has it: the store writes ``12.50`` as ``12.5``."""
        if not isinstance(term, Literal) or term.datatype is None:
            return term
        return next(
            (
                value
                for value in self.data.graph.objects(focus)
                if isinstance(value, Literal)
                and value.datatype == term.datatype
                and value.value is not None
                and value.value == term.value
            ),
            term,
        )

    def _result(
        self, shape: Shape, constraint: Constraint, violation: Violation, details: Sequence[Result]
    ) -> Result:
        graph = self.shapes.graph
        path = violation.path or shape.path
        texts = {name: message_text(term) for name, term in violation.solution.items()}
        texts |= message_values(violation.focus, violation.value, path)
        component = constraint.component if constraint.custom else SH[component_name(constraint)]
        source = constraint.node if constraint.name in ("sparql", "expression") else None
        messages = {
            fill_message(graph, shape.node, message, texts)
            for message in self._messages(shape, constraint, violation)
        }
        return Result(
            focus=violation.focus,
            value=violation.value,
            path=path,
            severity=URIRef(str(graph.value(shape.node, SH.severity) or SH.Violation)),
            component=URIRef(str(component)),
            shape=shape.node,
            constraint=source,
            messages=tuple(sorted(messages)),
            details=sorted_results(details),
        )

    def _messages(
        self, shape: Shape, constraint: Constraint, violation: Violation
    ) -> list[Literal]:
        """The messages of a result: of the query, the constraint, the shape, or the component."""
        graph, solution = self.shapes.graph, violation.solution
        sources: list[Node] = []
        if constraint.custom:
            query = asked(self.shapes, shape, constraint)
            sources = [query.node] if query is not None else []
            sources += [] if constraint.component is None else [constraint.component]
        elif constraint.name in ("sparql", "expression"):
            if isinstance(message := solution.get("message"), Literal):
                return [message]
            sources = [constraint.node]
        for node in (*sources, shape.node):
            stated = [one for one in graph.objects(node, SH.message) if isinstance(one, Literal)]
            if stated:
                return stated
        return [Literal(default_message(constraint))]


def component_name(constraint: Constraint) -> str:
    """The name of a constraint's component in validation results, without namespace."""
    if constraint.custom:
        return constraint.name
    if constraint.name == "sparql":
        return "SPARQLConstraintComponent"
    return f"{constraint.name[0].upper()}{constraint.name[1:]}ConstraintComponent"


# Components: the violations of focus nodes, given their value nodes.

Component = Callable[[Validator, Shape, Constraint, Values], Iterable[Violation]]


def _each(test: Callable[[Node], bool], values: Values) -> list[Violation]:
    """A violation for each value that fails a test."""
    return [
        Violation(focus, value) for focus, own in values.items() for value in own if not test(value)
    ]


def _by_value(_: Validator, __: Shape, constraint: Constraint, values: Values) -> list[Violation]:
    test = value_test(constraint)
    assert test is not None
    return _each(test, values)


def _class(
    validator: Validator, _: Shape, constraint: Constraint, values: Values
) -> list[Violation]:
    return _each(validator.data.members(constraint.node).__contains__, values)


def _count(_: Validator, __: Shape, constraint: Constraint, values: Values) -> list[Violation]:
    bound = int(str(constraint.node))
    least = constraint.name == "minCount"
    return [
        Violation(focus)
        for focus, own in values.items()
        if (len(own) < bound if least else len(own) > bound)
    ]


def _has_value(_: Validator, __: Shape, constraint: Constraint, values: Values) -> list[Violation]:
    return [Violation(focus) for focus, own in values.items() if constraint.node not in own]


def _equals(
    validator: Validator, _: Shape, constraint: Constraint, values: Values
) -> Iterator[Violation]:
    for focus, own in values.items():
        others = set(validator.data.graph.objects(focus, constraint.node))
        for value in others.symmetric_difference(own):
            yield Violation(focus, value)


def _disjoint(
    validator: Validator, _: Shape, constraint: Constraint, values: Values
) -> Iterator[Violation]:
    for focus, own in values.items():
        for value in validator.data.graph.objects(focus, constraint.node):
            if value in own:
                yield Violation(focus, value)


def _less_than(
    validator: Validator, _: Shape, constraint: Constraint, values: Values
) -> Iterator[Violation]:
    """A violation for each pair of values that are not in order, or cannot be compared."""
    for focus, own in values.items():
        others = list(validator.data.graph.objects(focus, constraint.node)) if own else []
        for value, other in product(own, others):
            if not ordered(constraint.name, value, other):
                yield Violation(focus, value)


def _unique_lang(_: Validator, __: Shape, ___: Constraint, values: Values) -> Iterator[Violation]:
    for focus, own in values.items():
        languages = [
            value.language.lower() for value in own if isinstance(value, Literal) and value.language
        ]
        for language in set(languages):
            if languages.count(language) > 1:
                yield Violation(focus)


def _closed(
    validator: Validator, shape: Shape, constraint: Constraint, values: Values
) -> Iterator[Violation]:
    graph = validator.shapes.graph
    allowed = set(constraint.values)
    for inner in graph.objects(shape.node, SH.property):
        allowed.update(graph.objects(inner, SH.path))
    for focus, own in values.items():
        for value in own:
            if isinstance(value, Literal):
                continue
            for predicate, other in validator.data.graph.predicate_objects(value):
                if predicate not in allowed:
                    yield Violation(focus, other, Step(URIRef(str(predicate))))


def _node(
    validator: Validator, _: Shape, constraint: Constraint, values: Values
) -> list[Violation]:
    failing = validator.failing(constraint.node, _all_values(values))
    return _each(lambda value: value not in failing, values) if failing else []


def _not(validator: Validator, _: Shape, constraint: Constraint, values: Values) -> list[Violation]:
    failing = validator.failing(constraint.node, _all_values(values))
    return _each(failing.__contains__, values)


def _logical(
    validator: Validator, _: Shape, constraint: Constraint, values: Values
) -> list[Violation]:
    """`sh:and`, `sh:or` and `sh:xone`, by the number of shapes to which a value conforms."""
    nodes = _all_values(values)
    conforming = dict.fromkeys(nodes, 0)
    open_ = set(nodes)
    for shape in constraint.values:
        failing = validator.failing(shape, open_)
        for node in open_ - failing:
            conforming[node] += 1
        # Whoever is decided need not be asked again.
        open_ = (
            failing
            if constraint.name == "or"
            else open_ - (failing if constraint.name == "and" else set())
        )
    wanted: dict[str, Callable[[int], bool]] = {
        "and": lambda count: count == len(constraint.values),
        "or": lambda count: count > 0,
        "xone": lambda count: count == 1,
    }
    test = wanted[constraint.name]
    return _each(lambda value: test(conforming[value]), values)


def _qualified(
    validator: Validator, shape: Shape, constraint: Constraint, values: Values
) -> Iterator[Violation]:
    (inner,) = constraint.values
    nodes = _all_values(values)
    good = set(nodes) - validator.failing(inner, nodes)
    if constraint.disjoint:
        for sibling in _siblings(validator.shapes.graph, shape.node, inner):
            good &= validator.failing(sibling, good)
    least = constraint.name == "qualifiedMinCount"
    for focus, own in values.items():
        count = sum(value in good for value in own)
        if count < constraint.count if least else count > constraint.count:
            yield Violation(focus)


def _siblings(graph: Graph, shape: Node, own: Node) -> list[Node]:
    """The sibling shapes of a qualified value shape (section 4.7.3)."""
    found = {
        other
        for parent in graph.subjects(SH.property, shape)
        for property_shape in graph.objects(parent, SH.property)
        for other in graph.objects(property_shape, SH.qualifiedValueShape)
    }
    return sorted(found - {own}, key=str)


def _sparql(
    validator: Validator, shape: Shape, constraint: Constraint, values: Values
) -> Iterable[Violation]:
    query = asked(validator.shapes, shape, constraint)
    if query is None or query.form != "select":
        raise Undecidable("a SPARQL constraint has no sh:select")
    query.check_prebinding()
    return _by_select(validator, shape, query.written(), values, {})


def _custom(
    validator: Validator, shape: Shape, constraint: Constraint, values: Values
) -> Iterable[Violation]:
    query = asked(validator.shapes, shape, constraint)
    if query is None:
        raise Undecidable(f"{constraint.name} has no validator for this kind of shape")
    query.check_prebinding()
    if query.form == "select":
        return _by_select(validator, shape, query.written(), values, query.parameters)
    return _by_ask(validator, shape, query, values)


def _by_select(
    validator: Validator, shape: Shape, text: str, values: Values, parameters: Mapping[str, Node]
) -> Iterator[Violation]:
    """A violation for each distinct solution."""
    seen: set[tuple[Node, frozenset[tuple[str, Node]]]] = set()
    for focus, stored in validator.solutions(text, shape, values):
        solution = {name: validator.as_written(focus, term) for name, term in stored.items()}
        if solution.get("failure") == Literal(True):  # section 5.3.2
            raise Undecidable(f"the query of {shape.name} reports a failure")
        key = (focus, frozenset(solution.items()))
        if key in seen:
            continue
        seen.add(key)
        value = solution.get("value", None if shape.path is not None else focus)
        path = solution.get("path")
        step = Step(path) if isinstance(path, URIRef) else None
        yield Violation(focus, value, step, {**parameters, **solution})


def _by_ask(
    validator: Validator, shape: Shape, query: Asked, values: Values
) -> Iterator[Violation]:
    """A violation for each value of which the query is false."""
    # The values of which ASK is true are the solutions of a SELECT.
    text = query.written()
    start = next(word for word in tokens(text) if word.text.upper() == "ASK")
    text = f"{text[: start.start]}SELECT DISTINCT $value {text[start.end :]}"
    if shape.path is None:
        text = with_variable_as(text, "this", "$value")
    names_focus = any(word.kind == "variable" and word.text == "this" for word in tokens(text))
    known: set[Node] = set()
    if not names_focus:
        known = {
            value for value, _ in validator.solutions(text, shape, _all_values(values), "value")
        }
    for focus, own in values.items():
        if names_focus:
            about = with_constant(text, "this", focus)
            known = {value for value, _ in validator.solutions(about, shape, own, "value")}
        for value in own:
            if value not in known:
                yield Violation(focus, value, None, query.parameters)


def _expression(
    validator: Validator, _: Shape, constraint: Constraint, values: Values
) -> list[Violation]:
    """SHACL-AF 2017, section 5.9: the expression must have the single value `true`."""
    true = {Literal(True)}
    return _each(lambda value: validator.values(constraint.node, value) == true, values)


def _script(_: Validator, __: Shape, ___: Constraint, ____: Values) -> list[Violation]:
    """`sh:js`: fedkg runs no scripts."""
    return []


COMPONENTS: Mapping[str, Component] = {
    **dict.fromkeys(VALUE_TESTS, _by_value),
    **dict.fromkeys(("minCount", "maxCount"), _count),
    **dict.fromkeys(("lessThan", "lessThanOrEquals"), _less_than),
    **dict.fromkeys(("and", "or", "xone"), _logical),
    **dict.fromkeys(("qualifiedMinCount", "qualifiedMaxCount"), _qualified),
    "class": _class,
    "hasValue": _has_value,
    "equals": _equals,
    "disjoint": _disjoint,
    "uniqueLang": _unique_lang,
    "closed": _closed,
    "node": _node,
    "not": _not,
    "sparql": _sparql,
    "expression": _expression,
    "js": _script,
}
"""The components by their parameters; `sh:property` stands for the results of another shape."""


def _all_values(values: Values) -> list[Node]:
    """The distinct value nodes of all focus nodes."""
    return list(dict.fromkeys(value for own in values.values() for value in own))


_MESSAGES = {
    "class": "the value is not a member of {argument}",
    "datatype": "the value is not a literal of the datatype {argument}",
    "nodeKind": "the value is not of the kind {argument}",
    "minCount": "there are fewer than {argument} values",
    "maxCount": "there are more than {argument} values",
    "minInclusive": "the value is not at least {argument}",
    "minExclusive": "the value is not above {argument}",
    "maxInclusive": "the value is not at most {argument}",
    "maxExclusive": "the value is not below {argument}",
    "minLength": "the text has fewer than {argument} characters",
    "maxLength": "the text has more than {argument} characters",
    "pattern": "the text does not match the pattern {argument}",
    "languageIn": "the language of the value is not one of {argument}",
    "uniqueLang": "several values have the same language",
    "equals": "the values are not those of {argument}",
    "disjoint": "the value is also a value of {argument}",
    "lessThan": "the value is not less than each value of {argument}",
    "lessThanOrEquals": "the value is not at most each value of {argument}",
    "not": "the value conforms to {argument}",
    "and": "the value does not conform to each of {argument}",
    "or": "the value conforms to none of {argument}",
    "xone": "the value does not conform to exactly one of {argument}",
    "node": "the value does not conform to {argument}",
    "qualifiedMinCount": "there are fewer than {argument} values that conform to the shape",
    "qualifiedMaxCount": "there are more than {argument} values that conform to the shape",
    "closed": "the property is not allowed here",
    "hasValue": "{argument} is not among the values",
    "in": "the value is not one of {argument}",
    "sparql": "the query finds a violation",
    "expression": "the expression is not true",
}
"""The messages of components without `sh:message`, in the shape or in the query."""


def default_message(constraint: Constraint) -> str:
    """The message of a result if neither the shape nor the query has one."""
    arguments = constraint.values
    if constraint.name.startswith("qualified"):
        arguments = (constraint.node,)
    message = _MESSAGES.get(constraint.name, "the value does not conform to the component")
    return message.format(argument=", ".join(map(_shown, arguments)))


def _shown(term: Node) -> str:
    """A term in a message: numbers and dates without quotes, and texts without datatype."""
    if isinstance(term, BNode):
        return "a shape without a name"
    if isinstance(term, Literal) and term.datatype is not None:
        return Literal(str(term)).n3() if term.datatype == XSD.string else str(term)
    return term.n3()
