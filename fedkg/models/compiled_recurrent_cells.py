"""Tensor interface of the compiled recurrent cells and products, with the clients divided over
threads.

Letters: C clients, N steps, B batch, W width of the state, G gates of a cell, R rows, I and O input
and output width.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from fedkg._internal.threads import run_in_parts
from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.loop_library import Library
from fedkg.kernels.training import cell_kernels, sample_norms

LEAST = 1 << 18
"""Smallest number of multiplications for a separate thread."""


@cache
def _library(dtype: torch.dtype) -> Library:
    """The loops in float32 or float64; compiled on first use on this machine."""
    return Library(cell_kernels.ENTRIES, single=dtype == torch.float32)


def affine(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """``x weight^T + bias``, [C, R, O], for weight [C, O, I], bias [C, O], x [C, R, I]."""
    (clients, outputs, inputs), rows = weight.shape, x.shape[1]
    out = x.new_empty(clients, rows, outputs)
    given = (out, weight.contiguous(), bias.contiguous(), x.contiguous())
    _run_on_clients(
        "affine", rows * inputs * outputs, (rows, inputs, outputs), given, inputs * outputs
    )
    return out


def outer_sums(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """See `fedkg.models.batched_products.outer_sums`."""
    clients, rows, outputs = left.shape
    sums, totals = (
        left.new_empty(clients, right.shape[2], outputs),
        left.new_empty(clients, outputs),
    )
    given = (sums, totals, left.contiguous(), right.contiguous())
    _run_on_clients(
        "outer", rows * outputs * right.shape[2], (rows, outputs, right.shape[2]), given, 0
    )
    return sums.transpose(1, 2), totals


def step_squares(left: Tensor, right: Tensor, *, bias: bool) -> Tensor:
    """See `sample_norms.measure_steps`: [C, B], for left [C, N, B, O] and right [C, N, B, I]."""
    (clients, steps, batch, outputs), inputs = left.shape, right.shape[3]
    squares, eps = left.new_empty(clients, batch), torch.finfo(left.dtype).eps
    given, sizes = (
        (squares, left.contiguous(), right.contiguous()),
        (steps, batch, outputs, inputs, int(bias), eps),
    )
    _run_on_clients(
        "measure_steps",
        steps * batch * outputs * inputs,
        sizes,
        given,
        inputs * outputs + 2 * outputs + inputs + sample_norms.RUN,
    )
    return squares


def forward(
    drive: Tensor, weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """The forward pass of a cell from states of 0; overwrites `drive` [C, N, B, G W].

    Args:
        weight: [C, G W, W].
        bias: [C, G W].

    Returns:
        States [C, N + 1, B, W]; the gates, in the memory of the drive, with each gate contiguous
        within a step; and further values of the cell: for three gates the state's contribution to
        the third, [C, N, B, W]; for four the memories, [C, N + 1, B, W], and their tanh after each
        step.
    """
    clients, steps, batch, width = *drive.shape[:3], weight.shape[2]
    gates, count = drive.contiguous(), weight.shape[1] // width
    states, shape = (
        drive.new_empty(clients, steps + 1, batch, width),
        (clients, steps, batch, width),
    )
    more = {
        1: (),
        3: (drive.new_empty(shape),),
        4: (torch.empty_like(states), drive.new_empty(shape)),
    }[count]
    given = (gates, weight.transpose(1, 2).contiguous(), bias.contiguous(), states, *more)
    room = 0 if count == 1 else count * batch * width
    _run_on_clients(
        f"{_NAMES[count]}_forth",
        steps * batch * count * width * width,
        (steps, batch, width),
        given,
        room,
    )
    return states, gates, more


def backward(
    gates: Tensor, slope: Tensor, weight: Tensor, states: Tensor, more: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """Derivatives by the drive and by the state's contribution, [C, N, B, G W]; overwrites `gates`.
    `slope` is the gradient in `Cell.backward`.
    """
    (steps, batch), width = gates.shape[1:3], weight.shape[2]
    count = weight.shape[1] // width
    shape, rest = (
        (steps, batch, width, int(slope.shape[1] == steps)),
        (slope.contiguous(), weight.contiguous()),
    )
    out, owns = (
        (torch.empty_like(states[:, 1:]) if count == 1 else gates),
        (torch.empty_like(gates) if count == 3 else None),
    )
    first = (out,) if owns is None else (out, owns)
    last = more if count == 4 else (states, *more)
    room = {1: 0, 3: 6, 4: 7}[count] * batch * width
    _run_on_clients(
        f"{_NAMES[count]}_back",
        steps * batch * count * width * width,
        shape,
        (*first, *rest, *last),
        room,
    )
    return out, out if owns is None else owns


_NAMES = {1: "plain", 3: "gated", 4: "long"}
"""Cells by their number of gates."""


def _run_on_clients(
    name: str, work: int, sizes: tuple[float, ...], given: tuple[Tensor, ...], room: int
) -> None:
    """Run the loop on all clients; `work` is the number of multiplications of each client."""
    first = given[0]
    loop, addresses = getattr(_library(first.dtype), name), [address(value) for value in given]

    def part(start: int, stop: int) -> None:
        spare = first.new_empty(room)
        loop(start, stop, *sizes, *addresses, *((address(spare),) if room else ()))

    run_in_parts(first.shape[0], max(1, LEAST // max(1, work)), part)
