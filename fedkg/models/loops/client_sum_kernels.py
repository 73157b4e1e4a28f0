"""Sums over the clients of a stack: weighted updates, and sums that reveal numbers that are not
finite.

Tensors are passed by address. A client's numbers are contiguous in each tensor, with a fixed
distance between clients.

Letters: C clients, T tensors, G groups, n numbers of a client in a tensor.
"""

from __future__ import annotations

from fedkg.models.loops.matrix_products import add, fill
from fedkg.models.loops.primitives import fused
from fedkg.native.kernel_language import Doubles, Float, Floats, Ints, floats_at, loop, to_float

BLOCK = 1024
"""Numbers of a tensor that are summed over all clients before the next block."""

BESIDE = 128
"""Parallel partial sums of a client."""


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
    """The sum [C] of all numbers of clients first .. last - 1, in no particular order.

    Args:
        places, widths, apart: [T], address of a tensor, n, and distance between clients.
        room: for `BESIDE` numbers.
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
    """Add each client's numbers times its weight to the totals of its group, one client after the
    other.

    Sums blocks first .. last - 1 of numbers, counted through all tensors.

    Args:
        places, widths, apart: as in `totals`.
        totals: [T], addresses of the totals [G, n].
        weights, groups: [C].
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
