"""Turns nodes of the store into plain values: numbers, texts, quantities with units."""

from __future__ import annotations

import math

from fedkg._internal.name_matching import nearest_name
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, same_scale
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.abbreviated_qudt_units import units_meant
from fedkg_compiler.graph.rdf_terms import Iri, Literal, Quantity, RdfTerm, local_name
from fedkg_compiler.graph.standard_vocabularies import FKG, QUDT, XSD
from fedkg_compiler.graph.standard_vocabularies import UNIT as UNIT_SPACE

NUMERIC_VALUE = (ox.NamedNode(QUDT + "numericValue"), ox.NamedNode(QUDT + "value"))
UNIT = (ox.NamedNode(QUDT + "unit"), ox.NamedNode(QUDT + "hasUnit"))
_COLUMN = ox.NamedNode(FKG + "column")
_UNIT_TEXT = ox.NamedNode(FKG + "unitText")
_UCUM = ox.NamedNode(QUDT + "ucumCode")

_INTEGER_NAMES = (
    "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger "
    "negativeInteger "
    "unsignedInt unsignedLong unsignedShort unsignedByte"
)
_INTEGERS = frozenset(XSD + name for name in _INTEGER_NAMES.split())
_REALS = frozenset(XSD + name for name in ("decimal", "double", "float"))
_BOOLEAN = XSD + "boolean"

Subject = ox.NamedNode | ox.BlankNode | ox.Triple
Node = Subject | ox.Literal


def node_of(iri: str) -> ox.NamedNode | ox.BlankNode:
    """Return the node of `Iri.value`.

    Raises:
        ValueError: the text is not an IRI.
    """
    return ox.BlankNode(iri[2:]) if iri.startswith("_:") else ox.NamedNode(iri)


