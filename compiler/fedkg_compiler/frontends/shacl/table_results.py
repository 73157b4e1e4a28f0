"""Results of shapes on tables: what each violated rule says as a validation result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from rdflib import XSD, Literal, URIRef
from rdflib.term import Node

from fedkg.pack import Pack
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.frontends.shacl.constraint_queries import asked
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    PAIRS,
    SH,
    Constraint,
    IndexedGraph,
    Shape,
    ShapesFile,
)
from fedkg_compiler.frontends.shacl.static_value_checks import ordered
from fedkg_compiler.frontends.shacl.validation_report import (
    Place,
    Report,
    Result,
    fill_message,
    message_values,
    sorted_results,
)
from fedkg_compiler.frontends.shacl.validator import component_name, default_message
from fedkg_compiler.graph.sparql_syntax.tokens import tokens

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
        cells: the values of the columns that the rule reads, by header; None for an empty cell.
    """

    rule: str
    entity: str
    row: int
    line: int | None
    cells: Mapping[str, float | str | None]


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a column that has the value nodes."""

    text: str


@dataclass(frozen=True, slots=True)
class Component:
    """A constraint component that became a rule."""

    shapes: ShapesFile
    shape: Shape
    constraint: Constraint
    nodes: dict[str, Node]
    """The focus nodes by their names in the pack."""
    values: dict[str, tuple[Node | Header, ...]] = field(default_factory=dict)
    """The value nodes, by the names of the focus nodes; of node shapes, those in columns."""
    others: dict[str, tuple[Node | Header, ...]] = field(default_factory=dict)
    """The values of the property that the component compares them with."""


@dataclass(slots=True)
class ShapeResults:
    """What a compilation notes for a validation.

    Attributes:
        components: by the name of the rule. results: of components that the graph alone decides.
        violated: of components that every row violates, each with the constraint.
        nodes: the focus nodes in the graph. of_rows: whether every row of the table is one too.
        files: the shapes files that were bound.
    """

    components: dict[str, Component] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    violated: list[tuple[Constraint, Result]] = field(default_factory=list)
    nodes: set[Node] = field(default_factory=set)
    of_rows: bool = False
    files: list[ShapesFile] = field(default_factory=list)

    def add(self, component: Component, focus: Node) -> None:
        """Note that a focus node violates a component whatever its rows contain."""
        name = next((name for name, node in component.nodes.items() if node == focus), "")
        self.violated += _results(component, focus, name, {})


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
        results = list(self.noted.violated)
        for violation in violations:
            component = self.noted.components.get(violation.rule)
            if component is not None:
                focus = component.nodes.get(violation.entity, row_iri(table, violation))
                results += _results(component, focus, violation.entity, violation.cells)
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
        unchecked = 0
        if self.pack is not None:
            unchecked = sum(part.where == "refused" for part in self.pack.manifest.placements)
        # Several rows, or several parts of a rule, may say the same about one constraint.
        distinct = [result for _, result in dict.fromkeys(results)]
        return Report(
            results=sorted_results([*self.noted.results, *distinct]),
            shapes=shapes,
            place=places.get,
            focus_nodes=len(self.noted.nodes) + (rows if self.noted.of_rows else 0),
            unchecked=unchecked,
            prefixes={prefix: iri for file in files for prefix, iri in file.prefixes.items()},
        )


def row_iri(table: str, violation: RowViolation) -> URIRef:
    """The IRI of a table row: a fragment of the table's file (RFC 7111, section 2)."""
    number = violation.row + 2 if violation.line is None else violation.line
    return URIRef(f"file:///{quote(Path(table).name)}#row={number}")


def _results(
    component: Component, focus: Node, entity: str, cells: Mapping[str, float | str | None]
) -> list[tuple[Constraint, Result]]:
    """The results of a violation at some cells, each with its constraint."""
    values = _values(component, focus, entity, cells) or [None]
    return [(component.constraint, _result(component, focus, value)) for value in values]


def _values(
    component: Component, focus: Node, entity: str, cells: Mapping[str, float | str | None]
) -> Sequence[Node | None]:
    """The value nodes of the results of a violation; [] if there is none, or if it is unknown."""
    shape, constraint = component.shape, component.constraint
    name = constraint.name
    if name in _WITHOUT_VALUE:
        return []
    if constraint.is_query or name == "closed":
        if constraint.is_query and not _names_value(component):
            return [] if shape.path is not None else [focus]
        return [_literal(cell) for cell in cells.values()] if len(cells) == 1 else []
    values = component.values.get(entity, ())
    own = _nodes(values, cells)
    if shape.path is None:
        return own or [focus]
    if name in PAIRS:
        others = _nodes(component.others.get(entity, ()), cells)
        match name:
            case "equals":
                found = [node for node in (*own, *others) if (node in own) != (node in others)]
                own = found or [*own, *others]
            case "disjoint":
                own = [node for node in own if node in others] or own
            case _:
                wrong = (n for n in own if not all(ordered(name, n, other) for other in others))
                own = list(wrong) or own
        return own
    # A row of the pack is about one value: a cell, or a node behind which its cells are.
    found = _nodes([value for value in values if isinstance(value, Header)], cells) or own
    return found if len(found) == 1 else []


def _names_value(component: Component) -> bool:
    query = asked(component.shapes, component.shape, component.constraint)
    if query is None or (query.form == "ask" and component.shape.path is None):
        return False  # ``$value`` of an ASK at a node shape is the focus node
    return any(word.kind == "variable" and word.text == "value" for word in tokens(query.text))


def _nodes(values: Iterable[Node | Header], cells: Mapping[str, float | str | None]) -> list[Node]:
    """Value nodes with the cells that a row of the pack reads in the place of the headers."""
    found = [_literal(cells.get(v.text)) if isinstance(v, Header) else v for v in values]
    return [node for node in found if node is not None]


def _literal(cell: float | str | None) -> Literal | None:
    if cell is None or isinstance(cell, str):
        return None if cell is None else Literal(cell)
    return Literal(cell, datatype=XSD.double)


def _result(component: Component, focus: Node, value: Node | None) -> Result:
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
        messages = [Literal(default_message(constraint))]
    texts = message_values(focus, value, shape.path)
    iri = component_name(constraint)
    return Result(
        focus=focus,
        value=value,
        path=shape.path,
        severity=URIRef(str(graph.value(shape.node, SH.severity) or SH.Violation)),
        component=SH[iri] if constraint.component is None else URIRef(str(constraint.component)),
        shape=shape.node,
        constraint=query,
        messages=tuple(
            sorted({fill_message(graph, shape.node, Literal(text), texts) for text in messages})
        ),
    )
