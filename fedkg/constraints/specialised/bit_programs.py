"""Sets of clients as programs on words of bits, each distinct set once.

For one client and one set a bit says of each sample whether the client is in the set; a word has 64
of them. A row of a bank counts a set under a mask, the samples on which the row is open. The
windows of a word are stored step by step, one word per step, so that the windows with some step in
a set are these words joined.

Letters: R rows, P samples: B windows (or rows) of T steps each; L words: T times B / 64, rounded
up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.specialised.client_threshold_membership import Clients, Fixed, Reach
from fedkg.kernels.scoring.bit_program_constants import ANY, ANY_MASK, EVERY, EVERY_MASK, WORD

Ints = NDArray[np.int64]

RUNGS = 128
"""Thresholds of one number from which on samples are sorted in among them instead of compared with
each: about where both cost the same."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Programs:
    """Distinct sets of clients, and the rows that count them, as tables of integers.

    Each set has a place: the thresholds come first, then the joins. A core is a number that clients
    are compared by. The set of a threshold contains the clients whose core reaches it or, on the
    samples of a mask, those below it.

    Attributes:
        reaches: [., 4], for each threshold: its core, the position of its first value in `levels`,
            how many values it has there (1, or one for each bit), and the mask of the samples on
            which the set contains the clients below it.
        ladders: [., 3], for each core with many thresholds that are the same on all samples: the
            core, the place of the first of these thresholds, and how many there are. They rise from
            place to place, and come before all other thresholds.
        rungs: the value of each threshold in a ladder.
        flips: for each threshold in a ladder, -1 if the set contains the clients below it,
            otherwise 0.
        scales: [., 5], for each core with as many such thresholds that only rows, and no joins,
            use: the core, the position of its first threshold in `notches`, how many there are, the
            position in `notched` of the first row that counts on them, and the position after the
            last such row. These thresholds have no places.
        notches: the value of each threshold of a scale, rising within the scale.
        notched: [., 4], for each row that counts on a scale: the threshold (counted from the first
            of its scale, falling from row to row); -1 if the row counts the clients below,
            otherwise 0; its mask; and the position of its count in the result.
        joins: [., 3], for each join: its kind (`EVERY`, `ANY`, ...), the place of a set, and the
            place of another set or a mask. Every set comes after its parts.
        rows: [., 3], for each other row: the place of its set, its mask, and the position of its
            count in the result.
        levels: the values of all thresholds, in the data type of the cores, as are `rungs` and
            `notches`.
        masks: [., L], the samples of each mask, as bits.
        steps: T.
    """

    reaches: Ints
    ladders: Ints
    rungs: NDArray[Any]
    flips: Ints
    scales: Ints
    notches: NDArray[Any]
    notched: Ints
    joins: Ints
    rows: Ints
    levels: NDArray[Any]
    masks: Ints
    steps: int

    @property
    def places(self) -> int:
        """How many distinct sets there are, parts of others among them."""
        return int(self.reaches.shape[0] + self.joins.shape[0])


