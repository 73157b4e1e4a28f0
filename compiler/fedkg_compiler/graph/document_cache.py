"""Large graph files that were read, kept in the user's cache folder: an ontology is the same from
one command to the next.

An entry is named by the name and the checksum of a file and by the compiler. It has a line of JSON
and the triples as N-Triples, with the names of blank nodes: to find these takes longer than to read
the triples.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from fedkg.limits import require_within_limit
from fedkg_compiler.cache_entries import entry_path, keep_entry, read_entry
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.rdf_reader import Document, labels_of, read_file
from fedkg_compiler.input_files import decode, read_bytes

WORTH = 1 << 18
"""Bytes from which on reading an entry is clearly quicker than reading the file."""
MOST = 16
"""Entries that are kept; the oldest go first."""


def read_known_file(path: Path) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return what `rdf_reader.read_file` returns, from the cache where it is known."""
    try:
        body = read_bytes(path, name="graph")
    except OSError:
        return read_file(path)
    if len(body) < WORTH:
        return read_file(path)
    digest = hashlib.sha256(body).hexdigest()
    entry = entry_path("documents", [str(path), digest])
    found = None if entry is None else _find(entry, path, body, digest)
    if found is not None:
        return found, ()
    document, problems = read_file(path)
    if entry is not None and document is not None and not problems and _is_plain_file(document):
        keep_entry(entry, _written(document), MOST)
    return document, problems


def _is_plain_file(document: Document) -> bool:
    """Whether a document is triples and nothing else."""
    return document.nodes is None and not document.graphs and bool(document.text)


def _written(document: Document) -> bytes:
    facts: dict[str, Any] = {
        "prefixes": document.prefixes,
        "imports": document.imports,
        "plain": document.plain,
        "labels": sorted(labels_of(document)),
    }
    lines = ox.serialize(document.triples, format=ox.RdfFormat.N_TRIPLES) or b""
    return json.dumps(facts).encode() + b"\n" + lines


def _find(entry: Path, path: Path, body: bytes, digest: str) -> Document | None:
    kept = read_entry(entry)
    if kept is None:
        return None
    text, _ = decode(body, str(path))
    head, _, lines = kept.partition(b"\n")
    facts = json.loads(head)
    triples = tuple(ox.parse(lines, format=ox.RdfFormat.N_TRIPLES))
    require_within_limit("triples", len(triples), str(path))
    return Document(
        name=str(path),
        sha256=digest,
        triples=triples,
        prefixes=facts["prefixes"],
        imports=tuple(facts["imports"]),
        text=text,
        plain=facts["plain"],
        labels=frozenset(facts["labels"]),
    )