class Values:
    """The conversion for one store; it keeps what it has found out about units."""

    def __init__(self, store: ox.Store) -> None:
        self._store = store
        self._units: dict[str, str] = {}
        self._numbers: dict[Node, list[Literal]] | None = None
        self._unit_quads: dict[Subject, list[ox.Quad]] | None = None

    def term(self, node: Node | None) -> RdfTerm | None:
        """Return a node as a plain value; None stays None."""
        match node:
            case None:
                return None
            case ox.Literal():
                return literal(node)
            case ox.NamedNode():
                return self._quantity(node) or Iri(node.value)
            case ox.BlankNode():
                return self._quantity(node) or Iri(f"_:{node.value}")
            case _:
                return Iri(str(node))

    def unit_text(self, iri: str) -> str:
        """Return a unit as rule files write it: its text, else its UCUM code, else its IRI."""
        if iri not in self._units:
            node = ox.NamedNode(iri)
            texts = self._texts(node, _UNIT_TEXT) or [
                text for text in self._texts(node, _UCUM) if "[" not in text and "{" not in text
            ]
            self._units[iri] = texts[0] if texts else iri
        return self._units[iri]

    def nearest_unit(self, iri: str) -> str | None:
        """Return what was probably meant by an IRI nobody knows: ``unit:K`` for ``unit:KELVIN``,
        both readings of ``unit:MPA``; or None.
        """
        known = {
            quad.subject.value: parse_unit(quad.object.value)
            for quad in self._store.quads_for_pattern(None, _UNIT_TEXT, None)
            if isinstance(quad.subject, ox.NamedNode) and isinstance(quad.object, ox.Literal)
        }
        locals_ = {local_name(other): other for other in sorted(known)}
        word = local_name(iri)
        spelt = units_meant(word, locals_)
        if spelt:
            return " or ".join(_unit_shown(locals_[local]) for local in spelt)
        meant = parse_unit(word.lower().replace("_", "."))
        same = (
            []
            if isinstance(meant, UnitProblem)
            else [o for o, u in known.items() if isinstance(u, Unit) and same_scale(meant, u)]
        )
        near = locals_.get(nearest_name(word, locals_) or "")
        found = min(same, key=lambda other: (len(other), other)) if same else near
        return None if found is None else _unit_shown(found)

    def unit_of(self, node: ox.NamedNode | ox.BlankNode) -> str | None:
        """Return the unit that ``qudt:unit`` or ``qudt:hasUnit`` gives a node, as text.

        None if there is none. Different units are one text that is not a unit: ``K or degC``.
        """
        units = {self._unit_name(one.object) for one in self._units_by_node().get(node, ())}
        return " or ".join(sorted(units)) or None

    def several_units(self) -> dict[Subject, dict[str, ox.Quad]]:
        """Return the nodes that have a number or a column and different units: the triple of each
        unit, by its text.
        """
        found = {}
        for node, quads in self._units_by_node().items():
            if len(quads) == 1:
                continue
            units = {self._unit_name(quad.object): quad for quad in quads}
            if len(units) > 1 and (
                node in self._numbers_by_node()
                or any(self._store.quads_for_pattern(node, _COLUMN, None))
            ):
                found[node] = dict(sorted(units.items()))
        return found

    def _units_by_node(self) -> dict[Subject, list[ox.Quad]]:
        if self._unit_quads is None:
            self._unit_quads = {}
            for predicate in UNIT:
                for quad in self._store.quads_for_pattern(None, predicate, None):
                    self._unit_quads.setdefault(quad.subject, []).append(quad)
        return self._unit_quads

    def _unit_name(self, node: Node) -> str:
        return (
            self.unit_text(node.value)
            if isinstance(node, ox.NamedNode)
            else node.value
            if isinstance(node, ox.Literal)
            else str(node)
        )

    def _texts(self, node: ox.NamedNode, predicate: ox.NamedNode) -> list[str]:
        found = self._store.quads_for_pattern(node, predicate, None)
        return sorted(
            (quad.object.value for quad in found if isinstance(quad.object, ox.Literal)),
            key=lambda text: (len(text), text),
        )

    def _numbers_by_node(self) -> dict[Node, list[Literal]]:
        """Return the numbers of every node that has any.

        Gathered once, because most nodes of a row have none.
        """
        if self._numbers is None:
            self._numbers = {}
            for predicate in NUMERIC_VALUE:
                for quad in self._store.quads_for_pattern(None, predicate, None):
                    if isinstance(quad.object, ox.Literal):
                        self._numbers.setdefault(quad.subject, []).append(literal(quad.object))
        return self._numbers

    def _quantity(self, node: ox.NamedNode | ox.BlankNode) -> Quantity | Literal | None:
        """Return the quantity a node is; a number without a unit is that number.

        With several numbers it is none.
        """
        values = self._numbers_by_node().get(node, [])
        if len({value.value for value in values}) != 1:
            return None
        value = min(values, key=lambda item: (item.lexical, item.datatype))
        number = _number(value)
        if number is None:
            return None
        unit = self.unit_of(node)
        return value if unit is None else Quantity(number, unit)


def _unit_shown(iri: str) -> str:
    return f"unit:{local_name(iri)}" if iri.startswith(UNIT_SPACE) else f"<{iri}>"


def _number(value: Literal) -> float | None:
    """Return a literal's value as a number; a plain text that reads as one counts."""
    if isinstance(value.value, bool):
        return None
    try:
        return float(value.value)
    except ValueError:
        return None


def literal(node: ox.Literal) -> Literal:
    """Return a literal with its value as Python reads it.

    Text that its datatype does not allow stays text.
    """
    lexical, datatype = node.value, node.datatype.value
    value: float | int | bool | str = lexical
    try:
        if datatype in _INTEGERS:
            value = int(lexical)
        elif datatype in _REALS:
            value = float(lexical.replace("INF", "inf"))
        elif datatype == _BOOLEAN and lexical in ("true", "false", "1", "0"):
            value = lexical in ("true", "1")
    except ValueError:
        value = lexical
    if isinstance(value, float) and math.isnan(value):
        value = lexical
    return Literal(value, lexical, datatype)
