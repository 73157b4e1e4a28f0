"""Model inputs of all samples of a run, stored once in training order.

Letters: N samples, S samples of some sites, E knowledge columns, C code columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.data.sets import StandardisedDataSet
from fedkg.jobs.experiment.knowledge_feature_columns import append_columns
from fedkg.jobs.experiment.sample_preparation import Index

SCALING_BLOCK = 1 << 22
"""Numbers that are scaled at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelInputs:
    """The samples as models read them, float32.

    Attributes:
        rows: all samples, group by group, with a row of zeros after each group: [N + groups, ...].
        row_of: int64 [N], the row of each sample.
        zero_rows: the rows of zeros.
        shape: shape of a sample with knowledge columns, before flattening and codes.
        scaled: the standardised data set that the rows are built from.
        knowledge: knowledge columns [N, E] after the features; None without knowledge.
        codes: C columns [N] of codes after all other columns.

    Images with knowledge are flattened: the knowledge follows the pixels.
    """

    rows: Tensor
    row_of: Tensor
    zero_rows: tuple[int, ...]
    shape: tuple[int, ...]
    scaled: StandardisedDataSet
    knowledge: NDArray[np.float64] | None
    codes: tuple[NDArray[np.int64], ...]

    def exact_rows(self, index: Index) -> Tensor:
        """The samples at these positions in float64, computed from their source."""
        x = np.asarray(self.scaled.x(index), dtype=np.float64)
        if self.knowledge is not None:
            x = append_columns(x, self.knowledge[index])
        if self.codes or self.rows.ndim == 2:
            own = [codes[index][:, None].astype(np.float64) for codes in self.codes]
            x = np.concatenate([x.reshape(len(x), -1), *own], axis=1)
        return torch.from_numpy(x)

    def rows_at(self, index: Index | Tensor) -> Tensor:
        """A copy of the samples at these positions."""
        return self.rows.index_select(0, self.row_of[torch.as_tensor(index)])

    def contiguous_rows(self, index: Index) -> Tensor:
        """Samples followed by a row of zeros, [S + 1, ...]: a view of a group, otherwise a copy."""
        if not len(index):
            return self.rows.new_zeros(1, *self.rows.shape[1:])
        row_of = self.row_of[torch.from_numpy(index)]
        first, behind = int(row_of[0]), int(row_of[0]) + len(row_of)
        if behind in self.zero_rows and torch.equal(row_of, torch.arange(first, behind)):
            return self.rows[first : behind + 1]
        found = self.rows.new_zeros(len(row_of) + 1, *self.rows.shape[1:])
        torch.index_select(self.rows, 0, row_of, out=found[:-1])
        return found


def build_inputs(
    scaled: StandardisedDataSet,
    groups: Sequence[Index],
    *,
    knowledge: NDArray[np.float64] | None = None,
    codes: Sequence[NDArray[np.int64]] = (),
    flat: bool = False,
) -> ModelInputs:
    """Build the inputs of a run, scaled in place.

    Args:
        groups: positions of samples to store contiguously; all others follow.
        knowledge: [N, E], knowledge columns after the features (of a window at every step).
        codes: C columns [N] after everything else.
        flat: whether to flatten samples to rows, which codes imply.
    """
    count, own = scaled.source.samples, scaled.source.x.shape[1:]
    if knowledge is not None and len(own) == 3:
        own = (math.prod(own),)
    shape = own if knowledge is None else (*own[:-1], own[-1] + knowledge.shape[1])
    order = np.concatenate([*groups, np.setdiff1d(np.arange(count), np.concatenate(groups))])
    ends = np.cumsum([len(group) for group in groups])
    row_of, zero_rows = (
        np.empty(count, dtype=np.int64),
        tuple((ends + np.arange(len(groups))).tolist()),
    )
    row_of[order] = np.arange(count) + np.searchsorted(ends, np.arange(count), side="right")
    width = math.prod(shape)
    rows = np.empty((count + len(groups), width + len(codes)), dtype=np.float32)
    rows[list(zero_rows)] = 0.0
    step = max(1, SCALING_BLOCK // max(1, width))
    for at in range(0, count, step):
        here = slice(at, at + step)
        x = (
            scaled.x(here)
            if knowledge is None
            else append_columns(np.asarray(scaled.x(here), dtype=np.float64), knowledge[here])
        )
        rows[row_of[here], :width] = x.reshape(len(x), width)
    for column, values in enumerate(codes, start=width):
        rows[row_of, column] = values
    return ModelInputs(
        rows=torch.from_numpy(rows if flat or codes else rows.reshape(len(rows), *shape)),
        row_of=torch.from_numpy(row_of),
        zero_rows=zero_rows,
        shape=tuple(shape),
        scaled=scaled,
        knowledge=knowledge,
        codes=tuple(codes),
    )
