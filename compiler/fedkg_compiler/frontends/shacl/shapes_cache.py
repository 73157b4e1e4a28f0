"""Shapes that were read, kept in the user's cache folder: an ontology with shapes is the same from
one validation to the next.

An entry is named by the checksums of the files and by the compiler. It is a checksum and a pickle
that may contain plain data and the classes of `_ALLOWED` only, so that reading an entry runs no
other code. A damaged entry is read from the files again; in a folder that cannot be written nothing
is saved.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rdflib import BNode, Literal, URIRef
from typing_extensions import override

from fedkg.limits import limit
from fedkg_compiler.cache_entries import entry_path, keep_entry, read_entry
from fedkg_compiler.frontends.shacl import inference_rules, shapes_graph_reader
from fedkg_compiler.frontends.shacl.inference_rules import Rule
from fedkg_compiler.frontends.shacl.shapes_graph_reader import ShapesFile
from fedkg_compiler.graph.rdf_reader import Document

WORTH = 2_000
"""Triples from which on reading an entry is quicker than reading the shapes again."""
MOST = 8
"""Entries that are kept; the oldest go first."""
Shapes = tuple[ShapesFile, Sequence[Rule]]


def shapes_entry(documents: Sequence[Document]) -> Path | None:
    """The place of the shapes of documents; None if they are not kept."""
    if sum(len(one.triples) for one in documents) < WORTH or not all(
        one.sha256 and one.text for one in documents
    ):
        return None
    return entry_path("shapes", [limit("depth"), [[one.name, one.sha256] for one in documents]])


def find_shapes(entry: Path) -> Shapes | None:
    """The shapes of an entry and their rules; None without a readable one."""
    body = read_entry(entry)
    if body is None:
        return None
    try:
        shapes, rules = _Unpickler(io.BytesIO(body)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError):
        return None
    return shapes, rules


def keep_shapes(entry: Path, shapes: ShapesFile, rules: Sequence[Rule]) -> None:
    """Save shapes and their rules."""
    found = io.BytesIO()
    _Pickler(found, protocol=5).dump((shapes, rules))
    keep_entry(entry, found.getvalue(), MOST)


def restore_literal(text: str, language: str | None, datatype: URIRef | None) -> Literal:
    """A literal as it is written; rdflib's own pickles change ``04`` to ``4``."""
    return Literal(text, lang=language, datatype=datatype, normalize=False)


def restore_record(kind: type, values: Sequence[object]) -> object:
    """A frozen dataclass with slots; the default of Python looks up its fields for each object."""
    found: object = object.__new__(kind)
    for name, value in zip(kind.__slots__, values, strict=True):  # type: ignore[attr-defined]
        object.__setattr__(found, name, value)
    return found


_RECORDS = (
    *(
        shapes_graph_reader.Step,
        shapes_graph_reader.Inverse,
        shapes_graph_reader.PathSequence,
        shapes_graph_reader.Alternative,
        shapes_graph_reader.Repeat,
    ),
    *(
        shapes_graph_reader.Target,
        shapes_graph_reader.Constraint,
        shapes_graph_reader.Shape,
        inference_rules.Rule,
    ),
)


class _Pickler(pickle.Pickler):
    @override
    def reducer_override(self, obj: object) -> Any:
        match obj:
            case URIRef():
                return shapes_graph_reader.restore_iri, (str(obj),)
            case Literal():
                return restore_literal, (str(obj), obj.language, obj.datatype)
            case _ if type(obj) in _RECORDS:
                kind: Any = type(obj)
                values = [getattr(obj, name) for name in kind.__slots__]
                return restore_record, (kind, values)
            case _:
                return NotImplemented


_ALLOWED: dict[tuple[str, str], Callable[..., object]] = {
    (one.__module__, one.__name__): one
    for one in (
        *(restore_literal, restore_record, shapes_graph_reader.restore_iri, BNode),
        *(shapes_graph_reader.IndexedGraph, shapes_graph_reader.ShapesFile, *_RECORDS),
    )
}


class _Unpickler(pickle.Unpickler):
    @override
    def find_class(self, module: str, name: str) -> Callable[..., object]:
        try:
            return _ALLOWED[module, name]
        except KeyError as error:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of shapes") from error
