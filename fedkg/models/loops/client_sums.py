"""Sums over the clients of a stack, as tensors.

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
from fedkg.models.loops.client_sum_kernels import BESIDE, BLOCK, add_weighted, totals
from fedkg.native.library import Library

LEAST = 1 << 17
"""Smallest number of values for a separate thread."""


@cache
def _library(dtype: torch.dtype) -> Library:
    return Library((totals, add_weighted), single=dtype == torch.float32)


def sums(stack: Sequence[Tensor]) -> Tensor:
    """The sum of all numbers of each client, [C], in no particular order; for tensors [C, ...], all
    float32 or all float64.
    """
    rows = [_by_client(value) for value in stack]
    first = rows[0]
    out, locations = first.new_empty(len(first)), _locations(rows)
    loop = _library(first.dtype).totals

    def part(start: int, stop: int) -> None:
        room = first.new_empty(BESIDE)
        loop(start, stop, len(rows), *_addresses(locations), out.data_ptr(), room.data_ptr())

    run_in_parts(len(first), max(1, LEAST // max(1, sum(locations[1]))), part)
    return out


def add_to(
    totals: Sequence[Tensor], stack: Sequence[Tensor], weights: Tensor, groups: Tensor
) -> None:
    """Add ``sum_c w_c value_c`` of each group to totals [G, ...] in place; client by client, for
    any split into stacks.

    Args:
        totals: contiguous.
        stack: [C, ...] each, of the same dtype.
        weights: float64 [C].
        groups: int64 [C].
    """
    rows = [_by_client(value) for value in stack]
    if not rows or not len(rows[0]):
        return
    locations, to = _locations(rows), _numbers([value.data_ptr() for value in totals])
    loop, clients, weights, groups = (
        _library(rows[0].dtype).add_weighted,
        len(rows[0]),
        weights.contiguous(),
        groups.contiguous(),
    )
    given = (
        len(rows),
        clients,
        *_addresses(locations),
        addressof(to),
        weights.data_ptr(),
        groups.data_ptr(),
    )
    blocks = sum(-(-width // BLOCK) for width in locations[1])
    run_in_parts(
        blocks, max(1, LEAST // (BLOCK * clients)), lambda first, last: loop(first, last, *given)
    )


def _by_client(value: Tensor) -> Tensor:
    """A tensor [C, ...] with contiguous numbers of each client."""
    if value.is_contiguous():
        return value
    rows = value.flatten(1) if value.dim() > 1 else value.unsqueeze(1)
    return rows if rows.shape[1] < 2 or rows.stride(1) == 1 else rows.contiguous()


def _locations(rows: Sequence[Tensor]) -> tuple[Array[c_int64], Array[c_int64], Array[c_int64]]:
    """For each tensor [C, ...]: its address, the numbers of a client, and the distance between
    clients; [T] each.
    """
    widths = [prod(value.shape[1:]) for value in rows]
    return (
        _numbers([value.data_ptr() for value in rows]),
        _numbers(widths),
        _numbers([value.stride(0) for value in rows]),
    )


def _numbers(values: Sequence[int]) -> Array[c_int64]:
    return (c_int64 * len(values))(*values)


def _addresses(locations: Sequence[Array[c_int64]]) -> list[int]:
    """The addresses of arrays; the caller must keep the arrays alive."""
    return [addressof(numbers) for numbers in locations]
