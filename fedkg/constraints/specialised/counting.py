"""How often each of many clients is in each of many sets, over the samples of a probe set.

Every row compares all clients' numbers with its thresholds, sample by sample, and adds up. What makes this fast is the size of a number:
where a row has one threshold on all samples on which it is open, numbers become their rank among the thresholds of a few hundred such
rows, which one byte holds. The comparison of two such bytes says exactly what that of the two numbers says.

Letters: C cores (predicted numbers), P samples, K clients, R rows, U distinct thresholds on a core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from fedkg.constraints.specialised.clients import Join, Reach, reaches
from fedkg.constraints.specialised.ranks import ladder, ranks

ROWS = 254
"""Rows that are counted together, at most: a byte holds the ranks among their thresholds."""
ALL, NONE = 0, 255
"""Bytes of thresholds that all ranks reach, or none."""
CHUNK = 1 << 21
"""Bytes of comparisons that are held at once, about."""
MANY = 64
"""Rows that read a core, at least, for ranks to cost less than comparing numbers."""
LANES = 64
"""Clients are counted in runs of so many: processors compare as many bytes at once."""

Form = int | tuple[bool, tuple["Form", ...]]
"""How sets are joined: the number of one, or those in every (or any) of several."""


class Target(NamedTuple):
    """Sets of clients for some rows, and where their counts stand in the result [R]."""

    clients: Reach | Join
    place: Tensor


class _Rows(NamedTuple):
    """Rows whose sets are joined in one way; `steady` bool [R], no threshold of theirs varies with the sample."""

    form: Form
    leaves: tuple[Reach, ...]
    place: Tensor
    steady: Tensor


class _Leaf(NamedTuple):
    """Thresholds [P, R, 1] on one core: numbers, or bytes; then `code` [U + 1] holds the byte of each rank among those on the core."""

    core: int
    down: bool
    thresholds: Tensor
    code: Tensor | None


class _Block(NamedTuple):
    """Rows that read the same cores in the same way."""

    form: Form
    leaves: tuple[_Leaf, ...]
    place: Tensor


class Counter:
    """Counts clients in sets.

    Args:
        targets: at least one. samples: P, at least one. steps: of each window; a window counts where some step of it does.
    """

    def __init__(self, targets: Sequence[Target], samples: int, steps: int) -> None:
        self._steps = steps
        alike = [block for rows in _by_form(targets, samples) for block in _by_core(rows)]
        distinct = _shared(alike)
        self._ladders = {core: ladder(thresholds) for core, thresholds in distinct.items()}
        self._blocks = [_block(rows, distinct) for rows in alike]

    def count(self, values: Sequence[Tensor], counts: Tensor) -> None:
        """Put how many samples (or windows) each client is in each set into `counts`, int32 [results, K].

        Args:
            values: of each core, all known, [P, K]; K a multiple of `LANES`.
        """
        places = {core: ranks(among, values[core].flatten()) for core, among in self._ladders.items()}
        for block in self._blocks:
            read = [_read(leaf, values, places) for leaf in block.leaves]
            counts[block.place] = self._counted(block, read, counts.new_zeros((block.place.shape[0], counts.shape[1])))

    def _counted(self, block: _Block, read: Sequence[Tensor], total: Tensor) -> Tensor:
        """The counts of a block, added to `total` [R, K], for the numbers (or bytes) [P, 1, K] that its leaves read."""
        windows = CHUNK // max(1, total.numel() * read[0].element_size() * self._steps)
        step = min(min(max(1, windows), NONE) * self._steps, read[0].shape[0])
        rooms = [read[0].new_empty((step, *total.shape)) for _ in read]
        for start in range(0, read[0].shape[0], step):
            part = slice(start, start + step)
            hits = _joined(block.form, lambda i, part=part: _hits(block.leaves[i], read[i][part], part, rooms[i]))  # type: ignore[misc]
            if self._steps > 1:
                hits = hits.view(-1, self._steps, *total.shape).amax(dim=1)
            total += hits.sum(dim=0, dtype=hits.dtype).to(torch.int32)
        return total


def _by_form(targets: Sequence[Target], samples: int) -> Iterator[_Rows]:
    """All rows whose sets are joined in one way together."""
    groups: dict[Form, list[Target]] = {}
    for target in targets:
        groups.setdefault(_form(target.clients, count()), []).append(target)
    for form, group in groups.items():
        columns = zip(*(tuple(reaches(target.clients)) for target in group), strict=True)
        leaves = tuple(
            Reach(
                core=torch.cat([reach.core for reach in column]),
                down=torch.cat([reach.down for reach in column]),
                threshold=torch.cat([reach.threshold.expand(-1, samples) for reach in column]),
            )
            for column in columns
        )
        steady = torch.stack([_steady(leaf.threshold) for leaf in leaves]).all(dim=0)
        yield _Rows(form, leaves, torch.cat([target.place for target in group]), steady)


def _by_core(rows: _Rows) -> Iterator[_Rows]:
    """Of rows those that read the same cores in the same way together, a few hundred at a time."""
    key = torch.stack([rows.steady.long(), *(part for leaf in rows.leaves for part in (leaf.core, leaf.down.long()))])
    _, member = torch.unique(key, dim=1, return_inverse=True)
    for one in range(int(member.max()) + 1):
        for chosen in torch.split(torch.nonzero(member == one)[:, 0], ROWS):
            leaves = (Reach(core=leaf.core[chosen], down=leaf.down[chosen], threshold=leaf.threshold[chosen]) for leaf in rows.leaves)
            yield _Rows(rows.form, tuple(leaves), rows.place[chosen], rows.steady[chosen])


def _form(clients: Reach | Join, number: Iterator[int]) -> Form:
    if isinstance(clients, Reach):
        return next(number)
    return clients.every, tuple(_form(part, number) for part in clients.parts)


def _steady(threshold: Tensor) -> Tensor:
    """Whether all that is finite of a row is one number, bool [R]."""
    finite = torch.isfinite(threshold)
    return torch.where(finite, threshold, torch.inf).amin(dim=1) >= torch.where(finite, threshold, -torch.inf).amax(dim=1)


def _shared(alike: Sequence[_Rows]) -> dict[int, Tensor]:
    """The distinct thresholds, rising, on each core that is read by enough steady rows for ranks to pay."""
    found: dict[int, list[Tensor]] = {}
    for rows in alike:
        for leaf in rows.leaves if bool(rows.steady[0]) else ():
            found.setdefault(int(leaf.core[0]), []).append(leaf.threshold)
    many = {core: torch.cat(own) for core, own in found.items() if sum(part.shape[0] for part in own) >= MANY}
    return {core: torch.unique(own[torch.isfinite(own)]) for core, own in many.items()}


def _block(rows: _Rows, distinct: Mapping[int, Tensor]) -> _Block:
    """Bytes stand for numbers where all leaves have them."""
    coded = bool(rows.steady[0]) and all(int(leaf.core[0]) in distinct for leaf in rows.leaves)
    return _Block(rows.form, tuple(_leaf(leaf, distinct if coded else {}) for leaf in rows.leaves), rows.place)


def _leaf(reach: Reach, distinct: Mapping[int, Tensor]) -> _Leaf:
    core, down = int(reach.core[0]), bool(reach.down[0])
    if core not in distinct:
        return _Leaf(core, down, reach.threshold.T[:, :, None].contiguous(), None)
    own = torch.unique(reach.threshold[torch.isfinite(reach.threshold)])
    byte = torch.searchsorted(own, reach.threshold) + 1
    byte = torch.where(torch.isinf(reach.threshold), torch.where(reach.threshold > 0, NONE, ALL), byte).to(torch.uint8)
    reached = torch.searchsorted(distinct[core], own) + 1
    every_rank = torch.arange(distinct[core].shape[0] + 1, device=own.device)
    code = torch.searchsorted(reached, every_rank, right=True).to(torch.uint8)
    return _Leaf(core, down, byte.T[:, :, None].contiguous(), code)


def _read(leaf: _Leaf, values: Sequence[Tensor], places: Mapping[int, Tensor]) -> Tensor:
    """What a leaf compares with its thresholds, [P, 1, K]."""
    own = values[leaf.core]
    return (own if leaf.code is None else leaf.code.index_select(0, places[leaf.core]).view(own.shape))[:, None]


def _hits(leaf: _Leaf, read: Tensor, part: slice, room: Tensor) -> Tensor:
    """1 where a client is in the set, else 0, for some samples: [n, R, K], of the kind that is compared, which is fast on a CPU."""
    compare = torch.lt if leaf.down else torch.ge
    return compare(read, leaf.thresholds[part], out=room[: read.shape[0]])


def _joined(form: Form, hits: Callable[[int], Tensor]) -> Tensor:
    if isinstance(form, int):
        return hits(form)
    every, (first, *others) = form
    found = _joined(first, hits)
    for part in others:
        (torch.minimum if every else torch.maximum)(found, _joined(part, hits), out=found)
    return found
