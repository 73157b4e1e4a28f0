"""Finds out what a file is from its first bytes and its name: an RDF syntax, or something that is no RDF at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

Syntax = Literal["turtle", "n-triples", "rdf-xml", "json-ld"]

EXTENSIONS: dict[str, Syntax] = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".n3": "turtle",
    ".shacl": "turtle",
    ".nt": "n-triples",
    ".rdf": "rdf-xml",
    ".owl": "rdf-xml",
    ".xml": "rdf-xml",
    ".jsonld": "json-ld",
    ".json": "json-ld",
}
"""File name endings, with the syntax that they announce; what the content shows goes before it."""

RDF_SUFFIXES = (".ttl", ".nt", ".rdf", ".owl", ".jsonld")
"""The endings that `use NAME` tries, in this order."""

_HTML = re.compile(r"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_XML_START = re.compile(r"\s*<(\?xml|!DOCTYPE|!--|([A-Za-z_][\w.-]*:)?RDF\b|[A-Za-z_][\w.:-]*\s[^<>]*\bxmlns)")
_FUNCTIONAL = re.compile(r"\s*(#[^\n]*\n\s*)*(Prefix|Ontology)\s*\(")
_MANCHESTER = re.compile(r"\s*(#[^\n]*\n\s*)*(Prefix|Ontology):\s")


@dataclass(frozen=True, slots=True)
class NotRdf:
    """What the file is instead of RDF, and what to do."""

    what: str
    help: str


def sniff(text: str, name: str) -> Syntax | NotRdf:
    """Return the RDF syntax of a file, or what it is instead.

    Args:
        text: the content, or its first some thousand characters.
        name: the file's name; its ending decides where the content does not.
    """
    suffix = PurePath(name).suffix.lower()
    if not text.strip():
        return NotRdf("an empty file", "a graph needs at least one triple; is this the right file?")
    if "\x00" in text[:4096]:
        return NotRdf("a binary file", "give Turtle (.ttl), N-Triples (.nt), RDF/XML (.rdf, .owl) or JSON-LD (.jsonld)")
    if _HTML.match(text):
        return NotRdf("a web page (HTML)", "download the file itself, not the page that shows it")
    if _FUNCTIONAL.match(text) or _MANCHESTER.match(text):
        return NotRdf("OWL in functional or Manchester syntax", "save it as RDF/XML or Turtle, in Protege for example")
    head = text.lstrip()
    if head.startswith("{") or (head.startswith("[") and suffix in (".jsonld", ".json")):
        return "json-ld"
    if _XML_START.match(text):
        return "rdf-xml"
    announced = EXTENSIONS.get(suffix, "turtle")
    return "turtle" if announced in ("rdf-xml", "json-ld") else announced
