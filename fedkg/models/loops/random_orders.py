"""Tensor interface of the compiled random orders, on a CPU.

Letters: C clients, S most steps of any of them, B widest batch, N elements to order.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from fedkg._internal.threads import run_in_parts
from fedkg.models.loops.random_order_kernels import draw_cohort, keys_of, plan_steps
from fedkg.native.library import Library

LEAST = 1 << 15
"""Smallest number of samples for a separate thread."""


@cache
def _library() -> Library:
    return Library((draw_cohort, keys_of, plan_steps), single=True)


def cohort(key: int, population: int, size: int) -> Tensor:
    """The `size` of N positions with the smallest numbers in the stream `key`, in ascending order:
    int64.
    """
    chosen, room = _numbers(size), _numbers(5 * population + 2)
    _library().draw_cohort(key, population, size, chosen.data_ptr(), room.data_ptr())
    return chosen


def keys(key: int, places: Tensor) -> Tensor:
    """The keys of the streams of positions, int64 [C] both."""
    found, places = _numbers(len(places)), places.contiguous()
    _library().keys_of(key, places.data_ptr(), len(places), found.data_ptr())
    return found


def plan(
    keys: Tensor,
    sizes: Tensor,
    offsets: Tensor,
    steps: Tensor,
    batches: Tensor,
    *,
    passes: bool,
    padding: int,
) -> tuple[Tensor, Tensor]:
    """The rows of each client at each step, int64 [C, S, B], and their number, int64 [C, S];
    arguments int64 [C].
    """
    most, longest = int(steps.max()), int(sizes.max())
    width = int(torch.minimum(batches, sizes).max())
    index, counts = _numbers(len(keys), most, width), _numbers(len(keys), most)
    given = [value.contiguous() for value in (keys, sizes, offsets, steps, batches)]
    addresses, loop = [value.data_ptr() for value in (*given, index, counts)], _library().plan_steps

    def part(first: int, last: int) -> None:
        room = _numbers(5 * longest + 2)
        loop(first, last, most, width, int(passes), padding, *addresses, room.data_ptr())

    run_in_parts(len(keys), max(1, LEAST // max(1, longest, most * width)), part)
    return index, counts


def _numbers(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device="cpu")
