"""Runs pySHACL on the closed graph for the components that depend on static facts alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyoxigraph as ox
from rdflib import OWL, RDF, BNode, Graph, Literal, URIRef
from rdflib.plugins.sparql import prepareQuery
from rdflib.plugins.sparql.sparql import Query
from rdflib.query import Result as QueryResult
from rdflib.term import Node
from typing_extensions import override

from fedkg._internal.forked_worker import Crashed, run_apart
from fedkg.errors import LimitError
from fedkg_compiler.frontends.shacl.bounded_regex import bounded_pyshacl
from fedkg_compiler.frontends.shacl.data_graph import behind_rdflib
from fedkg_compiler.frontends.shacl.focus_queries import select, triple_to_store, with_constant
from fedkg_compiler.frontends.shacl.model import Constraint, Shape, ShapesFile
from fedkg_compiler.frontends.shacl.read import SH, read_path
from fedkg_compiler.frontends.shacl.validation_report import (
    Result,
    fill_message,
    path_sparql,
    sorted_results,
)
from fedkg_compiler.graph.select_results import asks_service
from fedkg_compiler.graph.standard_vocabularies import FKG

_SKOLEM = "urn:fedkg:shape:"
MOST_NESTED = 15
"""Shapes inside shapes that pySHACL follows; its own default."""
_BESIDE = {"closed": ("ignoredProperties",), "pattern": ("flags",)}
"""Parameters without meaning if their component is absent."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of validation; `value` and `path` are None if it has none."""

    shape: Node
    component: str
    focus: Node
    path: Node | None
    value: Node | None
    message: str


class _Still(Graph):
    """A view of the store that counts its size once: pySHACL asks for it with every result.

    Args:
        queried: the same triples in a store with a faster query engine; default: those of `data`.
    """

    def __init__(
        self, data: Graph, prefixes: Mapping[str, str], queried: Graph | None = None
    ) -> None:
        super().__init__(store=data.store, identifier=data.identifier)
        self._ask = super().query if queried is None else queried.query
        self.known = {**prefixes, **{prefix: str(iri) for prefix, iri in data.namespaces()}}
        self._size = len(data)
        self._prepared: dict[str, Query] = {}

    @override
    def __len__(self) -> int:
        return self._size

    @override
    def query(
        self,
        query_object: Any,
        processor: Any = "sparql",
        result: Any = "sparql",
        initNs: Any = None,
        initBindings: Any = None,
        use_store_provided: bool = True,
        **options: Any,
    ) -> QueryResult:  # Any, and names: those of rdflib, passed on
        """The solutions with some variables bound beforehand, as SHACL has it (appendix A).

        The store's engine does it at the end of the outermost group alone, and not for variables
        that the query does not have: it is asked where that makes no difference, and rdflib's
        engine, which is much slower, elsewhere.
        """
        text, bound = str(query_object), initBindings or {}
        if asks_service(text):
            raise ValueError("SERVICE asks another server, and fedkg contacts none for a query")
        initNs = initNs or self.known  # noqa: N806  rdflib's name
        flat = text.count("{") == 1 and re.search(r"\bAS\b", text, re.IGNORECASE) is None
        if not bound or flat:
            try:
                return self._ask(
                    query_object, processor, result, initNs, bound, use_store_provided, **options
                )
            except RuntimeError:  # it has no such variable in its patterns
                pass
        if text not in self._prepared:
            self._prepared[text] = prepareQuery(text, initNs=initNs)
        return super().query(
            self._prepared[text],
            processor,
            result,
            initNs,
            bound,
            use_store_provided=False,
            **options,
        )


class NotDecided(Exception):
    """pySHACL cannot validate with these shapes.

    The sentence is its own, `shape` the first one that it names, None for none.
    """

    def __init__(self, sentence: str, names: Mapping[BNode, URIRef], shapes: ShapesFile) -> None:
        self.shape: Shape | None = None
        for node, name in names.items():
            pattern = re.compile(rf"{re.escape(name)}(?!\d)")
            if pattern.search(sentence):
                self.shape = self.shape or shapes.shapes[node]
                sentence = pattern.sub(self.shape.name or "a shape", sentence)
        super().__init__(sentence)


