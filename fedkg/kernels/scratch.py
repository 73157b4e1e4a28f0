"""Where loops put what they need while they run."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

KEPT = 1 << 21
"""Bytes that each thread keeps between calls; untouched pages take no memory."""


class Scratch:
    """Bytes at a fixed address for as long as this object lives."""

    def __init__(self, size: int) -> None:
        self._bytes = np.empty(size, dtype=np.uint8)
        self.at: int = self._bytes.ctypes.data

    def int64_rows(self, rows: int, columns: int) -> NDArray[np.int64]:
        """The first bytes as int64 [rows, columns]."""
        return self._bytes[: 8 * rows * columns].view(np.int64).reshape(rows, columns)


class _Own(threading.local):
    def __init__(self) -> None:
        self.room = Scratch(KEPT)


_OWN = _Own()


def scratch_space(size: int) -> Scratch:
    """At least `size` uninitialised bytes for the next loop call of this thread.

    A further call gets the same bytes.
    """
    return _OWN.room if size <= KEPT else Scratch(size)
