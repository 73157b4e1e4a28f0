"""Looks through an RDF/XML file before it is parsed: is it whole, is it RDF, are its entities
harmless, are its IRIs ones.

The RDF parser behind us takes half a file for a whole one and expands entities without limit; expat
does neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from xml.parsers import expat

from fedkg.limits import explain_raise, limit, require_expansion
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph.diagnostic_spans import point, report

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDF_ROOT = f"{_RDF} RDF"
_IRI_ATTRIBUTES = (f"{_RDF} about", f"{_RDF} resource", f"{_RDF} datatype")
_MOST_ENTITY_TEXT = 65536
MOST_NAMES = 1_000
"""Attributes of one element, and prefixes at one place; the time of readers is quadratic."""
_MOST_REPORTED = 20
BROKEN_IRI = re.compile(r"[\x00-\x20<>\"{}|\\^`]|%(?![0-9A-Fa-f]{2})")
"""Characters that no IRI has."""


@dataclass(slots=True)
class XmlFacts:
    """The results of the check: the problems, the namespaces that the file declares, and whether it
    may be parsed at all.
    """

    problems: list[Diagnostic] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=dict)
    usable: bool = True
    refused: bool = False
    """Nothing of the file may be read, as it is made to exhaust its readers."""
    broken_iris: int = 0


class Refused(Exception):
    """Stops expat: there is nothing more to learn from this file."""


class Entities:
    """Looks at each entity that an XML file declares, and at what their uses add up to.

    Args:
        text: the content of the file.
        file: the name of the file in messages.
        refuse: called with code, message and help for an entity that grows too large or points
            outside the file, and for an attribute with a default value; it must raise.
    """

    def __init__(self, text: bytes, file: str, refuse: Callable[[str, str, str], None]) -> None:
        self._text = text
        self._file = file
        self._refuse = refuse
        self._sizes: dict[str, int] = {}

    def watch(self, parser: expat.XMLParserType) -> None:
        """Watch what the document type of a file declares."""
        parser.EntityDeclHandler = self.declared
        parser.AttlistDeclHandler = self.defaulted
        parser.EndDoctypeDeclHandler = self.used

    def defaulted(
        self, element: str, name: str, kind: str, value: str | None, required: bool
    ) -> None:
        """The callback of expat for a declared attribute. Its value is added to every element."""
        if value is not None:
            self._refuse(
                "FKG107",
                f"the attribute {name} of <{element}> has a value in the document type",
                "write the attribute into the elements",
            )

    def used(self) -> None:
        """The callback of expat for the end of the document type.

        Raises LimitError if the uses of all entities add up to too much.
        """
        if self._sizes:
            names = re.findall(rb"&([\w.-]+);", self._text)
            added = sum(self._sizes.get(name.decode("utf-8", "replace"), 0) for name in names)
            require_expansion(len(self._text) + added, len(self._text), self._file)

    def declared(
        self,
        name: str,
        is_parameter: bool,
        value: str | None,
        base: str | None,
        system: str | None,
        public: str | None,
        notation: str | None,
    ) -> None:
        """The callback of expat."""
        if value is None:
            self._refuse(
                "FKG107",
                f"the entity &{name}; points outside the file",
                "write its text into the file, or leave it out",
            )
            return
        size = len(value) + sum(
            self._sizes.get(inner, 0) for inner in re.findall(r"[&%]([\w.-]+);", value)
        )
        self._sizes[name] = size
        if size > _MOST_ENTITY_TEXT:
            message = f"the entity &{name}; grows to more than {_MOST_ENTITY_TEXT} characters"
            self._refuse(
                "FKG107",
                message,
                "entities are for short names of namespaces; such a file is made to exhaust memory",
            )


NOT_WELL_FORMED = (
    "correct the XML at this place; if the file is incomplete, download or save it again"
)
"""The help for XML that a parser cannot read."""


def too_deep() -> tuple[str, str]:
    """The message and the help for elements that are nested too deeply."""
    most = limit("depth")
    return f"the XML is nested more than {most} deep", explain_raise("depth", 4 * most)


class _Reader:
    """The callbacks of one pass."""

    def __init__(self, body: bytes, file: str) -> None:
        self.file = file
        self.facts = XmlFacts()
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.depth = 0
        self.prefixes = 0
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartNamespaceDeclHandler = self.namespace
        self.parser.EndNamespaceDeclHandler = self.end_namespace
        Entities(body, file, self.stop).watch(self.parser)

    def refuse(
        self,
        code: str,
        message: str,
        help: str,
        *,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        span = point(
            self.file,
            line or self.parser.CurrentLineNumber,
            (self.parser.CurrentColumnNumber if column is None else column) + 1,
        )
        self.facts.problems.append(report(code, span, message, help=help))
        self.facts.usable = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > limit("depth"):
            self.stop("FKG103", *too_deep())
        if len(attributes) > MOST_NAMES or self.prefixes > MOST_NAMES:
            self.stop(
                "FKG103",
                f"there are more than {MOST_NAMES:,} attributes or prefixes at this element",
                "split the element, or declare fewer prefixes",
            )
        if self.depth == 1 and name != _RDF_ROOT and not _may_be_rdf(name):
            space, _, local = name.rpartition(" ")
            self.refuse(
                "FKG102",
                f"this is XML but not RDF: its root is <{local}> of {space or 'no namespace'}",
                _other_xml(name),
            )
            raise Refused
        for key in _IRI_ATTRIBUTES:
            value = attributes.get(key)
            if value is not None and BROKEN_IRI.search(value):
                self.facts.broken_iris += 1
                if self.facts.broken_iris <= _MOST_REPORTED:
                    span = point(
                        self.file,
                        self.parser.CurrentLineNumber,
                        self.parser.CurrentColumnNumber + 1,
                    )
                    self.facts.problems.append(broken_iri(span, value))

    def end(self, name: str) -> None:
        self.depth -= 1

    def namespace(self, prefix: str | None, iri: str | None) -> None:
        self.prefixes += 1
        if iri is not None:
            self.facts.prefixes.setdefault(prefix or "", iri)

    def end_namespace(self, prefix: str | None) -> None:
        self.prefixes -= 1

    def stop(self, code: str, message: str, help: str) -> None:
        """Refuse the file, whatever else is in it."""
        self.refuse(code, message, help)
        self.facts.refused = True
        raise Refused


def check_xml(body: bytes, file: str) -> XmlFacts:
    """Return what one quick pass over an RDF/XML file shows.

    Raises:
        LimitError: its entities add up to too much.
    """
    reader = _Reader(body, file)
    try:
        reader.parser.Parse(body, True)
    except Refused:
        pass
    except (LookupError, ValueError) as error:  # an encoding that Python or expat does not know
        reader.refuse("FKG103", f"the XML cannot be decoded: {error}", "save it as UTF-8")
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        reader.refuse(
            "FKG103",
            f"the XML is not well-formed here: {reason}",
            NOT_WELL_FORMED,
            line=error.lineno,
            column=error.offset,
        )
    return reader.facts


def broken_iri(span: Span, iri: str) -> Diagnostic:
    """Return the diagnostic for a malformed IRI; its triples are left out, the rest loads."""
    return report(
        "FKG104",
        span,
        f"<{iri}> is not an IRI; statements about it are left out",
        help="an IRI has no spaces, quotes, braces or backslashes; write them as %20 and the like",
        severity="warning",
    )


def _may_be_rdf(root: str) -> bool:
    """Whether a root other than rdf:RDF may be a single node of RDF; known XML formats are not."""
    space = root.rpartition(" ")[0]
    return (
        bool(space) and space not in _KNOWN_OTHER and not space.startswith("http://www.mesa.org/")
    )


_NODE_SET = "http://opcfoundation.org/UA/2011/03/UANodeSet.xsd"
_KNOWN_OTHER = {
    "http://www.w3.org/2002/07/owl#": "OWL/XML begins with <Ontology>",
    "http://www.w3.org/2001/XMLSchema": "an XML schema begins with <schema>",
    _NODE_SET: "a node set begins with <UANodeSet>",
    "http://www.w3.org/1999/xhtml": "this is a web page: download the file itself",
    "http://www.w3.org/2000/svg": "this is a picture",
}


def _other_xml(root: str) -> str:
    space, _, local = root.rpartition(" ")
    if local == "UANodeSet" and space != _NODE_SET:
        return f'an OPC UA node set begins with <UANodeSet xmlns="{_NODE_SET}">'
    return _KNOWN_OTHER.get(space, "RDF/XML begins with <rdf:RDF>")
