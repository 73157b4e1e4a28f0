"""The sums over the clients of a stack, called with tensors.

Letters: C clients, G groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import Array, addressof, c_int64
from functools import cache
from math import prod

import torch
from torch import Tensor

from fedkg._internal.threads import run_in_parts
from fedkg.models.loops.sum_kernels import BESIDE, BLOCK, add_weighted, totals
from fedkg.native.library import Library

LEAST = 1 << 17
"""Numbers that are worth a thread."""


@cache
def _library(dtype: torch.dtype) -> Library:
    return Library((totals, add_weighted), single=dtype == torch.float32)


def sums(stack: Sequence[Tensor]) -> Tensor:
    """The sum of all numbers of each client, [C], in no particular order; of tensors [C, ...], float32 or float64 as one."""
    rows = [_by_client(value) for value in stack]
    first = rows[0]
    out, told = first.new_empty(len(first)), _told(rows)
    loop = _library(first.dtype).totals

    def part(start: int, stop: int) -> None:
        room = first.new_empty(BESIDE)
        loop(start, stop, len(rows), *_places(told), out.data_ptr(), room.data_ptr())

    run_in_parts(len(first), max(1, LEAST // max(1, sum(told[1]))), part)
    return out


def add_to(
    totals: Sequence[Tensor], stack: Sequence[Tensor], weights: Tensor, groups: Tensor
) -> None:
    """Adds ``sum_c w_c value_c`` of each group to totals [G, ...], which are written over; client by client, whatever stacks they come in.

    Args:
        totals: contiguous. stack: [C, ...] each, of the same type. weights: float64 [C]. groups: int64 [C].
    """
    rows = [_by_client(value) for value in stack]
    if not rows or not len(rows[0]):
        return
    told, to = _told(rows), _numbers([value.data_ptr() for value in totals])
    loop, clients, weights, groups = (
        _library(rows[0].dtype).add_weighted,
        len(rows[0]),
        weights.contiguous(),
        groups.contiguous(),
    )
    given = (
        len(rows),
        clients,
        *_places(told),
        addressof(to),
        weights.data_ptr(),
        groups.data_ptr(),
    )
    blocks = sum(-(-width // BLOCK) for width in told[1])
    run_in_parts(
        blocks, max(1, LEAST // (BLOCK * clients)), lambda first, last: loop(first, last, *given)
    )


def _by_client(value: Tensor) -> Tensor:
    """A tensor [C, ...] in which the numbers of each client lie together."""
    if value.is_contiguous():
        return value
    rows = value.flatten(1) if value.dim() > 1 else value.unsqueeze(1)
    return rows if rows.shape[1] < 2 or rows.stride(1) == 1 else rows.contiguous()


def _told(rows: Sequence[Tensor]) -> tuple[Array[c_int64], Array[c_int64], Array[c_int64]]:
    """Where tensors [C, ...] begin, how many numbers a client has in each, and how far it is to those of the next: [T] each."""
    widths = [prod(value.shape[1:]) for value in rows]
    return (
        _numbers([value.data_ptr() for value in rows]),
        _numbers(widths),
        _numbers([value.stride(0) for value in rows]),
    )


def _numbers(values: Sequence[int]) -> Array[c_int64]:
    return (c_int64 * len(values))(*values)


def _places(told: Sequence[Array[c_int64]]) -> list[int]:
    """Where numbers stand; they have to be held meanwhile."""
    return [addressof(numbers) for numbers in told]
