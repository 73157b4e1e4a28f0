"""The streams of `fedkg.models.random_streams` as a compiled loop: one pass over memory instead of
a dozen tensor operations.

Letters: C keys, M numbers of each stream.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg._internal.kernel_compilation import kernel
from fedkg._internal.threads import run_in_parts

U64 = NDArray[np.uint64]

GOLDEN, FIRST, SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
LEAST = 1 << 15
"""Smallest number of values for a separate thread."""


def streams(keys: Tensor, count: int) -> Tensor:
    """The first `count` numbers of the streams `keys` (int64 [C]), int64 [C, M]; see `fold`."""
    out = torch.empty(keys.shape[0], count, dtype=torch.int64)
    begins, into = keys.numpy().view(np.uint64), out.numpy().view(np.uint64)

    run_in_parts(
        keys.shape[0],
        max(1, LEAST // max(1, count)),
        lambda start, stop: _streams(begins[start:stop], into[start:stop]),
    )
    return out


def fractions(keys: Tensor, count: int) -> Tensor:
    """The same numbers as fractions in (0, 1] of 53 bits, float64 [C, M]."""
    out = torch.empty(keys.shape[0], count, dtype=torch.float64)
    begins, into = keys.contiguous().numpy().view(np.uint64), out.numpy()
    run_in_parts(
        keys.shape[0],
        max(1, LEAST // max(1, count)),
        lambda start, stop: _fractions(begins[start:stop], into[start:stop]),
    )
    return out


@kernel
def _stream(key: np.uint64, out: U64) -> None:
    """SplitMix64: number i is ``mix(key + (i + 1) GOLDEN)``."""
    for i in range(out.shape[0]):
        z = key + np.uint64(i + 1) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        out[i] = z ^ (z >> np.uint64(31))


@kernel
def _streams(keys: U64, out: U64) -> None:
    for place in range(keys.shape[0]):
        _stream(keys[place], out[place])


@kernel
def _fractions(keys: U64, out: NDArray[np.float64]) -> None:
    for place in range(keys.shape[0]):
        key = keys[place]
        for i in range(out.shape[1]):
            z = key + np.uint64(i + 1) * GOLDEN
            z = (z ^ (z >> np.uint64(30))) * FIRST
            z = (z ^ (z >> np.uint64(27))) * SECOND
            out[place, i] = (
                np.float64(np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(11))) + 1.0
            ) * 1.1102230246251565e-16
