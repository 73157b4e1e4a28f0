"""The results of the readers of OWL's native syntaxes: one tree for each axiom, with its
position.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urljoin

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import FILE_READ_ON, point, report
from fedkg_compiler.graph.xml_check import BROKEN_IRI, broken_iri

DEEPEST = 150
"""Maximum nesting depth of class expressions; real ones stay below ten."""
MOST_REPORTED = 20
"""Problems of one file that are shown."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class Tree:
    """One construct of the OWL 2 structural specification (W3C 2012), under its name there.

    Attributes:
        name: the construct, such as ``SubClassOf``.
        parts: the contents of its parentheses, in order.
        line: the line on which it begins.
        column: the column in which it begins.
    """

    name: str
    parts: tuple[Part, ...]
    line: int
    column: int


Node = ox.NamedNode | ox.BlankNode | ox.Literal
Part = Tree | Node | int


class Unsound(Exception):
    """An axiom that cannot be read; it is left out.

    Attributes:
        problem: the diagnostic for it.
    """

    def __init__(self, problem: Diagnostic) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class Problems:
    """The diagnostics of one file, at most `MOST_REPORTED`."""

    file: str
    found: list[Diagnostic]

    def note(self, problem: Diagnostic) -> None:
        """Keep a diagnostic unless there are enough of them."""
        if len(self.found) < MOST_REPORTED:
            self.found.append(problem)

    def mistake(self, line: int, column: int, message: str, help: str = FILE_READ_ON) -> Unsound:
        """The exception to raise for a syntax error at this place."""
        return Unsound(report("FKG103", point(self.file, line, column), message, help=help))

    def iri(self, text: str, line: int, column: int) -> ox.NamedNode:
        """The node of an absolute IRI. Raises Unsound for what is none."""
        if not is_absolute(text):
            raise Unsound(broken_iri(point(self.file, line, column), text))
        return ox.NamedNode(text)


def is_absolute(text: str) -> bool:
    """Tell whether a text is an IRI with a scheme.

    Examples:
        >>> is_absolute("https://example.org/plant#M07")
        True
        >>> is_absolute("plant#M07"), is_absolute("https://example.org/a b")
        (False, False)
    """
    if BROKEN_IRI.search(text) or not _SCHEME.match(text):
        return False
    try:
        ox.NamedNode(text)
    except ValueError:
        return False
    return True


def resolved(iri: str, base: str) -> str:
    """Return an IRI that may be relative to `base` in full.

    As RFC 3986 has it, with one departure: a bare name on a base that ends in ``#`` is appended to
    it. OWL tools write names so (the base is an ontology's namespace, taken off the front), and by
    the letter of the RFC the name would lose the last step of the path.

    Examples:
        >>> resolved("Lathe", "https://example.org/plant#")
        'https://example.org/plant#Lathe'
        >>> resolved("#Lathe", "https://example.org/plant")
        'https://example.org/plant#Lathe'
    """
    if not base or _SCHEME.match(iri):
        return iri
    if base.endswith("#") and iri and iri[0] not in "#/?.":
        return base + iri
    return urljoin(base, iri) if iri else base.split("#", 1)[0]


def expanded(name: str, prefixes: dict[str, str]) -> str | None:
    """Return the IRI of a prefixed name, or None if its prefix is not declared."""
    prefix, mark, local = name.partition(":")
    return prefixes[prefix] + local if mark and prefix in prefixes else None
