"""Finds the table columns with the values of a property for a focus node, and the properties that
the table has at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from rdflib import OWL, RDFS, XSD, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg.units.text import UnitProblem, parse_unit
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.scope import Cell, DeclaredSignal, Place, Sources
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    observed_place,
    plain_place,
    signal_of,
)
from fedkg_compiler.frontends.shacl.data_graph import Data
from fedkg_compiler.frontends.shacl.model import (
    SHAPE_VALUED,
    Alternative,
    Constraint,
    Inverse,
    Path,
    PathSequence,
    Repeat,
    Shape,
    ShapesFile,
    Step,
    items,
)
from fedkg_compiler.frontends.shacl.shape_conditions import Observed
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.graph.standard_vocabularies import FKG, NUMBERS, QUDT, SOSA
from fedkg_compiler.ir import BookColumn

KEY_COLUMN = URIRef(FKG + "keyColumn")
COLUMN, DATATYPE, DATATYPES = (
    URIRef(FKG + "column"),
    URIRef(FKG + "datatype"),
    URIRef(FKG + "datatypeColumn"),
)
CATEGORY, CATEGORY_OF = URIRef(FKG + "category"), URIRef(FKG + "categoryOf")
DATATYPE_HEADER = " (datatype)"
"""Ends the header of the column that tells the datatypes of another, where a property has several
such columns."""

PASSING = frozenset(
    URIRef(iri)
    for iri in (
        QUDT + "numericValue",
        QUDT + "value",
        SOSA + "hasSimpleResult",
        SOSA + "hasResult",
        SOSA + "madeObservation",
    )
)
"""Properties that lead from a sensor or an observation to its number."""

RESOURCE, BLANK, TEXTS = str(RDFS.Resource), FKG + "blank", str(RDFS.Literal)
"""In place of a datatype: values that are entities, blank nodes, and values of several kinds
without numbers."""


@dataclass(frozen=True, slots=True)
class Row:
    """The focus node that represents each row of the table."""


ROW = Row()
Value = Node | Observed | Row
V = TypeVar("V", bound=Value)


class Observer:
    """Answers for one file of shapes; what it has found out is kept."""

    def __init__(self, sources: Sources, data: Data, shapes: ShapesFile) -> None:
        self.sources, self.data = sources, data
        self.span = Span(file=shapes.name, line=1, column=1, end_line=1, end_column=2)
        self._numbers, self._texts = read_as(shapes)
        nodes = (node for node in data.graph.subjects(COLUMN, None) if isinstance(node, BNode))
        self.attached = frozenset(
            predicate for node in nodes for predicate in data.graph.predicates(None, node)
        )
        """Properties that lead to blank nodes with a column: ``plant:Z1 plant:heat [ fkg:column
        "h1" ]``."""
        self._signals: dict[URIRef, DeclaredSignal | None] = {}
        self._found: dict[tuple[URIRef, Node | Row], tuple[Observed, ...]] = {}
        self._untold: dict[Observed, Observed] = {}
        self._categories: dict[URIRef, tuple[Node, ...]] = {}
        self._properties: tuple[URIRef, ...] | None = None

    def is_observed(self, predicate: URIRef) -> bool:
        """Whether the table has a property's values."""
        return self._signal(predicate) is not None

    def _signal(self, predicate: URIRef) -> DeclaredSignal | None:
        if predicate not in self._signals:
            self._signals[predicate] = signal_of(str(predicate), self.sources, self.span)
        return self._signals[predicate]

    def values(self, predicate: URIRef, focus: Node | Row) -> tuple[Observed, ...]:
        """The values that the table has of an observed property for a focus node.

        None if it has no column for it.
        """
        key = predicate, focus
        if key not in self._found:
            self._found[key] = tuple(self._values(predicate, focus))
        return self._found[key]

    def properties(self) -> tuple[URIRef, ...]:
        """All observed properties, sorted."""
        if self._properties is None:
            graph = self.data.graph
            declared = {
                URIRef(signal.property)
                for signal in self.sources.names.signals.values()
                if signal.property
            }
            stated = {
                *graph.subjects(COLUMN, None),
                *graph.objects(None, URIRef(SOSA + "observes")),
                *self.attached,
            }
            found = declared | {node for node in stated if isinstance(node, URIRef)}
            self._properties = tuple(sorted(node for node in found if self.is_observed(node)))
        return self._properties

    def categories(self, predicate: URIRef) -> tuple[Node, ...] | None:
        """The values that an observed property may have, sorted: those of `fkg:category`, else the
        members of its `rdfs:range`.

        None if neither says any.
        """
        if predicate not in self._categories:
            graph = self.data.graph
            found = set(graph.objects(predicate, CATEGORY))
            if not found:
                ranges = [
                    kind
                    for kind in graph.objects(predicate, RDFS.range)
                    if kind not in (RDFS.Resource, OWL.Thing)
                ]
                found = {
                    node
                    for kind in ranges
                    for node in (*self.data.members(kind), *self._one_of(kind))
                }
            self._categories[predicate] = tuple(
                sorted((node for node in found if not isinstance(node, BNode)), key=str)
            )
        return self._categories[predicate] or None

    def _one_of(self, kind: Node) -> tuple[Node, ...]:
        head = self.data.graph.value(kind, OWL.oneOf)
        return () if head is None else items(self.data.graph, head) or ()

    def keyed(self) -> list[Node]:
        """The entities that table rows or separate columns describe, sorted."""
        graph = self.data.graph
        named = set(graph.subjects(KEY_COLUMN, None))
        members = {node for kind in named for node in self.data.members(kind)}
        named = {
            node for node in named if not self.data.members(node)
        }  # a class names its members' column
        hosts = set(graph.objects(None, URIRef(SOSA + "isHostedBy")))
        return sorted(named | members | hosts, key=str)

    def of_sensor(self, node: Node, via: URIRef) -> tuple[Observed, ...]:
        """The value of a sensor, or of any node with a separate column, that the property `via`
        leads to.
        """
        header = self.data.graph.value(node, COLUMN)
        host = self.data.graph.value(node, URIRef(SOSA + "isHostedBy"))
        seen = self.data.graph.value(node, URIRef(SOSA + "observes"))
        if isinstance(seen, URIRef) and host is not None and self.is_observed(seen):
            found = self.values(seen, host)
            return tuple(self.compared(value) for value in found) if via in self._numbers else found
        if not isinstance(header, Literal):
            return ()
        unit = self.data.graph.value(node, URIRef(QUDT + "unit")) or self.data.graph.value(
            node, URIRef(QUDT + "hasUnit")
        )
        text = (
            ""
            if unit is None or self.sources.graph is None
            else self.sources.graph.unit_text(str(unit))
        )
        place = self._column_place(str(header), local_name(str(seen or header)), text)
        return () if place is None else (Observed(property=str(seen or header), place=place),)

    def has_column(self, node: Node) -> bool:
        """Whether a node of the graph represents a value of the table."""
        return not isinstance(node, Literal) and self.data.graph.value(node, COLUMN) is not None

    def _values(self, predicate: URIRef, focus: Node | Row) -> Iterable[Observed]:
        signal = self._signal(predicate)
        if signal is None or isinstance(focus, Literal):
            return
        for place in self._column_places(predicate, signal, focus):
            yield self._described(predicate, signal, place)

    def _column_places(
        self, predicate: URIRef, signal: DeclaredSignal, focus: Node | Row
    ) -> list[Place]:
        facts = self.sources.columns_of(
            str(predicate), None if isinstance(focus, Row) else self._cell(focus).iri
        )
        shared = (
            [] if signal.column is not None else [fact for fact in facts if fact.entity is None]
        )
        if len(shared) > 1:  # one column for each of several values
            graph = self.sources.graph
            key = (
                None
                if isinstance(focus, Row) or graph is None
                else graph.key_of(self._cell(focus).iri)
            )
            if not isinstance(focus, Row) and key is None:
                return []
            found = [
                self._column_place(fact.column, signal.name, fact.unit or "") for fact in shared
            ]
            return [place._replace(key=key) for place in found if place is not None]
        quiet = replace(self.sources, problems=Problems())
        place = observed_place(str(predicate), self._cell(focus), quiet, self.span)
        said = quiet.problems.all()
        self.sources.problems.add(
            item
            for item in said
            if not (item.code == "FKG207" and "has no column for" in item.message)
        )
        return [] if place is None or place.column < 0 else [place]

    def _cell(self, focus: Node | Row) -> Cell:
        if isinstance(focus, Row):
            return Cell(text="", row=True)
        iri = f"_:{focus}" if isinstance(focus, BNode) else str(focus)
        graph = self.sources.graph
        return Cell(text=local_name(iri) if graph is None else graph.label_of(iri), iri=iri)

    def _described(self, predicate: URIRef, signal: DeclaredSignal, place: Place) -> Observed:
        datatype = str(self.data.graph.value(predicate, DATATYPE) or "")
        header = self._datatypes_of(predicate, place)
        plain = (
            signal.unit is None
            and place.stored is None
            and signal.span is None
            and signal.role == "input"
        )
        has_datatype = datatype != "" and datatype not in NUMBERS and datatype != str(XSD.boolean)
        has_datatype = has_datatype or (predicate, CATEGORY, None) in self.data.graph
        is_text = plain and (
            has_datatype or (predicate not in self._numbers and not datatype and header is None)
        )
        datatype = "" if header is not None else datatype
        datatypes = None
        if header is not None:
            name = f"{self.sources.book.columns[place.column].name} datatype"
            datatypes = Place(
                column=self.sources.book.column(
                    BookColumn(name=name, source=header, type="category")
                )
            )
        if not is_text:
            return Observed(
                property=str(predicate), place=place, datatype=datatype, datatypes=datatypes
            )
        entry = self.sources.book.columns[place.column]
        column = self.sources.book.column(
            BookColumn(name=entry.name, source=entry.source, type="category")
        )
        text = Observed(
            property=str(predicate),
            place=place._replace(column=column),
            kind="text",
            datatype=datatype,
            datatypes=datatypes,
        )
        if not has_datatype and predicate not in self._texts and self.categories(predicate) is None:
            self._untold[text] = Observed(property=str(predicate), place=place)
        return text

    def compared(self, value: V) -> V | Observed:
        """A value as it is compared with another: a number if nothing describes the contents of its
        column.
        """
        return self._untold.get(value, value) if isinstance(value, Observed) else value

    def _datatypes_of(self, predicate: URIRef, place: Place) -> str | None:
        """The header of the column that tells the datatypes of a property's values, or of those in
        one of its columns; None for none.
        """
        headers = sorted(str(one) for one in self.data.graph.objects(predicate, DATATYPES))
        own = f"{self.sources.book.columns[place.column].source}{DATATYPE_HEADER}"
        return own if own in headers else headers[0] if len(headers) == 1 else None

    def _column_place(self, header: str, name: str, unit_text: str) -> Place | None:
        unit = parse_unit(unit_text) if unit_text else None
        if isinstance(unit, UnitProblem):
            return None
        signal = DeclaredSignal(
            name=name,
            role="input",
            family="",
            property=None,
            unit=unit,
            span=None,
            column=header,
            place=self.span,
        )
        place = plain_place(signal, self.sources, self.span)
        return None if place.column < 0 else place


