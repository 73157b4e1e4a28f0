"""Constraint components over a value that is known when rules are compiled.

Source: SHACL (W3C 2017), section 4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Set
from ctypes import c_float
from datetime import date
from decimal import Decimal
from fractions import Fraction

from rdflib import RDF, XSD, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg_compiler.frontends.shacl import linear_time_regex
from fedkg_compiler.frontends.shacl.shapes_graph_reader import Constraint
from fedkg_compiler.frontends.shacl.xsd_lexical_forms import (
    DAYS,
    FORMS,
    INTEGERS,
    YEARS,
    is_well_formed,
)

_ORDER: dict[str, Callable[[int], bool]] = {
    "minInclusive": lambda sign: sign >= 0,
    "minExclusive": lambda sign: sign > 0,
    "maxInclusive": lambda sign: sign <= 0,
    "maxExclusive": lambda sign: sign < 0,
    "lessThan": lambda sign: sign < 0,
    "lessThanOrEquals": lambda sign: sign <= 0,
}
ORDERED = tuple(_ORDER)[:4]

VALUE_TESTS = (
    *ORDERED,
    *("datatype", "nodeKind", "minLength", "maxLength", "pattern", "languageIn", "in"),
)
"""Components that look at one value and nothing else."""

LARGEST_OFFSET = 14 * 3600
"""The largest distance of a time zone from UTC, in seconds."""

_ORDERED: dict[Node, Node] = {
    **dict.fromkeys((*INTEGERS, XSD.decimal, XSD.float, XSD.double), XSD.decimal),
    **{kind: kind for kind in (XSD.string, XSD.boolean, XSD.dateTime, XSD.date, XSD.time)},
    **{kind: kind for kind in (XSD.gYear, XSD.gYearMonth)},
}
"""The types of literals with an order, each with the type whose order it is."""

Test = Callable[[Node], bool]
"""Whether a value conforms."""


def ordered(name: str, value: Node, bound: Node) -> bool:
    """Whether a value satisfies the component's bound; values that cannot be compared do not."""
    sign = compare(value, bound)
    return sign is not None and _ORDER[name](sign)


def compare(one: Node, other: Node) -> int | None:
    """-1, 0 or 1, or None where SPARQL does not compare them."""
    if not isinstance(one, Literal) or not isinstance(other, Literal):
        return None
    kind, other_kind = (literal.datatype or XSD.string for literal in (one, other))
    order = _ORDERED.get(kind)
    if (
        order is None
        or order != _ORDERED.get(other_kind)
        or one.language
        or other.language
        or is_well_formed(str(one), kind) is False
        or is_well_formed(str(other), other_kind) is False
    ):
        return None
    if order == XSD.decimal:
        left, right = (_promoted(literal, {kind, other_kind}) for literal in (one, other))
        return None if math.isnan(left) or math.isnan(right) else (left > right) - (left < right)
    if order in FORMS and order != XSD.boolean:
        (start, zone), (end, other_zone) = (_instant(literal, order) for literal in (one, other))
        if (zone is None) != (other_zone is None) and abs(start - end) <= LARGEST_OFFSET:
            return None
        return (start > end) - (start < end)
    texts = [str(literal) for literal in (one, other)]
    if order == XSD.boolean:
        texts = ["1" if text in ("true", "1") else "0" for text in texts]
    return (texts[0] > texts[1]) - (texts[0] < texts[1])


def _promoted(literal: Literal, kinds: Set[Node]) -> Decimal | float:
    """A number as the widest type of a comparison has it (XPath 2.0, B.1)."""
    if kinds.isdisjoint((XSD.double, XSD.float)):
        return Decimal(str(literal))
    value = float(str(literal))
    is_short = literal.datatype == XSD.float or XSD.double not in kinds
    return c_float(value).value if is_short else value


def _instant(literal: Literal, kind: Node) -> tuple[Fraction, str | None]:
    """The seconds of a time from a fixed one on, in UTC if it has a zone, and its zone.

    Source: XML Schema 1.1, part 2, section E.3.
    """
    found = FORMS[kind].fullmatch(str(literal))
    assert found is not None, "the caller has checked it"
    parts = found.groupdict()
    year, month, day = (int(parts.get(name) or 1) for name in ("year", "month", "day"))
    cycles, year = divmod(year, YEARS)
    seconds = Fraction((cycles * DAYS + date(2000 + year, month, day).toordinal()) * 86_400)
    hours, minutes, rest = (parts.get("time") or "0:0:0").split(":")
    hour = int(hours) % 24 if kind == XSD.time else int(hours)  # its 24:00:00 is 00:00:00
    seconds += hour * 3600 + int(minutes) * 60 + Fraction(rest)
    zone = parts["zone"]
    if zone not in (None, "Z"):
        offset = int(zone[1:3]) * 3600 + int(zone[4:]) * 60
        seconds -= offset if zone[0] == "+" else -offset
    return seconds, zone


def value_test(constraint: Constraint) -> Test | None:
    """The test of a component that looks at one value and nothing else; None for others."""
    argument = constraint.values[0] if constraint.values else constraint.node
    match constraint.name:
        case "minInclusive" | "minExclusive" | "maxInclusive" | "maxExclusive" as name:
            return lambda value: ordered(name, value, argument)
        case "datatype":
            return lambda value: _has_datatype(value, argument)
        case "nodeKind":
            kinds = _kinds(argument)
            return lambda value: isinstance(value, kinds)
        case "minLength":
            least = int(str(argument))
            return lambda value: not isinstance(value, BNode) and len(str(value)) >= least
        case "maxLength":
            most = int(str(argument))
            return lambda value: not isinstance(value, BNode) and len(str(value)) <= most
        case "pattern":
            return lambda value: (
                not isinstance(value, BNode)
                and linear_time_regex.matches(str(argument), constraint.flags, str(value))
            )
        case "languageIn":
            return lambda value: (
                isinstance(value, Literal)
                and any(_speaks(value.language, str(word)) for word in constraint.values)
            )
        case "in":
            allowed = frozenset(constraint.values)
            return lambda value: value in allowed
    return None


def _has_datatype(value: Node, datatype: Node) -> bool:
    if not isinstance(value, Literal):
        return False
    own = RDF.langString if value.language else value.datatype or XSD.string
    if own != datatype:
        return False
    well_formed = is_well_formed(str(value), own)
    return not value.ill_typed if well_formed is None else well_formed


def _kinds(kind: Node) -> tuple[type, ...]:
    """The classes of rdflib's terms for a node kind such as `sh:BlankNodeOrIRI`."""
    names = {"IRI": URIRef, "BlankNode": BNode, "Literal": Literal}
    return tuple(names[name] for name in re.findall("IRI|BlankNode|Literal", str(kind)))


def _speaks(language: str | None, wanted: str) -> bool:
    return bool(language) and (
        wanted == "*" or f"{language}-".lower().startswith(f"{wanted}-".lower())
    )