class Engine:
    """pySHACL on a graph that may change between questions.

    Use it in a `with` statement.

    Args:
        shapes: the shapes graph; this changes it. data: the data graph. store: the same triples,
            for queries; the shapes graph may be added as a named graph. prefixes: those of queries
            that do not state them.

    Raises:
        Undecidable: pySHACL rejects the shapes. All methods raise it.
    """

    def __init__(
        self, shapes: Graph, data: Graph, store: ox.Store, prefixes: Mapping[str, str]
    ) -> None:
        self._shapes, self._store = shapes, store
        self._data = _Still(data, prefixes, behind_rdflib(store))
        self._open = ExitStack()

    def __enter__(self) -> Engine:
        from pyshacl.constraints.constraint_component import ConstraintComponent
        from pyshacl.constraints.sparql.sparql_based_constraints import SPARQLBasedConstraint
        from pyshacl.functions import apply_functions, gather_functions, unapply_functions
        from pyshacl.graph_abstraction import DataGraph
        from pyshacl.pytypes import SHACLExecutor
        from pyshacl.shapes_graph import ShapesGraph
        from pyshacl.target import apply_target_types, gather_target_types

        self._open.enter_context(bounded_pyshacl())
        self._replace(ConstraintComponent, "make_v_result", self._make_result)
        self._one_by_one: Callable[..., Any] = SPARQLBasedConstraint._evaluate_sparql_constraint
        self._replace(SPARQLBasedConstraint, "_evaluate_sparql_constraint", self._violations)
        self._graph = DataGraph.from_rdflib(self._data)
        self._executor = SHACLExecutor(advanced_mode=True, max_validation_depth=MOST_NESTED)
        with _rejections():
            _prepare(self._shapes)
            if any("shapesGraph" in str(text) for text in self._shapes.objects(None, SH.select)):
                self._store.extend(
                    triple_to_store(triple, ox.NamedNode(SHAPES)) for triple in self._shapes
                )
            self._known = ShapesGraph(self._shapes)
            for shape in self._known.shapes:
                shape.set_advanced(True)
            functions = gather_functions(self._executor, self._known)
            apply_target_types(gather_target_types(self._known))
            apply_functions(self._executor, functions, self._graph)
            self._open.callback(unapply_functions, functions, self._graph)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def results(self, shape: Node, focus_nodes: Sequence[Node]) -> list[Result]:
        """Validate focus nodes against a shape, whether or not they are its targets."""
        if not focus_nodes:
            return []
        with _rejections():
            known = self._known.lookup_shape_from_node(shape)
            nodes: list[Any] = list(focus_nodes)
            _, found = known.validate(self._executor, self._graph, focus=nodes)
            return [_with_details(node, triples) for _, node, triples in found]

    def conforming(self, shape: Node, focus_nodes: Sequence[Node]) -> list[Node]:
        """The focus nodes that conform to a shape."""
        violating = {result.focus for result in self.results(shape, focus_nodes)}
        return [node for node in focus_nodes if node not in violating]

    def values(self, expression: Node, focus: Node) -> set[Node]:
        """The values of a node expression (W3C SHACL-AF 2017, section 5)."""
        from pyshacl.helper.expression_helper import nodes_from_node_expression

        with _rejections():
            found: Any = nodes_from_node_expression(expression, focus, self._graph, self._known)
            return set(found)

    def _replace(self, owner: Any, name: str, method: Callable[..., Any]) -> None:
        """Replace a method of pySHACL until this engine is closed."""
        self._open.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, lambda *arguments, **named: method(*arguments, **named))

    def _violations(
        self, component: Any, helper: Any, graph: Any, values: Mapping[Node, Any]
    ) -> tuple[bool, list[Any]]:
        """Ask a SPARQL constraint for all its focus nodes at once.

        pySHACL asks for one after the other, most of them with the query engine of rdflib, which
        takes nearly all the time on real models. It still does where the store cannot evaluate
        the query.
        """
        nodes = list(values)
        text = helper.select_text
        try:
            shape = component.shape.node
            helper.select_text = with_constant(text, "shapesGraph", SHAPES)
            if isinstance(shape, URIRef):
                helper.select_text = with_constant(helper.select_text, "currentShape", shape)
            _, query = helper.pre_bind_variables(nodes[0])
            if asks_service(query):
                raise Undecidable(
                    "SERVICE asks another server, and fedkg contacts none for a query"
                )
            query = helper.apply_prefixes(query)
            found = select(self._store, query, nodes, self._data.known)
        except (SyntaxError, ValueError, RuntimeError, OSError):
            helper.select_text = text
            violated, found_one_by_one = self._one_by_one(component, helper, graph, values)
            return violated, found_one_by_one
        finally:
            helper.select_text = text
        results: dict[Any, Any] = {}
        for focus, stored in found:
            solution = {name: self._as_written(focus, term) for name, term in stored.items()}
            value = solution.get("value", None if component.shape.is_property_shape else focus)
            key = (focus, tuple(sorted(solution.items())))
            if key not in results:
                results[key] = component.make_v_result(
                    graph,
                    focus,
                    value_node=value,
                    result_path=solution.get("path"),
                    source_constraint=helper.node,
                    bound_vars=solution,
                )
        return bool(results), list(results.values())

    def _as_written(self, focus: Node, term: Node) -> Node:
        """A literal as the data has it: the store writes ``12.50`` as ``12.5``."""
        if not isinstance(term, Literal) or term.datatype is None:
            return term
        return next(
            (
                value
                for value in self._data.objects(focus)
                if isinstance(value, Literal)
                and value.datatype == term.datatype
                and value.value is not None
                and value.value == term.value
            ),
            term,
        )

    def _make_result(
        self,
        component: Any,
        datagraph: Any,
        focus_node: Node,
        value_node: Node | None = None,
        result_path: Node | None = None,
        constraint_component: Node | None = None,
        source_constraint: Node | None = None,
        extra_messages: Any = None,
        bound_vars: Any = None,
    ) -> tuple[str, Node, list[tuple[Node, Node, Any]]]:
        """Make a result in place of `ConstraintComponent.make_v_result`.

        pySHACL would write each result as triples and as text, which takes most of its time, and
        mixes the messages of a constraint with those of its shape. The names are those of pySHACL.
        """
        shape = component.shape
        path = result_path
        if path is None and shape.is_property_shape:
            path = shape.path()
        read = None if path is None else read_path(self._shapes, path)
        values: dict[str, Node | None] = {"this": focus_node, "value": value_node}
        messages: list[Literal] = []
        query = getattr(component, "query_helper", None)
        if query is not None:  # a custom component
            values = {**query.param_bind_map, **values}
            messages = list(component.validator.messages) or list(component.constraint.messages)
        elif bound_vars is not None:
            solution = bound_vars if isinstance(bound_vars, dict) else dict(*bound_vars[3:4])
            values = {**solution, **values}
            messages = [solution["message"]] if "message" in solution else []
        if source_constraint is not None and not messages:
            stated = self._shapes.objects(source_constraint, SH.message)
            messages = [Literal(message) for message in stated]
        messages = messages or list(shape.message)
        if not messages:
            messages = component.make_generic_messages(datagraph, focus_node, value_node)
        texts = {name: _text(value) for name, value in values.items() if value is not None}
        if read is not None:
            texts["path"] = texts["PATH"] = path_sparql(read).strip("<>")
        filled = {
            fill_message(self._shapes, shape.node, Literal(message), texts) for message in messages
        }
        result = Result(
            focus=focus_node,
            value=value_node,
            path=read,
            severity=URIRef(str(shape.severity)),
            component=URIRef(str(constraint_component or component.shacl_constraint_component)),
            shape=shape.node,
            constraint=source_constraint,
            messages=tuple(sorted(filled)),
        )
        node = BNode()
        return "", node, [(node, _RESULT, result)]


