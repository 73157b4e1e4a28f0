"""Reads one RDF file into triples: every problem is a diagnostic with its place, and what can be
read is read.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath

import pyoxigraph as ox

from fedkg.limits import explain_raise, limit, require_within_limit
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.blank_node_names import as_kept, names_by_content, renamed
from fedkg_compiler.graph.bulk_loading import LARGE, LaterTriples, read_at_once
from fedkg_compiler.graph.file_format import NotRdf, RdfSyntax, decode, detect_format, is_rdf
from fedkg_compiler.graph.sources import NodeNames, Read, read_schemas, read_source
from fedkg_compiler.graph.span_construction import FILE_READ_ON, point, report
from fedkg_compiler.graph.standard_vocabularies import OWL
from fedkg_compiler.graph.stores.triple_files import StoredTriples
from fedkg_compiler.graph.xml_check import BROKEN_IRI, broken_iri, check_xml
from fedkg_compiler.input_tracking import read_bytes

_FORMATS = {
    "turtle": ox.RdfFormat.TURTLE,
    "n-triples": ox.RdfFormat.N_TRIPLES,
    "rdf-xml": ox.RdfFormat.RDF_XML,
    "json-ld": ox.RdfFormat.JSON_LD,
    "trig": ox.RdfFormat.TRIG,
    "n-quads": ox.RdfFormat.N_QUADS,
}
_NAMES = {
    "turtle": "Turtle",
    "n-triples": "N-Triples",
    "rdf-xml": "RDF/XML",
    "json-ld": "JSON-LD",
    "trig": "TriG",
    "n-quads": "N-Quads",
}
_WHOLE = ("rdf-xml", "json-ld")
"""Syntaxes with a reader that stops at the first mistake."""
_MOST_REPORTED = 20
_MOST_MISTAKES = 10_000
"""Mistakes after which the rest of a file is not read; each is a new start of the parser."""
_DEFAULT = ox.DefaultGraph()
_IMPORTS = ox.NamedNode(OWL + "imports")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The triples and declarations of one file, store or endpoint.

    Attributes:
        name: the file, store or endpoint as messages name it.
        sha256: the checksum of its bytes; for several files, of the sorted lines
            ``<sha256>  <name>``; for a store or an endpoint, of its triples.
        triples: in the order of the file; blank nodes are named after the content alone
            (`blank_node_names`).
        prefixes: the prefixes that the file declares, with their namespaces.
        imports: the IRIs that it imports.
        text: the content, to find places; "" for a store or an endpoint.
        plain: whether there are certainly no blank nodes.
        content: the checksum of the triples (`graph_checksum.checksum`) if it is already known,
            else "".
        marks: the words of `stores/iri_prefix_scan.py` that occur in it, if its text is not
            available.
        nodes: the names of the nodes of an OPC UA node set; None for anything else.
        graphs: the named graphs of `triples` in their order, as IRI and number of triples; "" is
            for the graph of the file itself. () if it holds everything.
        labels: the names of the blank nodes, if they are already known; else None.
    """

    name: str
    sha256: str
    triples: Sequence[ox.Quad]
    prefixes: dict[str, str]
    imports: tuple[str, ...]
    text: str
    plain: bool = False
    content: str = ""
    marks: frozenset[str] = frozenset()
    nodes: NodeNames | None = None
    graphs: tuple[tuple[str, int], ...] = ()
    labels: frozenset[str] | None = None


def labels_of(document: Document) -> frozenset[str]:
    """Return the names of the blank nodes of a document."""
    if document.labels is not None:
        return document.labels
    return frozenset(
        node.value
        for quad in document.triples
        for node in (quad.subject, quad.object)
        if isinstance(node, ox.BlankNode)
    )


def sections_of(document: Document) -> list[tuple[str, Sequence[ox.Quad]]]:
    """Return the triples of a document by named graph, as its IRI; "" for its own graph."""
    triples = document.triples
    if isinstance(triples, StoredTriples):
        return [(part.graph, StoredTriples(triples.folder, [part])) for part in triples.parts]
    found, start = [], 0
    for iri, count in document.graphs or (("", None),):
        found.append((iri, triples if count is None else triples[start : start + count]))
        start += count or 0
    return found


