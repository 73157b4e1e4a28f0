"""Where loops put what they need while they run."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.compiled_loop_policy import checks_bounds

KEPT = 1 << 21
"""Bytes that each thread keeps between calls; untouched pages take no memory."""


class Scratch:
    """Bytes at a fixed address for as long as this object lives."""

    def __init__(self, size: int) -> None:
        self._bytes = np.empty(size, dtype=np.uint8)
        self._at: int = self._bytes.ctypes.data
        self._parts: list[NDArray[np.uint8]] = []

    def part_address(self, start: int, stop: int) -> int:
        """The address of bytes that a loop uses as one array."""
        if not checks_bounds():
            return self._at + start
        self._parts.append(self._bytes[start:stop])
        return address(self._parts[-1])

    def int64_rows(self, rows: int, columns: int) -> NDArray[np.int64]:
        """The first bytes as int64 [rows, columns]."""
        return self._bytes[: 8 * rows * columns].view(np.int64).reshape(rows, columns)


class _Own(threading.local):
    def __init__(self) -> None:
        self.room = Scratch(KEPT)


_OWN = _Own()


def scratch_space(size: int) -> Scratch:
    """At least `size` uninitialised bytes for the next loop call of this thread.

    A further call gets the same bytes. With bounds checks, there are exactly `size` bytes.
    """
    return _OWN.room if size <= KEPT and not checks_bounds() else Scratch(size)
