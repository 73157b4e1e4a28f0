"""Puts files into a store on disk, all of a call or none: a load that is killed leaves the store as
it was, and what it left goes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedkg.errors import FedkgError, UsageError
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.opcua_node_name_resolution import linked
from fedkg_compiler.graph.rdf_reader import (
    Document,
    lines_of,
    read_file,
    rename_shared_blank_nodes,
    sections_of,
)
from fedkg_compiler.graph.stores.folder import (
    CLOSED,
    LOADING,
    Part,
    State,
    locked,
    merged,
    read_state,
)
from fedkg_compiler.graph.stores.mapping_marker_scan import marks_in
from fedkg_compiler.graph.stores.problem import StoreProblem
from fedkg_compiler.graph.stores.stored_triples import PARTS, StoredPart, StoredTriples, part_path
from fedkg_compiler.input_files import STORE_STATE, is_endpoint, is_store


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The result of a load.

    Attributes:
        state: the contents of the store after the load.
        added: the names of the files that are new.
        replaced: the names of the files whose earlier contents were replaced.
        known: the names of the files that were in the store already, with the same contents.
        recovered: whether an earlier load had been interrupted.
    """

    state: State
    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    recovered: bool = False


def load_files(
    folder: Path, files: Sequence[str | Path]
) -> tuple[Loaded | None, tuple[Diagnostic, ...]]:
    """Put graph files, or the graphs of endpoints, into a store, which is made where there is none.

    A file that is in the store already takes the place of what it said before. Nothing is changed
    when one of them has an error.

    Raises:
        UsageError: the folder holds something else. FedkgError: it is damaged.
    """
    if folder.exists() and not is_store(folder) and (not folder.is_dir() or any(_strange(folder))):
        raise UsageError(
            f"{folder} exists and is not a store", help="give the store a separate folder"
        )
    documents, problems = _read(files)
    if documents is None:
        return None, problems
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    with locked(folder, wait=True):
        recovered = (folder / LOADING).exists()
        state = _state(folder)
        _clear(folder, state)
        _write(folder / LOADING, "\n".join(str(file) for file in files).encode())
        loaded = _put(folder, state, documents, recovered=recovered)
        (folder / LOADING).unlink()
    return loaded, problems


def _state(folder: Path) -> State:
    try:
        return read_state(folder) if is_store(folder) else State()
    except StoreProblem as problem:
        raise FedkgError(str(problem), help=problem.help) from problem


def _strange(folder: Path) -> Iterator[Path]:
    """The contents of a folder that an interrupted first load did not create."""
    return (
        path
        for path in folder.iterdir()
        if path.name not in {PARTS, LOADING, CLOSED, "lock"} and not path.name.endswith(".part")
    )


def _read(
    files: Sequence[str | Path],
) -> tuple[list[tuple[str, Document]] | None, tuple[Diagnostic, ...]]:
    """The documents with where they lie; None if one has an error."""
    found: dict[str, Document] = {}
    problems: list[Diagnostic] = []
    for file in files:
        if is_endpoint(file):
            from fedkg_compiler.graph.stores.endpoint_graph_download import read_endpoint

            document, said = read_endpoint(str(file))
            place = "" if document is None else document.name
        else:
            document, said = read_file(Path(file))
            place = str(Path(file).resolve())
        problems += said
        if document is not None:
            found[place] = document
    documents, missing = linked(list(found.values()))
    found = dict(zip(found, documents, strict=True))
    problems += missing
    failed = any(problem.severity == "error" for problem in problems)
    return None if failed else list(found.items()), tuple(problems)


