"""Reads OPC UA NodeSet2 files as an ontology; the mapping is stated in `docs/reference/ontology-sources.md`.

Object, variable and data types become classes, reference types properties, the components of types properties with their domains,
enumerated names and the objects of a type (states and transitions) individuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyoxigraph as ox

from fedkg_compiler.ontology.sources.nodeset_nodes import (
    MODELLING_RULE,
    SUBTYPE,
    TYPE_DEFINITION,
    NodeId,
    NodeSet,
    UaNode,
    nodes_of,
)
from fedkg_compiler.ontology.sources.nodeset_standard import DATATYPES, STANDARD, UA
from fedkg_compiler.ontology.sources.result import Read
from fedkg_compiler.ontology.standard import OWL, RDF, RDFS, SKOS, XSD

_TYPE = ox.NamedNode(RDF + "type")
_LABEL, _COMMENT, _BELOW, _SUB_PROPERTY = (
    ox.NamedNode(RDFS + word) for word in ("label", "comment", "subClassOf", "subPropertyOf")
)
_NOTATION = ox.NamedNode(SKOS + "notation")
_SCHEMA_ORG = "https://schema.org/"
_CLASSES = frozenset({"ObjectType", "VariableType", "DataType"})
_ARGUMENTS = frozenset({"InputArguments", "OutputArguments"})
_TEXT_LISTS = frozenset({"EnumStrings", "EnumValues"})
_ENCODINGS = frozenset({(UA, "i=76"), (UA, "i=69"), (UA, "i=72")})
_COUNTS = {
    (UA, "i=78"): "cardinality",
    (UA, "i=80"): "maxCardinality",
    (UA, "i=11510"): "minCardinality",
}
Node = ox.NamedNode | ox.BlankNode | ox.Literal


class _Terms:
    """Writes the triples of one node set."""

    def __init__(self, found: NodeSet) -> None:
        self.found = found
        self.triples: list[ox.Quad] = []
        self.names = _names(found)
        self.owner = _owners(found)
        self.labels: dict[str, str] = {}
        self.ends: dict[str, dict[str, list[str]]] = defaultdict(
            lambda: {"domain": [], "range": []}
        )
        self.blanks = 0

    def write(self) -> None:
        """Write the ontologies, the types, what they consist of, and last the properties of that."""
        for model, version in self.found.models:
            ontology = ox.NamedNode(model)
            self.say(ontology, _TYPE, ox.NamedNode(OWL + "Ontology"))
            if version:
                self.say(ontology, ox.NamedNode(OWL + "versionInfo"), ox.Literal(version))
            for required in self.found.required:
                self.say(ontology, ox.NamedNode(OWL + "imports"), ox.NamedNode(required))
        for node in self.found.nodes.values():
            if node.sort in _CLASSES:
                self.class_type(node)
            elif node.sort == "ReferenceType":
                self.reference_type(node)
        for node in self.found.nodes.values():
            if node.sort in ("Object", "Variable", "Method"):
                self.instance(node)
        for iri, ends in self.ends.items():
            self.component(ox.NamedNode(iri), ends)

    def say(
        self, subject: ox.NamedNode | ox.BlankNode, predicate: ox.NamedNode, value: Node
    ) -> None:
        self.triples.append(ox.Quad(subject, predicate, value))

    def iri(self, node_id: NodeId) -> ox.NamedNode:
        """The IRI of a node, of this file or another."""
        return ox.NamedNode(self.names.get(node_id) or iri_of(node_id))

    def described(self, iri: ox.NamedNode, kind: str, node: UaNode) -> None:
        """Say what kind of term a node is, how it is called, what the file says of it, and its number."""
        self.say(iri, _TYPE, ox.NamedNode(kind))
        self.say(iri, _LABEL, ox.Literal(node.texts.get("DisplayName", node.name)))
        if comment := node.texts.get("Description"):
            self.say(iri, _COMMENT, ox.Literal(comment))
        self.say(iri, _NOTATION, ox.Literal(node.id[1]))

    def class_type(self, node: UaNode) -> None:
        """Write an object, variable or data type, its place below others, and the fields of a data type."""
        iri = self.iri(node.id)
        self.described(iri, OWL + "Class", node)
        if node.id[0] != UA:
            self.say(iri, ox.NamedNode(OWL + "equivalentClass"), ox.NamedNode(numbered(node.id)))
        for above in self.above(node):
            self.say(iri, _BELOW, self.iri(above))
        for entry in node.fields:
            if entry.value is not None:
                self.listed(iri, entry.name, entry.comment, entry.value)
            else:
                self.relate(
                    _property(node.id[0], entry.name),
                    entry.name,
                    iri,
                    entry.data_type or "BaseDataType",
                )

    def reference_type(self, node: UaNode) -> None:
        """Write a reference type: an object property, with its inverse where the file names one."""
        iri = self.iri(node.id)
        self.described(iri, OWL + "ObjectProperty", node)
        for above in self.above(node):
            self.say(iri, _SUB_PROPERTY, self.iri(above))
        inverse = node.texts.get("InverseName", "")
        if inverse and inverse != node.texts.get("DisplayName", node.name):
            other = ox.NamedNode(space_of(node.id[0]) + quote(inverse, safe="-._~"))
            if other.value not in self.names.values():
                self.say(other, _TYPE, ox.NamedNode(OWL + "ObjectProperty"))
                self.say(other, _LABEL, ox.Literal(inverse))
            self.say(iri, ox.NamedNode(OWL + "inverseOf"), other)

    def above(self, node: UaNode) -> Iterator[NodeId]:
        """The types that a type is a subtype of, as it says itself."""
        for kind, forward, target in node.references:
            if not forward and self.found.id_of(kind) == SUBTYPE:
                yield self.found.id_of(target)

    def target(self, node: UaNode, reference: NodeId) -> NodeId | None:
        """Where the first forward reference of a type leads."""
        leads = (
            self.found.id_of(end)
            for kind, forward, end in node.references
            if forward and self.found.id_of(kind) == reference
        )
        return next(leads, None)

    def listed(self, above: ox.NamedNode, name: str, comment: str, value: str) -> None:
        """Write a name that an enumeration lists: an individual of its class."""
        individual = ox.NamedNode(f"{above.value}.{quote(name, safe='-_~')}")
        self.say(individual, _TYPE, ox.NamedNode(OWL + "NamedIndividual"))
        self.say(individual, _TYPE, above)
        self.say(individual, _LABEL, ox.Literal(name))
        self.say(individual, _NOTATION, ox.Literal(value))
        if comment:
            self.say(individual, _COMMENT, ox.Literal(comment))

    def instance(self, node: UaNode) -> None:
        """Write an object, variable or method that belongs to a type: as a property of it, or as an individual."""
        owner = self.found.nodes.get(self.owner.get(node.id, ("", "")))
        definition = self.target(node, TYPE_DEFINITION)
        if node.name in _ARGUMENTS or definition in _ENCODINGS:
            return
        if node.id in self.names:
            self.individual(node, definition)
        elif node.name in _TEXT_LISTS:
            if owner is not None and owner.sort == "DataType" and not owner.fields:
                for number, text in enumerate(node.listed):
                    self.listed(self.iri(owner.id), text, "", str(number))
        elif owner is None or owner.sort in (*_CLASSES, "Object"):
            self.part(node, owner, definition)

    def individual(self, node: UaNode, definition: NodeId | None) -> None:
        """Write an object that a type has once and for all, and how it refers to others of its like."""
        iri = self.iri(node.id)
        self.described(iri, OWL + "NamedIndividual", node)
        if definition is not None:
            self.say(iri, _TYPE, self.iri(definition))
        for kind, forward, end in node.references:
            other = self.found.id_of(end)
            if (
                forward
                and other in self.names
                and other != definition
                and self.found.nodes[other].sort == "Object"
            ):
                self.say(iri, self.iri(self.found.id_of(kind)), self.iri(other))

    def part(self, node: UaNode, owner: UaNode | None, definition: NodeId | None) -> None:
        """Write a component as a property: of the type that has it, or of an individual where it has a value there."""
        relation = _property(node.space, node.name)
        kind = node.data_type or "BaseDataType" if node.sort == "Variable" else ""
        if owner is not None and owner.id in self.names and owner.sort == "Object":
            range_ = self.relate(relation, node.name, None, kind)
            if node.value and range_ is not None and range_.startswith(XSD):
                self.say(
                    self.iri(owner.id),
                    ox.NamedNode(relation),
                    ox.Literal(node.value, datatype=ox.NamedNode(range_)),
                )
            return
        above = self.iri(owner.id) if owner is not None and owner.sort in _CLASSES else None
        if node.sort == "Object" and definition is not None:
            self.relate(relation, node.name, above, range_iri=self.iri(definition).value)
        else:
            self.relate(relation, node.name, above, kind)
        rule = self.target(node, MODELLING_RULE)
        if above is not None and rule in _COUNTS:
            self.counted(above, relation, _COUNTS[rule])

    def relate(
        self,
        relation: str,
        label: str,
        above: ox.NamedNode | None,
        data_type: str = "",
        range_iri: str | None = None,
    ) -> str | None:
        """Gather a use of a property, and return its range, None where anything may stand there."""
        self.labels.setdefault(relation, label.strip("<>"))
        ends = self.ends[relation]
        if range_iri is None and data_type:
            known = self.found.id_of(data_type)
            standard = _standard(known)
            if standard is not None and standard in DATATYPES:
                range_iri = DATATYPES[standard]
            elif standard != "BaseDataType":
                range_iri = self.iri(known).value
        for end, value in (
            ("domain", None if above is None else above.value),
            ("range", range_iri),
        ):
            if value is not None and value not in ends[end]:
                ends[end].append(value)
        return range_iri

    def component(self, iri: ox.NamedNode, ends: dict[str, list[str]]) -> None:
        """Write a property with all its uses."""
        ranges = ends["range"]
        plain = {value.startswith(XSD) for value in ranges}
        sort = (
            RDF + "Property"
            if len(plain) != 1
            else OWL + ("DatatypeProperty" if plain.pop() else "ObjectProperty")
        )
        self.say(iri, _TYPE, ox.NamedNode(sort))
        self.say(iri, _LABEL, ox.Literal(self.labels[iri.value]))
        for end, values in ends.items():
            word = RDFS + end if len(values) == 1 else f"{_SCHEMA_ORG}{end}Includes"
            for value in values:
                self.say(iri, ox.NamedNode(word), ox.NamedNode(value))

    def counted(self, owner: ox.NamedNode, relation: str, word: str) -> None:
        """Write how often a type has a component, by its modelling rule."""
        self.blanks += 1
        node = ox.BlankNode(f"r{self.blanks}")
        self.say(owner, _BELOW, node)
        self.say(node, _TYPE, ox.NamedNode(OWL + "Restriction"))
        self.say(node, ox.NamedNode(OWL + "onProperty"), ox.NamedNode(relation))
        self.say(
            node,
            ox.NamedNode(OWL + word),
            ox.Literal("1", datatype=ox.NamedNode(XSD + "nonNegativeInteger")),
        )


def read(text: str, file: str, folder: Path | None) -> Read:
    """Return the triples of a NodeSet2 file; `folder` plays no part."""
    del folder
    found = nodes_of(text, file)
    terms = _Terms(found)
    if found.usable:
        terms.write()
    return Read(
        triples=terms.triples, prefixes={}, problems=tuple(found.problems), usable=found.usable
    )


def space_of(namespace: str) -> str:
    """Return the namespace of the IRIs for one of OPC UA: with a `#` behind it unless it ends in one or in a `/`."""
    return namespace if namespace.endswith(("#", "/")) else namespace + "#"


def numbered(node_id: NodeId) -> str:
    """Return the IRI of a node by its number, such as ``...#node_i4714``: what other files know of it."""
    kind, _, identifier = node_id[1].partition("=")
    return f"{space_of(node_id[0])}node_{kind}{quote(identifier, safe='-_~')}"