class Writer:
    """Collects rows, and writes their programs; `shape` is (B, T).

    A set has a name until all are known: of the threshold i it is 2 i, of the join j it is 2 j + 1.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape
        self._rows: list[tuple[int, int, int]] = []
        self._reaches: dict[tuple[int, int, int, int], int] = {}
        self._joins: dict[tuple[int, int, int], int] = {}
        self._levels: dict[bytes, int] = {}
        self._end = 0
        self._masks: dict[bytes, int] = {}

    def add(self, clients: Clients, mask: Tensor, place: Tensor) -> None:
        """Rows with sets counted under a mask, bool [R, P], at a place [R] of the result."""
        self._rows += zip(self._named(clients), self._masked(mask), place.tolist(), strict=True)

    def programs(self, dtype: np.dtype[Any]) -> Programs:
        """All that was added; the cores are numbers of this type."""
        reaches, levels = (
            list(self._reaches),
            np.frombuffer(bytearray().join(self._levels), dtype=dtype),
        )
        masks = np.frombuffer(bytearray().join(self._masks), dtype=np.int64).reshape(
            len(self._masks), -1
        )
        scales, ladders = self._split_unjoined(_ladders(reaches, levels))
        order = [reach for ladder in ladders for reach in ladder]
        in_ladders = len(order)
        order += sorted(
            set(range(len(reaches))).difference(order, *scales), key=lambda i: reaches[i][0]
        )  # one core after the other, while it is near
        places = {2 * reach: at for at, reach in enumerate(order)} | {
            2 * i + 1: len(order) + i for i in range(len(self._joins))
        }
        joins = [
            (how, places[one], places[other] if how in (EVERY, ANY) else other)
            for how, one, other in self._joins
        ]
        below = masks[[reach[3] for reach in reaches], 0] & 1
        notched = [self._notched(scale, below) for scale in scales]

        def numbers(several: Sequence[Sequence[int]]) -> NDArray[Any]:
            return levels[[reaches[reach][1] for own in several for reach in own]]

        return _in_reading_order(
            Programs(
                reaches=_table([reaches[reach] for reach in order], 4),
                ladders=_table(
                    [
                        (reaches[own[0]][0], end, len(own))
                        for own, end in zip(ladders, _ends(ladders), strict=False)
                    ],
                    3,
                ),
                rungs=numbers(ladders),
                flips=-below[order[:in_ladders]],
                scales=_table(
                    [
                        (reaches[own[0]][0], at, len(own), first, first + len(rows))
                        for own, at, rows, first in zip(
                            scales, _ends(scales), notched, _ends(notched), strict=False
                        )
                    ],
                    5,
                ),
                notches=numbers(scales),
                notched=_table([row for rows in notched for row in rows], 4),
                joins=_table(joins, 3),
                rows=_table(
                    [
                        (places[name], mask, place)
                        for name, mask, place in self._rows
                        if name in places
                    ],
                    3,
                ),
                levels=levels,
                masks=masks,
                steps=self._shape[1],
            )
        )

    def _split_unjoined(self, ladders: list[list[int]]) -> tuple[list[list[int]], list[list[int]]]:
        """The rows that are not part of a join, where samples are rows, and the others."""
        parts = {
            name
            for how, one, other in self._joins
            for name in ((one, other) if how in (EVERY, ANY) else (one,))
        }
        alone = [
            self._shape[1] == 1 and not any(2 * reach in parts for reach in own) for own in ladders
        ]
        both = list(zip(ladders, alone, strict=True))
        return [own for own, is_alone in both if is_alone], [
            own for own, is_alone in both if not is_alone
        ]

    def _notched(self, scale: Sequence[int], below: Ints) -> list[tuple[int, int, int, int]]:
        """The rows that count on the thresholds of a scale, from the highest of these to the
        lowest.
        """
        at = {2 * reach: place for place, reach in enumerate(scale)}
        found = [
            (at[name], -int(below[name // 2]), mask, place)
            for name, mask, place in self._rows
            if name in at
        ]
        return sorted(found, key=lambda row: -row[0])

    def _named(self, clients: Clients) -> list[int]:
        """The names of the sets of some rows."""
        if isinstance(clients, Reach):
            return [2 * reach for reach in self._reached(clients)]
        assert not isinstance(clients, Fixed), "a mask is joined to something"
        found = self._named(clients.parts[0])
        for part in clients.parts[1:]:
            fixed = isinstance(part, Fixed)
            how = (
                (EVERY_MASK if fixed else EVERY) if clients.every else (ANY_MASK if fixed else ANY)
            )
            others = self._masked(part.mask) if isinstance(part, Fixed) else self._named(part)
            found = [
                2 * self._joins.setdefault((how, *both), len(self._joins)) + 1
                for both in zip(found, others, strict=True)
            ]
        return found

    def _reached(self, reach: Reach) -> list[int]:
        varies = reach.threshold.shape[1] > 1
        thresholds = (
            (laid(reach.threshold, self._shape) if varies else reach.threshold).cpu().numpy()
        )
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
    """Values [..., P] in the order of the bits, [..., 64 * L], with zeros for padding bits.

    `shape` is (B, T).
    """
    windows, steps = shape
    padded = torch.nn.functional.pad(
        values.reshape(*values.shape[:-1], windows, steps), (0, 0, 0, -windows % WORD)
    )
    return (
        padded.reshape(*values.shape[:-1], padded.shape[-2] // WORD, WORD, steps)
        .transpose(-1, -2)
        .flatten(-3)
        .contiguous()
    )


def in_sample_order(values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Values [..., 64 * L] in the order of the bits as those that were `laid`, [..., P]."""
    windows, steps = shape
    groups = values.shape[-1] // (steps * WORD)
    words = values.reshape(*values.shape[:-1], groups, steps, WORD).transpose(-1, -2)
    return words.flatten(-3, -2)[..., :windows, :].flatten(-2)


def _in_reading_order(programs: Programs) -> Programs:
    """The same with the masks of rows on scales one behind the other, as these rows are read:
    caches are filled in the order of places.
    """
    first = dict.fromkeys(programs.notched[:, 2].tolist())
    order = np.array(
        [*first, *(mask for mask in range(len(programs.masks)) if mask not in first)],
        dtype=np.int64,
    )
    place = np.argsort(order)
    reaches, notched, joins, rows = (
        table.copy()
        for table in (programs.reaches, programs.notched, programs.joins, programs.rows)
    )
    masked = joins[:, 0] > ANY
    reaches[:, 3], notched[:, 2], rows[:, 1] = (
        place[reaches[:, 3]],
        place[notched[:, 2]],
        place[rows[:, 1]],
    )
    joins[masked, 2] = place[joins[masked, 2]]
    return replace(
        programs,
        reaches=reaches,
        notched=notched,
        joins=joins,
        rows=rows,
        masks=programs.masks[order],
    )


def _ladders(reaches: Sequence[tuple[int, int, int, int]], levels: NDArray[Any]) -> list[list[int]]:
    """The thresholds of each core that are the same on all samples, from the lowest, where they are
    many.
    """
    found: dict[int, list[int]] = {}
    for i, (core, _, size, _) in enumerate(reaches):
        if size == 1:
            found.setdefault(core, []).append(i)
    return [
        sorted(own, key=lambda i: float(levels[reaches[i][1]]))
        for own in found.values()
        if len(own) >= RUNGS
    ]


def _ends(several: Sequence[Sequence[Any]]) -> list[int]:
    """Where each of them begins, one behind the other, and where the last ends."""
    return [0, *accumulate(map(len, several))]


def _table(rows: list[Any], columns: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)
