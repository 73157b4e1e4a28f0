"""Normal numbers of many streams as tensors, with the streams divided over threads.

Letters: C streams.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from fedkg._internal.threads import run_in_parts
from fedkg.models.loops import random_normal_kernels
from fedkg.native.library import Library

LEAST = 1 << 15
"""Smallest number of values for a separate thread."""


@cache
def _library(dtype: torch.dtype) -> Library:
    """The loop in float32 or float64; compiled on first use on this machine."""
    return Library((random_normal_kernels.normals,), single=dtype == torch.float32)


def normal(keys: Tensor, count: int, scale: Tensor) -> Tensor:
    """Normal numbers [C, count] of standard deviation `scale` [C], in its dtype, from the streams
    `keys` (int64 [C]).
    """
    out, keys, scale = scale.new_empty(len(keys), count), keys.contiguous(), scale.contiguous()
    library = _library(scale.dtype)

    def part(start: int, stop: int) -> None:
        spare = scale.new_empty(2 * random_normal_kernels.BLOCK)
        library.normals(
            start, stop, count, keys.data_ptr(), scale.data_ptr(), out.data_ptr(), spare.data_ptr()
        )

    run_in_parts(len(keys), max(1, LEAST // max(1, count)), part)
    return out
