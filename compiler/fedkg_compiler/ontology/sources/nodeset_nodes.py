"""The nodes of an OPC UA NodeSet2 file (OPC 10000-6, annex F) as records, with node ids that do not depend on the file's numbering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.ontology.places import point, report
from fedkg_compiler.ontology.sources.nodeset_standard import UA
from fedkg_compiler.ontology.sources.trees import is_absolute
from fedkg_compiler.ontology.sources.xml_events import Place, Start, walk
from fedkg_compiler.ontology.xml_check import broken_iri

NodeId = tuple[str, str]
"""Namespace and identifier, such as ``i=45``."""
SUBTYPE, TYPE_DEFINITION, MODELLING_RULE = (UA, "i=45"), (UA, "i=40"), (UA, "i=37")
_SET = "http://opcfoundation.org/UA/2011/03/UANodeSet.xsd"
_MOST_REPORTED = 20


@dataclass(slots=True)
class Field:
    """A field of a data type: of a structure, or with `value` one of the names that an enumeration lists."""

    name: str
    data_type: str
    value: str | None
    comment: str = ""


@dataclass(slots=True)
class UaNode:
    """One node.

    Attributes:
        sort: ``ObjectType``, ``Variable`` and so on. space, name: of its browse name. texts: of the elements below it that hold text.
        references: (reference type, forward, target), as the file writes ids. value: its value as text, where it is a single one.
        listed: the texts of a value that is a list of texts.
    """

    sort: str
    id: NodeId
    space: str
    name: str
    line: int
    column: int
    data_type: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    references: list[tuple[str, bool, str]] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    value: str = ""
    listed: list[str] = field(default_factory=list)


@dataclass(slots=True)
class NodeSet:
    """One file: its nodes by id, the models that it defines and requires, and what is wrong with it."""

    file: str
    spaces: list[str] = field(default_factory=lambda: [UA])
    aliases: dict[str, str] = field(default_factory=dict)
    models: list[tuple[str, str]] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    nodes: dict[NodeId, UaNode] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    usable: bool = True

    def id_of(self, text: str) -> NodeId:
        """The node id of a text such as ``ns=1;i=45``, or of an alias."""
        text = self.aliases.get(text.strip(), text.strip())
        space, mark, identifier = text.partition(";")
        if not mark or not space.startswith("ns="):
            return UA, text
        return self.space(space[3:]), identifier

    def space(self, number: str) -> str:
        """The namespace of this number; one that the file does not list is called by its number."""
        return (
            self.spaces[int(number)]
            if number.isdecimal() and int(number) < len(self.spaces)
            else f"urn:namespace:{number}"
        )

    def note(self, problem: Diagnostic) -> None:
        """Keep a diagnostic unless there are enough of them."""
        if len(self.problems) < _MOST_REPORTED:
            self.problems.append(problem)


class _Builder:
    """The callbacks of one pass."""

    def __init__(self, place: Place, found: NodeSet) -> None:
        self.place = place
        self.found = found
        self.path: list[str] = []
        self.text: list[str] = []
        self.attributes: list[dict[str, str]] = []
        self.node: UaNode | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        self.path.append(local)
        self.attributes.append(attributes)
        self.text.clear()
        if len(self.path) == 2 and name.startswith(f"{_SET} UA"):
            self.node = self.begun(local[2:], attributes)
        elif local == "Field" and self.node is not None:
            self.node.fields.append(
                Field(
                    attributes.get("Name", ""),
                    attributes.get("DataType", ""),
                    attributes.get("Value"),
                )
            )
        elif local == "Model" and (model := self.uri(attributes.get("ModelUri", ""))):
            self.found.models.append((model, attributes.get("Version", "")))
        elif local == "RequiredModel" and (model := self.uri(attributes.get("ModelUri", ""))):
            self.found.required.append(model)

    def uri(self, text: str) -> str:
        """A namespace if it is an IRI; else "" with a problem told."""
        if is_absolute(text):
            return text
        self.found.note(broken_iri(point(self.found.file, *self.place.now()), text))
        return ""

    def begun(self, sort: str, attributes: dict[str, str]) -> UaNode | None:
        """A new node, or None with a problem told where its id is missing or taken."""
        line, column = self.place.now()
        found = self.found
        if "NodeId" not in attributes:
            span = point(found.file, line, column)
            found.note(
                report(
                    "FKG103",
                    span,
                    f"this <UA{sort}> has no NodeId; it is left out",
                    help="every node has one",
                )
            )
            return None
        number, mark, name = attributes.get("BrowseName", "").partition(":")
        space, name = (
            (found.space(number), name)
            if mark and number.isdecimal()
            else (UA, attributes.get("BrowseName", ""))
        )
        node = UaNode(
            sort,
            found.id_of(attributes["NodeId"]),
            space,
            name,
            line,
            column,
            attributes.get("DataType", ""),
        )
        if node.id[0] not in found.spaces:
            span, number = point(found.file, line, column), attributes["NodeId"].partition(";")[0]
            advice = "name its address there, or mend the number"
            found.note(
                report(
                    "FKG103",
                    span,
                    f"the namespace {number} of this <UA{sort}> is none of <NamespaceUris>",
                    help=advice,
                )
            )
        first = found.nodes.setdefault(node.id, node)
        if first is node:
            return node
        message = f"the node {attributes['NodeId']} is defined twice; the first definition is taken"
        advice = f"the other one is in line {first.line}"
        found.note(
            report(
                "FKG119", point(found.file, line, column), message, help=advice, severity="warning"
            )
        )
        return None

    def characters(self, text: str) -> None:
        self.text.append(text)

    def end(self, name: str) -> None:
        local, attributes = self.path.pop(), self.attributes.pop()
        text = "".join(self.text).strip()
        self.text.clear()
        if len(self.path) == 1:
            self.node = None
        if not text:
            return
        match local, self.path[-1]:
            case "Uri", "NamespaceUris":
                self.found.spaces.append(
                    self.uri(text) or f"urn:namespace:{len(self.found.spaces)}"
                )
            case "Alias", _:
                self.found.aliases[attributes.get("Alias", "")] = text
            case "Reference", _ if self.node is not None:
                forward = attributes.get("IsForward", "true") not in ("false", "0")
                self.node.references.append((attributes.get("ReferenceType", ""), forward, text))
            case (("DisplayName" | "Description" | "InverseName"), _) if (
                self.node is not None and len(self.path) == 2
            ):
                self.node.texts.setdefault(local, text)
            case "Description", "Field" if self.node is not None:
                self.node.fields[-1].comment = text
            case "Text", above if self.node is not None and "Value" in self.path:
                if above != "Description":
                    self.node.listed.append(text)
            case _, "Value" if self.node is not None and len(self.path) == 3:
                self.node.value = text
        del name


def nodes_of(text: str, file: str) -> NodeSet:
    """Return the nodes of a NodeSet2 file. Where the XML breaks off, those before it."""
    found = NodeSet(file)
    builders: list[_Builder] = []

    def begin(place: Place) -> tuple[Start, Callable[[str], None], Callable[[str], None]]:
        builders.append(_Builder(place, found))
        return builders[0].start, builders[0].end, builders[0].characters

    stopped = walk(text, file, begin)
    found.problems += stopped
    found.usable = not any(problem.code == "FKG107" for problem in stopped)
    return found
