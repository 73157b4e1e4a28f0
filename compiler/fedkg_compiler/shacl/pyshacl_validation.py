"""Runs pySHACL on the closed graph for the components that depend on static facts alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rdflib import OWL, RDF, BNode, Graph, URIRef
from rdflib.plugins.sparql import prepareQuery
from rdflib.plugins.sparql.sparql import Query
from rdflib.query import Result
from rdflib.term import Node
from typing_extensions import override

from fedkg._internal.forked_worker import Crashed, run_apart
from fedkg_compiler.ontology.select_results import asks_service
from fedkg_compiler.ontology.standard_vocabularies import FKG
from fedkg_compiler.shacl.bounded_regex import bounded_pyshacl
from fedkg_compiler.shacl.model import Constraint, Shape, ShapesFile
from fedkg_compiler.shacl.read import SH

_SKOLEM = "urn:fedkg:shape:"
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
    """A view of the store that counts its size once: pySHACL asks for it with every result."""

    def __init__(self, data: Graph, prefixes: Mapping[str, str]) -> None:
        super().__init__(store=data.store, identifier=data.identifier)
        self._known = {**prefixes, **{prefix: str(iri) for prefix, iri in data.namespaces()}}
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
    ) -> Result:  # Any, and names: those of rdflib, passed on
        """The solutions with some variables bound beforehand, as SHACL has it (appendix A).

        The store's engine does it at the end of the outermost group alone, and not for variables
        that the query does not have: it is asked where that makes no difference, and rdflib's
        engine, which is much slower, elsewhere.
        """
        text, bound = str(query_object), initBindings or {}
        if asks_service(text):
            raise ValueError("SERVICE asks another server, and fedkg contacts none for a query")
        initNs = initNs or self._known  # noqa: N806  rdflib's name
        flat = text.count("{") == 1 and re.search(r"\bAS\b", text, re.IGNORECASE) is None
        if not bound or flat:
            try:
                return super().query(
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