def iri_of(node_id: NodeId) -> str:
    """Return the IRI of a node that this file does not define: by its name where OPC UA defines it, else by its number."""
    name = _standard(node_id)
    return numbered(node_id) if name is None else UA + name


def _standard(node_id: NodeId) -> str | None:
    number = node_id[1].removeprefix("i=")
    return STANDARD.get(int(number)) if node_id[0] == UA and number.isdecimal() else None


def _property(space: str, name: str) -> str:
    return f"{space_of(space)}has{quote(name.strip('<>'), safe='-._~')}"


def _names(found: NodeSet) -> dict[NodeId, str]:
    """The IRIs of the types and of the objects that types have once and for all; a name that is taken gets the node's number too."""
    names: dict[NodeId, str] = {}
    taken: set[str] = set()

    def give(node: UaNode, name: str) -> None:
        iri = space_of(node.id[0]) + name
        names[node.id] = (
            iri if iri not in taken else f"{iri}_{quote(node.id[1].replace('=', ''), safe='-_~')}"
        )
        taken.add(iri)

    for node in found.nodes.values():
        if node.sort.endswith("Type"):
            give(node, quote(node.name, safe="-._~"))
    owners = _owners(found)
    for node in found.nodes.values():
        references = {
            found.id_of(kind): found.id_of(end) for kind, forward, end in node.references if forward
        }
        owner = found.nodes.get(owners.get(node.id, ("", "")))
        lasting = (
            MODELLING_RULE not in references and references.get(TYPE_DEFINITION) not in _ENCODINGS
        )
        if node.sort == "Object" and lasting and owner is not None and owner.sort == "ObjectType":
            give(node, f"{quote(owner.name, safe='-_~')}.{quote(node.name, safe='-_~')}")
    return names


def _owners(found: NodeSet) -> dict[NodeId, NodeId]:
    """Which node each node is a part of: by the references that go down from it or up to it, but for subtypes and definitions."""
    owners: dict[NodeId, NodeId] = {}
    for node in found.nodes.values():
        part = node.sort in ("Object", "Variable", "Method")
        for kind, forward, end in node.references:
            if (
                part
                and not forward
                and found.id_of(kind) not in (SUBTYPE, TYPE_DEFINITION, MODELLING_RULE)
            ):
                owners.setdefault(node.id, found.id_of(end))
    for node in found.nodes.values():
        for kind, forward, end in node.references:
            if (
                forward
                and node.sort in _CLASSES
                and found.id_of(kind) not in (SUBTYPE, TYPE_DEFINITION, MODELLING_RULE)
            ):
                other = found.nodes.get(found.id_of(end))
                if other is not None and other.sort in ("Object", "Variable", "Method"):
                    owners.setdefault(other.id, node.id)
    return owners
