"""A store on disk: a folder that holds graphs as they were read, and beside them what follows from
them, ready to be asked.

``fedkg-store.json``   the contents: parts, files, prefixes, imports and checksum; replaced last.
``parts/SHA256.nt``    one file as sorted canonical N-Triples (`rdf_reader.lines_of`), named by its
                       checksum; never changed.
``loading.json``       exists while files are loaded; without a running loader, the load was
                       interrupted.
``lock``               held by the one who loads.
``closed/KEY``         an Oxigraph store (RocksDB) with the closure of all parts and the ontologies
                       of a rule file (`closure_store`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from heapq import merge
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.rdf_reader import Document, quad_lines
from fedkg_compiler.graph.stores.problem import StoreProblem
from fedkg_compiler.graph.stores.stored_triples import ANEW, StoredPart, StoredTriples, part_path
from fedkg_compiler.input_files import STORE_STATE, read_bytes

LOADING = "loading.json"
CLOSED = "closed"
_LOCK = "lock"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Part(_Record):
    """The triples of one file.

    Attributes:
        name: the last part of the file's path or of the endpoint's address.
        path: the absolute path of the file, or the address of the endpoint.
        read: sha256 of the bytes that were read.
        content: sha256 of the part's own lines.
        size: the bytes of the part.
        triples: the number of triples.
        plain: whether there are no blank nodes.
        marks: as in `Document`.
        graph: the IRI of the named graph of a file that the triples are in; "" for the others.
    """

    name: str
    path: str
    read: str
    content: str
    size: int
    triples: int
    plain: bool
    marks: tuple[str, ...]
    graph: str = ""


class State(_Record):
    """The contents of a store.

    Attributes:
        content: the checksum of all triples (`rdf_reader.checksum`).
        triples: the number of triples, each counted once.
    """

    format: Literal[1] = 1
    content: str = ""
    triples: int = 0
    parts: tuple[Part, ...] = ()
    prefixes: dict[str, str] = {}
    imports: tuple[str, ...] = ()


def read_state(folder: Path) -> State:
    """Return what is in a store; noted as an input of the compilation.

    Raises:
        StoreProblem: FKG143, it is damaged.
    """
    try:
        state = State.model_validate_json(read_bytes(folder / STORE_STATE))
    except (OSError, ValidationError) as error:
        reason = (
            (error.strerror or "").lower()
            if isinstance(error, OSError)
            else "its list of contents is damaged, or from a newer fedkg"
        )
        raise StoreProblem(
            "FKG143", f"the store {folder} cannot be read: {reason}", help=ANEW
        ) from None
    for part in state.parts:
        path = part_path(folder, part.content)
        if not path.is_file() or path.stat().st_size != part.size:
            raise StoreProblem(
                "FKG143",
                f"the store {folder} is damaged: the triples of {part.name} are incomplete",
                help=ANEW,
            )
    return state


def open_store(folder: Path) -> tuple[Document | None, tuple[Diagnostic, ...]]:
    """Return what a store says, its triples unread, with a note where a load was broken off.

    None if it is damaged or empty.
    """
    try:
        state = read_state(folder)
    except StoreProblem as problem:
        return None, (problem.diagnostic(str(folder)),)
    if not state.parts:
        advice = f"load graphs into it: fedkg graph load {folder} FILES..."
        return None, (
            report("FKG143", point(str(folder)), f"the store {folder} is empty", help=advice),
            *_broken_off(folder),
        )
    document = Document(
        name=str(folder),
        sha256=state.content,
        triples=StoredTriples(
            folder, [StoredPart(part.name, part.content, part.graph) for part in state.parts]
        ),
        prefixes=dict(state.prefixes),
        imports=state.imports,
        text="",
        plain=all(part.plain for part in state.parts),
        content=state.content,
        marks=frozenset(mark for part in state.parts for mark in part.marks),
    )
    return document, _broken_off(folder)


def _broken_off(folder: Path) -> tuple[Diagnostic, ...]:
    """A note where a load neither ended nor goes on, as far as one may look."""
    try:
        names = (folder / LOADING).read_text(encoding="utf-8").split("\n")
        with locked(folder, wait=False) as mine:
            if not mine:
                return ()
    except OSError:
        return ()
    message = (
        f"a load into {folder} was broken off; nothing of it is in the store: {', '.join(names)}"
    )
    return (
        report(
            "FKG144",
            point(str(folder)),
            message,
            help=f"load again: fedkg graph load {folder} {' '.join(names)}",
            severity="warning",
        ),
    )


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock of a store; tell whether it is held.

    The system lets go of it when the process ends, however it ends.
    """
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield _lock(handle, wait=wait)
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: two loads at once are the user's to avoid
        return True
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    return False


def merged(folder: Path, parts: Iterable[Part]) -> tuple[str, int]:
    """Return the checksum of all lines of some parts, and how many there are; each counts once."""
    found, count, last = hashlib.sha256(), 0, b""
    with ExitStack() as opened:
        lines = [
            quad_lines(opened.enter_context(part_path(folder, content).open("rb")), graph)
            for content, graph in sorted({(part.content, part.graph) for part in parts})
        ]
        for line in merge(*lines):
            if line != last:
                found.update(line)
                count += 1
                last = line
    return found.hexdigest(), count