def _put(
    folder: Path, state: State, documents: Sequence[tuple[str, Document]], *, recovered: bool
) -> Loaded:
    """Write the parts, and last of all what the store holds now."""
    before = _by_path(state.parts)
    new = [
        (path, document)
        for path, document in documents
        if path not in before or before[path][0].read != document.sha256
    ]
    names = {path: document.name for path, document in documents}
    if not new:
        return Loaded(state=state, known=tuple(names.values()), recovered=recovered)
    kept = {path: parts for path, parts in before.items() if path not in dict(new)}
    parts = dict(kept)
    for path, document in _rename_blank_nodes(folder, kept, new):
        parts[path] = _write_parts(folder, path, document)
    ordered = tuple(part for path in sorted(parts) for part in parts[path])
    one = ordered[0]
    content, triples = (
        (one.content, one.triples)
        if len(ordered) == 1 and not one.graph
        else merged(folder, ordered)
    )
    prefixes: dict[str, str] = {}
    for space in ({**state.prefixes}, *(document.prefixes for _, document in new)):
        prefixes |= space
    after = State(
        content=content,
        triples=triples,
        parts=ordered,
        prefixes=prefixes,
        imports=tuple(
            dict.fromkeys(
                (*state.imports, *(iri for _, document in new for iri in document.imports))
            )
        ),
    )
    _write(folder / STORE_STATE, after.model_dump_json(indent=1).encode())
    fresh = [path for path, _ in new]
    return Loaded(
        state=after,
        added=tuple(names[path] for path in fresh if path not in before),
        replaced=tuple(names[path] for path in fresh if path in before),
        known=tuple(name for path, name in names.items() if path not in fresh),
        recovered=recovered,
    )


def _by_path(parts: Iterable[Part]) -> dict[str, list[Part]]:
    """The parts of each file or endpoint."""
    found: dict[str, list[Part]] = {}
    for part in parts:
        found.setdefault(part.path, []).append(part)
    return found


def _rename_blank_nodes(
    folder: Path, kept: Mapping[str, Sequence[Part]], new: Sequence[tuple[str, Document]]
) -> list[tuple[str, Document]]:
    """The documents to write, with blank nodes that no other part has.

    Where there are twins, earlier parts are written anew too.
    """
    if all(document.plain for _, document in new):
        return list(new)
    earlier = {
        path: _earlier(folder, parts)
        for path, parts in kept.items()
        if not all(part.plain for part in parts)
    }
    paths = [*earlier, *(path for path, _ in new)]
    before = [*earlier.values(), *(document for _, document in new)]
    after = rename_shared_blank_nodes(before)
    changed = [
        (path, document)
        for path, document, old in zip(paths, after, before, strict=True)
        if document is not old
    ]
    return changed or list(new)


def _earlier(folder: Path, parts: Sequence[Part]) -> Document:
    """What an earlier load wrote of a file."""
    stored = [StoredTriples(folder, [StoredPart(part.name, part.content)]) for part in parts]
    return Document(
        name=parts[0].name,
        sha256=parts[0].read,
        triples=tuple(quad for triples in stored for quad in triples),
        prefixes={},
        imports=(),
        text="",
        graphs=tuple((part.graph, part.triples) for part in parts),
    )


def _write_parts(folder: Path, path: str, document: Document) -> list[Part]:
    """Write the triples of a file, those of each named graph as one part."""
    return [
        _write_part(folder, path, document, graph, triples)
        for graph, triples in sections_of(document)
    ]


def _write_part(
    folder: Path, path: str, document: Document, graph: str, triples: Sequence[ox.Quad]
) -> Part:
    lines = lines_of(triples)
    body = b"".join(line + b"\n" for line in lines)
    content = hashlib.sha256(body).hexdigest()
    if not part_path(folder, content).exists():
        _write(part_path(folder, content), body)
    return Part(
        name=Path(document.name).name or document.name,
        path=path,
        read=document.sha256,
        content=content,
        size=len(body),
        triples=len(lines),
        plain=document.plain,
        marks=tuple(sorted(marks_in(body))),
        graph=graph,
    )


def _write(path: Path, body: bytes) -> None:
    """Write a file so that it is there whole or not at all, also after the power went."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as handle:
        handle.write(body)
        handle.flush()
        os.fsync(handle.fileno())
    part.replace(path)
    with _directory(path.parent) as handle_of:
        if handle_of is not None:
            os.fsync(handle_of)


@contextmanager
def _directory(path: Path) -> Iterator[int | None]:
    """A folder, opened to be written to disk; None if the system opens none (Windows)."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


def _clear(folder: Path, state: State) -> None:
    """Take away what a load that was broken off has left, and parts that earlier loads replaced:
    who reads them now has had the time.
    """
    kept = {part_path(folder, part.content).name for part in state.parts}
    for path in (folder / PARTS).iterdir():
        if path.name not in kept:
            path.unlink()
    for path in folder.glob(".*.part"):
        path.unlink()
