"""Reads B2MML documents (the XML form of ISA-95) as individuals of fedkg's ISA-95 modules.

The mapping is stated in `docs/reference/ontology-sources.md`. XML schemas of B2MML are read by
`xml_schema`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote

from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, conversion, same_dimension
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.node_values import literal
from fedkg_compiler.graph.sources.opcua_standard_nodes import UNIT_CODES
from fedkg_compiler.graph.sources.result import NodeNames, Read
from fedkg_compiler.graph.sources.xml_events import Place, Start, walk
from fedkg_compiler.graph.standard_vocabularies import (
    FKG,
    FKG_ISA95,
    ISA95,
    NUMBERS,
    OWL,
    QUDT,
    RDF,
    RDFS,
    SOSA,
    UNIT,
    XSD,
)

BASE = "urn:fedkg:b2mml:"
"""The start of the IRIs of individuals: B2MML has IDs, and no IRIs."""

KINDS = frozenset(
    {
        *("Equipment", "EquipmentClass", "PhysicalAsset", "PhysicalAssetClass", "Person"),
        *("MaterialClass", "MaterialDefinition", "MaterialLot"),
    }
)
"""The elements that are objects with properties, which are elements `...Property`."""
_CLASSES = ("Equipment", "PhysicalAsset")
"""Kinds with a class that `definedBy...Class` leads to."""
_RESULT_OF = {
    "Equipment": "resultOfEquipment",
    "PhysicalAsset": "resultOfPhysicalAsset",
    "MaterialLot": "resultOfLot",
}
_LEVELS = {
    **{name: ISA95 + name for name in ("Enterprise", "Site", "Area", "Unit")},
    **{
        name: FKG_ISA95 + name
        for name in (
            *("ProcessCell", "ProductionLine", "WorkCell", "ProductionUnit", "StorageZone"),
            *("StorageUnit", "WorkCenter", "WorkUnit"),
        )
    },
}
"""The class of each equipment level that the modules have."""
_DATATYPES = {"DateTime": "dateTime", "Text": "string", "Identifier": "string", "Code": "string"}
_NUMERIC = frozenset({"", "Amount", "Measure", "Numeric", "Quantity"})
"""Data types of B2MML without one of XML Schema; a text that is a number is one."""
_XSD = frozenset({*(name.removeprefix(XSD) for name in NUMBERS), "boolean", "date", "dateTime"})
_DATES = (XSD + "date", XSD + "dateTime")
_MOST_REPORTED = 20

_TYPE, _INDIVIDUAL = ox.NamedNode(RDF + "type"), ox.NamedNode(OWL + "NamedIndividual")
_LABEL, _COMMENT = ox.NamedNode(RDFS + "label"), ox.NamedNode(RDFS + "comment")
_CONSISTS_OF = ox.NamedNode(ISA95 + "consistsOf")
_NUMBER, _UNIT, _HAS_UNIT = (
    ox.NamedNode(QUDT + name) for name in ("numericValue", "unit", "hasUnit")
)
_OBSERVES, _HOSTED = ox.NamedNode(SOSA + "observes"), ox.NamedNode(SOSA + "isHostedBy")
_STORED, _QUALIFIED_NAME, _BROWSE_NAME = (
    ox.NamedNode(FKG + name) for name in ("storedValueOf", "qualifiedName", "browseName")
)


@dataclass(slots=True)
class _Element:
    """An element of B2MML with its place."""

    name: str
    line: int
    column: int
    text: str = ""
    parts: list[_Element] = field(default_factory=list)
    is_complete: bool = False

    def named(self, *names: str) -> Iterator[_Element]:
        """The direct parts with one of some names."""
        return (part for part in self.parts if part.name in names)

    def text_of(self, name: str) -> str:
        """The text of the first part with a name, stripped; "" without one."""
        return next((part.text.strip() for part in self.named(name)), "")


_Content = tuple[float | str, Unit | ox.NamedNode | ox.Literal]
"""What a Value says, with its unit: one that is not known by its node."""


class _Builder:
    """The callbacks of one pass: the elements of B2MML as a tree."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.root = _Element("", 1, 1)
        self.open = [self.root]

    def start(self, name: str, attributes: dict[str, str]) -> None:
        del attributes
        element = _Element(name.rpartition(" ")[2], *self.place.now())
        self.open[-1].parts.append(element)
        self.open.append(element)

    def end(self, name: str) -> None:
        del name
        self.open.pop().is_complete = True

    def characters(self, text: str) -> None:
        self.open[-1].text += text


