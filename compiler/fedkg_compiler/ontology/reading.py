"""Reads one RDF file into triples: every problem is a diagnostic with its place, and what can be read is read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

import pyoxigraph as ox

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.inputs import read_bytes
from fedkg_compiler.ontology.places import point, report
from fedkg_compiler.ontology.sniff import NotRdf, Syntax, sniff
from fedkg_compiler.ontology.standard import OWL
from fedkg_compiler.ontology.xml_check import BROKEN_IRI, broken_iri, check_xml

_FORMATS = {
    "turtle": ox.RdfFormat.TURTLE,
    "n-triples": ox.RdfFormat.N_TRIPLES,
    "rdf-xml": ox.RdfFormat.RDF_XML,
    "json-ld": ox.RdfFormat.JSON_LD,
}
_NAMES = {"turtle": "Turtle", "n-triples": "N-Triples", "rdf-xml": "RDF/XML", "json-ld": "JSON-LD"}
_MOST_REPORTED = 20
_MOST_JSON_DEPTH = 200
_DEFAULT = ox.DefaultGraph()
_IMPORTS = ox.NamedNode(OWL + "imports")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What one file says.

    Attributes:
        name: the file as the user named it. sha256: of its bytes.
        triples: in the order of the file, blank nodes renamed to labels that depend on the content alone.
        prefixes: as the file declares them. imports: the IRIs that it imports. text: the content, for finding places.
    """

    name: str
    sha256: str
    triples: tuple[ox.Quad, ...]
    prefixes: dict[str, str]
    imports: tuple[str, ...]
    text: str


def read_file(path: Path, *, shown: str | None = None) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return what the file at `path` says, and what is wrong with it; None where nothing at all could be read.

    Args:
        path: the file. shown: how messages name it; default: as given.
    """
    name = str(path) if shown is None else shown
    try:
        body = read_bytes(path)
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()
        return None, (report("FKG101", point(name), f"{name} cannot be read: {reason}", help="check the path and its spelling"),)
    return read_rdf(body, file=name)


def read_rdf(body: bytes, *, file: str) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return the triples of a file's bytes, and what is wrong with them; None where it is no RDF.

    Relative IRIs are resolved against ``file:///NAME``, so that the result does not depend on the folder.
    """
    text, problem = _decode(body, file)
    if problem is not None:
        return None, (problem,)
    syntax = sniff(text, file)
    if isinstance(syntax, NotRdf):
        return None, (report("FKG102", point(file), f"{file} is not RDF but {syntax.what}", help=syntax.help),)
    digest = hashlib.sha256(body).hexdigest()
    problems: list[Diagnostic] = []
    prefixes: dict[str, str] = {}
    lenient = False
    if syntax == "rdf-xml":
        facts = check_xml(body, file)
        problems += facts.problems
        prefixes = facts.prefixes
        if not facts.usable and facts.problems[-1].code != "FKG103":
            return None, tuple(problems)
        lenient = facts.broken_iris > 0
    elif syntax == "json-ld" and _json_depth(text) > _MOST_JSON_DEPTH:
        advice = "write the nodes side by side, and let them name each other by @id"
        return None, (report("FKG103", point(file), f"the JSON-LD is nested more than {_MOST_JSON_DEPTH} deep", help=advice),)
    raw, found = _parse(text, syntax, file, lenient=lenient, quiet=bool(problems))
    problems += found[0]
    if not lenient and any(problem.code == "FKG104" for problem in found[0]):
        lenient, (raw, _) = True, _parse(text, syntax, file, lenient=True, quiet=True)
    plain = syntax == "n-triples" and "_:" not in text and not lenient
    triples = tuple(raw if plain else _renamed(raw, digest[:12], drop_broken=lenient))
    imports = tuple(
        dict.fromkeys(quad.object.value for quad in triples if quad.predicate == _IMPORTS and isinstance(quad.object, ox.NamedNode))
    )
    document = Document(name=file, sha256=digest, triples=triples, prefixes={**found[1], **prefixes}, imports=imports, text=text)
    return document, tuple(problems)


def _json_depth(text: str) -> int:
    depth = deepest = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text):
        mark = match.group()
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    return deepest


def _decode(body: bytes, file: str) -> tuple[str, Diagnostic | None]:
    encoding = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return body.decode(encoding).removeprefix("\ufeff"), None
    except UnicodeDecodeError as error:
        before = body[: error.start]
        if body.lstrip()[:5] == b"<?xml":
            declared = _declared_encoding(body)
            if declared is not None:
                return declared, None
        line, column = before.count(b"\n") + 1, len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        what = "a binary file" if b"\x00" in body[:4096] else f"not in UTF-8: byte 0x{body[error.start]:02x}"
        return "", report("FKG102", point(file, line, column), f"{file} is {what}", help="save the file as UTF-8")


