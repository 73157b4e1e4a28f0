"""The nodes of an OPC UA NodeSet2 file (OPC 10000-6, annex F) as records, with node ids that do not
depend on the file's numbering.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.diagnostics.record import Diagnostic, Severity
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.sources.axiom_trees import is_absolute
from fedkg_compiler.graph.sources.opcua_standard_nodes import COMPONENT_NAMES, STANDARD, UA
from fedkg_compiler.graph.sources.xml_events import Place, Start, walk
from fedkg_compiler.graph.xml_check import broken_iri

NodeId = tuple[str, str]
"""Namespace and identifier, such as ``i=45``."""
SUBTYPE, TYPE_DEFINITION, MODELLING_RULE = (UA, "i=45"), (UA, "i=40"), (UA, "i=37")
PARTS = frozenset({"Object", "Variable", "Method"})
"""Node classes of what types and other objects consist of."""
_SET = "http://opcfoundation.org/UA/2011/03/UANodeSet.xsd"
_MOST_REPORTED = 20
_NODE_ID = re.compile(r"(?:ns=(\d{1,5});)?(i=\d{1,10}|[sgb]=.+)", re.ASCII | re.DOTALL)
_NAMED = {name: (UA, f"i={number}") for number, name in STANDARD.items()}
_ID_HELP = "write a NodeId such as `ns=1;i=1001` or `i=58`, or a name that <Aliases> lists"


@dataclass(slots=True)
class Field:
    """A field of a data type: of a structure, or with `value` one of the names that an enumeration
    lists.
    """

    name: str
    data_type: NodeId | None
    value: str | None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference of a node to another one, with its place in the file."""

    kind: NodeId
    forward: bool
    target: NodeId
    line: int
    column: int


@dataclass(slots=True)
class UaNode:
    """One node.

    Attributes:
        sort: the kind of node: ``ObjectType``, ``Variable`` and so on.
        id: its NodeId.
        space: the namespace of its browse name.
        name: its browse name.
        line: the line on which its element begins.
        column: the column in which its element begins.
        data_type: the attribute DataType, or None.
        parent: the attribute ParentNodeId, or None.
        is_model: whether only design tools use it (DesignToolOnly); no server has it.
        is_historizing: whether the server records the values of a variable (Historizing).
        texts: the texts of the elements `DisplayName`, `Description` and `InverseName` below it, by
            element.
        value: the names of the elements below ``Value`` with the texts in them, in the order of the
            file.
    """

    sort: str
    id: NodeId
    space: str
    name: str
    line: int
    column: int
    data_type: NodeId | None = None
    parent: NodeId | None = None
    is_model: bool = False
    is_historizing: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    references: list[Reference] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    value: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    def target(self, kind: NodeId) -> NodeId | None:
        """Return where the first forward reference of a type leads."""
        return next(
            (one.target for one in self.references if one.forward and one.kind == kind), None
        )


@dataclass(slots=True)
class NodeSet:
    """One file: its nodes by id, the models that it defines and requires, and what is wrong with
    it.

    Attributes:
        spaces: the namespaces by their index in the file.
        written: the NodeId of each node that the file refers to, as the file first writes it, with
            its alias replaced.
    """

    file: str
    spaces: list[str] = field(default_factory=lambda: [UA])
    aliases: dict[str, str] = field(default_factory=dict)
    models: list[tuple[str, str]] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    nodes: dict[NodeId, UaNode] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    usable: bool = True
    written: dict[NodeId, str] = field(default_factory=dict)
    _noted: dict[Severity, list[Diagnostic]] = field(default_factory=dict)

    def note(self, problem: Diagnostic) -> None:
        """Keep the first problems of each severity; `all_problems` counts the others."""
        noted = self._noted.setdefault(problem.severity, [])
        noted.append(problem)
        if len(noted) <= _MOST_REPORTED:
            self.problems.append(problem)

    def all_problems(self) -> tuple[Diagnostic, ...]:
        """Return the problems that are shown, with the number of those that are not."""
        found = list(self.problems)
        for severity, noted in self._noted.items():
            if len(noted) > _MOST_REPORTED:
                last = noted[-1]
                count = len(noted) - _MOST_REPORTED
                more = f"{count} more {severity}{'s' * (count > 1)} of this node set"
                message = f"{more} {'are' if count > 1 else 'is'} not shown; the last one is here"
                advice = "correct the first ones and check again"
                found.append(report(last.code, last.span, message, help=advice, severity=severity))
        return tuple(found)


@dataclass(slots=True)
class _Element:
    """A node, reference or field as the file writes it.

    Ids are resolved when all aliases and namespaces are known.
    """

    sort: str
    attributes: dict[str, str]
    line: int
    column: int
    text: str = ""
    comment: str = ""


@dataclass(slots=True)
class _RawNode:
    element: _Element
    texts: dict[str, str] = field(default_factory=dict)
    references: list[_Element] = field(default_factory=list)
    fields: list[_Element] = field(default_factory=list)
    value: list[tuple[tuple[str, ...], str]] = field(default_factory=list)