def read_file(
    path: Path, *, shown: str | None = None, at_once: bool = False
) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return what the file at `path` says, and what is wrong with it.

    None if nothing at all could be read.

    Args:
        path: the file, or a folder of XML schemas.
        shown: the name of the file in messages; default: `path`.
        at_once: as for `read_rdf`.
    """
    name = str(path) if shown is None else shown
    try:
        if path.is_dir() and list(path.rglob("*.xsd")):
            return _from_source(read_schemas(path, name), name, "", "")
        body = read_bytes(path, name="graph")
    except OSError as error:
        reason = (
            "there is no such file"
            if isinstance(error, FileNotFoundError)
            else (error.strerror or str(error)).lower()
        )
        return None, (
            report(
                "FKG101",
                point(name),
                f"{name} cannot be read: {reason}",
                help="check the path and its spelling",
            ),
        )
    return read_rdf(body, file=name, folder=path.parent, at_once=at_once)


def read_rdf(
    body: bytes, *, file: str, folder: Path | None = None, at_once: bool = False
) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return the triples of a file's bytes, and what is wrong with them.

    None if it is neither RDF nor another source of ontologies.

    Relative IRIs are resolved against ``file:///NAME``, so that the result does not depend on the
    folder.

    Args:
        body: the bytes of the file.
        file: the name of the file in messages.
        folder: the folder with the files that an XML schema includes; None if there is no such
            folder, so that included files are not read.
        at_once: also build a store of the triples; the triples of a large text are then
            `bulk_loading.LaterTriples`.
    """
    text, problem = decode(body, file)
    if problem is not None:
        return None, (problem,)
    syntax = detect_format(text, file)
    if isinstance(syntax, NotRdf):
        return None, (
            report("FKG102", point(file), f"{file} is not RDF but {syntax.what}", help=syntax.help),
        )
    digest = hashlib.sha256(body).hexdigest()
    if not is_rdf(syntax):
        return _from_source(read_source(syntax, text, file, folder), file, digest, text)
    if (
        at_once
        and len(text) >= LARGE
        and syntax in ("turtle", "n-triples")
        and (large := _large(text, body, syntax, file, digest)) is not None
    ):
        return large, ()
    problems: list[Diagnostic] = []
    prefixes: dict[str, str] = {}
    lenient = False
    if syntax == "rdf-xml":
        facts = check_xml(body, file)
        problems += facts.problems
        prefixes = facts.prefixes
        if not facts.usable and (facts.refused or facts.problems[-1].code != "FKG103"):
            return None, tuple(problems)
        lenient = facts.broken_iris > 0
    elif syntax == "json-ld" and (depth := _json_depth(text)) > limit("depth"):
        advice = "write the nodes side by side, and let them name each other by @id"
        return None, (
            report(
                "FKG103",
                point(file),
                f"the JSON-LD is nested more than {limit('depth')} deep",
                help=f"{advice}; {explain_raise('depth', depth)}",
            ),
        )
    raw, found = _parse(text, syntax, file, lenient=lenient, quiet=bool(problems))
    problems += found[0]
    if not lenient and any(problem.code == "FKG104" for problem in found[0]):
        lenient, (raw, _) = True, _parse(text, syntax, file, lenient=True, quiet=True)
    if lenient:
        raw = [quad for quad in raw if not any(map(_is_broken, quad.triple))]
    raw, graphs = _by_graph(raw)
    triples, plain = _named(text, syntax, raw)
    importing = (
        quad for quad in (triples if "imports" in text else ()) if quad.predicate == _IMPORTS
    )
    imports = tuple(
        dict.fromkeys(
            quad.object.value for quad in importing if isinstance(quad.object, ox.NamedNode)
        )
    )
    document = Document(
        name=file,
        sha256=digest,
        triples=tuple(triples),
        prefixes={**found[1], **prefixes},
        imports=imports,
        text=text,
        plain=plain,
        graphs=graphs,
    )
    return document, tuple(problems)


def _by_graph(quads: list[ox.Quad]) -> tuple[list[ox.Quad], tuple[tuple[str, int], ...]]:
    """Return quads as triples in the order of their graphs, and the graphs as in `Document`.

    A graph without an IRI belongs to the graph of the file.
    """
    if all(quad.graph_name == _DEFAULT for quad in quads):
        return quads, ()
    found: dict[str, list[ox.Quad]] = {}
    for quad in quads:
        name = graph_name(quad)
        found.setdefault(name, []).append(ox.Quad(quad.subject, quad.predicate, quad.object))
    triples = [triple for one in found.values() for triple in one]
    return triples, tuple((name, len(one)) for name, one in found.items())


