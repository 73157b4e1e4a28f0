"""Which kinds of files a compilation takes, and which files it reads.

They are known so that a pack can be kept until one of them changes, and so that somebody can watch
them.

Readers of the compiler get their bytes through `read_bytes`; callers record the inputs with
`recording`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from fedkg.errors import LimitError
from fedkg.limits import read_file

RULE_SUFFIXES = frozenset({".fkg"})
"""Rule files."""
GRAPH_SUFFIXES = frozenset(
    {
        *(".ttl", ".trig", ".nt", ".nq", ".rdf", ".owl", ".jsonld", ".xml", ".shacl"),
        *(".ofn", ".owx", ".xsd"),
    }
)
"""Files that are taken as graphs, which may hold shapes."""
QUERY_SUFFIXES = frozenset({".rq", ".sparql"})
"""Files that are taken as SPARQL violation queries."""
STORE_STATE = "fedkg-store.json"
"""The file that makes a folder a store of graphs."""
ABSENT = ""
"""The digest of a file that is not there or cannot be read."""


@dataclass(slots=True)
class Inputs:
    """What was read.

    Attributes:
        files: sha256 of each file, by its absolute path; `ABSENT` if the file did not exist or
            could not be read.
        listings: the files that a pattern found, by (absolute folder, pattern).
        remote: the endpoints that were queried; `unchanged` cannot tell whether their contents have
            changed.
        held: the contents that were read from endpoints, as (address, number of triples, their
            checksum); one entry for each distinct content.
    """

    files: dict[str, str] = field(default_factory=dict)
    listings: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    remote: set[str] = field(default_factory=set)
    held: set[tuple[str, int, str]] = field(default_factory=set)

    def unchanged(self) -> bool:
        """Whether every file still has its content and every pattern still finds the same files."""
        return all(_digest(path) == digest for path, digest in self.files.items()) and all(
            _matches(Path(folder), pattern) == found
            for (folder, pattern), found in self.listings.items()
        )


_recording: ContextVar[Inputs | None] = ContextVar("recording", default=None)
_standing_in: ContextVar[Mapping[str, bytes]] = ContextVar(
    "standing_in", default=MappingProxyType({})
)


@contextmanager
def recording() -> Iterator[Inputs]:
    """Note everything that is read inside, also in what calls this."""
    outer, inputs = _recording.get(), Inputs()
    token = _recording.set(inputs)
    try:
        yield inputs
    finally:
        _recording.reset(token)
        if outer is not None:
            outer.files |= inputs.files
            outer.listings |= inputs.listings
            outer.remote |= inputs.remote
            outer.held |= inputs.held


@contextmanager
def instead(bodies: Mapping[Path, bytes]) -> Iterator[None]:
    """Inside, these files are read with these bytes, to diagnose them before they are written."""
    token = _standing_in.set({_absolute(path): body for path, body in bodies.items()})
    try:
        yield
    finally:
        _standing_in.reset(token)


def read_bytes(path: Path, *, name: str = "file") -> bytes:
    """The bytes of a file within the limit `name`; absence is noted too.

    Raises OSError, ValueError and LimitError as `fedkg.limits.read_file` does.
    """
    try:
        instead_of = _standing_in.get().get(_absolute(path))
        body = read_file(path, name=name) if instead_of is None else instead_of
    except (OSError, ValueError):
        note(path, ABSENT)
        raise
    if _recording.get() is not None:
        note(path, hashlib.sha256(body).hexdigest())
    return body


def note(path: Path, digest: str) -> None:
    """Say that a file with this sha256 went in, for who reads it elsewhere; one that changed
    meanwhile is never unchanged.
    """
    inputs = _recording.get()
    if inputs is not None:
        place = _absolute(path)
        inputs.files[place] = digest if inputs.files.get(place, digest) == digest else ABSENT


def note_remote(name: str) -> None:
    """Say that an endpoint is asked."""
    inputs = _recording.get()
    if inputs is not None:
        inputs.remote.add(name)


def note_held(name: str, triples: int, digest: str) -> None:
    """Say what an endpoint held that was asked."""
    inputs = _recording.get()
    if inputs is not None:
        inputs.held.add((name, triples, digest))


def is_endpoint(argument: str | Path) -> bool:
    """Whether a graph is named by the address of a SPARQL endpoint rather than by a path."""
    return isinstance(argument, str) and argument.lower().startswith(("http://", "https://"))


def is_store(path: Path) -> bool:
    """Whether a path is a store of graphs on disk."""
    return (path / STORE_STATE).is_file()


def find(folder: Path, pattern: str) -> tuple[Path, ...]:
    """The files below `folder` that a pattern such as ``legacy/*.rq`` names, sorted.

    Raises ValueError for a pattern that is none.
    """
    found = _matches(folder, pattern)
    inputs = _recording.get()
    if inputs is not None:
        inputs.listings[str(folder.absolute()), pattern] = found
    return tuple(folder / name for name in found)


def _matches(folder: Path, pattern: str) -> tuple[str, ...]:
    start = len(str(folder / "name")) - len("name")
    return tuple(
        sorted(
            str(path)[start:].replace(os.sep, "/")
            for path in folder.glob(pattern)
            if path.is_file()
        )
    )


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except (OSError, ValueError, LimitError):
        return ABSENT


def _absolute(path: Path) -> str:
    # for thousands of files Path takes its time
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
