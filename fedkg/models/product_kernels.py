"""The products of `fedkg.models.products` as compiled loops.

Letters: C clients of a stack, R samples (times steps), O and I output and input width.
"""

from __future__ import annotations

from torch import Tensor

from fedkg.kernels import kernel
from fedkg.models.tile_kernels import Array, multiply
from fedkg.parts import in_parts

LEAST = 1 << 20
"""Multiplications that are worth a thread."""


def outer_sums(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """See `products.outer_sums`."""
    clients, samples, outputs = left.shape
    sums, totals = left.new_empty(clients, right.shape[2], outputs), left.new_empty(clients, outputs)
    given = [value.detach().numpy() for value in (sums, totals, left.contiguous(), right.contiguous())]
    least = LEAST // max(1, samples * outputs * right.shape[2])
    in_parts(clients, least, lambda start, stop: _outer_sums(*(value[start:stop] for value in given)))
    return sums.transpose(1, 2), totals


@kernel
def _outer_sums(sums: Array, totals: Array, left: Array, right: Array) -> None:
    for client in range(sums.shape[0]):
        by, to = left[client], sums[client]
        to[:] = 0
        multiply(to[:, 0:], to[:, 0:], right[client].T, by[:, 0:])
        total = totals[client]
        total[:] = 0
        for row in range(by.shape[0]):
            for place in range(by.shape[1]):
                total[place] += by[row, place]