def graph_name(quad: ox.Quad) -> str:
    """Return the IRI of the named graph of a quad as it was read; "" for the graph of its file."""
    return quad.graph_name.value if isinstance(quad.graph_name, ox.NamedNode) else ""


def _large(text: str, body: bytes, syntax: RdfSyntax, file: str, digest: str) -> Document | None:
    """The document of a large text without mistakes; None if it has one."""
    found = read_at_once(text, body, _FORMATS[syntax], _base(file))
    if found is None:
        return None
    require_within_limit("triples", len(found.store), file)
    triples = LaterTriples(
        found.store,
        lambda: tuple(
            _named(text, syntax, _parse(text, syntax, file, lenient=False, quiet=True)[0])[0]
        ),
    )
    return Document(
        name=file,
        sha256=digest,
        triples=triples,
        prefixes=found.prefixes,
        imports=found.imports,
        text=text,
        plain=found.plain,
    )


def _named(text: str, syntax: RdfSyntax, quads: list[ox.Quad]) -> tuple[list[ox.Quad], bool]:
    """The triples of a text without a mistake, with blank nodes named after the content.

    And whether there are none.
    """
    if syntax != "n-triples":
        return _own(quads)
    if "_:" not in text:
        return quads, True
    return _own(quads, places=_lines_with_blank_nodes(text, len(quads)))


def _base(file: str) -> str:
    return "file:///" + PurePath(file).name.replace(" ", "%20")


def _from_source(
    source: Read, file: str, digest: str, text: str
) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """The document of a source that is not RDF.

    Its checksum is `digest`, or that of the list of `digest` (unless "") and the included files.
    """
    if not source.usable:
        return None, source.problems
    triples, plain = _own(source.triples)
    imports = dict.fromkeys(
        quad.object.value
        for quad in triples
        if quad.predicate == _IMPORTS and isinstance(quad.object, ox.NamedNode)
    )
    document = Document(
        name=file,
        sha256=list_digest([*([(PurePath(file).name, digest)] if digest else []), *source.parts])
        if source.parts
        else digest,
        triples=tuple(triples),
        prefixes=source.prefixes,
        imports=tuple(imports),
        text=text,
        plain=plain,
        nodes=source.nodes,
    )
    return document, source.problems


def list_digest(parts: Iterable[tuple[str, str]]) -> str:
    """Return the sha256 of several files, given by name and sha256: that of the sorted lines
    ``<sha256>  <name>``.
    """
    return hashlib.sha256(
        "".join(sorted(f"{digest}  {name}\n" for name, digest in parts)).encode()
    ).hexdigest()


