"""Constraint components over a value that is known when rules are compiled.

Source: SHACL (W3C 2017), section 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from rdflib import RDF, XSD, BNode, Literal, URIRef
from rdflib.term import Node
from rdflib.xsd_datetime import Duration

from fedkg_compiler.frontends.shacl import linear_time_regex
from fedkg_compiler.frontends.shacl.shapes_graph_reader import Constraint
from fedkg_compiler.frontends.shacl.xsd_lexical_forms import is_well_formed

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

LARGEST_OFFSET = timedelta(hours=14)
"""The largest distance of a time zone from UTC."""

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
    left, right = one.value, other.value
    if (
        one.ill_typed
        or other.ill_typed
        or left is None
        or _order_of(left) != _order_of(right)
        or isinstance(left, timedelta | Duration)
        or one.language
        or other.language
    ):
        return None
    try:
        if isinstance(left, float) or isinstance(right, float):
            # decimals and integers are promoted: XPath 2.0, B.1
            left, right = float(left), float(right)
        return 0 if left == right else 1 if left > right else -1 if left < right else None
    except TypeError:  # of times, only one has a zone
        return _compare_with_unzoned(left, right)
    except (InvalidOperation, OverflowError):  # decimals and NaN, integers beyond all floats
        return None


def _compare_with_unzoned(one: object, other: object) -> int | None:
    """-1 or 1 if a time is before or after a time without a zone, whatever its zone; else None.

    Source: XML Schema 1.1, part 2, section E.3.2.
    """
    if not isinstance(one, datetime) or not isinstance(other, datetime):
        return None
    if one.tzinfo is None:
        sign = _compare_with_unzoned(other, one)
        return None if sign is None else -sign
    apart = one.replace(tzinfo=None) - other - (one.utcoffset() or timedelta())
    return None if abs(apart) <= LARGEST_OFFSET else 1 if apart > timedelta() else -1


def _order_of(value: object) -> type:
    """The type that stands for all values with which a value can be compared."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return float if is_number else type(value)


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
