"""The components of XML schemas as triples: classes, properties, individuals, restrictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.sources.xml_schema_components import (
    Key,
    Names,
    iri_of_property,
    iri_of_type,
    iri_of_value,
)
from fedkg_compiler.graph.sources.xsd_files import XSD_NAMESPACE, Element, Schema
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, XSD

_TYPE, _VALUE = ox.NamedNode(RDF + "type"), ox.NamedNode(RDF + "value")
_LABEL, _COMMENT, _BELOW = (
    ox.NamedNode(RDFS + word) for word in ("label", "comment", "subClassOf")
)
_SCHEMA_ORG = "https://schema.org/"
_ENDLESS = 10**9
_MODELS = ("sequence", "choice", "all", "group")
_INSIDE = ("complexContent", "simpleContent")
_SORTS = {"object": "ObjectProperty", "data": "DatatypeProperty"}
Kind = Literal["object", "data"]
Node = ox.NamedNode | ox.BlankNode | ox.Literal


@dataclass(slots=True)
class _Relation:
    """The collected facts of one property.

    Attributes:
        uses: (class, range) to (least, most) occurrences; class "" for a global element, range ""
            for anything.
    """

    label: str
    uses: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    kinds: set[Kind] = field(default_factory=set)
    comments: set[str] = field(default_factory=set)
    above: set[str] = field(default_factory=set)


class Terms:
    """Writes the triples of several schemas.

    Args:
        names: their components.

    Attributes:
        triples: what was written so far.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.triples: list[ox.Quad] = []
        self._relations: dict[str, _Relation] = {}
        self._blanks = 0

    def write(self, schemas: Sequence[Schema]) -> None:
        """Write an ontology for each namespace, the types, the elements, and last the properties
        with all their uses.
        """
        for schema in {schema.namespace: schema for schema in reversed(schemas)}.values():
            ontology = ox.NamedNode(schema.namespace or "urn:xml-schema:")
            self.say(ontology, _TYPE, ox.NamedNode(OWL + "Ontology"))
            if version := schema.root.attributes.get("version"):
                self.say(ontology, ox.NamedNode(OWL + "versionInfo"), ox.Literal(version))
        for key, (schema, element) in self.names.found["type"].items():
            self.type(schema, element, iri_of_type(key), key[1])
        for sort in ("element", "attribute"):
            for key, (schema, element) in self.names.found[sort].items():
                target, kind = self.target(
                    schema, element, iri_of_type((key[0], f"{key[1]}.type")), key[1]
                )
                relation = self.relation(key, element)
                relation.uses.setdefault(("", target), (0, _ENDLESS))
                relation.kinds.add(kind)
                if head := element.attributes.get("substitutionGroup"):
                    relation.above.add(iri_of_property(schema.qualified(head)))
        for iri, relation in self._relations.items():
            self.property(ox.NamedNode(iri), relation)

    def say(
        self, subject: ox.NamedNode | ox.BlankNode, predicate: ox.NamedNode, value: Node
    ) -> None:
        """Add a triple."""
        self.triples.append(ox.Quad(subject, predicate, value))

    def described(self, node: ox.NamedNode, kind: str, label: str, comment: str) -> None:
        """Say what kind of term a node is, how it is called, and what the schema says about it."""
        self.say(node, _TYPE, ox.NamedNode(kind))
        self.say(node, _LABEL, ox.Literal(label))
        if comment:
            self.say(node, _COMMENT, ox.Literal(comment))

    def type(self, schema: Schema, element: Element, iri: str, label: str) -> None:
        """Write a type: a class with its uses of properties, its values, its place below others.

        Or a datatype.
        """
        node = ox.NamedNode(iri)
        complex_type = element.name == "complexType"
        is_class = complex_type or self.names.lists_values(schema, element)
        self.described(
            node, OWL + "Class" if is_class else RDFS + "Datatype", label, comment_of(element)
        )
        self.derived(schema, element, node, is_class=is_class)
        if complex_type:
            self.content(schema, element, iri, 1, 1, ())

    def derived(
        self, schema: Schema, element: Element, node: ox.NamedNode, *, is_class: bool
    ) -> None:
        """Write what a type extends, restricts or unites, and the values that it lists."""
        for part in _derivations(element):
            for base in part.attributes.get("base", part.attributes.get("itemType", "")).split():
                key = schema.qualified(base)
                above = ox.NamedNode(iri_of_type(key))
                if self.names.is_class(key) or not is_class:
                    self.say(node, _BELOW, above)
                elif element.name == "complexType":
                    self.restricted(node, _VALUE, "allValuesFrom", above)
            for member in part.attributes.get("memberTypes", "").split():
                key = schema.qualified(member)
                if self.names.is_class(key) and is_class:
                    self.say(ox.NamedNode(iri_of_type(key)), _BELOW, node)
            for value in part.all("enumeration"):
                text = value.attributes.get("value", "")
                individual = ox.NamedNode(iri_of_value(node.value, text))
                self.described(individual, OWL + "NamedIndividual", text, comment_of(value))
                self.say(individual, _TYPE, node)

    def content(
        self,
        schema: Schema,
        element: Element,
        owner: str,
        least: int,
        most: int,
        groups: tuple[Key, ...],
    ) -> None:
        """Gather the elements and attributes of a type's content.

        `least` and `most` are what the models around them allow.
        """
        for child in element.children:
            if child.name in _INSIDE or (
                child.name in ("extension", "restriction") and element.name in _INSIDE
            ):
                self.content(schema, child, owner, least, most, groups)
            elif child.name == "attribute":
                self.use(
                    schema, child, owner, 1 if child.attributes.get("use") == "required" else 0, 1
                )
            elif child.name == "attributeGroup":
                self.group("attributeGroup", schema, child, owner, (least, most), groups)
            elif child.name in _MODELS or child.name == "element":
                low = least * _count(child, "minOccurs")
                high = min(_ENDLESS, most * _count(child, "maxOccurs"))
                if element.name == "choice":
                    low = 0
                if child.name == "element":
                    self.use(schema, child, owner, low, high)
                elif "ref" in child.attributes:
                    self.group("group", schema, child, owner, (low, high), groups)
                else:
                    self.content(schema, child, owner, low, high, groups)

    def group(
        self,
        sort: str,
        schema: Schema,
        child: Element,
        owner: str,
        counts: tuple[int, int],
        groups: tuple[Key, ...],
    ) -> None:
        """Collect the contents of a named group in place; a group inside itself adds nothing."""
        key = schema.qualified(child.attributes.get("ref", ""))
        definition = self.names.get(sort, key)
        if definition is not None and key not in groups:
            self.content(*definition, owner, *counts, (*groups, key))

    def use(self, schema: Schema, element: Element, owner: str, least: int, most: int) -> None:
        """Gather one use of an element or attribute in a class.

        Uses of the same with the same range are joined.
        """
        reference = element.attributes.get("ref")
        key = (
            schema.qualified(reference)
            if reference
            else (schema.namespace, element.attributes.get("name", ""))
        )
        if not key[1]:
            return
        if reference:
            definition = self.names.get(element.name, key)
            relation = self.relation(key, element)
            if definition is None:
                target, kind = "", _kind_of(element)
            else:
                target, kind = self.target(
                    *definition, iri_of_type((key[0], f"{key[1]}.type")), key[1], write=False
                )
        else:
            inner = f"{owner}.{key[1]}"
            relation = self.relation(key, element)
            target, kind = self.target(
                schema, element, inner, f"{owner.rpartition('#')[2]}.{key[1]}"
            )
        relation.kinds.add(kind)
        before = relation.uses.get((owner, target))
        relation.uses[owner, target] = (
            (least, most)
            if before is None
            else (min(least, before[0]), min(_ENDLESS, most + before[1]))
        )

    def relation(self, key: Key, element: Element) -> _Relation:
        """The collected facts of the property for a name, including this element."""
        relation = self._relations.setdefault(iri_of_property(key), _Relation(label=key[1]))
        if comment := comment_of(element):
            relation.comments.add(comment)
        return relation

    def target(
        self, schema: Schema, element: Element, inner: str, label: str, *, write: bool = True
    ) -> tuple[str, Kind]:
        """The range of an element and whether its values are nodes.

        A type inside it is written as `inner` first.
        """
        named = element.attributes.get("type")
        if named is not None:
            key = schema.qualified(named)
            if key == (XSD_NAMESPACE, "anyType"):
                return "", "object"
            return iri_of_type(key), "object" if self.names.is_class(key) else "data"
        for child in element.all("complexType", "simpleType"):
            if child.name == "complexType" or self.names.lists_values(schema, child):
                if write:
                    self.type(schema, child, inner, label)
                return inner, "object"
            bases = [
                base
                for part in child.all("restriction")
                for base in part.attributes.get("base", "").split()
            ]
            return (
                iri_of_type(schema.qualified(bases[0])) if bases else XSD + "anySimpleType"
            ), "data"
        return "", _kind_of(element)

    def property(self, node: ox.NamedNode, relation: _Relation) -> None:
        """Write a property: domain and range if there is one of each, else its possible domains.

        And the restrictions of each class.
        """
        sort = RDF + "Property" if len(relation.kinds) > 1 else OWL + _SORTS[min(relation.kinds)]
        self.described(node, sort, relation.label, "")
        for comment in sorted(relation.comments):
            self.say(node, _COMMENT, ox.Literal(comment))
        for above in sorted(relation.above):
            self.say(node, ox.NamedNode(RDFS + "subPropertyOf"), ox.NamedNode(above))
        domains = list(dict.fromkeys(owner for owner, _ in relation.uses))
        ranges = list(dict.fromkeys(target for _, target in relation.uses))
        for ends, one, several in (
            (domains, "domain", "domainIncludes"),
            (ranges, "range", "rangeIncludes"),
        ):
            word = ox.NamedNode(RDFS + one if len(ends) == 1 else _SCHEMA_ORG + several)
            for end in filter(None, ends):
                self.say(node, word, ox.NamedNode(end))
        owners: dict[str, list[str]] = defaultdict(list)
        for owner, target in relation.uses:
            owners[owner].append(target)
        for (owner, target), (least, most) in relation.uses.items():
            if not owner:
                continue
            one_range = len(owners[owner]) == 1
            if target and len(ranges) > 1 and one_range:
                self.restricted(ox.NamedNode(owner), node, "allValuesFrom", ox.NamedNode(target))
            if one_range:
                self.counted(ox.NamedNode(owner), node, least, most)

    def counted(self, owner: ox.NamedNode, relation: ox.NamedNode, least: int, most: int) -> None:
        """Write the cardinality of a property, if the schema limits it."""
        if least == most:
            self.restricted(owner, relation, "cardinality", _number(least))
            return
        if least > 0:
            self.restricted(owner, relation, "minCardinality", _number(least))
        if most < _ENDLESS:
            self.restricted(owner, relation, "maxCardinality", _number(most))

    def restricted(
        self, owner: ox.NamedNode, relation: ox.NamedNode, word: str, value: Node
    ) -> None:
        """Write that a class lies below a restriction of a property."""
        self._blanks += 1
        node = ox.BlankNode(f"r{self._blanks}")
        self.say(owner, _BELOW, node)
        self.say(node, _TYPE, ox.NamedNode(OWL + "Restriction"))
        self.say(node, ox.NamedNode(OWL + "onProperty"), relation)
        self.say(node, ox.NamedNode(OWL + word), value)


def comment_of(element: Element) -> str:
    """The documentation of a component, with its white space made single."""
    texts = (
        text
        for note in element.all("annotation")
        for part in note.all("documentation")
        for text in part.text
    )
    return " ".join(" ".join(texts).split())


def _derivations(element: Element) -> Iterator[Element]:
    for child in element.children:
        if child.name in ("restriction", "extension", "union", "list"):
            yield child
        elif child.name in _INSIDE:
            yield from child.all("restriction", "extension")


def _kind_of(element: Element) -> Kind:
    return "data" if element.name == "attribute" else "object"


def _count(element: Element, attribute: str) -> int:
    text = element.attributes.get(attribute, "1").strip()
    return (
        int(text) if text.isdecimal() and len(text) < 10 else _ENDLESS if text == "unbounded" else 1
    )


def _number(count: int) -> ox.Literal:
    return ox.Literal(str(count), datatype=ox.NamedNode(XSD + "nonNegativeInteger"))
