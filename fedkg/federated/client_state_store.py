"""What is remembered of each client, one row each: as a tensor while it is small, in files beyond a
budget, or of a few clients alone.

Letters: N clients in all, C some of them, L slots of a store.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.mapped_tensors import mapped, reserve
from fedkg.models.model_protocols import Params

SEGMENT = 16 << 20
"""Bytes of a file of rows, or those of one row where that is more."""


RESTORE = "restore the folder from a copy, or start a new run with another --out"


class ClientRows(Protocol):
    """A row for each client; a tensor [N, ...] is one. What it holds never changes."""

    @property
    def shape(self) -> torch.Size:
        """[N, ...]."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Of the rows' numbers."""
        ...

    def __getitem__(self, clients: Tensor, /) -> Tensor:
        """The rows [C, ...] of clients, int64 [C]."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FewRows:
    """The rows of some clients, without those of the others.

    Attributes:
        clients: int64 [C], the clients.
        rows: [C, ...], their rows in this order.
    """

    clients: Tensor
    rows: Tensor

    @property
    def shape(self) -> torch.Size:
        """See `ClientRows`; of the clients that are here."""
        return self.rows.shape

    @property
    def dtype(self) -> torch.dtype:
        """See `ClientRows`."""
        return self.rows.dtype

    def __getitem__(self, clients: Tensor, /) -> Tensor:
        """See `ClientRows`."""
        if torch.equal(clients, self.clients):
            return self.rows
        order = torch.argsort(self.clients)
        return self.rows[order[torch.searchsorted(self.clients[order], clients)]]


class Store:
    """Rows of one shape in files of a folder, by slot.

    A changed row gets a new slot, so every version of the rows stays readable as long as something
    refers to it, and a checkpoint records only the slot of each client. The store reuses a slot
    when no version refers to it any more.

    Args:
        folder: the folder of the files ``0.rows``, ``1.rows`` and so on, for this store alone.
        row: the shape of a row.
        dtype: the data type of the rows.
        population: N.
        fresh: whether to delete the folder first; otherwise the store continues with its files.
        lasting: whether the files are part of a saved state and outlive the store.

    Attributes:
        checkpointed: the version of the rows to which the last checkpoint refers; None before the
            first checkpoint.
    """

    def __init__(
        self,
        folder: Path,
        row: tuple[int, ...],
        dtype: torch.dtype,
        population: int,
        *,
        fresh: bool,
        lasting: bool,
    ) -> None:
        self.folder, self.row, self.dtype, self.lasting = folder, row, dtype, lasting
        self.checkpointed: StoredRows | None = None
        self._versions: weakref.WeakSet[StoredRows] = weakref.WeakSet()
        self._bytes = max(1, math.prod(row)) * dtype.itemsize
        self._per_file = max(1, min(population, SEGMENT // self._bytes))
        self._free = torch.empty(0, dtype=torch.int64)
        self._files: list[Tensor] = []
        self._digests: dict[int, bytes] = {}
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        while (folder / f"{len(self._files)}.rows").exists():
            self._map(len(self._files))

    @property
    def slots(self) -> int:
        """L."""
        return self._per_file * len(self._files)

    def version(self, places: Tensor) -> StoredRows:
        """The rows in the slots `places`, int64 [N]."""
        rows = StoredRows(store=self, places=places)
        self._versions.add(rows)
        return rows

    def write(self, rows: Tensor) -> Tensor:
        """Put rows [C, ...] into slots that nobody refers to; which, int64 [C]."""
        count = len(rows)
        if count > len(self._free):
            self._sweep(count)
        places, self._free = self._free[:count], self._free[count:]
        for file, here in self._by_file(places):
            self._files[file][places[here] % self._per_file] = rows[here]
        if self.lasting:
            self._digests |= zip(places.tolist(), map(_digest, rows), strict=True)
        return places

    def read(self, places: Tensor) -> Tensor:
        """The rows [C, ...] in slots, int64 [C]."""
        found = torch.empty((len(places), *self.row), dtype=self.dtype)
        for file, here in self._by_file(places):
            found[here] = self._files[file][places[here] % self._per_file]
        return found

    def checksum(self, places: Tensor) -> str:
        """SHA-256 over the checksums of the rows in slots, int64 [N].

        Rows that this store did not write are read.
        """
        for place in sorted(set(places.tolist()) - self._digests.keys()):
            self._digests[place] = _digest(self.read(torch.tensor([place]))[0])
        return hashlib.sha256(b"".join(map(self._digests.__getitem__, places.tolist()))).hexdigest()

    def settle(self) -> None:
        """Return when all that was written is on the disk."""
        for number in range(len(self._files)):
            with (self.folder / f"{number}.rows").open("rb+") as file:
                os.fsync(file.fileno())

    def _by_file(self, places: Tensor) -> list[tuple[int, Tensor]]:
        """The files that slots are in, each with which of the slots, int64."""
        file = places // self._per_file
        return [
            (number, (file == number).nonzero().flatten()) for number in sorted(set(file.tolist()))
        ]

    def _sweep(self, count: int) -> None:
        """Find at least `count` slots, by looking at what versions refer to, and in new files where
        these are few.
        """
        used = torch.zeros(self.slots, dtype=torch.bool)
        for rows in self._versions:
            used[rows.places] = True
        free = (~used).nonzero().flatten()
        while len(free) < max(count, self.slots // 8):
            first = self.slots
            reserve(self.folder / f"{len(self._files)}.rows", self._per_file * self._bytes)
            self._map(len(self._files))
            free = torch.cat([free, torch.arange(first, self.slots)])
        self._free = free

    def _map(self, number: int) -> None:
        place = self.folder / f"{number}.rows"
        if place.stat().st_size != self._per_file * self._bytes:
            raise JobError(
                f"{place} is damaged",
                expected=f"{self._per_file * self._bytes} bytes",
                received=str(place.stat().st_size),
                help=RESTORE,
            )
        self._files.append(
            mapped(place, self._per_file * self._bytes)
            .view(self.dtype)
            .view(self._per_file, *self.row)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class StoredRows:
    """One version of rows in a store.

    Attributes:
        places: int64 [N], the slot of each client; clients with equal initial rows may share a
            slot.
    """

    store: Store = field(repr=False)
    places: Tensor

    @property
    def shape(self) -> torch.Size:
        """See `ClientRows`."""
        return torch.Size((len(self.places), *self.store.row))

    @property
    def dtype(self) -> torch.dtype:
        """See `ClientRows`."""
        return self.store.dtype

    def __getitem__(self, clients: Tensor, /) -> Tensor:
        """See `ClientRows`."""
        return self.store.read(self.places[clients])

    def to(self, device: torch.device) -> StoredRows | Tensor:
        """Return the rows on another device, without files: one tensor [N, ...]."""
        return self if device.type == "cpu" else whole(self).to(device)

    def replaced(self, clients: Tensor, rows: Tensor) -> StoredRows:
        """These rows but for those of clients, int64 [C], which are `rows` [C, ...]."""
        return self.store.version(self.places.index_copy(0, clients, self.store.write(rows)))


def placed(
    rows: Mapping[str, ClientRows], budget: int, folder: Path | None
) -> dict[str, ClientRows]:
    """The rows, with the largest of them moved into files so that the others take no more than
    `budget` bytes.

    Rows on an accelerator stay there.

    Args:
        folder: of the files; None: a temporary one, which goes when the last version of the rows
            does.

    Raises:
        JobError: if the disk is full.
    """
    sizes = {name: math.prod(value.shape) * value.dtype.itemsize for name, value in rows.items()}
    found: dict[str, ClientRows] = {}
    for name in sorted(rows, key=lambda name: sizes[name]):
        value = rows[name]
        if isinstance(value, Tensor) and value.device.type == "cpu":
            budget -= sizes[name]
            value = _moved(name, value, folder) if budget < 0 else value
        found[name] = value
    return {name: found[name] for name in rows}


def changed(rows: ClientRows, clients: Tensor, new: Tensor, *, before: ClientRows) -> ClientRows:
    """The rows with those of clients, int64 [C], set to `new` [C, ...].

    A tensor that is not `before` is the caller's own and is written in place.
    """
    match rows:
        case StoredRows():
            return rows.replaced(clients, new)
        case Tensor():
            own = rows.clone() if rows is before else rows
            return own.index_copy_(0, clients, new)
        case _:
            raise TypeError(f"rows of {type(rows).__name__} cannot be changed")


def whole(rows: ClientRows) -> Tensor:
    """All rows as one tensor [N, ...]."""
    return rows if isinstance(rows, Tensor) else rows[torch.arange(rows.shape[0])]


def equal_rows(row: Params, population: int) -> Params:
    """The same row for N clients: views of `row`, each [1, ...], as [N, ...]."""
    return {name: value.expand(population, *value.shape[1:]) for name, value in row.items()}


def _moved(name: str, value: Tensor, folder: Path | None) -> StoredRows:
    at = (
        Path(tempfile.mkdtemp(prefix="fedkg-clients-"))
        if folder is None
        else folder / folder_of(name)
    )
    store = Store(
        at, tuple(value.shape[1:]), value.dtype, len(value), fresh=True, lasting=folder is not None
    )
    if folder is None:
        weakref.finalize(store, shutil.rmtree, at, ignore_errors=True)
    same = len(value) > 1 and value.stride(0) == 0
    return store.version(store.write(value[:1]).expand(len(value)) if same else store.write(value))


def _digest(row: Tensor) -> bytes:
    """SHA-256 of the bytes of one row."""
    return hashlib.sha256(row.contiguous().view(-1).view(torch.uint8).numpy().tobytes()).digest()


def opened(
    folder: Path, name: str, row: tuple[int, ...], dtype: torch.dtype, places: Tensor, checksum: str
) -> StoredRows:
    """The version of rows that a checkpoint refers to; it stays as it is until another is held.

    Args:
        checksum: of these rows, as `Store.checksum` has it.

    Raises:
        JobError: when files are missing or damaged.
    """
    at = folder / folder_of(name)
    store = Store(at, row, dtype, len(places), fresh=False, lasting=True)
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < store.slots:
        raise JobError(
            f"files with the saved state of clients are missing in {at}",
            expected=f"files with {int(places.max()) + 1} rows or more",
            received=f"files with {store.slots} rows",
            help=RESTORE,
        )
    if (found := store.checksum(places)) != checksum:
        raise JobError(
            f"the saved state of clients in {at} is damaged",
            expected=f"sha256 {checksum}",
            received=f"sha256 {found}",
            help=RESTORE,
        )
    store.checkpointed = store.version(places)
    return store.checkpointed


def hold(rows: Mapping[str, ClientRows]) -> None:
    """Keep these versions as they are until others are held: a checkpoint that refers to them has
    been written.
    """
    for value in rows.values():
        if isinstance(value, StoredRows):
            value.store.checkpointed = value


def folder_of(name: str) -> str:
    """The name of a folder for rows of this name."""
    return name.replace("/", "--")
