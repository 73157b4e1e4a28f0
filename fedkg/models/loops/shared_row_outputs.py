"""Outputs of stacked perceptrons on rows that all clients share, with the matrix products of their
training.

Letters: C clients, R rows, L layers, O and I output and input width of a layer, H outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import addressof, c_int64
from functools import cache

import torch
from torch import Tensor

from fedkg._internal.threads import run_in_parts
from fedkg.models.loops.dense_layers import activate
from fedkg.models.loops.matrix_products import fill, multiply
from fedkg.models.loops.primitives import VECTOR, lanes
from fedkg.models.mlp import MLP
from fedkg.native.kernel_language import Floats, Ints, floats_at, loop, to_float
from fedkg.native.library import Library

BLOCK = 64
"""Rows that pass all layers together; their values stay in the L1 cache."""

LEAST = 1 << 18
"""Smallest number of multiplications for a separate thread."""


@loop
def evaluate_rows(
    first: int, last: int, rows: int, layers: int, biases: int, tanh: int, size: int,
    widths: Ints, places: Ints, x: Floats, out: Floats,
    room: Floats,
) -> None:  # fmt: skip
    """The outputs [C, R, H] of clients first .. last - 1 on rows x [R, I].

    Args:
        biases, tanh: 1 if layers have a bias, and if the activation is tanh rather than the
            rectifier.
        widths: [L + 1].
        places: addresses of the weights [C, O, I] of each layer, and of its biases [C, O] if they
            exist.
        size: numbers of the widest layer of a block.
        room: workspace, three times as many numbers.
    """
    for at in range(0, rows, BLOCK):
        count = min(rows - at, BLOCK)
        wide = (count + lanes() - 1) // lanes() * lanes()
        _columns(room, x[at * widths[0] :], widths[0], count, wide)
        for client in range(first, last):
            for layer in range(layers):
                fan, outputs, tensor = widths[layer], widths[layer + 1], layer * (1 + biases)
                below = room[(0 if layer == 0 else 1 + layer % 2) * size :]
                above = room[(2 - layer % 2) * size :]
                bias = floats_at(places[tensor + biases])[client * outputs :]
                for row in range(outputs):
                    fill(above[row * wide :], wide, bias[row] if biases > 0 else to_float(0))
                weight = floats_at(places[tensor])[client * outputs * fan :]
                multiply(above, wide, above, wide, weight, fan, 1, below, wide, outputs, wide, fan)
                if layer + 1 < layers:
                    activate(above, tanh, outputs * wide)
            scores = widths[layers]
            _rows(
                out[(client * rows + at) * scores :],
                room[(2 - (layers - 1) % 2) * size :],
                scores,
                count,
                wide,
            )


@loop
def _columns(values: Floats, x: Floats, features: int, count: int, wide: int) -> None:
    """Transpose rows to columns; columns beyond the rows are 0."""
    for feature in range(features):
        for place in range(count):
            values[feature * wide + place] = x[place * features + feature]
        for place in range(count, wide):
            values[feature * wide + place] = 0.0


@loop
def _rows(out: Floats, values: Floats, outputs: int, count: int, wide: int) -> None:
    """Transpose columns to rows."""
    for output in range(outputs):
        for place in range(count):
            out[place * outputs + output] = values[output * wide + place]


@cache
def _library(dtype: torch.dtype) -> Library:
    return Library((evaluate_rows,), single=dtype == torch.float32)


def evaluate_shared_rows(model: MLP, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """`MLP.apply` in evaluation, up to rounding, [C, R, H]; a client gets the same bits in every
    stack.

    Args:
        params: [C, ...] each, on a CPU, all float32 or all float64.
        x: [R, I], of that dtype.
    """
    names = [
        f"layers.{layer}.{part}"
        for layer in range(model.layers)
        for part in (("weight", "bias") if model.bias else ("weight",))
    ]
    stacks, x = [params[name].contiguous() for name in names], x.contiguous()
    clients, rows, widths = len(stacks[0]), len(x), model.widths
    places, widths_array = (
        (c_int64 * len(stacks))(*(value.data_ptr() for value in stacks)),
        (c_int64 * len(widths))(*widths),
    )
    out, size, loop = (
        x.new_empty(clients, rows, widths[-1]),
        max(widths) * (BLOCK + VECTOR),
        _library(x.dtype).evaluate_rows,
    )
    arguments = (
        rows,
        model.layers,
        int(model.bias),
        int(model.activation == "tanh"),
        size,
        addressof(widths_array),
        addressof(places),
    )
    work = rows * sum(value.numel() for value in stacks) // max(1, clients)

    def part(first: int, last: int) -> None:
        room = x.new_empty(3 * size)
        loop(first, last, *arguments, x.data_ptr(), out.data_ptr(), room.data_ptr())

    run_in_parts(clients, max(1, LEAST // max(1, work)), part)
    return out
