"""Reads OPC UA NodeSet2 files as an ontology.

The mapping is stated in `docs/reference/ontology-sources.md`.

Object, variable and data types become classes, reference types properties, the components of types
properties with their domains, enumerated names, the objects of a type (states and transitions), and
the objects and variables of a plant individuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from fedkg_compiler.diagnostics.record import Severity
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.sources.opcua_nodes import (
    MODELLING_RULE,
    PARTS,
    SUBTYPE,
    TYPE_DEFINITION,
    NodeId,
    NodeSet,
    UaNode,
    nodes_of,
)
from fedkg_compiler.graph.sources.opcua_plant_nodes import (
    ARGUMENTS,
    ENCODINGS,
    plant_names,
    plant_of,
    unit_in,
    value_of,
)
from fedkg_compiler.graph.sources.opcua_standard_nodes import DATATYPES, STANDARD, UA
from fedkg_compiler.graph.sources.result import Awaited, NodeNames, Read
from fedkg_compiler.graph.standard_vocabularies import (
    FKG,
    NUMBERS,
    OWL,
    QUDT,
    RDF,
    RDFS,
    SKOS,
    SOSA,
    XSD,
)

_TYPE = ox.NamedNode(RDF + "type")
_LABEL, _COMMENT, _BELOW, _SUB_PROPERTY = (
    ox.NamedNode(RDFS + word) for word in ("label", "comment", "subClassOf", "subPropertyOf")
)
_NOTATION = ox.NamedNode(SKOS + "notation")
_VALUE = ox.NamedNode(RDF + "value")
_NUMBER, _UNIT, _HAS_UNIT = (
    ox.NamedNode(QUDT + word) for word in ("numericValue", "unit", "hasUnit")
)
_QUALIFIED_NAME, _NODE_ID, _BROWSE_NAME, _STORED = (
    ox.NamedNode(FKG + word) for word in ("qualifiedName", "nodeId", "browseName", "storedValueOf")
)
_OBSERVES, _HOSTED = ox.NamedNode(SOSA + "observes"), ox.NamedNode(SOSA + "isHostedBy")
_PROPERTY_TYPE = (UA, "i=68")
"""The type of properties, which describe a node; data variables have its content (OPC 10000-3,
4.4.2)."""
_SCHEMA_ORG = "https://schema.org/"
_CLASSES = frozenset({"ObjectType", "VariableType", "DataType"})
_TEXT_LISTS = frozenset({"EnumStrings", "EnumValues"})
_ANYTHING = UA + "BaseDataType"
_BASES = {"Object": (UA, "i=58"), "Variable": (UA, "i=63")}
_NOT_WRITTEN = frozenset((UA, f"i={number}") for number in (37, 38, 39, 40, 41, 45, 3065, 17603))
"""References of an individual that say what it is, how it is encoded, or which types it has to do
with."""
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
        self.owner = _owners(found)
        self.plant = plant_of(found)
        self.names = _names(found, self.owner)
        taken = {
            f"{node_id[0]} {iri[len(space_of(node_id[0])) :]}"
            for node_id, iri in self.names.items()
        }
        self.names |= {
            node_id: space_of(space) + name
            for node_id, (space, name) in plant_names(self.plant, taken).items()
        }
        self.taken = set(self.names.values())
        self.labels: dict[str, str] = {}
        self.ends: dict[str, dict[str, list[str]]] = defaultdict(
            lambda: {"domain": [], "range": []}
        )
        self.open: set[str] = set()
        self.blanks = 0
        self.places: dict[str, tuple[int, int]] = {}
        self.awaited: dict[str, Awaited] = {}

    @property
    def spaces(self) -> list[str]:
        """The namespaces that the file defines, the main one first."""
        told = [model for model, _ in self.found.models]
        return told or list(dict.fromkeys(node_id[0] for node_id in self.found.nodes))

    def write(self) -> None:
        """Write the ontologies, the types, what they consist of, the plant, and last the properties
        of types.
        """
        for node in self.found.nodes.values():
            if node.sort in _CLASSES:
                self.class_type(node)
            elif node.sort == "ReferenceType":
                self.reference_type(node)
        for node in self.found.nodes.values():
            if node.sort in PARTS and node.id not in self.plant.nodes:
                self.instance(node)
        self.things()
        for iri, ends in self.ends.items():
            self.component(ox.NamedNode(iri), ends)
        self.ontologies()

    def ontologies(self) -> None:
        """Write what the file says of itself.

        A namespace that its nodes need is imported, listed as required or not.
        """
        needed = [one.space for one in self.awaited.values() if one.space != UA]
        imports = dict.fromkeys((*self.found.required, *needed))
        models = self.found.models or [(space, "") for space in self.spaces[:1] if imports]
        for model, version in models:
            ontology = ox.NamedNode(model)
            self.say(ontology, _TYPE, ox.NamedNode(OWL + "Ontology"))
            if version:
                self.say(ontology, ox.NamedNode(OWL + "versionInfo"), ox.Literal(version))
            for required in imports:
                if required not in self.spaces:
                    self.say(ontology, ox.NamedNode(OWL + "imports"), ox.NamedNode(required))

    def say(
        self, subject: ox.NamedNode | ox.BlankNode, predicate: ox.NamedNode, value: Node
    ) -> None:
        self.triples.append(ox.Quad(subject, predicate, value))

    def warn(self, line: int, column: int, message: str, help: str) -> None:
        severity: Severity = "warning"
        span = point(self.found.file, line, column)
        self.found.note(report("FKG103", span, message, help=help, severity=severity))

    def iri(self, node_id: NodeId, at: tuple[int, int]) -> ox.NamedNode:
        """The IRI of a node, of this file or another; `at` is where it is mentioned."""
        name = self.names.get(node_id)
        if name is None:
            name = iri_of(node_id)
            if node_id not in self.found.nodes and _standard(node_id) is None:
                written = self.found.written.get(node_id, node_id[1])
                self.awaited.setdefault(name, Awaited(node_id[0], *at, written))
        return ox.NamedNode(name)

    def described(self, iri: ox.NamedNode, kind: str, node: UaNode) -> None:
        """Say what kind of term a node is, how it is called, what the file says of it, and its
        number.
        """
        self.places.setdefault(iri.value, (node.line, node.column))
        self.say(iri, _TYPE, ox.NamedNode(kind))
        self.say(iri, _LABEL, ox.Literal(node.texts.get("DisplayName", node.name)))
        if comment := node.texts.get("Description"):
            self.say(iri, _COMMENT, ox.Literal(comment))
        self.say(iri, _NOTATION, ox.Literal(node.id[1]))

    def class_type(self, node: UaNode) -> None:
        """Write an object, variable or data type, its place below others, and the fields of a data
        type.
        """
        at = node.line, node.column
        iri = self.iri(node.id, at)
        self.described(iri, OWL + "Class", node)
        if _standard(node.id) is None:
            self.say(
                iri, ox.NamedNode(OWL + "equivalentClass"), ox.NamedNode(numbered_iri(node.id))
            )
        for above in self.above(node):
            self.say(iri, _BELOW, above)
        for entry in node.fields:
            if entry.value is not None:
                self.listed(iri, entry.name, entry.comment, entry.value)
            else:
                relation = _property(node.id[0], entry.name)
                self.relate(relation, entry.name, iri, self.range_of(entry.data_type, at), at)

    def reference_type(self, node: UaNode) -> None:
        """Write a reference type: an object property, with its inverse where the file names one."""
        iri = self.iri(node.id, (node.line, node.column))
        self.described(iri, OWL + "ObjectProperty", node)
        for above in self.above(node):
            self.say(iri, _SUB_PROPERTY, above)
        inverse = node.texts.get("InverseName", "")
        if inverse and inverse != node.texts.get("DisplayName", node.name):
            other = ox.NamedNode(space_of(node.id[0]) + quote(inverse, safe="-._~"))
            if other.value not in self.taken:
                self.say(other, _TYPE, ox.NamedNode(OWL + "ObjectProperty"))
                self.say(other, _LABEL, ox.Literal(inverse))
            self.say(iri, ox.NamedNode(OWL + "inverseOf"), other)

    def above(self, node: UaNode) -> Iterator[ox.NamedNode]:
        """The types that a type is a subtype of, as it says itself."""
        for one in node.references:
            if not one.forward and one.kind == SUBTYPE:
                yield self.iri(one.target, (one.line, one.column))

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
        """Write an object, variable or method that belongs to a type: as a property of it, or as an
        individual.
        """
        owner = self.found.nodes.get(self.owner.get(node.id, ("", "")))
        definition = node.target(TYPE_DEFINITION)
        if node.name in ARGUMENTS or definition in ENCODINGS or node.id not in self.plant.declared:
            return
        if node.id in self.names:
            self.individual(node, definition)
        elif node.name in _TEXT_LISTS:
            if owner is not None and owner.sort == "DataType" and not owner.fields:
                for number, text in enumerate(_texts_of(node)):
                    self.listed(self.iri(owner.id, (0, 0)), text, "", str(number))
        elif owner is None or owner.sort in (*_CLASSES, "Object"):
            self.part(node, owner, definition)

    def individual(self, node: UaNode, definition: NodeId | None) -> None:
        """Write an object that a type has once and for all, and how it refers to others of its
        like.
        """
        at = node.line, node.column
        iri = self.iri(node.id, at)
        self.described(iri, OWL + "NamedIndividual", node)
        if definition is not None:
            self.say(iri, _TYPE, self.iri(definition, at))
        for one in node.references:
            if (
                one.forward
                and one.target in self.names
                and one.target != definition
                and self.found.nodes[one.target].sort == "Object"
            ):
                self.say(iri, self.iri(one.kind, at), self.iri(one.target, at))

    def part(self, node: UaNode, owner: UaNode | None, definition: NodeId | None) -> None:
        """Write a component as a property: of the type that has it, or of an individual where it
        has a value there.
        """
        at = node.line, node.column
        relation = _property(node.space, node.name)
        range_ = self.range_of(node.data_type, at) if node.sort == "Variable" else None
        if owner is not None and owner.id in self.names and owner.sort == "Object":
            self.relate(relation, node.name, None, range_, at)
            value = next((text for path, text in node.value if len(path) == 1), "")
            if value and range_ is not None and range_.startswith(XSD):
                self.say(
                    self.iri(owner.id, at),
                    ox.NamedNode(relation),
                    ox.Literal(value, datatype=ox.NamedNode(range_)),
                )
            return
        above = self.iri(owner.id, at) if owner is not None and owner.sort in _CLASSES else None
        if node.sort == "Object" and definition is not None:
            range_ = self.iri(definition, at).value
        self.relate(relation, node.name, above, range_, at)
        rule = node.target(MODELLING_RULE)
        if above is not None and rule in _COUNTS:
            self.counted(above, relation, _COUNTS[rule])

    def range_of(self, data_type: NodeId | None, at: tuple[int, int]) -> str:
        """The IRI of a data type, from XSD if it has one.

        That of BaseDataType if any type is allowed.
        """
        standard = "BaseDataType" if data_type is None else _standard(data_type)
        if data_type is None or standard == "BaseDataType":
            return _ANYTHING
        return DATATYPES.get(standard or "") or self.iri(data_type, at).value

    def relate(
        self,
        relation: str,
        label: str,
        above: ox.NamedNode | None,
        range_: str | None,
        at: tuple[int, int],
    ) -> None:
        """Gather a use of a property."""
        self.labels.setdefault(relation, label.strip("<>"))
        self.places.setdefault(relation, at)
        ends = self.ends[relation]
        if range_ == _ANYTHING:
            self.open.add(relation)
            range_ = None
        for end, value in (("domain", None if above is None else above.value), ("range", range_)):
            if value is not None and value not in ends[end]:
                ends[end].append(value)

    def component(self, iri: ox.NamedNode, ends: dict[str, list[str]]) -> None:
        """Write a property with all its uses."""
        ranges = ends["range"]
        plain = {value.startswith(XSD) for value in ranges}
        is_open = iri.value in self.open
        sort = (
            RDF + "Property"
            if len(plain) != 1 or is_open
            else OWL + ("DatatypeProperty" if plain.pop() else "ObjectProperty")
        )
        self.say(iri, _TYPE, ox.NamedNode(sort))
        self.say(iri, _LABEL, ox.Literal(self.labels[iri.value]))
        for end, values in ends.items():
            single = len(values) == 1 and not (end == "range" and is_open)
            word = RDFS + end if single else f"{_SCHEMA_ORG}{end}Includes"
            for value in values:
                self.say(iri, ox.NamedNode(word), ox.NamedNode(value))

    def counted(self, owner: ox.NamedNode, relation: str, word: str) -> None:
        """Write how often a type has a component, by its modelling rule."""
        node = self.blank()
        self.say(owner, _BELOW, node)
        self.say(node, _TYPE, ox.NamedNode(OWL + "Restriction"))
        self.say(node, ox.NamedNode(OWL + "onProperty"), ox.NamedNode(relation))
        self.say(
            node,
            ox.NamedNode(OWL + word),
            ox.Literal("1", datatype=ox.NamedNode(XSD + "nonNegativeInteger")),
        )

    def blank(self) -> ox.BlankNode:
        """A new blank node."""
        self.blanks += 1
        return ox.BlankNode(f"r{self.blanks}")

    def things(self) -> None:
        """Write the objects and variables of the plant: what they are, what they consist of, their
        values and units.
        """
        units = self.units()
        for node in self.plant.nodes.values():
            self.thing(node, units.get(node.id))
        said: set[tuple[NodeId, NodeId, NodeId]] = set()
        for node in self.found.nodes.values():
            for one in node.references:
                ends = (node.id, one.target) if one.forward else (one.target, node.id)
                triple = (ends[0], one.kind, ends[1])
                if triple not in said and self.joins_things(triple):
                    said.add(triple)
                    subject, predicate, value = (
                        self.iri(node_id, (one.line, one.column)) for node_id in triple
                    )
                    self.say(subject, predicate, value)

    def joins_things(self, triple: tuple[NodeId, NodeId, NodeId]) -> bool:
        """Whether a reference joins two plant nodes, or one to a node of another file."""
        subject, kind, value = triple
        here = [end in self.plant.nodes for end in (subject, value)]
        return (
            kind not in _NOT_WRITTEN
            and any(here)
            and all(
                is_here or end not in self.found.nodes
                for is_here, end in zip(here, (subject, value), strict=True)
            )
        )

    def units(self) -> dict[NodeId, ox.NamedNode | ox.Literal]:
        """The units that variables of the plant state in their property EngineeringUnits."""
        found: dict[NodeId, ox.NamedNode | ox.Literal] = {}
        for node in self.plant.nodes.values():
            unit = unit_in(node) if node.name == "EngineeringUnits" else None
            if unit is not None:
                found |= dict.fromkeys(self.plant.wholes[node.id], unit)
        return found

    def thing(self, node: UaNode, unit: ox.NamedNode | ox.Literal | None) -> None:
        """Write one object or variable of the plant, and what it is to its wholes."""
        at = node.line, node.column
        iri = self.iri(node.id, at)
        self.described(iri, OWL + "NamedIndividual", node)
        definition, at_type = self.plant.types.get(node.id, (_BASES[node.sort], at))
        if node.id not in self.plant.types:
            name = STANDARD[int(definition[1][2:])]
            self.warn(
                *at,
                f"this <UA{node.sort}>, `{node.name}`, has no HasTypeDefinition; fedkg uses {name}",
                'add a <Reference ReferenceType="HasTypeDefinition"> with the NodeId of its type',
            )
        self.say(iri, _TYPE, self.iri(definition, at_type))
        value: ox.NamedNode | ox.BlankNode | ox.Literal | None = iri
        if node.sort == "Variable":
            value = self.value(node, iri, unit)
        relation = ox.NamedNode(_property(node.space, node.name))
        if node.sort == "Variable" and definition != _PROPERTY_TYPE:
            self.column_names(node, iri)
            is_observed = node.is_historizing or not node.value
            self.say(iri, _OBSERVES if is_observed else _STORED, relation)
            for whole in self.plant.wholes[node.id]:
                self.say(iri, _HOSTED, self.iri(whole, at))
        if value is not None:
            for whole in self.plant.wholes[node.id]:
                self.say(self.iri(whole, at), relation, value)

    def column_names(self, node: UaNode, iri: ox.NamedNode) -> None:
        """Write the names by which tables may call a variable: browse path, NodeId, browse name."""
        path = unquote(iri.value[len(space_of(node.id[0])) :])
        kind, identifier = node.id[1].split("=", 1)
        spaces = self.found.spaces
        index = spaces.index(node.id[0]) if node.id[0] in spaces else 0
        ids = [f"ns={index};{node.id[1]}", f"nsu={node.id[0]};{node.id[1]}"]
        ids = [*ids, identifier] if kind == "s" else ids
        self.say(iri, _QUALIFIED_NAME, ox.Literal(path))
        for text in ids:
            self.say(iri, _NODE_ID, ox.Literal(text))
        self.say(iri, _BROWSE_NAME, ox.Literal(node.name))

    def value(
        self, node: UaNode, iri: ox.NamedNode, unit: ox.NamedNode | ox.Literal | None
    ) -> ox.NamedNode | ox.BlankNode | ox.Literal | None:
        """Write the value of a variable, with its unit if it is a number, and return its node.

        None without a value.
        """
        if unit is not None:
            self.say(iri, _HAS_UNIT, unit)
        value = value_of(node)
        if isinstance(value, str):
            message = f"{value}: the value of the <UAVariable> `{node.name}` is left out"
            self.warn(node.line, node.column, message, "correct the text in <Value>")
            return None
        if value is None:
            return None
        told: ox.NamedNode | ox.BlankNode | ox.Literal = self.choice(node, value) or value
        if unit is not None and value.datatype.value in NUMBERS:
            told = self.blank()
            self.say(told, _NUMBER, value)
            self.say(told, _UNIT, unit)
        self.say(iri, _VALUE, told)
        return told

    def choice(self, node: UaNode, value: ox.Literal) -> ox.NamedNode | None:
        """The name that an enumeration of this file lists for a number."""
        data_type = self.found.nodes.get(node.data_type or ("", ""))
        for entry in data_type.fields if data_type is not None else ():
            if entry.value == value.value and data_type is not None:
                above = self.iri(data_type.id, (node.line, node.column)).value
                return ox.NamedNode(f"{above}.{quote(entry.name, safe='-_~')}")
        return None


def _texts_of(node: UaNode) -> list[str]:
    """The texts of a value that is a list of texts."""
    return [
        text for path, text in node.value if path[-1] == "Text" and path[-2:-1] != ("Description",)
    ]


def read(text: str, file: str, folder: Path | None) -> Read:
    """Return the triples of a NodeSet2 file; `folder` plays no part."""
    del folder
    found = nodes_of(text, file)
    terms = _Terms(found)
    if found.usable:
        terms.write()
    return Read(
        triples=terms.triples,
        prefixes={"": space_of(terms.spaces[0])} if terms.spaces else {},
        problems=found.all_problems(),
        usable=found.usable,
        nodes=NodeNames(
            named={numbered_iri(node_id): terms.names.get(node_id, "") for node_id in found.nodes},
            awaited=terms.awaited,
            places=terms.places,
            spaces=frozenset(node_id[0] for node_id in found.nodes),
        ),
    )


def space_of(namespace: str) -> str:
    """Return the namespace of the IRIs for one of OPC UA: with a `#` behind it, a `/` where it has
    a `#`, unless it ends in one of them.

    Examples:
        >>> space_of("http://example.org/plant"), space_of("http://opcfoundation.org/UA/")
        ('http://example.org/plant#', 'http://opcfoundation.org/UA/')
    """
    if namespace.endswith(("#", "/")):
        return namespace
    return namespace + ("/" if "#" in namespace else "#")


def numbered_iri(node_id: NodeId) -> str:
    """Return the IRI of a node by its number, such as ``...#node_i4714``: what other files know of
    it.
    """
    kind, _, identifier = node_id[1].partition("=")
    return f"{space_of(node_id[0])}node_{kind}{quote(identifier, safe='-_~')}"


def iri_of(node_id: NodeId) -> str:
    """Return the IRI of a node that this file does not define: by its name where OPC UA defines it,
    else by its number.
    """
    name = _standard(node_id)
    return numbered_iri(node_id) if name is None else UA + name


def _standard(node_id: NodeId) -> str | None:
    number = node_id[1].removeprefix("i=")
    return STANDARD.get(int(number)) if node_id[0] == UA and number.isdecimal() else None


def _property(space: str, name: str) -> str:
    return f"{space_of(space)}has{quote(name.strip('<>'), safe='-._~')}"


def _names(found: NodeSet, owners: dict[NodeId, NodeId]) -> dict[NodeId, str]:
    """The IRIs of the types and of the objects that types have once and for all.

    A name that is taken gets the node's number too.
    """
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
    for node in found.nodes.values():
        owner = found.nodes.get(owners.get(node.id, ("", "")))
        lasting = (
            node.target(MODELLING_RULE) is None and node.target(TYPE_DEFINITION) not in ENCODINGS
        )
        if node.sort == "Object" and lasting and owner is not None and owner.sort == "ObjectType":
            give(node, f"{quote(owner.name, safe='-_~')}.{quote(node.name, safe='-_~')}")
    return names


def _owners(found: NodeSet) -> dict[NodeId, NodeId]:
    """The parent of each node: by the references that go down from it or up to it, except subtypes
    and definitions.
    """
    owners: dict[NodeId, NodeId] = {}
    others = (SUBTYPE, TYPE_DEFINITION, MODELLING_RULE)
    for node in found.nodes.values():
        for one in node.references:
            if node.sort in PARTS and not one.forward and one.kind not in others:
                owners.setdefault(node.id, one.target)
    for node in found.nodes.values():
        for one in node.references:
            if one.forward and node.sort in _CLASSES and one.kind not in others:
                other = found.nodes.get(one.target)
                if other is not None and other.sort in PARTS:
                    owners.setdefault(other.id, node.id)
    return owners