class _Builder:
    """The callbacks of one pass."""

    def __init__(self, place: Place, found: NodeSet) -> None:
        self.place = place
        self.found = found
        self.path: list[str] = []
        self.text: list[str] = []
        self.attributes: list[dict[str, str]] = []
        self.node: _RawNode | None = None
        self.nodes: list[_RawNode] = []
        self.listed_spaces = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        local = name.rpartition(" ")[2]
        self.path.append(local)
        self.attributes.append(attributes)
        self.text.clear()
        depth, above = len(self.path), self.path[-2] if len(self.path) > 1 else ""
        if depth == 2 and name.startswith(f"{_SET} UA"):
            self.node = _RawNode(_Element(local[2:], attributes, *self.place.now()))
            self.nodes.append(self.node)
        elif self.node is not None:
            if depth == 4 and (local, above) == ("Reference", "References"):
                self.node.references.append(_Element(local, attributes, *self.place.now()))
            elif depth == 4 and (local, above) == ("Field", "Definition"):
                self.node.fields.append(_Element(local, attributes, *self.place.now()))
        elif local == "NamespaceUris":
            self.listed_spaces = True
        elif local == "Model" and (model := self.uri(attributes.get("ModelUri", ""))):
            self.found.models.append((model, attributes.get("Version", "")))
            if not self.listed_spaces and model != UA:
                self.found.spaces.append(model)
        elif local == "RequiredModel" and (model := self.uri(attributes.get("ModelUri", ""))):
            self.found.required.append(model)

    def uri(self, text: str) -> str:
        """A namespace if it is an IRI; else "" with a problem reported."""
        if is_absolute(text):
            return text
        self.found.note(broken_iri(point(self.found.file, *self.place.now()), text))
        return ""

    def characters(self, text: str) -> None:
        self.text.append(text)

    def end(self, name: str) -> None:
        local, attributes = self.path.pop(), self.attributes.pop()
        text = "".join(self.text).strip()
        self.text.clear()
        del name
        if len(self.path) == 1:
            self.node = None
        match local, self.path[1:]:
            case "Uri", ["NamespaceUris"]:
                space = self.uri(text) or f"urn:namespace:{len(self.found.spaces)}"
                self.found.spaces.append(space)
            case "Alias", ["Aliases"]:
                self.found.aliases[attributes.get("Alias", "")] = text
            case _ if self.node is None or not text:
                return
            case "Reference", [_, "References"]:
                self.node.references[-1].text = text
            case (("DisplayName" | "Description" | "InverseName"), [_]):
                self.node.texts.setdefault(local, text)
            case "Description", [_, "Definition", "Field"]:
                self.node.fields[-1].comment = text
            case _, [_, "Value", *below]:
                self.node.value.append(((*below, local), text))


