"""Checks the parameters of SHACL's constraint components (SHACL, section 4) before they are
used.
"""

from __future__ import annotations

import re

from rdflib import RDF, Graph, Literal, Namespace, URIRef
from rdflib.term import Node
from typing_extensions import override

from fedkg_compiler.frontends.shacl import bounded_regex

SPACE = "http://www.w3.org/ns/shacl#"


class _Vocabulary(Namespace):
    """A namespace that makes each of its terms once; a large file asks for them very often."""

    @override
    def __getattr__(self, name: str) -> URIRef:
        term: URIRef = super().__getattr__(name)
        setattr(self, name, term)  # found before `__getattr__` the next time
        return term

    @override
    def __getitem__(self, name: str) -> URIRef:  # type: ignore[override]
        return self.__dict__.get(name) or self.__getattr__(name)


SH = _Vocabulary(SPACE)
_COUNTS = frozenset(
    {"minCount", "maxCount", "minLength", "maxLength", "qualifiedMinCount", "qualifiedMaxCount"}
)
_NAMES = frozenset(
    {"class", "datatype", "nodeKind", "equals", "disjoint", "lessThan", "lessThanOrEquals"}
)
_LIMITS = frozenset({"minExclusive", "minInclusive", "maxExclusive", "maxInclusive"})
_SHAPES = frozenset({"not", "node", "property", "and", "or", "xone"})


KNOWN = (
    _COUNTS
    | _NAMES
    | _LIMITS
    | _SHAPES
    | {
        "pattern",
        "flags",
        "in",
        "languageIn",
        "hasValue",
        "uniqueLang",
        "closed",
        "ignoredProperties",
        "sparql",
    }
    | {
        "qualifiedValueShape",
        "qualifiedValueShapesDisjoint",
        "path",
        "inversePath",
        "alternativePath",
    }
    | {
        "zeroOrMorePath",
        "oneOrMorePath",
        "zeroOrOnePath",
        "target",
        "targetClass",
        "targetNode",
        "targetSubjectsOf",
        "targetObjectsOf",
    }
    | {
        "severity",
        "message",
        "resultMessage",
        "resultSeverity",
        "deactivated",
        "name",
        "description",
        "order",
        "group",
        "defaultValue",
        "entailment",
        "shapesGraph",
    }
    | {
        "rule",
        "values",
        "expression",
        "js",
        "condition",
        "prefixes",
        "declare",
        "suggestedShapesGraph",
        "parameter",
        "labelTemplate",
    }
    | {
        "validator",
        "nodeValidator",
        "propertyValidator",
        "select",
        "ask",
        "construct",
        "update",
        "returnType",
        "optional",
    }
)
"""The properties, without namespace, that SHACL and its advanced features give to shapes."""


def what_is_wrong(name: str, value: Node) -> str:
    """Why `value` cannot be the value of ``sh:name``; "" if its form is valid."""
    shown = f"its sh:{name} is `{value}`"
    if name in _COUNTS and not _is_count(value):
        return f"{shown}; it must be a whole number without quotes"
    if name in _NAMES and not isinstance(value, URIRef):
        return (
            f"{shown}; it must be the name of a "
            f"{'property' if name not in ('class', 'datatype', 'nodeKind') else name}"
        )
    if name in _LIMITS and not isinstance(value, Literal):
        return f"{shown}; it must be a number or a date"
    if name in _SHAPES and isinstance(value, Literal):
        return f"{shown}; it must be a shape"
    if name == "pattern":
        wrong = "which is not a regular expression"
        if isinstance(value, Literal):
            wrong = bounded_regex.what_is_wrong(str(value))
        return f"{shown}, {wrong}" if wrong else ""
    return ""


def items(graph: Graph, head: Node) -> tuple[Node, ...] | None:
    """The members of an RDF list; None if it is none, or has no end."""
    found: list[Node] = []
    seen: set[Node] = set()
    at: Node | None = head
    while at != RDF.nil:
        first = None if at is None or at in seen else graph.value(at, RDF.first)
        if at is None or first is None:
            return None
        seen.add(at)
        found.append(first)
        at = graph.value(at, RDF.rest)
    return tuple(found)


def _is_count(value: Node) -> bool:
    return (
        isinstance(value, Literal)
        and isinstance(value.value, int)
        and re.fullmatch(r"\+?\d{1,18}", str(value)) is not None
    )