SHAPES = URIRef("urn:fedkg:shapes")
"""The named graph that `$shapesGraph` means in queries."""
_RESULT = URIRef("urn:fedkg:result")
"""Stands for a predicate where a result passes through pySHACL as the only triple of a node."""


def _text(value: Node) -> str:
    """A term inside a message."""
    return f"_:{value}" if isinstance(value, BNode) else str(value)


def _with_details(node: Node, triples: Iterable[tuple[Node, Node, Any]]) -> Result:
    """The result of a node with those that explain it; pySHACL puts all of them into one list."""
    results: dict[Node, Result] = {}
    inner: dict[Node, list[Node]] = {}
    for subject, predicate, value in triples:
        if predicate == _RESULT:
            results[subject] = value
        elif predicate == SH.detail:
            inner.setdefault(subject, []).append(value)

    def build(at: Node) -> Result:
        details = tuple(build(child) for child in inner.get(at, ()) if child in results)
        return replace(results[at], details=sorted_results(details)) if details else results[at]

    return build(node)


class Undecidable(Exception):
    """pySHACL cannot evaluate the shapes; the text is its own."""


@contextmanager
def _rejections() -> Iterator[None]:
    """Turn the exceptions of pySHACL, and those of rdflib inside it, into `Undecidable`."""
    try:
        yield
    except (MemoryError, Undecidable, LimitError):
        raise
    except Exception as error:  # rdflib raises `Exception`, pySHACL any error
        sentence = str(getattr(error, "message", error)).strip().split("\n")[0]
        raise Undecidable(sentence or type(error).__name__) from error


