"""The triples of a store on disk: files of sorted canonical N-Triples, each named by its
checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, overload

from typing_extensions import override

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.stores.problem import StoreProblem

PARTS = "parts"
ANEW = "load its files into a new store"
"""Advice for a damaged store."""


def part_path(folder: Path, content: str) -> Path:
    """The path of a part."""
    return folder / PARTS / f"{content}.nt"


class StoredPart(NamedTuple):
    """One file of triples.

    Attributes:
        name: the name of the file that the triples were read from.
        content: the checksum of the triples.
        graph: the IRI of their named graph; "" if they belong to the graph of the file.
    """

    name: str
    content: str
    graph: str = ""


class StoredTriples(Sequence[ox.Quad]):
    """The triples of a store, read on demand: a cached closure makes reading unnecessary.

    Attributes:
        folder: the store.
        parts: its parts.
        problem: why they could not be read, once somebody has asked; then there are none.
    """

    def __init__(self, folder: Path, parts: Sequence[StoredPart]) -> None:
        self.folder = folder
        self.parts = parts
        self.problem: Diagnostic | None = None

    @cached_property
    def _read(self) -> tuple[ox.Quad, ...]:
        try:
            return self._from_parts()
        except StoreProblem as problem:
            self.problem = problem.diagnostic(str(self.folder))
            return ()

    def _from_parts(self) -> tuple[ox.Quad, ...]:
        bodies = [_bytes(self.folder, name, content) for name, content, _ in self.parts]
        if len(bodies) == 1:
            return tuple(ox.parse(bodies[0], format=ox.RdfFormat.N_TRIPLES))
        lines = dict.fromkeys(line for body in bodies for line in body.splitlines(keepends=True))
        return tuple(ox.parse(b"".join(lines), format=ox.RdfFormat.N_TRIPLES))

    @override
    def __len__(self) -> int:
        return len(self._read)

    @override
    def __iter__(self) -> Iterator[ox.Quad]:
        return iter(self._read)

    @overload
    def __getitem__(self, index: int) -> ox.Quad: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ox.Quad]: ...
    @override
    def __getitem__(self, index: int | slice) -> ox.Quad | Sequence[ox.Quad]:
        return self._read[index]


def _bytes(folder: Path, name: str, content: str) -> bytes:
    """The lines of a part, if they are still what was written. Raises StoreProblem, FKG143."""
    try:
        body = part_path(folder, content).read_bytes()
    except OSError:
        body = b""
    if hashlib.sha256(body).hexdigest() != content:
        raise StoreProblem(
            "FKG143",
            f"the store {folder} is damaged: the triples of {name} are not what was written",
            help=ANEW,
        )
    return body