def _json_depth(text: str) -> int:
    depth = deepest = 0
    for match in re.finditer(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', text, re.DOTALL):
        mark = match.group()
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    return deepest


def _parse(
    text: str, syntax: RdfSyntax, file: str, *, lenient: bool, quiet: bool
) -> tuple[list[ox.Quad], tuple[list[Diagnostic], dict[str, str]]]:
    """Read on behind each error as far as the parser can.

    `quiet`: its errors follow from ones already reported.
    """
    try:
        parser = ox.parse(text, format=_FORMATS[syntax], base_iri=_base(file), lenient=lenient)
    except ValueError as error:
        return [], (
            [
                report(
                    "FKG103",
                    point(file),
                    f"{file} cannot be read as {_NAMES[syntax]}: {error}",
                    help="the file may be damaged: download or save it again",
                )
            ],
            {},
        )
    quads: list[ox.Quad] = []
    problems: list[Diagnostic] = []
    most = limit("triples")
    last: tuple[int, int] | None = None
    for _ in range(_MOST_MISTAKES):
        try:
            quads.extend(islice(parser, most + 1 - len(quads)))
            require_within_limit("triples", len(quads), file, at_least=True)
            break
        except MemoryError as error:  # a text of more than 16 MB, which no reader takes
            message = f"{file} cannot be read as {_NAMES[syntax]}: {error}"
            advice = "split the long text, or leave it out"
            problem = report("FKG103", point(file), message, help=advice)
            return quads, ([problem], dict(parser.prefixes))
        except SyntaxError as error:
            place = (error.lineno or 1, error.offset or 1)
            if place == last:
                break
            if (last is None or place[0] > last[0]) and len(problems) < _MOST_REPORTED:
                problems.append(_syntax_problem(error, text, syntax, file, place))
            last = place
            if syntax in _WHOLE:
                break
    return quads, ([] if quiet else problems, dict(parser.prefixes))


def _syntax_problem(
    error: SyntaxError, text: str, syntax: RdfSyntax, file: str, place: tuple[int, int]
) -> Diagnostic:
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
            "FKG103",
            point(file),
            "fedkg does not fetch the JSON-LD context from another address",
            help="write the @context into the file",
        )
    if "IRI" in reason and rest.startswith("<"):
        iri = rest[1:].split(">", 1)[0]
        span = point(file, line, column, width=len(iri) + 2)
        if BROKEN_IRI.search(iri):
            return broken_iri(span, iri)
        return report(
            "FKG104",
            span,
            f"<{iri}> is not a valid IRI; fedkg uses it unchanged",
            help="an IRI begins with a scheme such as `https:`, and has one `#` at most",
            severity="info",
        )
    if "has not been declared" in reason:
        word = rest.split(":", 1)[0]
        return report(
            "FKG103",
            point(file, line, column, width=width),
            f"the prefix `{word}:` is not declared in this file",
            help=f"add `@prefix {word}: <...> .`",
        )
    if "end of file" in reason.lower() or reason.lower() == "unexpected end":
        return report(
            "FKG103",
            point(file, line, column, width=width),
            f"the {_NAMES[syntax]} ends before the part that begins here is complete",
            help="the file may be incomplete: download or save it again",
        )
    reason = f"{reason[:1].lower()}{reason[1:]}" if reason[1:2].islower() else reason
    advice = (
        "correct this first: fedkg does not read the text after it"
        if syntax in _WHOLE
        else FILE_READ_ON
    )
    return report(
        "FKG103",
        point(file, line, column, width=width),
        f"this is not {_NAMES[syntax]}: {reason}",
        help=advice,
    )


def _lines_with_blank_nodes(text: str, count: int) -> list[int] | None:
    """The triples of N-Triples that may have blank nodes; None if the lines do not show them."""
    if text.count("\n") + (not text.endswith("\n")) != count or (
        "\r" in text and text.count("\r") != text.count("\r\n")
    ):
        return None  # each line has at most one triple
    found: dict[int, None] = {}
    number = seen = 0
    at = text.find("_:")
    while at >= 0:
        number += text.count("\n", seen, at)
        found[number] = None
        seen, at = at, text.find("_:", at + 2)
    return list(found)


def _own(quads: list[ox.Quad], *, places: list[int] | None = None) -> tuple[list[ox.Quad], bool]:
    """Give every quad to the default graph, with blank nodes named after the content.

    And tell whether there are none.

    Args:
        quads: the triples as they were parsed; if `places` is given, the list is changed in place.
        places: the positions of the triples that may have blank nodes; all triples are then taken
            to be in the default graph already. None: any triple may have blank nodes.
    """
    if places is not None:
        some, plain = _own([quads[place] for place in places])
        for place, quad in zip(places, some, strict=True):
            quads[place] = quad
        return quads, plain
    found = [place for place, quad in enumerate(quads) if has_blank_node(quad)]
    if any(quad.graph_name != _DEFAULT for quad in quads):
        quads = [ox.Quad(quad.subject, quad.predicate, quad.object) for quad in quads]
    if not found:
        return quads, True
    blank = [quads[place] for place in found]
    quads = list(quads)
    for place, quad in zip(found, renamed(blank, names_by_content(as_kept(blank))), strict=True):
        quads[place] = quad
    return quads, False


def has_blank_node(quad: ox.Quad) -> bool:
    """Whether the subject or the object is a blank node."""
    return isinstance(quad.subject, ox.BlankNode) or isinstance(quad.object, ox.BlankNode)


def _is_broken(node: object) -> bool:
    """Whether an IRI, or the datatype of a literal, is none."""
    if isinstance(node, ox.Literal):
        node = node.datatype
    return isinstance(node, ox.NamedNode) and BROKEN_IRI.search(node.value) is not None
