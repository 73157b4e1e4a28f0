"""Sets of clients as programs on words of bits, each distinct set once.

For one client and one set a bit says of each sample whether the client is in the set; a word has 64 of them. A row of a bank counts a set
under a mask, the samples on which the row is open. Samples of windows stand step by step, each step in words of its own, so that the
windows with some step in a set are the words of all steps joined.

Letters: R rows, P samples: B windows (or rows) of T steps each; L words: T times B / 64, rounded up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.specialised.clients import Clients, Fixed, Reach

Ints = NDArray[np.int64]
Program = tuple[tuple[int, int], ...]

WORD = 64
"""Samples of a word."""
REACH, EVERY, ANY = range(3)
"""Instructions. The first puts the bits of a threshold on a stack; the others join the top of it with a mask, or (-1) what is below with
it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Programs:
    """Distinct sets and the rows that count them, as tables.

    Attributes:
        code: [., 2], instructions and operands. starts: where those of each set begin. depth: of the stack, at most.
        rows: [., 2], the mask of each row, and where its count stands in the result. firsts: where those of each set begin.
        reaches: [., 5], of each threshold the core, where in `levels` it begins, how many numbers it has there (1, or one for each bit),
            the mask of the samples on which those are in the set that stay below, and its place among the `kept` thresholds that several
            sets ask for (-1: one alone).
        levels: in the type of the cores. masks: [., L]. steps: T.
        fixed: places of the result that no row has.
    """

    code: Ints
    starts: Ints
    depth: int
    rows: Ints
    firsts: Ints
    reaches: Ints
    levels: NDArray[Any]
    masks: Ints
    steps: int
    kept: int
    fixed: Ints


class Writer:
    """Collects rows, and writes their programs; `shape` is (B, T)."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._rows: dict[Program, list[tuple[int, int]]] = {}
        self._reaches: dict[tuple[int, int, int, int], int] = {}
        self._levels: dict[bytes, int] = {}
        self._end = 0
        self._masks: dict[bytes, int] = {}

    def add(self, clients: Clients, mask: Tensor, place: Tensor) -> None:
        """Rows whose sets are counted under a mask, bool [R, P], at a place [R] of the result."""
        columns = self._listed(clients)
        for i, row in enumerate(zip(self._masked(mask), place.tolist(), strict=True)):
            program = tuple((instruction, operands[i]) for instruction, operands in columns)
            self._rows.setdefault(program, []).append(row)

    def programs(self, dtype: np.dtype[Any], results: int) -> Programs:
        """All that was added; the cores are numbers of this type, the result has so many places."""
        reaches = list(self._reaches)
        sets = sorted(self._rows.items(), key=lambda one: reaches[one[0][0][1]][0])  # those that read one core together, while it is near
        uses = Counter(operand for program, _ in sets for instruction, operand in program if instruction == REACH)
        kept = {reach: place for place, reach in enumerate(reach for reach, count in uses.items() if count > 1)}
        rows = _table([row for _, rows in sets for row in rows], 2)
        return Programs(
            code=_table([instruction for program, _ in sets for instruction in program], 2),
            starts=_starts(program for program, _ in sets),
            depth=max(sum(instruction == REACH for instruction, _ in program) for program, _ in sets),
            rows=rows,
            firsts=_starts(rows for _, rows in sets),
            reaches=_table([(*reach, kept.get(i, -1)) for i, reach in enumerate(reaches)], 5),
            levels=np.frombuffer(bytearray().join(self._levels), dtype=dtype),
            masks=np.frombuffer(bytearray().join(self._masks), dtype=np.int64).reshape(len(self._masks), -1),
            steps=self._shape[1],
            kept=len(kept),
            fixed=np.setdiff1d(np.arange(results), rows[:, 1]),
        )

    def _listed(self, clients: Clients) -> list[tuple[int, list[int]]]:
        """The instructions of some rows, which are the same for all, with the operand of each row."""
        if isinstance(clients, Reach):
            return [(REACH, self._reached(clients))]
        assert not isinstance(clients, Fixed), "a mask is joined to something"
        kind = EVERY if clients.every else ANY
        found = self._listed(clients.parts[0])
        for part in clients.parts[1:]:
            if isinstance(part, Fixed):
                found.append((kind, self._masked(part.mask)))
            else:
                found += [*self._listed(part), (kind, [-1] * len(found[0][1]))]
        return found

    def _reached(self, reach: Reach) -> list[int]:
        varies = reach.threshold.shape[1] > 1
        thresholds = (laid(reach.threshold, self._shape) if varies else reach.threshold).cpu().numpy()
        below = self._masked(~reach.above.expand(-1, self._shape[0] * self._shape[1]))
        found = []
        for core, own, mask in zip(reach.core.tolist(), thresholds, below, strict=True):
            at = self._levels.setdefault(own.tobytes(), self._end)
            self._end += own.size if at == self._end else 0
            found.append(self._reaches.setdefault((core, at, own.size, mask), len(self._reaches)))
        return found

    def _masked(self, mask: Tensor) -> list[int]:
        """The numbers of masks, bool [R, P]."""
        words = np.packbits(laid(mask, self._shape).cpu().numpy(), axis=1, bitorder="little")
        return [self._masks.setdefault(own.tobytes(), len(self._masks)) for own in words]


def laid(values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Values [..., P] in the order of the bits, [..., 64 * L], with zeros where a bit stands for no sample; `shape` is (B, T)."""
    by_step = values.reshape(*values.shape[:-1], *shape).transpose(-1, -2)
    return torch.nn.functional.pad(by_step, (0, -shape[0] % WORD)).flatten(-2).contiguous()


def _table(rows: list[Any], columns: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)


def _starts(parts: Iterable[Sized]) -> Ints:
    return np.cumsum([0, *(len(part) for part in parts)], dtype=np.int64)
