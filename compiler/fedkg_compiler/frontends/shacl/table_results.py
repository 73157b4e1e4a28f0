"""Results of shapes on tables: what each violated rule says as a validation result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from rdflib import XSD, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import Pack
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SH,
    Constraint,
    IndexedGraph,
    Shape,
    ShapesFile,
    said_of,
)
from fedkg_compiler.frontends.shacl.validation_report import (
    Place,
    Report,
    Result,
    fill_message,
    path_sparql,
    sorted_results,
)
from fedkg_compiler.frontends.shacl.validator import component_name

_WITHOUT_VALUE = frozenset(
    {"minCount", "maxCount", "uniqueLang", "hasValue", "qualifiedMinCount", "qualifiedMaxCount"}
)
"""Components with results about all values of a path together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowViolation:
    """A bound row of a rule that a table row violates.

    Attributes:
        rule: the name of the rule. entity: what the bound row is about, "" for the table row.
        row: the table row, from 0. line: its line in the file, if known.
        value: the value of the only column that the rule reads; None if it reads several.
    """

    rule: str
    entity: str
    row: int
    line: int | None
    value: float | str | None


@dataclass(frozen=True, slots=True)
class Component:
    """A constraint component that became a rule."""

    shapes: ShapesFile
    shape: Shape
    constraint: Constraint
    nodes: dict[str, Node]
    """The focus nodes by their names in the pack."""
    of_rows: bool
    """Whether every row of the table is a focus node too."""


@dataclass(slots=True)
class ShapeResults:
    """What a compilation notes for a validation.

    Attributes:
        components: by the name of the rule. results: of components that the graph alone decides.
        files: the shapes files that were bound.
    """

    components: dict[str, Component] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    files: list[ShapesFile] = field(default_factory=list)

    def add(self, component: Component, focus: Node, value: Node | None, found: str = "") -> None:
        """Note a result that the graph alone decides; `found`: its message."""
        self.results.append(_result(component, focus, value, found))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledShapes:
    """Shapes as rules on a table.

    Attributes:
        pack: the rules; None if the diagnostics have an error.
    """

    pack: Pack | None
    noted: ShapeResults
    diagnostics: tuple[Diagnostic, ...]

    def report(self, table: str, rows: int, violations: Sequence[RowViolation]) -> Report:
        """The report on a table with this name and number of rows."""
        results = list(self.noted.results)
        for violation in violations:
            component = self.noted.components.get(violation.rule)
            if component is not None:
                results.append(_on_row(component, table, violation))
        places = {
            node: Place(file=file.name, line=line)
            for file in self.noted.files
            for node, line in file.lines.items()
        }
        graph = IndexedGraph()
        for file in self.noted.files:
            graph.add_all(file.graph)
        files = self.noted.files
        shapes = replace(
            files[0],
            graph=graph,
            shapes={node: shape for file in files for node, shape in file.shapes.items()},
        )
        nodes = {
            node
            for component in self.noted.components.values()
            for node in component.nodes.values()
        }
        of_rows = any(component.of_rows for component in self.noted.components.values())
        return Report(
            results=sorted_results(list(dict.fromkeys(results))),
            shapes=shapes,
            place=places.get,
            focus_nodes=len(nodes) + (rows if of_rows else 0),
            prefixes={prefix: iri for file in files for prefix, iri in file.prefixes.items()},
        )


def row_iri(table: str, violation: RowViolation) -> URIRef:
    """The IRI of a table row: a fragment of the table's file (RFC 7111, section 2)."""
    number = violation.row + 2 if violation.line is None else violation.line
    return URIRef(f"file:///{quote(Path(table).name)}#row={number}")


def _on_row(component: Component, table: str, violation: RowViolation) -> Result:
    row = row_iri(table, violation)
    value: Node | None = None
    if violation.value is not None and component.constraint.name not in _WITHOUT_VALUE:
        value = (
            Literal(violation.value)
            if isinstance(violation.value, str)
            else Literal(violation.value, datatype=XSD.double)
        )
    return _result(component, component.nodes.get(violation.entity, row), value, "")


def _result(component: Component, focus: Node, value: Node | None, found: str) -> Result:
    shape, constraint, graph = component.shape, component.constraint, component.shapes.graph
    query = constraint.node if constraint.name == "sparql" else None
    messages = [
        message
        for node in (query, shape.node)
        if node is not None
        for message in graph.objects(node, SH.message)
    ]
    if query is not None and (own := list(graph.objects(query, SH.message))):
        messages = own
    if not messages:
        said = said_of(constraint)
        messages = [Literal(found or f"sh:{constraint.name}{f' {said}' if said else ''}")]
    texts = {"this": str(focus)}
    if value is not None:
        texts["value"] = str(value)
    if shape.path is not None:
        texts["path"] = texts["PATH"] = path_sparql(shape.path).strip("<>")
    iri = component_name(constraint)
    return Result(
        focus=focus,
        value=value,
        path=shape.path,
        severity=SH[shape.severity.capitalize()],
        component=SH[iri] if constraint.component is None else URIRef(str(constraint.component)),
        shape=shape.node,
        constraint=query,
        messages=tuple(
            sorted({fill_message(graph, shape.node, Literal(text), texts) for text in messages})
        ),
    )
