"""The components of XML schemas by name, and their IRIs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.sources.xsd_files import XSD_NAMESPACE, Element, Schema
from fedkg_compiler.graph.standard_vocabularies import XSD

Key = tuple[str, str]
"""Namespace and local name."""
_SORTS = {"complexType": "type", "simpleType": "type"}
_LASTING = ("type", "element", "group", "attribute", "attributeGroup")
_MOST_REPORTED = 20


@dataclass(slots=True)
class Names:
    """The global components of several schemas: for each sort, by namespace and name, the schema
    and the element that define it.
    """

    found: dict[str, dict[Key, tuple[Schema, Element]]] = field(
        default_factory=lambda: {sort: {} for sort in _LASTING}
    )
    _enumerated: dict[Key, bool] = field(default_factory=dict)

    def get(self, sort: str, key: Key) -> tuple[Schema, Element] | None:
        """The definition of a component, or None if the schemas have none."""
        return self.found[sort].get(key)

    def is_class(self, key: Key) -> bool:
        """Whether a type becomes a class: a complex one, or a simple one that lists its values or
        unites one that does.
        """
        if key[0] == XSD_NAMESPACE:
            return False
        if key not in self._enumerated:
            self._enumerated[key] = False  # for types with circular definitions
            definition = self.get("type", key)
            self._enumerated[key] = (
                definition is None
                or definition[1].name == "complexType"
                or self.lists_values(*definition)
            )
        return self._enumerated[key]

    def lists_values(self, schema: Schema, simple: Element) -> bool:
        """Whether a simple type has enumerated values, directly or through its base and member
        types.
        """
        for part in simple.all("restriction", "union"):
            if any(part.all("enumeration")) or any(
                self.lists_values(schema, inner) for inner in part.all("simpleType")
            ):
                return True
            bases = part.attributes.get("memberTypes", part.attributes.get("base", "")).split()
            if any(
                self.is_class(key)
                for base in bases
                if (key := schema.qualified(base))[0] != XSD_NAMESPACE
            ):
                return True
        return False


def index(schemas: Sequence[Schema]) -> tuple[Names, list[Diagnostic]]:
    """Return the components of schemas, and a warning for each name that is defined twice.

    The first definition applies.
    """
    names, problems = Names(), list[Diagnostic]()
    for schema in schemas:
        for child in schema.root.children:
            sort = _SORTS.get(child.name, child.name)
            name = child.attributes.get("name")
            if sort not in names.found or name is None:
                continue
            first = names.found[sort].setdefault((schema.namespace, name), (schema, child))
            if first[1] is not child and len(problems) < _MOST_REPORTED:
                problems.append(
                    report(
                        "FKG119",
                        point(schema.file, child.line, child.column),
                        f"the {sort} {name} is defined twice; fedkg uses the first one",
                        help=f"the other one is in {first[0].file}, line {first[1].line}",
                        severity="warning",
                    )
                )
    return names, problems


def space_of(namespace: str) -> str:
    """Return the namespace of the IRIs for a target namespace: with a `#` behind it unless it ends
    in one or in a `/`.
    """
    if namespace in (XSD_NAMESPACE, ""):
        return XSD if namespace else "urn:xml-schema:#"
    return namespace if namespace.endswith(("#", "/")) else namespace + "#"


def iri_of_type(key: Key) -> str:
    """Return the IRI of a type; XSD's own types have theirs."""
    return space_of(key[0]) + quote(key[1], safe="-._~")


def iri_of_property(key: Key) -> str:
    """Return the IRI of the property for elements or attributes of this name: `has` and the name,
    since types may bear the same one.
    """
    return f"{space_of(key[0])}has{quote(key[1], safe='-._~')}"


def iri_of_value(type_iri: str, value: str) -> str:
    """Return the IRI of an enumerated value: that of its type, a dot, and the value."""
    return f"{type_iri}.{quote(value, safe='-_~')}"
