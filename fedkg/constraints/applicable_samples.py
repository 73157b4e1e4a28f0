"""Rows of the pack that apply to few samples of a batch (a rule for one machine, one product) are
evaluated on those alone.

Letters: B batch, D conditions, R rows of a bank, k conditions per row, K (row, sample) pairs in
which a row applies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

WORTH = 1 / 16
"""Up to this share of all pairs, those that apply are evaluated alone: gathered one by one, each
costs as much as 8 to 16 of those that lie side by side (measured by
`benchmarks/per_machine_constraints.py`, for penalties and for robustness)."""

SMALL = 1 << 17
"""Fewer pairs, R x B, are evaluated all: finding those that apply would take longer."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pairs:
    """The (row, sample) pairs in which some rows of a bank apply, in order of rows.

    Attributes:
        rows: the number of these rows.
        batch: B.
        row: int64 [K], the row of each pair, counted from the first of these rows.
        sample: int64 [K], the sample of each pair.
    """

    rows: int
    batch: int
    row: Tensor
    sample: Tensor

    def spread(self, values: Tensor, elsewhere: float) -> Tensor:
        """Values [K, 1] of the pairs, or broadcast to them, as [R, B] with one value `elsewhere`.

        Differentiable.
        """
        place = self.row * self.batch + self.sample
        everything = values.new_full((self.rows * self.batch,), elsewhere)
        return everything.index_copy(0, place, values.expand(place.shape[0], 1)[:, 0]).view(
            self.rows, self.batch
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """An upper bound of the pairs of a bank's rows, from the condition of each row that the fewest
    samples meet.

    Attributes:
        most: int64 [R], how many samples meet that condition.
        enough: whether the other conditions of each row exclude none of these samples.
    """

    most: NDArray[np.int64]
    enough: bool


class Selector:
    """The samples of a batch that meet each condition.

    Args:
        met: bool [D, B], whether each sample meets each condition.
        inside: bool [B], the samples that are not padding; None if none is padding.
    """

    def __init__(self, met: Tensor, inside: Tensor | None) -> None:
        self._met = met if inside is None else met & inside

    def select(self, conditions: NDArray[np.int64]) -> Selection | None:
        """How rows with such conditions [k, R] are evaluated on pairs.

        None where that does not pay or conditions cannot be looked at.
        """
        batch = self._met.shape[1]
        if (
            not conditions.shape[0]
            or conditions.shape[1] * batch <= SMALL
            or _captured(self._met.device)
            or self._counts is None
        ):
            return None
        counts = self._counts[conditions]
        most = counts.min(axis=0)
        if most.sum() > WORTH * batch * most.shape[0]:
            return None
        return Selection(
            most=most, enough=bool(((counts < self._counts.max()).sum(axis=0) <= 1).all())
        )

    def pairs(self, conditions: Tensor, selection: Selection, rows: slice) -> Pairs:
        """The pairs where some rows of a bank with these conditions [k, R] apply."""
        assert self._counts is not None, "a selection was made"
        conditions, device = conditions[:, rows], conditions.device
        counts = torch.from_numpy(self._counts).to(device)[conditions]
        number, which = counts.min(dim=0)
        rarest = conditions.gather(0, which[None])[0]
        row = torch.repeat_interleave(number, output_size=int(selection.most[rows].sum()))
        first = self._starts[rarest] - number.cumsum(0) + number
        sample = self._samples[first[row] + torch.arange(row.shape[0], device=device)]
        if not selection.enough:
            kept = self._met[conditions[:, row], sample].all(dim=0)
            row, sample = row[kept], sample[kept]
        return Pairs(rows=conditions.shape[1], batch=self._met.shape[1], row=row, sample=sample)

    @cached_property
    def _counts(self) -> NDArray[np.int64] | None:
        """How many samples meet each condition, [D]; None where that cannot be looked at."""
        try:
            return np.array(self._met.sum(dim=1).tolist(), dtype=np.int64)
        except (
            RuntimeError
        ):  # torch.func transforms and tracing refuse to turn a tensor into numbers
            return None

    @cached_property
    def _samples(self) -> Tensor:
        """The samples that meet each condition, one condition after the other."""
        return self._met.nonzero()[:, 1].contiguous()

    @cached_property
    def _starts(self) -> Tensor:
        """Where those of each condition begin, int64 [D]."""
        counts = self._met.sum(dim=1)
        return counts.cumsum(0) - counts


def _captured(device: torch.device) -> bool:
    """Whether a CUDA graph is being recorded: then no number can be had."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def runs(load: NDArray[np.int64], most: int) -> Iterator[slice]:
    """Rows in runs of at most `most` numbers, or of one row.

    `load` [R + 1] counts the numbers before each row.
    """
    start, rows = 0, load.shape[0] - 1
    while start < rows:
        stop = max(start + 1, int(np.searchsorted(load, load[start] + most, side="right")) - 1)
        yield slice(start, stop)
        start = stop
