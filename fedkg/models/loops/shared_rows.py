"""What stacked perceptrons answer on rows that they share, in the products of their training; called with tensors.

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
from fedkg.native.language import Floats, Ints, floats_at, loop, to_float
from fedkg.native.library import Library

BLOCK = 64
"""Rows that go through all layers together: what these make of them stays in a first cache."""

LEAST = 1 << 18
"""Multiplications that are worth a thread."""


@loop
def answer(
    first: int, last: int, rows: int, layers: int, biases: int, tanh: int, size: int, widths: Ints, places: Ints, x: Floats, out: Floats,
    room: Floats,
) -> None:  # fmt: skip
    """The outputs [C, R, H] of clients `first` to before `last` on rows x [R, I].

    Args:
        biases, tanh: 1 where layers have a bias, where the activation is tanh and not the rectifier. widths: [L + 1].
        places: of each layer where the weights [C, O, I] begin, and with biases these, [C, O].
        size: numbers of the widest layer of a block. room: for three times as many.
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
    """The rows as columns; what is beyond them is 0."""
    for feature in range(features):
        for place in range(count):
            values[feature * wide + place] = x[place * features + feature]
        for place in range(count, wide):
            values[feature * wide + place] = 0.0


@loop
def _rows(out: Floats, values: Floats, outputs: int, count: int, wide: int) -> None:
    """The columns as rows."""
    for output in range(outputs):
        for place in range(count):
            out[place * outputs + output] = values[output * wide + place]


@cache
def _library(dtype: torch.dtype) -> Library:
    return Library((answer,), single=dtype == torch.float32)


def evaluate_shared_rows(model: MLP, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """What `MLP.apply` says in evaluation, up to rounding, [C, R, H]: the same bits for a client in every stack.

    Args:
        params: [C, ...] each, on a processor, of one type, float32 or float64. x: [R, I], of that type.
    """
    names = [
        f"layers.{layer}.{part}"
        for layer in range(model.layers)
        for part in (("weight", "bias") if model.bias else ("weight",))
    ]
    stacks, x = [params[name].contiguous() for name in names], x.contiguous()
    clients, rows, widths = len(stacks[0]), len(x), model.widths
    places, told = (
        (c_int64 * len(stacks))(*(value.data_ptr() for value in stacks)),
        (c_int64 * len(widths))(*widths),
    )
    out, size, loop = (
        x.new_empty(clients, rows, widths[-1]),
        max(widths) * (BLOCK + VECTOR),
        _library(x.dtype).answer,
    )
    given = (
        rows,
        model.layers,
        int(model.bias),
        int(model.activation == "tanh"),
        size,
        addressof(told),
        addressof(places),
    )
    work = rows * sum(value.numel() for value in stacks) // max(1, clients)

    def part(first: int, last: int) -> None:
        room = x.new_empty(3 * size)
        loop(first, last, *given, x.data_ptr(), out.data_ptr(), room.data_ptr())

    run_in_parts(clients, max(1, LEAST // max(1, work)), part)
    return out
