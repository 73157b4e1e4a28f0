"""Large graphs go from their text into a store at once.

Their triples become Python objects when somebody asks for them, and not before.

Only texts without a mistake are read in this way. For any other text, the reader that locates
problems reads as much as possible. Blank nodes have the names of `blank_names` in the store too. In
N-Triples each triple has one line, so lines that may have blank nodes are read separately. In
Turtle, triples with blank nodes are looked up in the store and written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import pyoxigraph as ox
from typing_extensions import override

from fedkg_compiler.graph.blank_node_names import as_kept, names_by_content, renamed
from fedkg_compiler.graph.standard_vocabularies import OWL

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
    blank = [_is_blank(quad) for quad in quads]
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


def _is_blank(quad: ox.Quad) -> bool:
    return isinstance(quad.subject, ox.BlankNode) or isinstance(quad.object, ox.BlankNode)


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
