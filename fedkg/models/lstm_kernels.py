"""Long short-term memory as compiled loops: a client's whole run through time stays in the cache, where tensor operations pass over the
values of all clients many times a step. The equations are those of `fedkg.models.cells.LongShort`.

Letters: C clients of a stack, N steps, B batch, W width of the state.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from fedkg.kernels import inner, kernel
from fedkg.models.tile_kernels import Array, fused, multiply, sigmoid
from fedkg.parts import in_parts

LEAST = 1 << 16
"""Values of gates that are worth a thread."""


def run(drive: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The run from states of 0; `drive` [C, N, B, 4 W] becomes the gates, at each step gate by gate: [4, B, W].

    Args:
        weight: [C, 4 W, W]. bias: [C, 4 W].

    Returns:
        States and memories, [C, N + 1, B, W]; tanh of the memories after each step, [C, N, B, W]; the gates.
    """
    clients, steps, batch, width = *drive.shape[:3], weight.shape[2]
    gates, turned, bias = drive.contiguous(), weight.transpose(1, 2).contiguous(), bias.contiguous()
    states, memories = (drive.new_empty(clients, steps + 1, batch, width) for _ in range(2))
    shown = drive.new_empty(clients, steps, batch, width)
    given = [value.detach().numpy() for value in (gates, turned, bias, states, memories, shown)]
    in_parts(clients, _least(gates), lambda start, stop: _forth(*(value[start:stop] for value in given)))
    return states, memories, shown, gates


def back(gates: Tensor, slope: Tensor, weight: Tensor, memories: Tensor, shown: Tensor) -> Tensor:
    """Derivatives by `drive`, [C, N, B, 4 W], written over the gates; `slope` [C, N or 1, B, W] as in `Cell.back`."""
    given = [value.detach().numpy() for value in (gates, slope.contiguous(), weight.contiguous(), memories, shown)]
    in_parts(gates.shape[0], _least(gates), lambda start, stop: _fro(*(value[start:stop] for value in given)))
    return gates


def _least(gates: Tensor) -> int:
    return max(1, LEAST // max(1, gates[0].numel()))


@inner
def _sigmoids(x: Array, out: Array) -> None:
    for i in range(x.shape[0]):
        out[i] = sigmoid(x[i])


@inner
def _tanhs(x: Array, out: Array) -> None:
    """``tanh x = 2 sigmoid(2 x) - 1``."""
    one = x.dtype.type(1)
    for i in range(x.shape[0]):
        part = sigmoid(x[i] + x[i])
        out[i] = part + part - one


@inner
def _add(out: Array, more: Array) -> None:
    for i in range(out.shape[0]):
        out[i] += more[i]


@inner
def _times(out: Array, one: Array, other: Array) -> None:
    for i in range(out.shape[0]):
        out[i] = one[i] * other[i]


@inner
def _shrink(out: Array, by: Array) -> None:
    for i in range(out.shape[0]):
        out[i] *= by[i]


@inner
def _remember(out: Array, keep: Array, before: Array, take: Array, new: Array) -> None:
    for i in range(out.shape[0]):
        out[i] = fused(keep[i], before[i], take[i] * new[i])


@inner
def _inward(out: Array, whole: Array, show: Array, shown: Array) -> None:
    one = out.dtype.type(1)
    for i in range(out.shape[0]):
        out[i] += whole[i] * show[i] * (one - shown[i] * shown[i])


@inner
def _by_sigmoid(out: Array, slope: Array, other: Array, gate: Array) -> None:
    one = out.dtype.type(1)
    for i in range(out.shape[0]):
        out[i] = slope[i] * other[i] * gate[i] * (one - gate[i])


@inner
def _by_tanh(out: Array, slope: Array, other: Array, gate: Array) -> None:
    one = out.dtype.type(1)
    for i in range(out.shape[0]):
        out[i] = slope[i] * other[i] * (one - gate[i] * gate[i])


@kernel
def _forth(gates: Array, turned: Array, bias: Array, states: Array, memories: Array, shown: Array) -> None:
    clients, steps, batch, width = shown.shape
    size = batch * width
    raw = np.empty(4 * size, gates.dtype)
    for client in range(clients):
        states[client, 0] = 0
        memories[client, 0] = 0
        for step in range(steps):
            drive, now = gates[client, step], gates[client, step].reshape(4 * size)
            for row in range(batch):
                _add(drive[row], bias[client])
            for gate in range(4):
                to, own = raw[gate * size : (gate + 1) * size].reshape(batch, width), slice(gate * width, (gate + 1) * width)
                multiply(to[:, 0:], drive[:, own], states[client, step][:, 0:], turned[client][:, own])
            take, keep, new, show = now[:size], now[size : 2 * size], now[2 * size : 3 * size], now[3 * size :]
            _sigmoids(raw[: 2 * size], now[: 2 * size])
            _tanhs(raw[2 * size : 3 * size], new)
            _sigmoids(raw[3 * size :], show)
            memory, seen = memories[client, step + 1].reshape(size), shown[client, step].reshape(size)
            _remember(memory, keep, memories[client, step].reshape(size), take, new)
            _tanhs(memory, seen)
            _times(states[client, step + 1].reshape(size), show, seen)


@kernel
def _fro(gates: Array, slope: Array, weight: Array, memories: Array, shown: Array) -> None:
    clients, steps, batch, width = shown.shape
    size = batch * width
    carried, nothing = np.empty((batch, width), gates.dtype), np.zeros((batch, width), gates.dtype)
    to, deep, whole = np.empty(4 * size, gates.dtype), np.empty(size, gates.dtype), carried.reshape(size)
    for client in range(clients):
        carried[:] = 0
        deep[:] = 0
        for step in range(steps - 1, -1, -1):
            now, seen = gates[client, step].reshape(4 * size), shown[client, step].reshape(size)
            take, keep, new, show = now[:size], now[size : 2 * size], now[2 * size : 3 * size], now[3 * size :]
            if slope.shape[1] == steps or step == steps - 1:
                _add(whole, slope[client, step if slope.shape[1] == steps else 0].reshape(size))
            _inward(deep, whole, show, seen)
            _by_sigmoid(to[:size], deep, new, take)
            _by_sigmoid(to[size : 2 * size], deep, memories[client, step].reshape(size), keep)
            _by_tanh(to[2 * size : 3 * size], deep, take, new)
            _by_sigmoid(to[3 * size :], whole, seen, show)
            _shrink(deep, keep)
            for gate in range(4):
                part, own = to[gate * size : (gate + 1) * size].reshape(batch, width), slice(gate * width, (gate + 1) * width)
                multiply(carried[:, 0:], (carried if gate else nothing)[:, 0:], part[:, 0:], weight[client][own][:, 0:])
                multiply(gates[client, step][:, own], part[:, 0:], part[:, 0:0], weight[client][:, 0:])
