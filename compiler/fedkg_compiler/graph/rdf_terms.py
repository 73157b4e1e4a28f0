"""The terms of the knowledge graph as plain values, independent of the store."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import NamedTuple

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Iri:
    """A named node. A blank node is written as ``_:label``, with a label that depends on its file's
    content alone.
    """

    value: str

    @override
    def __hash__(self) -> int:
        """Faster than the hash that dataclasses have: terms are the keys of many tables."""
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: the value as Python reads it, the text as the store keeps it (``9.0e3`` is
    ``9000``), its datatype's IRI.

    A text that its datatype does not allow (``"abc"^^xsd:double``) keeps the text as its value.
    """

    value: float | int | bool | str
    lexical: str
    datatype: str

    @override
    def __hash__(self) -> int:
        """As that of `Iri`."""
        return hash(self.lexical)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit: a node with ``qudt:numericValue`` and ``qudt:unit``.

    Attributes:
        value: the number, in `unit`.
        unit: the unit as rule files write it (``N.m``, ``degC``), or its IRI where no such text is
            known.
    """

    value: float
    unit: str


RdfTerm = Iri | Literal | Quantity


def order_key(term: RdfTerm | None) -> tuple[int, float, str, str]:
    """Return the key by which rows are sorted: unbound, then IRIs, then numbers by value, then
    texts, then quantities.
    """
    match term:
        case None:
            return (0, 0.0, "", "")
        case Iri(value):
            return (1, 0.0, value, "")
        case Literal(value, lexical, datatype):
            number = (
                float(value)
                if isinstance(value, float | int) and not isinstance(value, bool)
                else math.nan
            )
            return (
                (3, 0.0, lexical, datatype)
                if math.isnan(number)
                else (2, number, lexical, datatype)
            )
        case Quantity(value, unit):
            return (5, 0.0, unit, "") if math.isnan(value) else (4, value, unit, "")


class ColumnFact(NamedTuple):
    """The table column with the observations of a property.

    Attributes:
        column: the table header.
        unit: the unit of that column as rule files write it, else its IRI; None if there is no
            unit.
        entity: the entity of the sensor; None if the property has one column for all entities.
        sensor: the sensor that states the column, or None.
        is_stored: whether the graph itself has a value of the property, so that only a declared
            signal reads the column.
    """

    column: str
    unit: str | None
    entity: str | None
    sensor: str | None
    is_stored: bool = False


TermKind = OneOf["class", "property", "individual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTerm:
    """A class, property or individual that a loaded ontology or graph defines.

    Attributes:
        iri: the IRI of the term.
        short: its prefixed name if a prefix is known, else ``<IRI>``.
        kind: class, property or individual.
        label: its label, or "".
        comment: its description, or "".
        ontology: the name of the ontology or file that defines it.
    """

    iri: str
    short: str
    kind: TermKind
    label: str
    comment: str
    ontology: str


def local_name(iri: str) -> str:
    """Return the part after the last ``#``, ``/`` or ``:`` of an IRI, or the whole IRI if that is
    empty.

    Examples:
        >>> local_name("https://example.org/plant#M07")
        'M07'
    """
    return split_iri(iri)[1] or iri


def split_iri(iri: str) -> tuple[str, str]:
    """Return namespace and local name of an IRI.

    The namespace keeps its last ``#``, ``/`` or ``:``.
    """
    for mark in ("#", "/", ":"):
        cut = iri.rfind(mark)
        if cut >= 0:
            return iri[: cut + 1], iri[cut + 1 :]
    return "", iri


def is_iri(text: str) -> bool:
    """Tell whether a text is an absolute IRI, as the store takes it."""
    from fedkg_compiler.graph import oxigraph as ox  # a plain rule file needs no RDF library

    try:
        ox.NamedNode(text)
    except ValueError:
        return False
    return True