class _Writer:
    """Writes the triples of one document."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.triples: list[ox.Quad] = []
        self.places: dict[str, tuple[int, int]] = {}
        self.kinds: dict[str, str] = {}
        self.wrong: list[tuple[_Element, str, str]] = []
        self.stated: dict[tuple[str, str], tuple[str, int, Sequence[_Content]]] = {}
        self.blanks = 0

    def say(
        self,
        subject: ox.NamedNode | ox.BlankNode,
        predicate: ox.NamedNode,
        value: ox.NamedNode | ox.BlankNode | ox.Literal,
    ) -> None:
        self.triples.append(ox.Quad(subject, predicate, value))

    def find_kinds(self, element: _Element) -> None:
        """Note the kind of each ID, because results refer to IDs alone."""
        kind = element.name.removesuffix("Child")
        if kind in KINDS and (name := element.text_of("ID")):
            self.kinds.setdefault(name, kind)
        for part in element.parts:
            self.find_kinds(part)

    def write(self, element: _Element, whole: ox.NamedNode | None = None) -> None:
        """Write an element if it is an object of ISA-95, and what it contains."""
        kind = element.name.removesuffix("Child")
        name = element.text_of("ID")
        node = None
        if kind in KINDS and not name:
            self.nameless(element)
        elif kind in KINDS:
            node = self.thing(element, kind, name)
            if whole is not None and element.name == "EquipmentChild":
                self.say(whole, _CONSISTS_OF, node)
                self.compare(element, node, "parent", _name(whole))
        elif kind == "TestResult" and name:
            self.result(element, name)
        for part in element.parts:
            self.write(part, node)

    def nameless(self, element: _Element) -> None:
        """Report an object or a property without a name; a broken document may have cut it off."""
        if element.is_complete:
            sentence = f"<{element.name}> has no <ID>: it is left out"
            self.wrong.append((element, sentence, "give it an <ID>"))

    def compare(
        self,
        element: _Element,
        node: ox.NamedNode,
        what: str,
        value: str,
        contents: Sequence[_Content] = (),
    ) -> None:
        """Report an element that contradicts an earlier one with its ID.

        An ID is unique within a document (ISA-95, part 2), so that both are the same object, and an
        element with the ID alone refers to the other.
        """
        stated = value, element.line, contents
        first, line, others = self.stated.setdefault((node.value, what), stated)
        if first != value and not (contents and _agree(contents, others)):
            sentence = (
                f"the {what} of `{_name(node)}` is `{value}` here and `{first}` in line "
                f"{line}: fedkg reads both elements as the same object"
            )
            advice = "if they are different objects, give each its own <ID>"
            self.wrong.append((element, sentence, advice))

    def described(self, node: ox.NamedNode, kind: str, element: _Element) -> None:
        """Write class, name, description and place of a node."""
        self.places.setdefault(node.value, (element.line, element.column))
        self.say(node, _TYPE, ox.NamedNode(FKG_ISA95 + kind))
        self.say(node, _TYPE, _INDIVIDUAL)
        self.say(node, ox.NamedNode(FKG_ISA95 + "identifier"), ox.Literal(element.text_of("ID")))
        self.say(node, _LABEL, ox.Literal(element.text_of("ID")))
        for part in element.named("Description"):
            if part.text.strip():
                self.say(node, _COMMENT, ox.Literal(part.text.strip()))

    def thing(self, element: _Element, kind: str, name: str) -> ox.NamedNode:
        """Write an object: equipment, an asset, a lot, a person, or a class of these."""
        node = _node(kind, name)
        self.described(node, kind, element)
        level = element.text_of("EquipmentLevel")
        if level:
            self.compare(element, node, "EquipmentLevel", level)
        if kind == "Equipment" and level in _LEVELS:
            self.say(node, _TYPE, ox.NamedNode(_LEVELS[level]))
        for part in element.named(*(f"{one}ClassID" for one in _CLASSES)):
            above = _node(part.name.removesuffix("ID"), part.text.strip())
            if part.text.strip() and part.name == f"{kind}ClassID":
                self.say(node, _TYPE, above)
                self.say(node, ox.NamedNode(f"{FKG_ISA95}definedBy{kind}Class"), above)
        for part in element.named(f"{kind}Property"):
            self.property(part, kind, node, name)
        return node

    def property(self, element: _Element, kind: str, host: ox.NamedNode, path: str) -> None:
        """Write a property of an object with its values, or as observed if it has none.

        Args:
            path: the IDs of the object and of the properties above this one, joined with dots.
        """
        name = element.text_of("ID")
        if not name:
            self.nameless(element)
            return
        path = f"{path}.{name}"
        node = _node(kind, path)
        relation = ox.NamedNode(f"{BASE}has{_quoted(name)}")
        self.described(node, f"{kind}Property", element)
        self.say(host, ox.NamedNode(f"{FKG_ISA95}has{kind}Property"), node)
        self.say(node, _QUALIFIED_NAME, ox.Literal(path))
        self.say(node, _BROWSE_NAME, ox.Literal(name))
        self.say(node, _HOSTED, host)
        units = {part.text_of("UnitOfMeasure") for part in element.named("Value")} - {""}
        if len(units) == 1:
            self.say(node, _HAS_UNIT, _unit(*units))
        values = [
            (found, part.text_of("UnitOfMeasure"))
            for part in element.named("Value")
            if (found := self.read_literal(part)) is not None
        ]
        if values:
            shown = ", ".join(f"{found.value} {unit}".strip() for found, unit in values)
            self.compare(element, node, "value", shown, [_content(*one) for one in values])
        for value in itertools.starmap(self.quantity, values):
            self.say(node, ox.NamedNode(FKG_ISA95 + "value"), value)
            self.say(host, relation, value)
        self.say(node, _STORED if values else _OBSERVES, relation)
        for part in element.named(f"{kind}PropertyChild"):
            self.property(part, kind, host, path)

    def read_literal(self, element: _Element) -> ox.Literal | None:
        """The content of a Value without its unit; None if it is empty, or wrong, which is
        reported.
        """
        text, datatype = element.text_of("ValueString"), element.text_of("DataType")
        if not text:
            return None
        if datatype in _NUMERIC:
            number = ox.Literal(text, datatype=ox.NamedNode(XSD + "double"))
            found = number if not isinstance(literal(number).value, str) else ox.Literal(text)
        else:
            name = _DATATYPES.get(datatype, datatype if datatype in _XSD else "string")
            found = ox.Literal(text, datatype=ox.NamedNode(XSD + name))
            if not _is_valid(found):
                sentence = f"`{text[:60]}` is not a value of type {datatype}: the value is left out"
                advice = "correct the text in <ValueString> or <DataType>"
                self.wrong.append((element, sentence, advice))
                return None
        return found

    def quantity(self, found: ox.Literal, unit: str) -> ox.Literal | ox.BlankNode:
        """A literal, or a quantity if it is a number with a unit."""
        if not unit or found.datatype.value not in NUMBERS:
            return found
        self.blanks += 1
        quantity = ox.BlankNode(f"v{self.blanks}")
        self.say(quantity, _NUMBER, found)
        self.say(quantity, _UNIT, _unit(unit))
        return quantity

    def result(self, element: _Element, name: str) -> None:
        """Write a test result with its measurements."""
        node = _node("TestResult", name)
        self.described(node, "TestResult", element)
        self.date(node, "evaluationDate", element.text_of("EvaluationDate"))
        tested = element.text_of("TestableObjectID")
        kind = self.kinds.get(tested, "")
        if kind in _RESULT_OF:
            self.say(node, ox.NamedNode(FKG_ISA95 + _RESULT_OF[kind]), _node(kind, tested))
        for part in element.named("PropertyMeasurement"):
            if not (own := part.text_of("ID")):
                continue
            measured = _node("TestResult", f"{name}.{own}")
            self.described(measured, "PropertyMeasurement", part)
            self.say(node, ox.NamedNode(FKG_ISA95 + "hasMeasurement"), measured)
            self.date(measured, "measurementDate", part.text_of("MeasurementDate"))
            for one in part.named("Value"):
                if (found := self.read_literal(one)) is not None:
                    value = self.quantity(found, one.text_of("UnitOfMeasure"))
                    self.say(measured, ox.NamedNode(FKG_ISA95 + "value"), value)
                    if kind and (about := part.text_of("TestableObjectPropertyID")):
                        relation = ox.NamedNode(f"{BASE}has{_quoted(about)}")
                        self.say(measured, ox.NamedNode(SOSA + "observedProperty"), relation)

    def date(self, node: ox.NamedNode, name: str, text: str) -> None:
        """Write a time, if there is one."""
        if text:
            value = ox.Literal(text, datatype=ox.NamedNode(XSD + "dateTime"))
            self.say(node, ox.NamedNode(FKG_ISA95 + name), value)


_EMPTY = ox.Store()


@lru_cache(maxsize=100_000)
def _is_valid(value: ox.Literal) -> bool:
    """Whether the datatype of a literal, one of `_XSD` or string, allows its text."""
    datatype = value.datatype.value
    if datatype in _DATES:
        cast = f"<{datatype}>({ox.Literal(value.value)})"
        return bool(_EMPTY.query(f"ASK {{ BIND({cast} AS ?v) FILTER(BOUND(?v)) }}"))
    return datatype == XSD + "string" or not isinstance(literal(value).value, str)


def _unit(text: str) -> ox.NamedNode | ox.Literal:
    """The unit of a UN/ECE code, else the text: `PS` and `C16` are units in rules or ask back."""
    unit = parse_unit(text)
    is_code = text in UNIT_CODES and isinstance(unit, UnitProblem) and not unit.doubtful
    return ox.NamedNode(UNIT + UNIT_CODES[text]) if is_code else ox.Literal(text)


def _content(found: ox.Literal, unit: str) -> _Content:
    content = literal(found).value
    if not unit or isinstance(content, str):
        return content, Unit(text="")
    parsed = parse_unit(unit)
    return content, parsed if isinstance(parsed, Unit) else _unit(unit)


def _agree(some: Sequence[_Content], others: Sequence[_Content]) -> bool:
    """Whether two properties may have the same values, in whatever order."""
    return all(
        any(_is_same(one, other) for other in ones)
        for these, ones in ((some, others), (others, some))
        for one in these
    )


def _is_same(one: _Content, other: _Content) -> bool:
    """Whether two contents may be equal: units without a known conversion do not tell."""
    (a, unit), (b, second) = one, other
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    if not isinstance(unit, Unit) or not isinstance(second, Unit):
        return unit != second or a == b
    if not same_dimension(unit, second):
        return False
    return math.isclose(conversion(unit, second).one(a), b, rel_tol=1e-9, abs_tol=1e-12)


def _quoted(text: str) -> str:
    return quote(text, safe="-._~")


def _node(kind: str, name: str) -> ox.NamedNode:
    """The IRI of an object: its ID, behind its kind if it is not equipment."""
    return ox.NamedNode(BASE + ("" if kind == "Equipment" else f"{kind}.") + _quoted(name))


def _name(node: ox.NamedNode) -> str:
    return unquote(node.value.removeprefix(BASE))


def read(text: str, file: str, folder: Path | None) -> Read:
    """Return the triples of a B2MML document; `folder` plays no part."""
    del folder
    builders: list[_Builder] = []

    def begin(place: Place) -> tuple[Start, Callable[[str], None], Callable[[str], None]]:
        builders.append(_Builder(place))
        return builders[0].start, builders[0].end, builders[0].characters

    problems = [*walk(text, file, begin)]
    writer = _Writer(file)
    usable = not any(problem.code == "FKG107" for problem in problems)
    if usable:
        writer.find_kinds(builders[0].root)
        writer.write(builders[0].root)
    for element, message, advice in writer.wrong[:_MOST_REPORTED]:
        problems.append(
            report(
                "FKG103",
                point(file, element.line, element.column),
                message,
                help=advice,
                severity="warning",
            )
        )
    if usable and not problems and not writer.triples:
        problems.append(
            report(
                "FKG103",
                point(file),
                "the document has no equipment, assets, materials, persons or test results with an "
                "<ID>",
                help="add the <ID>, or load a document with such objects: fedkg reads no others",
                severity="warning",
            )
        )
    return Read(
        triples=writer.triples,
        prefixes={"": BASE, "b2mml": BASE},
        problems=tuple(problems),
        usable=usable,
        nodes=NodeNames(named={}, awaited={}, places=writer.places, spaces=frozenset()),
    )
