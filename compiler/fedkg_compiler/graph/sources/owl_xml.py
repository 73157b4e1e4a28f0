"""Reads OWL 2 XML serialisation (W3C, 2nd edition 2012) into triples, axiom by axiom.

owlready2 reads the syntax too, but it puts relative names into an invented namespace, attaches
annotations of axioms to the ontology, silently drops keys, and loses a whole file to one mistake.
Here the axioms take the mapping that the functional syntax takes, and a test holds it to owlready2
where that is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.sources.axiom_trees import (
    Node,
    Part,
    Problems,
    Tree,
    Unsound,
    expanded,
    resolved,
)
from fedkg_compiler.graph.sources.axiom_triples import Axioms
from fedkg_compiler.graph.sources.result import Read
from fedkg_compiler.graph.sources.xml_events import Place, Start, walk
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, STANDARD_PREFIXES

_XML = "http://www.w3.org/XML/1998/namespace"
_PLAIN = ox.NamedNode(RDF + "PlainLiteral")


@dataclass(slots=True)
class _Open:
    """An element before its end tag.

    Attributes:
        base: the IRI that relative IRIs in the element are resolved against.
        failure: the first mistake inside the element, or None.
    """

    name: str
    attributes: dict[str, str]
    line: int
    column: int
    base: str
    parts: list[Part] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    failure: Unsound | None = None


class _Reader:
    """The callbacks of one pass."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.problems = Problems(place.file, [])
        self.axioms = Axioms(self.problems)
        self.prefixes = dict(STANDARD_PREFIXES)
        self.declared: dict[str, str] = {}
        self.stack: list[_Open] = []

    def start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        above = self.stack[-1].base if self.stack else attributes.get("ontologyIRI", "")
        base = attributes.get(f"{_XML} base", above)
        element = _Open(local if space == OWL else name, attributes, *self.place.now(), base)
        self.stack.append(element)
        if len(self.stack) == 1:
            self.axioms.begin(self.own(element, "ontologyIRI"), self.own(element, "versionIRI"))

    def own(self, element: _Open, attribute: str) -> ox.NamedNode | None:
        """The ontology's own IRI, or its version; None if there is none."""
        iri = element.attributes.get(attribute)
        if iri is None:
            return None
        try:
            return self.problems.iri(resolved(iri, element.base), element.line, element.column)
        except Unsound as failure:
            self.problems.note(failure.problem)
            return None

    def characters(self, text: str) -> None:
        if self.stack:
            self.stack[-1].text.append(text)

    def end(self, name: str) -> None:
        del name
        done = self.stack.pop()
        if not self.stack:
            return
        above = self.stack[-1]
        try:
            parts = self.parts_of(done)
        except Unsound as failure:
            done.failure = done.failure or failure
            parts = []
        if len(self.stack) > 1:
            above.parts += parts
            above.failure = above.failure or done.failure
        elif done.failure is not None:
            self.problems.note(done.failure.problem)
        else:
            for tree in parts:
                if isinstance(tree, Tree):
                    self.axioms.add(tree)

    def parts_of(self, done: _Open) -> list[Part]:
        """The parts that an element contributes to its parent. Raises Unsound."""
        attributes, text = done.attributes, "".join(done.text).strip()
        match done.name:
            case "Prefix":
                prefix = attributes.get("name", "")
                self.prefixes[prefix] = self.declared[prefix] = attributes.get("IRI", "")
                return []
            case "Import":
                self.axioms.imports(self.iri(text, done))
                return []
            case "Literal":
                return [self.literal(done)]
            case "IRI":
                return [self.iri(text, done)]
            case "AbbreviatedIRI":
                return [self.abbreviated(text, done)]
            case "AnonymousIndividual":
                label = attributes.get("nodeID", text).removeprefix("_:")
                return [
                    ox.BlankNode(
                        "n"
                        + re.sub(r"[^A-Za-z0-9]", lambda mark: f"_{ord(mark.group()):x}_", label)
                    )
                ]
            case "FacetRestriction":
                return [self.iri(attributes.get("facet", ""), done), *done.parts]
        parts = list(done.parts)
        if "cardinality" in attributes:
            parts.insert(0, self.count(attributes["cardinality"], done))
        if "IRI" in attributes:
            parts.insert(0, self.iri(attributes["IRI"], done))
        elif "abbreviatedIRI" in attributes:
            parts.insert(0, self.abbreviated(attributes["abbreviatedIRI"], done))
        return [Tree(done.name, tuple(parts), done.line, done.column)]

    def iri(self, text: str, element: _Open) -> ox.NamedNode:
        return self.problems.iri(resolved(text, element.base), element.line, element.column)

    def abbreviated(self, text: str, element: _Open) -> ox.NamedNode:
        iri = expanded(text, self.prefixes)
        if iri is None:
            message = f"the prefix `{text.partition(':')[0]}:` is not declared in this file"
            raise self.problems.mistake(
                element.line, element.column, message, "add a `<Prefix>` element for it"
            )
        return self.problems.iri(iri, element.line, element.column)

    def literal(self, element: _Open) -> Node:
        text = "".join(element.text)
        language = element.attributes.get(f"{_XML} lang")
        if language:
            try:
                return ox.Literal(text, language=language.lower())
            except ValueError:
                raise self.problems.mistake(
                    element.line, element.column, f"`{language}` is not a language tag"
                ) from None
        kind = element.attributes.get("datatypeIRI")
        if kind is None:
            return ox.Literal(text)
        datatype = self.iri(kind, element)
        return ox.Literal(text) if datatype == _PLAIN else ox.Literal(text, datatype=datatype)

    def count(self, text: str, element: _Open) -> int:
        if not re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
            raise self.problems.mistake(
                element.line,
                element.column,
                f"`{text}` is not a cardinality",
                "expected is a whole number from 0",
            )
        return int(text)


def read(text: str, file: str, folder: Path | None) -> Read:
    """Return the triples of a file in OWL/XML; `folder` plays no part."""
    del folder
    readers: list[_Reader] = []

    def begin(place: Place) -> tuple[Start, Callable[[str], None], Callable[[str], None]]:
        readers.append(_Reader(place))
        return readers[0].start, readers[0].end, readers[0].characters

    stopped = walk(text, file, begin)
    reader = readers[0]
    refused = any(problem.code == "FKG107" for problem in stopped)
    return Read(
        triples=[] if refused else reader.axioms.triples,
        prefixes=reader.declared,
        problems=(*reader.problems.found, *stopped),
        usable=not refused,
    )