def _prepare(shapes: Graph) -> None:
    """Change a shapes graph so that pySHACL reads it as the recommendation does."""
    # pySHACL does not follow the imports of `sh:prefixes`.
    for node in set(shapes.objects(None, SH.prefixes)):
        for place in set(shapes.transitive_objects(node, OWL.imports)) - {node}:
            for declaration in list(shapes.objects(place, SH.declare)):
                shapes.add((node, SH.declare, declaration))
    # pySHACL does not take the condition of a rule for a shape unless something else says so.
    for condition in set(shapes.objects(None, SH.condition)):
        if (condition, SH.path, None) not in shapes and (condition, RDF.first, None) not in shapes:
            shapes.add((condition, RDF.type, SH.NodeShape))
    # Section 4.4.5: only the literal `true` switches `sh:uniqueLang` on, not "1"^^xsd:boolean.
    for node, value in list(shapes.subject_objects(SH.uniqueLang)):
        if str(value) != "true":
            shapes.remove((node, SH.uniqueLang, value))


def component_iri(constraint: Constraint) -> str:
    """The name of a constraint's component in validation results, without namespace."""
    if constraint.custom:
        return constraint.name
    if constraint.name == "sparql":
        return "SPARQLConstraintComponent"
    return f"{constraint.name[0].upper()}{constraint.name[1:]}ConstraintComponent"


def decide(
    shapes: ShapesFile,
    left_out: Iterable[tuple[Shape, Constraint]],
    skipped: Iterable[Node],
    narrowed: Mapping[Node, Iterable[Node]],
    data: Graph,
    prefixes: Mapping[str, str],
) -> list[Finding]:
    """The violations in the graph.

    Args:
        shapes: the shapes of one file.
        left_out: the components that are decided elsewhere.
        skipped: targeted shapes without remaining components; their targets are dropped.
        narrowed: the focus nodes of each shape whose own targets would also find nodes of
            vocabularies.
        data: the graph that is validated.
        prefixes: prefixes for queries that do not declare them, with their namespaces.

    Raises:
        NotDecided: pySHACL refuses the shapes.
    """
    names = {
        node: URIRef(f"{_SKOLEM}{i}")
        for i, node in enumerate(shapes.shapes)
        if isinstance(node, BNode)
    }
    back = {name: node for node, name in names.items()}
    graph = _without(shapes, left_out, {*skipped, *narrowed}, names)
    for shape, nodes in narrowed.items():
        for node in nodes:
            graph.add((_name(shape, names), SH.targetNode, node))
    try:
        found = run_apart(
            lambda: _validated(graph, _Still(data, prefixes), back),
            "the validation of the shapes",
            name="seconds",
        )
    except Crashed as error:
        raise NotDecided(str(error), names, shapes) from error
    if isinstance(found, str):
        raise NotDecided(found, names, shapes)
    return sorted(
        found,
        key=lambda item: tuple(
            str(part) for part in (item.focus, item.component, item.value, item.message)
        ),
    )