def _declared_encoding(body: bytes) -> str | None:
    """Return the text of an XML file that names its encoding, with that name taken out; None where it names none that works."""
    found = re.match(rb"""\s*<\?xml[^>]*encoding=["']([A-Za-z0-9._-]+)["']""", body)
    if found is None:
        return None
    try:
        text = body.decode(found.group(1).decode("ascii"))
    except (LookupError, UnicodeDecodeError):
        return None
    return re.sub(r"""(<\?xml[^>]*?)\s+encoding=["'][^"']*["']""", r"\1", text, count=1)


def _parse(
    text: str, syntax: Syntax, file: str, *, lenient: bool, quiet: bool
) -> tuple[list[ox.Quad], tuple[list[Diagnostic], dict[str, str]]]:
    """Read on behind each error as far as the parser can; `quiet`: its errors follow from ones already reported."""
    base = "file:///" + PurePath(file).name.replace(" ", "%20")
    try:
        parser = ox.parse(text, format=_FORMATS[syntax], base_iri=base, lenient=lenient)
    except ValueError as error:
        return [], ([report("FKG103", point(file), f"{file} cannot be read as {_NAMES[syntax]}: {error}")], {})
    quads: list[ox.Quad] = []
    problems: list[Diagnostic] = []
    last: tuple[int, int] | None = None
    for _ in range(1_000_000):
        try:
            quads.extend(parser)
            break
        except SyntaxError as error:
            place = (error.lineno or 1, error.offset or 1)
            if place == last:
                break
            if (last is None or place[0] > last[0]) and len(problems) < _MOST_REPORTED:
                problems.append(_syntax_problem(error, text, syntax, file, place))
            last = place
            if syntax in ("rdf-xml", "json-ld"):
                break
    return quads, ([] if quiet else problems, dict(parser.prefixes))


def _syntax_problem(error: SyntaxError, text: str, syntax: Syntax, file: str, place: tuple[int, int]) -> Diagnostic:
    line, column = place
    reason = str(error.msg or error)
    if "columns" in reason or "line" in reason:
        reason = reason.split(": ", 1)[-1]
    reason = reason.rsplit(" (line", 1)[0].strip().rstrip(".")
    lines = text.split("\n")
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    width = max(1, len(rest.split(maxsplit=1)[0]) if rest.strip() and not rest[0].isspace() else 1)
    if "LoadDocumentCallback" in reason:
        return report(
            "FKG103", point(file), "the JSON-LD context is at another address, and is not fetched", help="write the @context into the file"
        )
    if "IRI" in reason and rest.startswith("<"):
        iri = rest[1:].split(">", 1)[0]
        span = point(file, line, column, width=len(iri) + 2)
        if BROKEN_IRI.search(iri):
            return broken_iri(span, iri)
        return report(
            "FKG104", span, f"<{iri}> is not quite an IRI, and is taken as it is", help="an IRI has one `#` at most", severity="info"
        )
    if "has not been declared" in reason:
        word = rest.split(":", 1)[0]
        return report(
            "FKG103",
            point(file, line, column, width=width),
            f"the prefix {word}: is not declared in this file",
            help=f"add `@prefix {word}: <...> .`",
        )
    if "end of file" in reason.lower():
        return report(
            "FKG103",
            point(file, line, column, width=width),
            f"the {_NAMES[syntax]} breaks off inside what begins here",
            help="is the file complete?",
        )
    reason = f"{reason[:1].lower()}{reason[1:]}" if reason[1:2].islower() else reason
    return report(
        "FKG103", point(file, line, column, width=width), f"this is not {_NAMES[syntax]}: {reason}", help="the rest of the file is read on"
    )


def _as_it_is(quad: ox.Quad) -> bool:
    return not isinstance(quad.subject, ox.BlankNode) and not isinstance(quad.object, ox.BlankNode) and quad.graph_name == _DEFAULT


def _renamed(quads: list[ox.Quad], stamp: str, *, drop_broken: bool) -> Iterator[ox.Quad]:
    """Give every quad to the default graph, with blank nodes called after the file's content and their order in it."""
    if not drop_broken and all(_as_it_is(quad) for quad in quads):
        yield from quads
        return
    labels: dict[str, ox.BlankNode] = {}

    def own(node: ox.BlankNode) -> ox.BlankNode:
        if node.value not in labels:
            labels[node.value] = ox.BlankNode(f"f{stamp}n{len(labels)}")
        return labels[node.value]

    for quad in quads:
        subject, predicate, value = quad.subject, quad.predicate, quad.object
        if drop_broken and any(isinstance(node, ox.NamedNode) and BROKEN_IRI.search(node.value) for node in (subject, predicate, value)):
            continue
        if isinstance(subject, ox.BlankNode):
            subject = own(subject)
        if isinstance(value, ox.BlankNode):
            value = own(value)
        yield ox.Quad(subject, predicate, value)
