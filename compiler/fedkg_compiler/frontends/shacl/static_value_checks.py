"""Constraint components over a value that is known when rules are compiled.

Source: SHACL (W3C 2017), section 4.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rdflib import RDF, RDFS, XSD, BNode, Literal, URIRef
from rdflib.term import Node

from fedkg_compiler.frontends.shacl import bounded_regex
from fedkg_compiler.frontends.shacl.model import Constraint
from fedkg_compiler.frontends.shacl.read import SH
from fedkg_compiler.frontends.shacl.shape_conditions import Refused

_ORDER: dict[str, Callable[[int], bool]] = {
    "minInclusive": lambda sign: sign >= 0,
    "minExclusive": lambda sign: sign > 0,
    "maxInclusive": lambda sign: sign <= 0,
    "maxExclusive": lambda sign: sign < 0,
    "lessThan": lambda sign: sign < 0,
    "lessThanOrEquals": lambda sign: sign <= 0,
}
ORDERED = tuple(_ORDER)[:4]


def ordered(name: str, value: Node, bound: Node) -> bool:
    """Whether a value satisfies the component's bound; values that cannot be compared do not."""
    sign = compare(value, bound)
    return sign is not None and _ORDER[name](sign)


def compare(one: Node, other: Node) -> int | None:
    """-1, 0 or 1, or None where SPARQL does not compare them."""
    from pyshacl.rdfutil.compare import compare_literal

    if not isinstance(one, Literal) or not isinstance(other, Literal):
        return None
    try:
        # pySHACL has no types there
        return int(compare_literal(one, other))  # type: ignore[no-untyped-call]
    except (TypeError, NotImplementedError, ValueError):
        return None


def fixed(constraint: Constraint, value: Node) -> bool:
    """Whether one value conforms to a component that looks at nothing else.

    Raises:
        Refused: the component is none of those.
    """
    argument = constraint.values[0] if constraint.values else constraint.node
    match constraint.name:
        case "minInclusive" | "minExclusive" | "maxInclusive" | "maxExclusive":
            return ordered(constraint.name, value, argument)
        case "datatype":
            return _has_datatype(value, argument)
        case "nodeKind":
            return _is_kind(value, argument)
        case "minLength":
            return not isinstance(value, BNode) and len(str(value)) >= int(str(argument))
        case "maxLength":
            return not isinstance(value, BNode) and len(str(value)) <= int(str(argument))
        case "pattern":
            return not isinstance(value, BNode) and bounded_regex.matches(
                str(argument), constraint.flags, str(value)
            )
        case "languageIn":
            return isinstance(value, Literal) and any(
                _speaks(value.language, str(word)) for word in constraint.values
            )
        case "in":
            return value in constraint.values
    raise Refused(f"sh:{constraint.name} is not decided value by value")


def _has_datatype(value: Node, datatype: Node) -> bool:
    if not isinstance(value, Literal):
        return False
    own = RDF.langString if value.language else value.datatype or XSD.string
    return (own == datatype and not value.ill_typed) or datatype == RDFS.Literal


def _is_kind(value: Node, kind: Node) -> bool:
    name = str(kind)[len(str(SH)) :]
    mine = (
        "IRI"
        if isinstance(value, URIRef)
        else "BlankNode"
        if isinstance(value, BNode)
        else "Literal"
    )
    return mine in re.findall("IRI|BlankNode|Literal", name)


def _speaks(language: str | None, wanted: str) -> bool:
    return language is not None and (
        language.lower() == wanted.lower() or language.lower().startswith(wanted.lower() + "-")
    )
