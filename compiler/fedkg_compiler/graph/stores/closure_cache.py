"""The closure of a store with the ontologies of a rule file, cached in the store's folder: computed
once, then only queried.

An entry is an Oxigraph store (RocksDB) of every triple and every conclusion, and ``said.json``: the
names that are defined and what was found out about them while they were read. Its name is a digest
of everything that goes in: the content of the store, of the ontologies and of further graphs, and
the compiler. It is built under another name and renamed when it is whole, so that a build that is
killed is never taken for an entry. Nothing changes it afterwards; the oldest entries beyond `MOST`
go.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedkg_compiler.cache_entries import compiler_stamp
from fedkg_compiler.diagnostics.record import Diagnostic, diagnostic_from
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.ontologies import Definition
from fedkg_compiler.graph.rdf_reader import Document, lines_of
from fedkg_compiler.graph.stores.folder import CLOSED

MOST = 4
"""Closures that a store keeps."""
_SAID = "said.json"
_TRIPLES = "triples"
_PROPERTIES = "SELECT ?p (COUNT(*) AS ?n) WHERE { ?s ?p ?o } GROUP BY ?p"
_CLASSES = "SELECT ?c (COUNT(*) AS ?n) WHERE { ?s a ?c } GROUP BY ?c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A graph and what follows from it.

    Attributes:
        store: the triples of the closure, read-only.
        defined: the definitions of the names that the documents define, by IRI.
        problems: the diagnostics about the graphs that need the closure.
        properties: the number of triples of each property.
        classes: the number of members of each class that has a name.
    """

    store: ox.Store
    defined: dict[str, Definition]
    problems: tuple[Diagnostic, ...]
    properties: dict[ox.NamedNode, int] = field(default_factory=dict)
    classes: dict[ox.NamedNode, int] = field(default_factory=dict)


def entry_for(
    folder: Path,
    graphs: Sequence[Document],
    ontologies: Iterable[tuple[str, Document]],
    equal: Sequence[ox.Quad],
    settings: Mapping[str, Any],
) -> Path:
    """Return where the closure of these documents is kept, or would be.

    Args:
        folder: the folder of the store.
        graphs: the user's graphs.
        ontologies: the ontologies, each with its name.
        equal: triples that are added to those of the documents.
        settings: other inputs of the diagnostics, as JSON values.
    """
    given = sorted((document.name, document.content or document.sha256) for document in graphs)
    named = sorted((name, document.sha256) for name, document in ontologies)
    asked = json.dumps(
        [compiler_stamp(), given, named, [line.decode() for line in lines_of(equal)], settings],
        sort_keys=True,
    )
    return folder / CLOSED / hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def find_closed(entry: Path) -> Closed | None:
    """Return what is kept there; None if there is nothing, or it cannot be read."""
    try:
        said = json.loads((entry / _SAID).read_bytes())
        store = ox.Store.read_only(str(entry / _TRIPLES))
        defined = {
            iri: Definition(name, kind, _texts(labels), _texts(comments))
            for iri, name, kind, labels, comments in said["defined"]
        }
        return Closed(
            store=store,
            defined=defined,
            problems=tuple(diagnostic_from(one) for one in said["problems"]),
            properties=_counts(said["properties"]),
            classes=_counts(said["classes"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _counts(said: Mapping[str, int]) -> dict[ox.NamedNode, int]:
    return {ox.NamedNode(iri): count for iri, count in said.items()}


def count_properties(store: ox.Store) -> dict[ox.NamedNode, int]:
    """The number of triples of each property."""
    return _counted(store, _PROPERTIES)


def count_members(store: ox.Store) -> dict[ox.NamedNode, int]:
    """The number of members of each class that has a name."""
    return _counted(store, _CLASSES)


def _counted(store: ox.Store, query: str) -> dict[ox.NamedNode, int]:
    """The numbers that a query gives for IRIs, over all graphs."""
    found = store.query(query, use_default_graph_as_union=True)
    assert isinstance(found, ox.QuerySolutions)
    return {
        row[0]: int(row[1].value)
        for row in found
        if isinstance(row[0], ox.NamedNode) and isinstance(row[1], ox.Literal)
    }


def _texts(pairs: Iterable[Sequence[str]]) -> set[tuple[str, str]]:
    return {(language, text) for language, text in pairs}


def keep_closed(entry: Path, closed: Closed) -> None:
    """Write a closure into its entry.

    Where the folder cannot be written, or another process was faster, nothing is kept.
    """
    part = entry.with_name(f".{entry.name}.{os.getpid()}")
    with suppress(OSError):
        part.mkdir(parents=True)
        store = ox.Store(str(part / _TRIPLES))
        store.bulk_extend(closed.store)
        store.flush()
        del store
        defined = [
            [iri, one.ontology, one.kind, sorted(one.labels), sorted(one.comments)]
            for iri, one in closed.defined.items()
        ]
        said = {
            "defined": defined,
            "problems": [asdict(problem) for problem in closed.problems],
            "properties": {name.value: count for name, count in closed.properties.items()},
            "classes": {name.value: count for name, count in closed.classes.items()},
        }
        (part / _SAID).write_text(json.dumps(said), encoding="utf-8")
        part.rename(entry)
    shutil.rmtree(part, ignore_errors=True)
    with suppress(OSError):
        _forget(entry)


def _forget(entry: Path) -> None:
    """Take away the oldest entries, and builds that no process works on any more."""
    found = sorted(
        (path for path in entry.parent.iterdir() if not path.name.startswith(".")),
        key=lambda path: path.stat().st_mtime_ns,
    )
    for path in found[:-MOST]:
        shutil.rmtree(path, ignore_errors=True)
    for path in entry.parent.glob(".*"):
        if not _runs(int(path.name.rpartition(".")[2])):
            shutil.rmtree(path, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