def read_as(shapes: ShapesFile) -> tuple[frozenset[URIRef], frozenset[URIRef]]:
    """The properties that shapes compare with numbers, and those that they compare with texts
    alone.
    """
    texts: set[URIRef] = set()
    numbers: set[URIRef] = set()
    for shape in shapes.shapes.values():
        last = set() if shape.path is None else set(_last(shape.path))
        for constraint in shape.constraints if last else ():
            if constraint.name in ("lessThan", "lessThanOrEquals", "equals", "disjoint"):
                numbers |= last | {
                    value for value in constraint.values if isinstance(value, URIRef)
                }
            elif constraint.name == "datatype" and constraint.values[0] == XSD.boolean:
                numbers |= last
        for constraint in _value_constraints(shapes, shape) if last else ():
            if constraint.name in ("minInclusive", "minExclusive", "maxInclusive", "maxExclusive"):
                numbers |= last
            elif constraint.name in ("in", "hasValue"):
                numbers |= last if any(is_number(value) for value in constraint.values) else set()
                texts |= last
            elif constraint.name == "datatype" and constraint.values[0] != XSD.boolean:
                (numbers if str(constraint.values[0]) in NUMBERS else texts).update(last)
            elif constraint.name in (
                "pattern",
                "minLength",
                "maxLength",
                "languageIn",
                "uniqueLang",
            ):
                texts |= last
    return frozenset(numbers), frozenset(texts - numbers)


def _value_constraints(shapes: ShapesFile, shape: Shape) -> Iterator[Constraint]:
    """The constraints on a property shape's value nodes, nested ones too: ``sh:path p .

    Sh:or ( [ sh:minInclusive 5 ] ... )``.
    """
    waiting, seen = [shape], {shape.node}
    while waiting:
        constraints = waiting.pop().constraints
        yield from constraints
        nodes = [
            node
            for item in constraints
            if item.name in SHAPE_VALUED
            for node in item.values
            if node not in seen
        ]
        seen.update(nodes)
        waiting += [
            inner
            for node in nodes
            if (inner := shapes.shapes.get(node)) is not None and inner.path is None
        ]


def is_number(value: Node) -> bool:
    """Whether a term is a number, or true or false."""
    return (
        isinstance(value, Literal)
        and not value.ill_typed
        and (str(value.datatype) in NUMBERS or value.datatype == XSD.boolean)
    )


def _last(path: Path) -> Iterator[URIRef]:
    """The properties that a path may end with."""
    match path:
        case Step():
            yield path.property
        case PathSequence():
            yield from _last(path.paths[-1])
        case Alternative():
            for part in path.paths:
                yield from _last(part)
        case Repeat():
            yield from _last(path.path)
        case Inverse():
            return
