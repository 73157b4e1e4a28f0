"""How many thresholds each of many numbers reaches.

A binary search takes a step for each halving, and a processor guesses wrong at every second one. So the thresholds are cut into about as
many runs as a run has numbers: all values are compared with the first of each run, and then with those of their own.

Letters: U thresholds, n runs of w thresholds, E values.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

FEW = 48
"""Thresholds that are compared one by one."""


class Ladder(NamedTuple):
    """Rising thresholds: the first of each run [n, 1], and all by run [1 + n, w], padded with infinity, behind one run of nothing."""

    firsts: Tensor
    runs: Tensor


def ladder(thresholds: Tensor) -> Ladder:
    """Thresholds [U], distinct and rising, ready to be searched."""
    count = thresholds.shape[0]
    width = 1 if count <= FEW else math.isqrt(count)
    padding = -count % width
    runs = torch.nn.functional.pad(thresholds, (width, padding), value=math.inf).reshape(-1, width)
    return Ladder(runs[1:, :1].contiguous(), runs)


def ranks(among: Ladder, values: Tensor) -> Tensor:
    """How many thresholds each of the values [E] reaches, int32 [E]."""
    firsts, runs = among
    run = _ones(values, firsts).sum(dim=0)
    if runs.shape[1] == 1:
        return run.to(torch.int32)
    reached = _ones(values[:, None], runs.index_select(0, run.to(torch.int32))) @ values.new_ones(runs.shape[1])
    return reached.add_(run.sub_(1).clamp_(min=0), alpha=runs.shape[1]).to(torch.int32)


def _ones(values: Tensor, thresholds: Tensor) -> Tensor:
    """1 where a value reaches a threshold, else 0, as numbers: faster than truth values on a CPU."""
    return torch.ge(values, thresholds, out=values.new_empty(0))