def _validated(shapes: Graph, data: _Still, back: Mapping[URIRef, Node]) -> list[Finding] | str:
    """What pySHACL finds, or why it does not take the shapes.

    Args:
        back: the blank shapes by the names that they have here.
    """
    from pyshacl import validate
    from pyshacl.errors import (
        ConstraintLoadError,
        ReportableRuntimeError,
        RuleLoadError,
        ShapeLoadError,
        ValidationFailure,
    )

    try:
        with bounded_pyshacl():
            _, report, _ = validate(
                data,
                shacl_graph=shapes,
                inference="none",
                advanced=True,
                inplace=True,
                meta_shacl=False,
            )
    except (
        ConstraintLoadError,
        ReportableRuntimeError,
        RuleLoadError,
        ShapeLoadError,
        ValidationFailure,
    ) as error:
        return str(getattr(error, "message", error)).strip().split("\n")[0]
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  rdflib raises `Exception`, pySHACL any error
        return f"{type(error).__name__}: {error}".strip().split("\n")[0]
    if not isinstance(report, Graph):
        return str(getattr(report, "message", report)).strip().split("\n")[0]
    return list(_findings(report, back))


def _without(
    shapes: ShapesFile,
    left_out: Iterable[tuple[Shape, Constraint]],
    skipped: Iterable[Node],
    names: Mapping[BNode, URIRef],
) -> Graph:
    """The shapes graph without those components, blank shapes named, so that results tell which
    shape they are of.
    """
    graph = Graph()
    gone: set[tuple[Node, Node, Node | None]] = set()
    for shape, constraint in left_out:
        gone.add((shape.node, constraint.predicate, constraint.node))
        gone |= {(shape.node, SH[name], None) for name in _BESIDE.get(constraint.name, ())}
    untargeted = set(skipped)
    targets = {
        SH[name]
        for name in ("targetClass", "targetNode", "targetSubjectsOf", "targetObjectsOf", "target")
    }
    for triple in shapes.graph:
        s, p, o = triple
        if (
            triple in gone
            or (s, p, None) in gone
            or p == SH.rule
            or (s in untargeted and p in targets)
        ):
            continue
        if s in untargeted and p == RDF.type and not str(o).startswith(str(SH)):
            continue  # a shape that is its own class would be a target again
        graph.add((_name(s, names), p, _name(o, names)))
        if (
            p == SH.prefixes
        ):  # pySHACL does not follow owl:imports, as the declarations are to be found
            for place in shapes.graph.transitive_objects(o, OWL.imports):
                for declaration in shapes.graph.objects(place, SH.declare):
                    graph.add((_name(o, names), SH.declare, _name(declaration, names)))
    for prefix, namespace in shapes.graph.namespaces():
        graph.bind(prefix, namespace)
    return graph


def _name(node: Node, names: Mapping[BNode, URIRef]) -> Node:
    return names.get(node, node) if isinstance(node, BNode) else node


def _findings(report: Graph, back: Mapping[URIRef, Node]) -> Iterable[Finding]:
    top = set(report.objects(None, SH.result))
    for result in top:
        shape, component = (
            report.value(result, SH.sourceShape),
            report.value(result, SH.sourceConstraintComponent),
        )
        focus = report.value(result, SH.focusNode)
        if shape is None or component is None or focus is None:
            continue
        if component == SH.ClosedConstraintComponent and str(
            report.value(result, SH.resultPath)
        ).startswith(FKG):
            continue  # the column of a node is not a statement about the node
        yield Finding(
            shape=back.get(shape, shape) if isinstance(shape, URIRef) else shape,
            component=str(component).rsplit("#", 1)[-1].rsplit("/", 1)[-1],
            focus=focus,
            path=report.value(result, SH.resultPath),
            value=report.value(result, SH.value),
            message=str(report.value(result, SH.resultMessage) or ""),
        )
