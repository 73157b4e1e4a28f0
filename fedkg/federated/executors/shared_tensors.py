"""Tensors that several processes see at one place: files that are mapped into the memory of each of
them.

Writes through one map are visible through another without a copy, and nothing but names and places
goes through a pipe. Ordinary
files are used rather than the system's shared memory, which is often no larger than 64 MiB in a
container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedkg.federated.mapped_tensors import mapped, reserve
from fedkg.models.model_protocols import Params

LINE = 64
"""Alignment of tensors in bytes: the length of a cache line."""

GRAIN = 1 << 20
"""Files grow in multiples of this number of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The position of one tensor in a room.

    Attributes:
        begin: the position of its first byte.
        shape: the dimensions of the tensor.
        dtype: the data type of the tensor.
        repeated: whether the first dimension repeats one row (`Tensor.expand`), so that the room
            contains only this row.
    """

    begin: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    repeated: bool

    @property
    def stored(self) -> tuple[int, ...]:
        """The dimensions of what is there."""
        return (1, *self.shape[1:]) if self.repeated else self.shape

    @property
    def end(self) -> int:
        """The byte behind the last one."""
        size = self.dtype.itemsize
        for length in self.stored:
            size *= length
        return self.begin + size


Plan = dict[str, Place]
"""The tensors in a room by name."""


class Room:
    """One mapped file, which one process writes and others read; it grows as needed and never
    shrinks.

    Args:
        path: the file. It is made when something is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def write(self, tensors: Mapping[str, Tensor]) -> Plan:
        """Put tensors where others were.

        Raises:
            JobError: when the disk is full.
        """
        plan, begin = plan_of(tensors)
        if begin > len(self._bytes):
            size = -(-begin // GRAIN) * GRAIN
            reserve(self._path, size)
            self._bytes = mapped(self._path, size)
        put(self._bytes, tensors, plan)
        return plan

    def read(self, plan: Plan) -> Params:
        """What another process wrote and told the plan of; views, which hold until it writes
        again.
        """
        end = max((place.end for place in plan.values()), default=0)
        if end > len(self._bytes):
            self._bytes = mapped(self._path, self._path.stat().st_size)
        return seen(self._bytes, plan)


def plan_of(tensors: Mapping[str, Tensor]) -> tuple[Plan, int]:
    """Where tensors lie that are put one behind the other, and the bytes they take."""
    plan: Plan = {}
    begin = 0
    for name, value in tensors.items():
        repeated = value.dim() > 0 and value.shape[0] > 1 and value.stride(0) == 0
        plan[name] = Place(
            begin=begin, shape=tuple(value.shape), dtype=value.dtype, repeated=repeated
        )
        begin = -(-plan[name].end // LINE) * LINE
    return plan, begin


def put(room: Tensor, tensors: Mapping[str, Tensor], plan: Plan) -> None:
    """Write tensors to bytes, uint8, as planned."""
    for name, place in plan.items():
        value = tensors[name]
        _at(room, place).copy_(value[:1] if place.repeated else value)


def seen(room: Tensor, plan: Plan) -> Params:
    """The tensors in bytes, uint8, as views."""
    found = {name: _at(room, place) for name, place in plan.items()}
    return {
        name: value.expand(plan[name].shape) if plan[name].repeated else value
        for name, value in found.items()
    }


def _at(room: Tensor, place: Place) -> Tensor:
    return room[place.begin : place.end].view(place.dtype).view(place.stored)
