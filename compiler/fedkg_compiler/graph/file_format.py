"""Finds out what a file is: the encoding of its bytes; and from its first characters and its name
an RDF syntax, another source, or none of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, TypeGuard, get_args

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.span_construction import point, report

RdfSyntax = Literal["turtle", "n-triples", "rdf-xml", "json-ld", "trig", "n-quads"]
SourceSyntax = Literal["owl-functional", "owl-xml", "xml-schema", "opcua-nodeset", "b2mml", "sssom"]
Syntax = RdfSyntax | SourceSyntax

EXTENSIONS: dict[str, RdfSyntax] = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".n3": "turtle",
    ".shacl": "turtle",
    ".nt": "n-triples",
    ".trig": "trig",
    ".nq": "n-quads",
    ".rdf": "rdf-xml",
    ".owl": "rdf-xml",
    ".xml": "rdf-xml",
    ".jsonld": "json-ld",
    ".json": "json-ld",
}
"""File name endings, with the syntax that they announce; what the content shows goes before it."""

RDF_SUFFIXES = (
    *(".ttl", ".nt", ".rdf", ".owl", ".jsonld", ".ofn", ".owx", ".xsd", ".xml"),
    *(".trig", ".nq", ".sssom.tsv"),
    ".omn",
)
"""The endings that `use NAME` tries, in this order; the last one to reject the file by name."""

_HTML = re.compile(
    r"\s*+(<!--(?:(?!-->).)*+-->\s*+)*+<(!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_XML_START = re.compile(
    r"\s*<(\?xml|!DOCTYPE|!--|([A-Za-z_][\w.-]*:)?RDF\b|[A-Za-z_][\w.:-]*\s[^<>]*\bxmlns)"
)
_XML_SOURCES: dict[tuple[str, str], SourceSyntax] = {
    ("http://www.w3.org/2002/07/owl#", "Ontology"): "owl-xml",
    ("http://www.w3.org/2001/XMLSchema", "schema"): "xml-schema",
    ("http://opcfoundation.org/UA/2011/03/UANodeSet.xsd", "UANodeSet"): "opcua-nodeset",
}
_FUNCTIONAL = re.compile(r"\s*(#[^\n]*\n\s*)*(Prefix|Ontology)\s*\(")
_TURTLE_START = re.compile(
    r"(?:\s|#[^\n]*+(?:\n|$))*+($|[<@\[(]|[^\s:<]*:|(prefix|base|version)\s)", re.IGNORECASE
)
_SSSOM_COLUMN = re.compile(r"(?:^|\t)\"?(?:subject_id|object_id|mapping_justification)\"?(?:\t|$)")
_B2MML = "http://www.mesa.org/xml/B2MML"
"""The namespace of B2MML 7.0; those of earlier versions have a suffix such as `-V0600`."""
_MANCHESTER = re.compile(r"\s*(#[^\n]*\n\s*)*(Prefix|Ontology):\s")


@dataclass(frozen=True, slots=True)
class NotRdf:
    """The actual format of a file that is not RDF, and advice."""

    what: str
    help: str


def is_rdf(syntax: Syntax) -> TypeGuard[RdfSyntax]:
    """Tell whether pyoxigraph reads a syntax.

    The others are read by `fedkg_compiler.graph.sources`.
    """
    return syntax in get_args(RdfSyntax)


def detect_format(text: str, name: str) -> Syntax | NotRdf:
    """Return the syntax of a file, or what it is instead of an ontology or a graph.

    Args:
        text: the content, or its first some thousand characters.
        name: the file's name; its ending decides where the content does not.
    """
    suffix = PurePath(name).suffix.lower()
    if not text or text.isspace():
        return NotRdf("an empty file", "a graph needs at least one triple; is this the right file?")
    if "\x00" in text[:4096]:
        return NotRdf(
            "a binary file",
            "give Turtle (.ttl), N-Triples (.nt), RDF/XML (.rdf, .owl) or JSON-LD (.jsonld)",
        )
    if _HTML.match(text):
        return NotRdf("a web page (HTML)", "download the file itself, not the page that shows it")
    if _FUNCTIONAL.match(text):
        return "owl-functional"
    if _is_sssom(text, name):
        return "sssom"
    if _MANCHESTER.match(text):
        return NotRdf(
            "OWL in Manchester syntax",
            "save it as RDF/XML, Turtle or in functional syntax, in Protege for example",
        )
    head = text.lstrip()
    if head.startswith("{") or (head.startswith("[") and suffix in (".jsonld", ".json")):
        return "json-ld"
    if _XML_START.match(text):
        root = _root(text)
        return "b2mml" if is_b2mml(root[0]) else _XML_SOURCES.get(root, "rdf-xml")
    if suffix not in EXTENSIONS and not _TURTLE_START.match(text):
        return _other(text, suffix)
    announced = EXTENSIONS.get(suffix, "turtle")
    return "turtle" if announced in ("rdf-xml", "json-ld") else announced


def is_b2mml(namespace: str) -> bool:
    """Tell whether the namespace of a root element is that of a version of B2MML."""
    return namespace == _B2MML or namespace.startswith(f"{_B2MML}-V")


def _is_sssom(text: str, name: str) -> bool:
    """Tell whether a file is SSSOM/TSV: by its name, else by the columns after the metadata."""
    if name.lower().endswith(".sssom.tsv"):
        return True
    at = 0
    while text.startswith("#", at) and (at := text.find("\n", at) + 1):
        pass
    line = text[at : text.find("\n", at) if "\n" in text[at:] else len(text)].rstrip("\r")
    return "\t" in line and "predicate_id" in line and _SSSOM_COLUMN.search(line) is not None


def _other(text: str, suffix: str) -> NotRdf:
    """The diagnosis of a text that does not begin like Turtle and has a file name without a known
    suffix.
    """
    advice = "give Turtle (.ttl), RDF/XML (.rdf, .owl), OWL, an XML schema or an OPC UA node set"
    if suffix == ".fkg":
        return NotRdf("a rule file", f"{advice}; rule files are given to `fedkg check`")
    if suffix in (".csv", ".tsv"):
        return NotRdf("a table", f"{advice}; `fedkg new` makes rules of a sheet of limits")
    return NotRdf("plain text", advice)


def _root(text: str) -> tuple[str, str]:
    """Namespace and name of an XML text's first element; ("", "") if they are not visible without
    parsing.
    """
    at = 0
    while True:
        at = text.find("<", at)
        if at < 0:
            return "", ""
        closing = (
            "?>" if text.startswith("<?", at) else "-->" if text.startswith("<!--", at) else ""
        )
        if text.startswith("<!DOCTYPE", at):
            inner, end = text.find("[", at), text.find(">", at)
            closing = "]" if 0 <= inner < end else ">"
        if not closing:
            break
        at = text.find(closing, at)
        if at < 0:
            return "", ""
        at += len(closing)
    tag = text[at + 1 : at + 4096].split(">", 1)[0]
    name = re.match(r"[^\s/]*", tag)
    prefix, _, local = (name.group() if name else "").rpartition(":")
    declared = re.search(
        rf"""\bxmlns{":" + re.escape(prefix) if prefix else ""}\s*=\s*["']([^"']*)["']""", tag
    )
    return (declared.group(1) if declared else ""), local


_WIDE = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"<\x00?\x00": "utf-16-le",
    b"\x00<\x00?": "utf-16-be",
}
"""The byte order marks of UTF-16."""


def decode(body: bytes, file: str) -> tuple[str, Diagnostic | None]:
    """Return the text of a file, or what keeps it from being one.

    UTF-8 with or without a mark, UTF-16 with one (XML without, too), and for XML the encoding that
    it names itself. What XML says of its encoding is taken out where it is another than UTF-8.
    """
    encoding = _WIDE.get(body[:2]) or _WIDE.get(body[:4]) or "utf-8-sig"
    try:
        text = body.decode(encoding).removeprefix("\ufeff")
        return (text if encoding == "utf-8-sig" else _undeclared(text)), None
    except UnicodeDecodeError as error:
        before = body[: error.start]
        if body.lstrip()[:5] == b"<?xml":
            declared = _declared_encoding(body)
            if declared is not None:
                return declared, None
        line, column = (
            before.count(b"\n") + 1,
            len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1,
        )
        what = (
            "a binary file"
            if b"\x00" in body[:4096]
            else f"not in UTF-8: byte 0x{body[error.start]:02x}"
        )
        return "", report(
            "FKG102", point(file, line, column), f"{file} is {what}", help="save the file as UTF-8"
        )


def _declared_encoding(body: bytes) -> str | None:
    """Return the text of an XML file that names its encoding, with that name taken out.

    None if it names none that works.
    """
    found = re.match(rb"""\s*<\?xml[^>]*encoding=["']([A-Za-z0-9._-]+)["']""", body)
    if found is None:
        return None
    try:
        text = body.decode(found.group(1).decode("ascii"))
    except (LookupError, UnicodeDecodeError):
        return None
    return _undeclared(text)


def _undeclared(text: str) -> str:
    return re.sub(r"""^(\s*<\?xml[^>]*?)\s+encoding=["'][^"']*["']""", r"\1", text, count=1)
