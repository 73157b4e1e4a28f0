"""Reports types, elements and groups that XML schemas name and do not define: each once, at its
first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.sources.xml_schema_components import Key, Names
from fedkg_compiler.graph.sources.xsd_files import XSD_NAMESPACE, Element, Schema

_WORDS = """anyType anySimpleType anyAtomicType string boolean decimal float double duration
dateTime time date gYearMonth gYear gMonthDay gDay gMonth hexBinary base64Binary anyURI QName
NOTATION normalizedString token language NMTOKEN NMTOKENS Name NCName ID IDREF IDREFS ENTITY
ENTITIES integer nonPositiveInteger negativeInteger long int short byte nonNegativeInteger
unsignedLong unsignedInt unsignedShort unsignedByte positiveInteger yearMonthDuration
dayTimeDuration dateTimeStamp error"""
_BUILT_IN = frozenset(_WORDS.split())
"""The types of XSD itself (W3C XSD 1.0 part 2, section 3; 1.1, section 3.3 and 3.4)."""
_TYPES = ("type", "base", "itemType", "memberTypes")
_REFERRED = ("element", "attribute", "group", "attributeGroup")
_MOST_REPORTED = 20


@dataclass(slots=True)
class _Missing:
    """A name without a definition: its first position, and its number of uses."""

    schema: Schema
    element: Element
    written: str
    count: int = 0


def missing(
    schemas: Sequence[Schema], names: Names, unread: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """Return a warning for each name that no schema defines, at most `_MOST_REPORTED`, and then one
    that says how many more there are.

    Args:
        unread: the diagnostics of schemas that are not followed or not readable: names that may be
            defined there are not reported.
    """
    if unread:
        defined: frozenset[str] = (
            frozenset()
        )  # what is not read may be in any namespace, by what it includes itself
    else:
        defined = frozenset(schema.namespace for schema in schemas)
    found: dict[tuple[str, Key], _Missing] = {}
    for schema in schemas:
        for element in _all(schema.root):
            for sort, written in _names(element):
                prefix = written.partition(":")[0] if ":" in written else ""
                if prefix and prefix not in schema.prefixes:
                    continue  # `xml:lang`, which every schema knows
                key = schema.qualified(written)
                known = (
                    key[1] in _BUILT_IN
                    if key[0] == XSD_NAMESPACE
                    else names.get(sort, key) is not None
                )
                if known or (key[0] != XSD_NAMESPACE and key[0] not in defined):
                    continue
                found.setdefault((sort, key), _Missing(schema, element, written)).count += 1
    said = [
        _diagnostic(sort, key, one, names) for (sort, key), one in [*found.items()][:_MOST_REPORTED]
    ]
    rest = [*found.values()][_MOST_REPORTED:]
    return [*said, _more(rest)] if rest else said


def _more(rest: Sequence[_Missing]) -> Diagnostic:
    """A note on the number of further undefined names, at the position of the first of them."""
    names = (
        f"1 more name that nothing defines, `{rest[0].written}`"
        if len(rest) == 1
        else f"{len(rest):,} more names that nothing defines, `{rest[0].written}` first"
    )
    return report(
        "FKG121",
        point(rest[0].schema.file, rest[0].element.line, rest[0].element.column),
        names,
        help="add the schema that defines it, or correct the name"
        if len(rest) == 1
        else "add the schemas that define them; the other names are often in the same file",
        severity="warning",
    )


def _all(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from _all(child)


def _names(element: Element) -> Iterator[tuple[str, str]]:
    """The names that an element of the schema language refers to, with the kind of component that
    each must be.
    """
    if element.name in (*_REFERRED, "extension", "restriction", "list", "union"):
        for attribute in _TYPES:
            yield from (("type", name) for name in element.attributes.get(attribute, "").split())
    if element.name in _REFERRED and (name := element.attributes.get("ref", "").strip()):
        yield element.name, name
    if element.name == "element" and (
        name := element.attributes.get("substitutionGroup", "").strip()
    ):
        yield "element", name


def _diagnostic(sort: str, key: Key, one: _Missing, names: Names) -> Diagnostic:
    more = f", which is used {one.count} times" if one.count > 1 else ""
    of_xsd = key[0] == XSD_NAMESPACE
    known = _BUILT_IN if of_xsd else [name for space, name in names.found[sort] if space == key[0]]
    what = "XML Schema has no type" if of_xsd else f"no schema defines the {sort}"
    prefix = one.written[: one.written.find(":") + 1]
    near = nearest_name(key[1], sorted(known))
    otherwise = (
        "is it one of your own? then write it with the prefix of your namespace"
        if of_xsd
        else "add the schema that defines it; the rest is read"
    )
    return report(
        "FKG121",
        point(one.schema.file, one.element.line, one.element.column),
        f"{what} `{one.written}`{more}",
        help=f"did you mean `{prefix}{near}`?" if near else otherwise,
        severity="warning",
    )