class _Resolver:
    """Turns ids, aliases and browse names of one file into those of `NodeSet`, and reports what
    they lack.
    """

    def __init__(self, found: NodeSet) -> None:
        self.found = found
        self.lacking: set[str] = set()

    def mistake(
        self, element: _Element, message: str, help: str, severity: Severity = "error"
    ) -> None:
        span = point(self.found.file, element.line, element.column)
        self.found.note(report("FKG103", span, message, help=help, severity=severity))

    def node(self, raw: _RawNode) -> None:
        """Add a node; one without an id, or with one that another node has, is left out and
        reported.
        """
        element, found = raw.element, self.found
        tag, written = f"<UA{element.sort}>", element.attributes.get("NodeId", "").strip()
        if not written:
            message = f"this {tag} has no NodeId; it is left out"
            self.mistake(element, message, 'add one, such as NodeId="ns=1;i=1001"')
            return
        node_id = self.own_id(element, written, tag)
        if node_id is None:
            return
        owner = f"{tag} {written}"
        space, name = self.browse_name(element, node_id, owner)
        node = UaNode(element.sort, node_id, space, name, element.line, element.column)
        node.texts, node.value = raw.texts, raw.value
        node.is_model = element.attributes.get("DesignToolOnly", "") in ("true", "1")
        node.is_historizing = element.attributes.get("Historizing", "") in ("true", "1")
        if data_type := element.attributes.get("DataType", ""):
            node.data_type = self.id_of(data_type, element, f"the DataType of {owner}")
        if parent := element.attributes.get("ParentNodeId", ""):
            node.parent = self.id_of(parent, element, f"the ParentNodeId of {owner}")
        first = found.nodes.setdefault(node.id, node)
        if first is not node:
            message = f"the node {written} is defined twice; fedkg uses the first one"
            span = point(found.file, element.line, element.column)
            advice = f"the other one is in line {first.line}"
            self.found.note(report("FKG119", span, message, help=advice, severity="warning"))
            return
        for one in raw.references:
            kind = self.id_of(
                one.attributes.get("ReferenceType", ""),
                one,
                f"the ReferenceType of a <Reference> of {owner}",
            )
            target = self.id_of(one.text, one, f"the target of a <Reference> of {owner}")
            if kind is not None and target is not None:
                forward = one.attributes.get("IsForward", "true").strip() not in ("false", "0")
                node.references.append(Reference(kind, forward, target, one.line, one.column))
        for one in raw.fields:
            data_type = one.attributes.get("DataType", "")
            what = f"the DataType of the field `{one.attributes.get('Name', '')}` of {owner}"
            kind = self.id_of(data_type, one, what) if data_type else None
            node.fields.append(
                Field(
                    one.attributes.get("Name", ""), kind, one.attributes.get("Value"), one.comment
                )
            )

    def own_id(self, element: _Element, written: str, tag: str) -> NodeId | None:
        """The id of a node; in a namespace that the file does not list it is kept apart by its
        number.
        """
        match = _NODE_ID.fullmatch(written)
        if match is None:
            self.mistake(
                element,
                f"`{_shown(written)}` is not a NodeId; this {tag} is left out",
                "write `i=`, `s=`, `g=` or `b=` behind the namespace: `ns=1;i=1001`",
            )
            return None
        index = int(match[1] or 0)
        if index < len(self.found.spaces):
            return self.found.spaces[index], _identifier(match[2])
        self.mistake(
            element,
            f"the namespace ns={index} of this {tag} is none of <NamespaceUris>",
            self.spaces_help(),
        )
        return f"urn:namespace:{index}", _identifier(match[2])

    def id_of(self, written: str, element: _Element, what: str) -> NodeId | None:
        """The node id of a text such as ``ns=1;i=45``, or of an alias.

        None with a problem reported where it is neither.
        """
        written = written.strip()
        text = self.found.aliases.get(written, written)
        match = _NODE_ID.fullmatch(text)
        if match is None:
            return self.without_alias(written, element, what)
        index = int(match[1] or 0)
        if index >= len(self.found.spaces):
            if written in self.found.aliases:
                what += f", which <Aliases> lists as `{_shown(text)}`,"
            self.mistake(
                element,
                f"`{_shown(written)}`: the namespace ns={index} of {what} is none of "
                f"<NamespaceUris>",
                self.spaces_help(),
            )
            return None
        node_id = self.found.spaces[index], _identifier(match[2])
        self.found.written.setdefault(node_id, text)
        return node_id

    def without_alias(self, written: str, element: _Element, what: str) -> NodeId | None:
        """The standard node that a text names; the text is neither a NodeId nor an alias."""
        standard = _NAMED.get(written)
        if standard is None:
            meant = nearest_name(written, [*self.found.aliases, *_NAMED])
            self.mistake(
                element,
                f"`{_shown(written)}`, {what}, is neither a NodeId nor an alias",
                f"did you mean `{meant}`?" if meant else _ID_HELP,
            )
        elif written not in self.lacking:
            self.lacking.add(written)
            self.mistake(
                element,
                f"`{written}`, {what}, is not listed in <Aliases>; {standard[1]} is taken",
                f'add <Alias Alias="{written}">{standard[1]}</Alias> there',
                "warning",
            )
        return standard

    def browse_name(self, element: _Element, node_id: NodeId, owner: str) -> tuple[str, str]:
        """Namespace and name; without an index that of the node, except for names of OPC UA's own
        components.
        """
        written = element.attributes.get("BrowseName", "").strip()
        number, mark, name = written.partition(":")
        if not written:
            self.mistake(
                element, f"{owner} has no BrowseName", "give it one: a name, such as `1:Motor`"
            )
            return node_id[0], node_id[1]
        if not (mark and re.fullmatch(r"\d{1,5}", number, re.ASCII)):
            return (UA if written.strip("<>") in COMPONENT_NAMES else node_id[0]), written
        if int(number) < len(self.found.spaces):
            return self.found.spaces[int(number)], name
        self.mistake(
            element,
            f"the namespace {number} of the BrowseName `{_shown(written)}` of {owner} is "
            f"none of <NamespaceUris>",
            self.spaces_help(),
        )
        return node_id[0], name

    def spaces_help(self) -> str:
        """Advice for a namespace index that is too high."""
        last = len(self.found.spaces) - 1
        listed = (
            f"it lists 1 to {last}" if last > 1 else f"it lists {'1 alone' if last else 'none'}"
        )
        return f"{listed}: name its address there, or correct the number"


def _identifier(text: str) -> str:
    """The identifier in one spelling: numbers have no leading zeros."""
    return f"i={int(text[2:])}" if text.startswith("i=") else text


def _shown(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def nodes_of(text: str, file: str) -> NodeSet:
    """Return the nodes of a NodeSet2 file. Where the XML breaks off, those before it."""
    found = NodeSet(file)
    builders: list[_Builder] = []

    def begin(place: Place) -> tuple[Start, Callable[[str], None], Callable[[str], None]]:
        builders.append(_Builder(place, found))
        return builders[0].start, builders[0].end, builders[0].characters

    stopped = walk(text, file, begin)
    found.usable = not any(problem.code == "FKG107" for problem in stopped)
    resolver = _Resolver(found)
    for raw in builders[0].nodes if found.usable else ():
        resolver.node(raw)
    found.problems += stopped
    return found
