"""Shapes that were read, kept in the user's cache folder: an ontology with shapes is the same from
one validation to the next.

An entry is named by the checksums of the files and by the compiler. It is a checksum and a pickle
that may contain plain data and the classes of `_ALLOWED` only, so that reading an entry runs no
other code. A damaged entry is read from the files again; in a folder that cannot be written nothing
is saved.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rdflib import BNode, Literal, URIRef
from typing_extensions import override

from fedkg.limits import limit
from fedkg_compiler.cache_location import cache_folder, compiler_stamp
from fedkg_compiler.frontends.shacl import inference_rules, model, rdflib_graphs
from fedkg_compiler.frontends.shacl.inference_rules import Rule
from fedkg_compiler.frontends.shacl.model import ShapesFile
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
    files = [[one.name, one.sha256] for one in documents]
    try:
        named = json.dumps([compiler_stamp(), limit("depth"), files])
        digest = hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
        return cache_folder().parent / "shapes" / digest[:32]
    except (OSError, RuntimeError):
        return None


def find_shapes(entry: Path) -> Shapes | None:
    """The shapes of an entry and their rules; None without a readable one."""
    try:
        checksum, _, body = entry.read_bytes().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != checksum:
            return None
        shapes, rules = _Unpickler(io.BytesIO(body)).load()
    except (OSError, pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError):
        return None
    with suppress(OSError):
        os.utime(entry)
    return shapes, rules


def keep_shapes(entry: Path, shapes: ShapesFile, rules: Sequence[Rule]) -> None:
    """Save shapes and their rules."""
    found = io.BytesIO()
    _Pickler(found, protocol=5).dump((shapes, rules))
    body = found.getvalue()
    part = entry.with_name(f".{entry.name}.{os.getpid()}")
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        part.replace(entry)
        kept = [path for path in entry.parent.iterdir() if not path.name.startswith(".")]
        for old in sorted(kept, key=lambda path: path.stat().st_mtime_ns)[:-MOST]:
            old.unlink(missing_ok=True)
    with suppress(OSError):
        part.unlink()


def restore_literal(text: str, language: str | None, datatype: URIRef | None) -> Literal:
    """A literal as it is written; rdflib's own pickles change ``04`` to ``4``."""
    return Literal(text, lang=language, datatype=datatype, normalize=False)


class _Pickler(pickle.Pickler):
    @override
    def reducer_override(self, obj: object) -> Any:
        match obj:
            case URIRef():
                return rdflib_graphs.restore_iri, (str(obj),)
            case Literal():
                return restore_literal, (str(obj), obj.language, obj.datatype)
            case _:
                return NotImplemented


_ALLOWED: dict[tuple[str, str], Callable[..., object]] = {
    (one.__module__, one.__name__): one
    for one in (
        *(restore_literal, rdflib_graphs.restore_iri, BNode, rdflib_graphs.IndexedGraph),
        *(model.Step, model.Inverse, model.Sequence, model.Alternative, model.Repeat),
        *(model.Target, model.Constraint, model.Shape, model.ShapesFile, inference_rules.Rule),
    )
}


class _Unpickler(pickle.Unpickler):
    @override
    def find_class(self, module: str, name: str) -> Callable[..., object]:
        try:
            return _ALLOWED[module, name]
        except KeyError as error:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of shapes") from error
