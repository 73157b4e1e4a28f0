"""Sums over the clients of a stack: their weighted updates, and what tells that one of them is no number.

The tensors of a stack are named by where they begin; a client's numbers lie together in each, those of the next client further on.

Letters: C clients, T tensors, G groups, n numbers of a client in a tensor.
"""

from __future__ import annotations

from fedkg.models.loops.matrix_products import add, fill
from fedkg.models.loops.primitives import fused
from fedkg.native.language import Doubles, Float, Floats, Ints, floats_at, loop, to_float

BLOCK = 1024
"""Numbers of a tensor that are summed over all clients before the next ones are."""

BESIDE = 128
"""Sums of a client that are kept beside each other."""


@loop
def totals(
    first: int,
    last: int,
    tensors: int,
    places: Ints,
    widths: Ints,
    apart: Ints,
    out: Floats,
    room: Floats,
) -> None:
    """Of clients `first` to before `last` the sum [C] of all their numbers, in no particular order.

    Args:
        places, widths, apart: [T], where a tensor begins, n, and how far the numbers of the next client are. room: for `BESIDE` numbers.
    """
    for client in range(first, last):
        fill(room, BESIDE, to_float(0))
        for tensor in range(tensors):
            numbers, width = floats_at(places[tensor])[client * apart[tensor] :], widths[tensor]
            for at in range(0, width, BESIDE):
                add(room, numbers[at:], min(width - at, BESIDE))
        total = to_float(0)
        for i in range(BESIDE):
            total += room[i]
        out[client] = total


@loop
def add_weighted(
    first: int,
    last: int,
    tensors: int,
    clients: int,
    places: Ints,
    widths: Ints,
    apart: Ints,
    totals: Ints,
    weights: Doubles,
    groups: Ints,
) -> None:
    """Adds each client's numbers times its weight to the totals of its group, one client after the other.

    Blocks of numbers `first` to before `last` are summed, counted through all tensors.

    Args:
        places, widths, apart: as of `totals`. totals: [T], where the totals [G, n] begin. weights, groups: [C].
    """
    begun = 0
    for tensor in range(tensors):
        width = widths[tensor]
        blocks = (width + BLOCK - 1) // BLOCK
        for block in range(max(first - begun, 0), min(last - begun, blocks)):
            there, at = min(width - block * BLOCK, BLOCK), block * BLOCK
            for client in range(clients):
                numbers, to = (
                    floats_at(places[tensor])[client * apart[tensor] + at :],
                    floats_at(totals[tensor])[groups[client] * width + at :],
                )
                _add_times(to, numbers, to_float(weights[client]), there)
        begun += blocks


@loop
def _add_times(out: Floats, numbers: Floats, by: Float, n: int) -> None:
    for i in range(n):
        out[i] = fused(by, numbers[i], out[i])
