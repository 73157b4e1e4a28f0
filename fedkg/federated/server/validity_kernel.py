"""The share of constraints that models keep, from their violation shares: one loop, called with
tensors on a processor.

Letters: C clients, M constraints.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from fedkg._internal.threads import run_in_parts
from fedkg.native.kernel_language import Bools, Double, Doubles, loop
from fedkg.native.library import Library

LEAST = 1 << 18
"""Violation shares that are worth a thread."""


@loop
def weigh_kept(
    first: int,
    last: int,
    count: int,
    hard_tolerance: Double,
    soft_tolerance: Double,
    shares: Doubles,
    hard: Bools,
    weight: Doubles,
    kept: Doubles,
) -> None:
    """The weight of what clients `first` to before `last` satisfy, over that of all evaluated: [C];
    see `scoring.validity`.

    Both sums add the same numbers in the same order where all is kept, so that it is exactly 1
    there.

    Args:
        count: M. shares: [C, M]. hard, weight: [M].
    """
    for client in range(first, last):
        own = shares[client * count :]
        good, total = weight[0] * 0.0, weight[0] * 0.0
        evaluated = 0
        for i in range(count):
            if own[i] == own[i]:  # NaN: not evaluated
                tolerance = hard_tolerance if hard[i] else soft_tolerance
                good += weight[i] if own[i] <= tolerance else 0.0
                total += weight[i]
                evaluated += 1
        kept[client] = own[0] if evaluated == 0 else (good / total if total > 0 else 1.0)


@cache
def _library() -> Library:
    return Library((weigh_kept,), single=False)


def kept_share(
    shares: Tensor, hard: Tensor, weight: Tensor, *, hard_tolerance: float, soft_tolerance: float
) -> Tensor:
    """Validity [C] of violation shares, float64 [C, M] with M > 0; hard bool [M], weight float64
    [M].
    """
    shares, hard, weight = shares.contiguous(), hard.contiguous(), weight.contiguous()
    clients, count = shares.shape
    kept, loop = torch.empty(clients, dtype=torch.float64, device="cpu"), _library().weigh_kept
    given = (
        count,
        hard_tolerance,
        soft_tolerance,
        shares.data_ptr(),
        hard.data_ptr(),
        weight.data_ptr(),
        kept.data_ptr(),
    )
    run_in_parts(clients, max(1, LEAST // count), lambda first, last: loop(first, last, *given))
    return kept
