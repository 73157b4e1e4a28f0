"""Reads RDF documents: a file to its triples with every problem as a diagnostic with its place,
blank nodes named by content, large texts at once, the checksum of what documents say, and their
named graphs.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import merge
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal as OneOf
from typing import overload
from urllib.parse import quote

from typing_extensions import override

from fedkg.limits import explain_raise, limit, require_within_limit
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import FILE_READ_ON, inside, point, report
from fedkg_compiler.graph.sources import NodeNames, Read, read_schemas, read_source
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, XSD
from fedkg_compiler.graph.stores.stored_triples import StoredTriples
from fedkg_compiler.graph.xml_check import BROKEN_IRI, broken_iri, check_xml
from fedkg_compiler.input_files import (
    NotRdf,
    RdfSyntax,
    decode,
    detect_format,
    is_endpoint,
    is_rdf,
    read_bytes,
)

# Names for blank nodes that depend on their triples alone: not on the file, the order of its
# triples, or the store.
#
# Connected blank nodes are named together. A single node is named by a digest of its triples. In a
# tree, the digest of each node includes the digests of its children, and then the name of its
# parent. If nodes form cycles or share others, the digests of the neighbours refine each digest
# until no more nodes become distinct (colour refinement); then one of the remaining equal nodes is
# marked, and refinement continues. Nodes that nothing distinguishes (`[ :v 3 ]` twice of one
# subject) are numbered in any order, because they can be exchanged.
#
# Two graphs that differ in the labels of blank nodes alone get the same names, but for circles
# that are alike without being exchangeable (strongly regular graphs), and circles beyond
# `_MOST_STEPS`: their names follow the order of the triples.

_MOST_STEPS = 500_000
"""Triples between nodes in circles that are looked at, again and again, for all of one graph;
beyond, the order of the triples decides."""

_TEXTS = frozenset({ox.NamedNode(XSD + "string"), ox.NamedNode(RDF + "langString")})
_ANY = ox.NamedNode("n:p")
DEFAULT = ox.DefaultGraph()

Arc = tuple[str, str]
"""An edge of a blank node: its direction and property, and its other end (a term as text, or a
blank node's label)."""


class _Arcs:
    """The edges of each blank node.

    Attributes:
        plain: for each blank node, the edges that join it to named nodes and literals, as text.
        below: for each blank node, the blank nodes that are objects of its triples.
        above: for each blank node, the blank nodes that have it as an object.
    """

    def __init__(self, quads: Iterable[ox.Quad]) -> None:
        self.plain: dict[str, list[str]] = {}
        self.below: dict[str, list[Arc]] = defaultdict(list)
        self.above: dict[str, list[Arc]] = defaultdict(list)
        for quad in dict.fromkeys(quads):
            predicate = quad.predicate.value
            match quad.subject, quad.object:
                case ox.BlankNode() as subject, ox.BlankNode() as value:
                    self.below[subject.value].append((predicate, value.value))
                    self.above[value.value].append((predicate, subject.value))
                    self.plain.setdefault(subject.value, [])
                    self.plain.setdefault(value.value, [])
                case ox.BlankNode() as subject, value:
                    self.plain.setdefault(subject.value, []).append(f">{predicate} {value}")
                case subject, ox.BlankNode() as value:
                    self.plain.setdefault(value.value, []).append(f"<{predicate} {subject}")
        self.digests = {label: _digest(sorted(set(said))) for label, said in self.plain.items()}


def names_by_content(quads: Iterable[ox.Quad]) -> dict[str, str]:
    """Return the name of each blank node of these triples, by its label.

    Names are ``b`` and hexadecimal digits, twins' with a number.
    """
    arcs = _Arcs(quads)
    names, steps = _Names(), _MOST_STEPS
    for members in sorted(
        _connected_groups(arcs), key=lambda found: sorted(arcs.digests[label] for label in found)
    ):
        if len(members) == 1 and not arcs.below.get(members[0]):
            names.give(members[0], arcs.digests[members[0]])
        elif (
            all(len(arcs.above.get(label, ())) <= 1 for label in members)
            and sum(label not in arcs.above for label in members) == 1
        ):
            _name_tree(members, arcs, names)
        else:
            steps = _name_circles(members, arcs, names, steps)
    return names.given


def renamed(quads: Iterable[ox.Quad], names: dict[str, str]) -> list[ox.Quad]:
    """Return the triples with these names of blank nodes, in the default graph."""
    nodes = {label: ox.BlankNode(name) for label, name in names.items()}
    found: list[ox.Quad] = []
    for quad in quads:
        subject, value = quad.subject, quad.object
        blank = False
        if isinstance(subject, ox.BlankNode):
            blank, subject = True, nodes[subject.value]
        if isinstance(value, ox.BlankNode):
            blank, value = True, nodes[value.value]
        found.append(
            ox.Quad(subject, quad.predicate, value) if blank or quad.graph_name != DEFAULT else quad
        )
    return found


def as_kept(quads: Sequence[ox.Quad]) -> Sequence[ox.Quad]:
    """Return the triples with their literals as a store keeps them: ``4.50`` and ``04.5`` are
    ``4.5``, as in every answer of a query.
    """
    objects = {quad.object for quad in quads}
    literals = [
        node for node in objects if isinstance(node, ox.Literal) and node.datatype not in _TEXTS
    ]
    store = ox.Store()
    store.extend(
        ox.Quad(ox.NamedNode(f"n:{number}"), _ANY, literal)
        for number, literal in enumerate(literals)
    )
    kept = {
        literals[int(quad.subject.value[2:])]: quad.object
        for quad in store
        if isinstance(quad.subject, ox.NamedNode)
    }
    changed: dict[object, ox.Literal] = {
        one: other for one, other in kept.items() if isinstance(other, ox.Literal) and one != other
    }
    if not changed:
        return quads
    return [
        ox.Quad(quad.subject, quad.predicate, changed[quad.object])
        if quad.object in changed
        else quad
        for quad in quads
    ]


class _Names:
    """The names that were given, and how often each digest was."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self._twins: dict[str, int] = defaultdict(int)

    def give(self, label: str, digest: str) -> str:
        number = self._twins[digest]
        self._twins[digest] += 1
        name = self.given[label] = f"b{digest}n{number}" if number else f"b{digest}"
        return name


def _digest(parts: Sequence[str]) -> str:
    return hashlib.blake2b(
        "\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


def _connected_groups(arcs: _Arcs) -> list[list[str]]:
    """The blank nodes in groups that hang together."""
    groups: list[list[str]] = []
    seen: set[str] = set()
    for start in arcs.plain:
        if start in seen:
            continue
        seen.add(start)
        group = [start]
        for label in group:  # grows while it is read
            for _, other in (*arcs.below.get(label, ()), *arcs.above.get(label, ())):
                if other not in seen:
                    seen.add(other)
                    group.append(other)
        groups.append(group)
    return groups


def _name_tree(members: Sequence[str], arcs: _Arcs, names: _Names) -> None:
    """Name the nodes of a tree: digests from the leaves upwards, then names from the root
    downwards.
    """
    order = [label for label in members if label not in arcs.above]
    for label in order:  # grows while it is read
        order += [other for _, other in arcs.below.get(label, ())]
    whole: dict[str, str] = {}
    for label in reversed(order):
        whole[label] = _digest(
            [
                arcs.digests[label],
                *sorted(f"{step} {whole[other]}" for step, other in arcs.below.get(label, ())),
            ]
        )
    names.give(order[0], whole[order[0]])
    for label in order:
        name = names.given[label]
        for step, other in sorted(
            arcs.below.get(label, ()), key=lambda arc: (arc[0], whole[arc[1]])
        ):
            names.give(other, _digest([name, step, whole[other]]))


def _name_circles(members: Sequence[str], arcs: _Arcs, names: _Names, steps: int) -> int:
    """Name nodes that form circles or share others; return how many steps may still be made."""
    colours = {label: arcs.digests[label] for label in members}
    cost = sum(2 * len(arcs.below.get(label, ())) for label in members)
    while True:
        kinds = len(set(colours.values()))
        while steps > 0:
            steps -= cost
            colours = {label: _refined(label, colours, arcs) for label in members}
            if kinds == (kinds := len(set(colours.values()))):
                break
        if kinds == len(members) or steps <= 0:
            break
        alike: dict[str, list[str]] = defaultdict(list)
        for label in members:
            alike[colours[label]].append(label)
        first = alike[min(colour for colour, found in alike.items() if len(found) > 1)][0]
        colours[first] = _digest([colours[first], "marked"])
    whole = _digest(sorted(colours.values()))
    # equal copies of the whole are distinguished as wholes
    stamp = names.give(f"\n{members[0]}", whole)
    del names.given[f"\n{members[0]}"]
    for label in sorted(members, key=lambda one: colours[one]):
        names.give(label, _digest([stamp, colours[label]]))
    return steps


def _refined(label: str, colours: dict[str, str], arcs: _Arcs) -> str:
    below = sorted(f">{step} {colours[other]}" for step, other in arcs.below.get(label, ()))
    above = sorted(f"<{step} {colours[other]}" for step, other in arcs.above.get(label, ()))
    return _digest([colours[label], *below, *above])


# Large graphs go from their text into a store at once.
#
# Their triples become Python objects when somebody asks for them, and not before.
#
# Only texts without a mistake are read in this way. For any other text, the reader that locates
# problems reads as much as possible. Blank nodes have the names of `blank_names` in the store too.
# In N-Triples each triple has one line, so lines that may have blank nodes are read separately. In
# Turtle, triples with blank nodes are looked up in the store and written again.

LARGE = 1 << 20
"""Characters from which on a text is large."""
_HEAD = 1 << 16
"""Characters within which a text declares its prefixes, where they are looked for without reading
all of it."""
_APART = 1000
"""Characters for each mark of a blank node that a text has at least: then it is about one triple in
ten that has one."""
_BLANK = "SELECT ?s ?p ?o WHERE { ?s ?p ?o FILTER(isBlank(?s) || isBlank(?o)) }"
_IMPORTS = ox.NamedNode(OWL + "imports")


class LaterTriples(Sequence[ox.Quad]):
    """Triples in a store, converted to objects on demand.

    Args:
        store: a store with all the triples and nothing else.
        read: makes the triples, in the order of the text.
    """

    def __init__(self, store: ox.Store, read: Callable[[], Sequence[ox.Quad]]) -> None:
        self._store: ox.Store | None = store
        self._read = read
        self._made: Sequence[ox.Quad] | None = None

    def taken(self) -> ox.Store | None:
        """Return the store to the first caller, who may change it; None to later callers."""
        store, self._store = self._store, None
        return store

    def _all(self) -> Sequence[ox.Quad]:
        if self._made is None:
            self._made = self._read()
        return self._made

    @override
    def __len__(self) -> int:
        return len(self._all())

    @override
    def __iter__(self) -> Iterator[ox.Quad]:
        return iter(self._all())

    @overload
    def __getitem__(self, index: int) -> ox.Quad: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ox.Quad]: ...
    @override
    def __getitem__(self, index: int | slice) -> ox.Quad | Sequence[ox.Quad]:
        return self._all()[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOnce:
    """The contents of a text.

    Attributes:
        store: the triples.
        prefixes: the prefixes that the text declares, with their namespaces.
        imports: the IRIs that it imports, sorted, each once.
        plain: whether there are no blank nodes.
    """

    store: ox.Store
    prefixes: dict[str, str] = field(default_factory=dict)
    imports: tuple[str, ...]
    plain: bool


def read_at_once(text: str, body: bytes, format: ox.RdfFormat, base: str) -> AtOnce | None:
    """Return what a text in N-Triples or Turtle holds.

    None if it has a mistake, if its beginning does not show all its prefixes, or if naming its many
    blank nodes twice (here, and again with the objects) would cost more than the store saves.

    Args:
        text: the content, decoded.
        body: the bytes that the text was decoded from.
        format: N-Triples; anything else is read as Turtle.
        base: the IRI that relative IRIs are resolved against.
    """
    lines = format == ox.RdfFormat.N_TRIPLES
    prefixes: dict[str, str] | None = {} if lines else _prefixes(text, base)
    if prefixes is None:
        return None
    if not (text.isascii() and len(text) == len(body)):
        body = text.encode()
    store = ox.Store()
    try:
        blank = load_lines(store, body) if lines else _load_turtle(store, body, base)
    except (SyntaxError, ValueError, MemoryError):
        return None
    if blank is None:
        return None
    kept = as_kept(blank)
    store.bulk_extend(renamed(kept, names_by_content(kept)))
    found = store.quads_for_pattern(None, _IMPORTS, None)
    imports = sorted({quad.object.value for quad in found if isinstance(quad.object, ox.NamedNode)})
    return AtOnce(store=store, prefixes=prefixes, imports=tuple(imports), plain=not blank)


def load_lines(store: ox.Store, body: bytes, *, is_checked: bool = False) -> list[ox.Quad] | None:
    """Load the lines of N-Triples that have no blank nodes, and return the triples that have.

    None if these are many.

    Args:
        is_checked: the lines were written by the store, so that their IRIs need no check.
    """
    plain: list[bytes] = []
    others: list[bytes] = []
    start, at = 0, body.find(b"_:")
    while at >= 0:
        begin, end = body.rfind(b"\n", 0, at) + 1, body.find(b"\n", at) + 1 or len(body)
        plain.append(body[start:begin])
        others.append(body[begin:end])
        start, at = end, body.find(b"_:", end)
        if len(others) * _APART > len(body):
            return None
    store.bulk_load(
        b"".join([*plain, body[start:]]) if others else body,
        format=ox.RdfFormat.N_TRIPLES,
        lenient=is_checked,
    )
    quads = list(ox.parse(b"".join(others), format=ox.RdfFormat.N_TRIPLES))
    blank = [has_blank_node(quad) for quad in quads]
    store.bulk_extend(quad for quad, has in zip(quads, blank, strict=True) if not has)
    return [quad for quad, has in zip(quads, blank, strict=True) if has]


def _load_turtle(store: ox.Store, body: bytes, base: str) -> list[ox.Quad] | None:
    """Load Turtle, and take out and return the triples that have blank nodes.

    None if these are many.
    """
    if sum(map(body.count, (b"_:", b"[", b"("))) * _APART > len(body):
        return None
    store.bulk_load(body, format=ox.RdfFormat.TURTLE, base_iri=base)
    found = store.query(_BLANK)
    assert isinstance(found, ox.QuerySolutions)
    quads = [ox.Quad(*row) for row in found]
    for quad in quads:
        store.remove(quad)
    return quads


def _prefixes(text: str, base: str) -> dict[str, str] | None:
    """The prefixes of Turtle; None if one may be declared behind its beginning."""
    last = text.lower().rfind("prefix")
    if last >= _HEAD:
        return None
    parser = ox.parse(text[: 2 * _HEAD], format=ox.RdfFormat.TURTLE, base_iri=base)
    try:
        for _ in parser:
            pass
    except SyntaxError:  # where the beginning is cut off
        pass
    return dict(parser.prefixes)


# Reads one RDF file into triples: every problem is a diagnostic with its place, and what can be
# read is read.

RDF_FORMATS = {
    "turtle": ox.RdfFormat.TURTLE,
    "n-triples": ox.RdfFormat.N_TRIPLES,
    "rdf-xml": ox.RdfFormat.RDF_XML,
    "json-ld": ox.RdfFormat.JSON_LD,
    "trig": ox.RdfFormat.TRIG,
    "n-quads": ox.RdfFormat.N_QUADS,
}
"""The syntaxes that pyoxigraph reads."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The triples and declarations of one file, store or endpoint.

    Attributes:
        name: the file, store or endpoint as messages name it.
        sha256: the checksum of its bytes; for several files, of the sorted lines
            ``<sha256>  <name>``; for a store or an endpoint, of its triples.
        triples: in the order of the file; blank nodes are named after the content alone
            (`names_by_content`).
        prefixes: the prefixes that the file declares, with their namespaces.
        imports: the IRIs that it imports.
        text: the content, to find places; "" for a store or an endpoint.
        plain: whether there are certainly no blank nodes.
        content: the checksum of the triples (`checksum`) if it is already known,
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
        absent = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if absent else (error.strerror or str(error)).lower()
        return None, (
            report(
                "FKG101",
                point(name),
                f"{name} cannot be read: {reason}",
                help="check the path and its spelling"
                if absent
                else "check that the path is that of a file which you may read",
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
            `LaterTriples`.
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
    prefixes = {**found[1], **prefixes}
    problems += [
        _reserved_graph(iri, text, file, prefixes)
        for iri, _ in graphs
        if kind_of(iri) not in ("data", "learned")
    ]
    triples, plain = _named(text, syntax, raw)
    named = [
        quad.object for quad in (triples if "imports" in text else ()) if quad.predicate == _IMPORTS
    ]
    imports = tuple(dict.fromkeys(node.value for node in named if isinstance(node, ox.NamedNode)))
    problems += [_text_import(text, file, node) for node in named if isinstance(node, ox.Literal)]
    document = Document(
        name=file,
        sha256=digest,
        triples=tuple(triples),
        prefixes=prefixes,
        imports=imports,
        text=text,
        plain=plain,
        graphs=graphs,
    )
    return document, tuple(problems)


def _reserved_graph(iri: str, text: str, file: str, prefixes: Mapping[str, str]) -> Diagnostic:
    """Report a named graph of a file with an IRI that fedkg gives to its own graphs."""
    spellings = [
        f"{prefix}:{iri.removeprefix(space)}"
        for prefix, space in prefixes.items()
        if iri.startswith(space)
    ]
    names = "|".join(map(re.escape, [iri, *spellings]))
    match = re.search(rf"(?<![\w:.-])(?:{names})(?![\w:-])", text)
    return report(
        "FKG103",
        inside(point(file), text, *(match.span() if match else (0, 1))),
        f"the file may not have a graph <{iri}>: fedkg keeps {kind_of(iri)} triples in graphs with"
        " such IRIs",
        help="give the graph an IRI that does not begin with `urn:fedkg:`",
    )


def _text_import(text: str, file: str, name: ox.Literal) -> Diagnostic:
    """Report an import that is a text."""
    start = max(text.find(name.value, text.find("imports")), 0)
    return report(
        "FKG105",
        inside(point(file), text, start, start + max(len(name.value), 1)),
        f'the import of "{name.value}" is not followed: it is a text',
        help=f"write the IRI of the ontology or the path of the file, as in <{name.value}>",
        severity="warning",
    )


def imports_in_folder(document: Document) -> set[str]:
    """Return the IRIs of the imports that a file writes as paths that stay in its folder.

    The base of its relative IRIs has no folder, so that `..` vanishes from them: only a second base
    in a deep folder shows it.
    """
    syntax = detect_format(document.text, document.name)
    if isinstance(syntax, NotRdf) or not is_rdf(syntax):
        return set()
    base, deep = _base(document.name, _DEEP_FOLDER), f"file:///{_DEEP_FOLDER}"
    parser = ox.parse(document.text, format=RDF_FORMATS[syntax], base_iri=base, lenient=True)
    found: set[str] = set()
    with suppress(MemoryError):
        for _ in range(1 if syntax in _WHOLE else _MOST_MISTAKES):
            with suppress(SyntaxError):  # `read_file` has reported it
                found.update(
                    f"file:///{quad.object.value.removeprefix(deep)}"
                    for quad in parser
                    if quad.predicate == _IMPORTS
                    and isinstance(quad.object, ox.NamedNode)
                    and quad.object.value.startswith(deep)
                )
                break
    return found


_DEEP_FOLDER = "-/" * 64


def _by_graph(quads: list[ox.Quad]) -> tuple[list[ox.Quad], tuple[tuple[str, int], ...]]:
    """Return quads as triples in the order of their graphs, and the graphs as in `Document`.

    A graph without an IRI belongs to the graph of the file.
    """
    if all(quad.graph_name == DEFAULT for quad in quads):
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
    found = read_at_once(text, body, RDF_FORMATS[syntax], _base(file))
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


def _base(file: str, folder: str = "") -> str:
    """The base IRI of a file: its name, with the characters escaped that no IRI may have."""
    return f"file:///{folder}" + _NOT_IN_IRI.sub(lambda found: quote(found[0]), PurePath(file).name)


_NOT_IN_IRI = re.compile(r'[\x00-\x20<>"{}|\\^`\[\]\x7f]|%(?![0-9A-Fa-f]{2})')


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
    base = _base(file)
    try:
        parser = ox.parse(text, format=RDF_FORMATS[syntax], base_iri=base, lenient=lenient)
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
    if any(quad.graph_name != DEFAULT for quad in quads):
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


# The canonical content of graphs, independent of file and store: their triples as sorted lines,
# and the checksum of the lines.
#
# The lines are canonical N-Triples (W3C RDF 1.1 N-Triples, section 4), each once, in the order of
# their code points; literals are as stores keep them, and blank nodes bear the names of
# `blank_names`.


def lines_of(triples: Iterable[ox.Quad]) -> list[bytes]:
    """Return the sorted lines of these triples, without line ends."""
    text = ox.serialize(triples, format=ox.RdfFormat.N_TRIPLES)
    assert text is not None
    lines = dict.fromkeys(text.split(b"\n"))  # in their order, in which runs are sorted already
    lines.pop(b"", None)
    changed = _store_forms({line.split(b" ", 2)[2] for line in lines if b'"^^<' in line})
    others = (
        [line for line in lines if b'"^^<' in line and line.split(b" ", 2)[2] in changed]
        if changed
        else []
    )
    for line in others:
        del lines[line]
        subject, predicate, end = line.split(b" ", 2)
        lines[b" ".join((subject, predicate, changed[end]))] = None
    return sorted(lines)


def document_lines(document: Document) -> list[bytes]:
    """Return the sorted lines of a document; those of its named graphs as canonical N-Quads."""
    sections = sections_of(document)
    if not any(iri for iri, _ in sections):
        return lines_of(document.triples)
    return sorted(line for iri, triples in sections for line in quad_lines(lines_of(triples), iri))


def quad_lines(lines: Iterable[bytes], graph: str) -> Iterable[bytes]:
    """Return lines of N-Triples, with or without line ends, as lines of N-Quads; as they are for
    the graph "".

    Lines in one order stay in it.
    """
    if not graph:
        return lines
    name = f" {ox.NamedNode(graph)}".encode()
    ends = ((line, line.rindex(b" .")) for line in lines)
    return (line[:end] + name + line[end:] for line, end in ends)


def _store_forms(objects: Set[bytes]) -> dict[bytes, bytes]:
    """The line ends that a store writes in another form (`as_kept`), with that form."""
    given = sorted(objects)
    store = ox.Store()
    lines = b"".join(b"<n:%d> <n:p> %s\n" % (number, end) for number, end in enumerate(given))
    store.bulk_load(
        lines, format=ox.RdfFormat.N_TRIPLES, lenient=True
    )  # datatypes that are not quite IRIs are taken as they are
    text = store.dump(format=ox.RdfFormat.N_TRIPLES, from_graph=ox.DefaultGraph())
    assert text is not None
    found = (line.split(b" ", 2) for line in text.splitlines())
    forms = ((given[int(subject[3:-1])], form) for subject, _, form in found)
    return {end: form for end, form in forms if end != form}


def checksum(documents: Sequence[Document]) -> str:
    """Return the SHA-256 of everything that these documents say together: of their lines, each with
    its end.
    """
    if len(documents) == 1 and documents[0].content:
        return documents[0].content
    if len(documents) == 1:
        return hashlib.sha256(
            b"".join([line + b"\n" for line in document_lines(documents[0])])
        ).hexdigest()
    found = hashlib.sha256()
    last = b""
    for line in merge(*map(document_lines, documents)):
        if line != last:
            found.update(line + b"\n")
            last = line
    return found.hexdigest()


def rename_shared_blank_nodes(documents: Sequence[Document]) -> list[Document]:
    """Return the documents with blank nodes named as in one document: equal nodes of two documents
    stay two nodes.
    """
    if sum(not document.plain for document in documents) < 2:
        return list(documents)
    labels = [labels_of(document) for document in documents if not document.plain]
    if sum(map(len, labels)) == len(frozenset().union(*labels)):
        return list(documents)
    own = [
        [
            _owned(quad, number)
            for quad in document.triples
            if isinstance(quad.subject, ox.BlankNode) or isinstance(quad.object, ox.BlankNode)
        ]
        for number, document in enumerate(documents)
    ]
    names = names_by_content(quad for quads in own for quad in quads)
    return [
        replace(
            document,
            triples=tuple(renamed((_owned(quad, number) for quad in document.triples), names)),
            content="",
            labels=None,
        )
        for number, document in enumerate(documents)
    ]


def _owned(quad: ox.Quad, number: int) -> ox.Quad:
    """A triple with the blank nodes of one document."""
    subject, value = quad.subject, quad.object
    if isinstance(subject, ox.BlankNode):
        subject = ox.BlankNode(f"d{number}x{subject.value}")
    if isinstance(value, ox.BlankNode):
        value = ox.BlankNode(f"d{number}x{value.value}")
    return ox.Quad(subject, quad.predicate, value)


# The named graphs of the knowledge graph: one IRI for each, by the kind of its statements.
#
# The default graph holds the user's data and what it entails. Rules, shapes and queries see it.
# Every statement is in a named graph too, which a query addresses with `GRAPH <iri>`:
#
# | kind | IRI | statements |
# |---|---|---|
# | data | `file:///NAME`, the address of an endpoint, or the user's own IRI | what a file states |
# | ontology | `urn:fedkg:ontology:NAME` | an ontology that the user added to the catalogue |
# | vocabulary | `urn:fedkg:vocabulary:NAME` | an ontology that ships with fedkg, or an alignment |
# | inferred | `INFERRED` | what follows from the data, alone or with the other graphs |
# | inferred | `VOCABULARY_INFERRED` | what follows from ontologies and vocabularies alone |
# | learned | `urn:fedkg:run:DIGEST` | the findings of a run; nothing follows from them |
#
# Only ontologies, vocabularies, findings and what vocabularies entail are stored under their
# names. The graphs of data and of what it entails would be copies of the default graph, so a query
# that names a graph makes them (`Graph.select`).

GraphKind = OneOf["data", "ontology", "vocabulary", "inferred", "learned"]

INFERRED = "urn:fedkg:inferred"
VOCABULARY_INFERRED = "urn:fedkg:inferred:vocabulary"
_ONTOLOGY, _VOCABULARY = "urn:fedkg:ontology:", "urn:fedkg:vocabulary:"
RUN = "urn:fedkg:run:"
"""The beginning of the IRI of a run, which is the graph of its findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGraph:
    """One named graph.

    Attributes:
        iri: its name.
        source: the file, store or endpoint that the statements come from; "" for inferences.
        triples: its statements, in the default graph.
    """

    iri: str
    source: str
    triples: Sequence[ox.Quad]

    @property
    def kind(self) -> GraphKind:
        """What its statements are."""
        return kind_of(self.iri)

    def quads(self) -> Iterator[ox.Quad]:
        """The statements in this graph."""
        return in_graph(self.triples, self.iri)


def file_graph(name: str) -> str:
    """Return the IRI of the graph of a file, or of an endpoint by its address.

    The folder does not matter, so that a rule gives the same rows on every machine: files of one
    name are one graph.
    """
    return name if is_endpoint(name) else f"file:///{quote(PurePath(name).name)}"


def ontology_graph(name: str, *, bundled: bool) -> str:
    """Return the IRI of the graph of an ontology of the catalogue."""
    return f"{_VOCABULARY if bundled else _ONTOLOGY}{quote(name)}"


def inferred_graph(premises: Iterable[str]) -> str:
    """Return the graph of an inference from triples in these graphs."""
    own = {VOCABULARY_INFERRED, ""}
    is_data = any(iri not in own and kind_of(iri) in ("data", "inferred") for iri in premises)
    return INFERRED if is_data else VOCABULARY_INFERRED


def kind_of(iri: str) -> GraphKind:
    """Return the kind of a graph."""
    for start, kind in _KINDS:
        if iri.startswith(start):
            return kind
    return "data"


_KINDS: tuple[tuple[str, GraphKind], ...] = (
    (INFERRED, "inferred"),
    (_ONTOLOGY, "ontology"),
    (_VOCABULARY, "vocabulary"),
    (RUN, "learned"),
)


def graphs_of(document: Document) -> list[NamedGraph]:
    """Return the graphs of a file, a store or an endpoint."""
    if isinstance(document.triples, StoredTriples):
        names = [part.name for part in document.triples.parts]
    else:
        names = [document.name] * max(len(document.graphs), 1)
    return [
        NamedGraph(iri=iri or file_graph(name), source=name, triples=triples)
        for name, (iri, triples) in zip(names, sections_of(document), strict=True)
    ]


def stated(document: Document) -> Iterable[ox.Quad]:
    """Return the triples of a document that are the user's data: not what runs have learned."""
    graphs = graphs_of(document)
    if all(graph.kind == "data" for graph in graphs):
        return document.triples
    return (quad for graph in graphs if graph.kind != "learned" for quad in graph.triples)


def in_graph(triples: Iterable[ox.Quad], iri: str) -> Iterator[ox.Quad]:
    """Yield triples as quads of a named graph."""
    name = ox.NamedNode(iri)
    for quad in triples:
        yield ox.Quad(quad.subject, quad.predicate, quad.object, name)


def names_graph(query: str) -> bool:
    """Tell whether a query may address a named graph."""
    return any(
        word.kind == "word" and word.text.upper() in ("GRAPH", "FROM") for word in tokens(query)
    )


def with_named_graphs(
    store: ox.Store, named: Callable[[ox.Store], Iterable[ox.Quad]] | None
) -> ox.Store:
    """Return a store in memory with every named graph.

    Args:
        store: what is stored; it may be read-only.
        named: gives the quads of the graphs that a store lacks; None: it lacks none.
    """
    whole = ox.Store()
    whole.extend(store)
    if named is not None:
        whole.extend(named(store))
    return whole
