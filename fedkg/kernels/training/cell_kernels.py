"""Forward and backward passes of recurrent cells: one client's whole run stays in the cache.

Tensor operations would pass over the values of all clients many times a step. The equations are
those of `fedkg.models.recurrent_cells`. In the forward pass, the drive [N, B, G W] of a client
becomes its gates, with each gate contiguous within a step: [G, B, W]. In the backward pass, the
derivatives by the drive, [N, B, G W], overwrite them.

Letters: C clients, N steps, B batch, W width of the state, G gates of a cell, n numbers of a
vector.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import Floats, loop, to_float
from fedkg.kernels.training.llvm_primitives import fused
from fedkg.kernels.training.matrix_products import (
    add,
    affine,
    fill,
    multiply,
    outer,
    sigmoids,
    tanhs,
)
from fedkg.kernels.training.sample_norms import measure_steps


@loop
def plain_forth(
    first: int,
    last: int,
    steps: int,
    batch: int,
    width: int,
    drive: Floats,
    turned: Floats,
    bias: Floats,
    states: Floats,
) -> None:
    """The states [C, N + 1, B, W] of clients first .. last - 1; turned [C, W, W] and bias [C, W]
    define the state's contribution.
    """
    size = batch * width
    for client in range(first, last):
        state, pushed = states[client * (steps + 1) * size :], drive[client * steps * size :]
        fill(state, size, to_float(0))
        for step in range(steps):
            push, after = pushed[step * size :], state[(step + 1) * size :]
            _add_rows(push, bias[client * width :], batch, width)
            multiply(
                after,
                width,
                push,
                width,
                state[step * size :],
                width,
                1,
                turned[client * width * width :],
                width,
                batch,
                width,
                width,
            )
            tanhs(after, after, size)


@loop
def plain_back(
    first: int,
    last: int,
    steps: int,
    batch: int,
    width: int,
    every: int,
    out: Floats,
    slope: Floats,
    weight: Floats,
    states: Floats,
) -> None:
    """The derivatives by the drive, out [C, N, B, W]; slope [C, N or 1, B, W], by every state or
    the last one; weight [C, W, W].
    """
    size = batch * width
    for client in range(first, last):
        state, by, to = (
            states[client * (steps + 1) * size :],
            slope[client * (steps if every > 0 else 1) * size :],
            out[client * steps * size :],
        )
        for step in range(steps - 1, -1, -1):
            now = to[step * size :]
            if step == steps - 1:
                fill(now, size, to_float(0))
            else:
                multiply(
                    now,
                    width,
                    state,
                    0,
                    to[(step + 1) * size :],
                    width,
                    1,
                    weight[client * width * width :],
                    width,
                    batch,
                    width,
                    width,
                )
            if every > 0 or step == steps - 1:
                add(now, by[(step if every > 0 else 0) * size :], size)
            _by_shown(now, state[(step + 1) * size :], size)


@loop
def gated_forth(
    first: int,
    last: int,
    steps: int,
    batch: int,
    width: int,
    drive: Floats,
    turned: Floats,
    bias: Floats,
    states: Floats,
    inner: Floats,
    room: Floats,
) -> None:
    """As `plain_forth` for three gates; inner [C, N, B, W] is the state's contribution to the
    third. room: for 3 B W numbers.
    """
    size = batch * width
    for client in range(first, last):
        state, pushed, own = (
            states[client * (steps + 1) * size :],
            drive[client * steps * 3 * size :],
            bias[client * 3 * width :],
        )
        fill(state, size, to_float(0))
        for step in range(steps):
            push, before, seen = (
                pushed[step * 3 * size :],
                state[step * size :],
                inner[(client * steps + step) * size :],
            )
            for gate in range(3):
                to, weight = (
                    (seen if gate == 2 else room[gate * size :]),
                    turned[client * 3 * width * width + gate * width :],
                )
                multiply(
                    to,
                    width,
                    own[gate * width :],
                    0,
                    before,
                    width,
                    1,
                    weight,
                    3 * width,
                    batch,
                    width,
                    width,
                )
                if gate < 2:
                    _add_part(to, push[gate * width :], batch, width, 3 * width)
            new = room[2 * size :]
            fill(new, size, to_float(0))
            _add_part(new, push[2 * width :], batch, width, 3 * width)
            sigmoids(push, room, 2 * size)
            _add_times(new, push, seen, size)
            tanhs(push[2 * size :], new, size)
            _between(state[(step + 1) * size :], push[2 * size :], before, push[size:], size)


@loop
def gated_back(
    first: int,
    last: int,
    steps: int,
    batch: int,
    width: int,
    every: int,
    gates: Floats,
    owns: Floats,
    slope: Floats,
    weight: Floats,
    states: Floats,
    inner: Floats,
    room: Floats,
) -> None:
    """As `plain_back`; owns [C, N, B, 3 W] becomes the derivatives by the state's contribution,
    weight is [C, 3 W, W].

    room: for 6 B W numbers.
    """
    size = batch * width
    carried, reset, keep, new, inward, whole = (
        room,
        room[size:],
        room[2 * size :],
        room[3 * size :],
        room[4 * size :],
        room[5 * size :],
    )
    for client in range(first, last):
        by = slope[client * (steps if every > 0 else 1) * size :]
        fill(carried, size, to_float(0))
        for step in range(steps - 1, -1, -1):
            at = client * steps + step
            now, own, before, seen = (
                gates[at * 3 * size :],
                owns[at * 3 * size :],
                states[(at + client) * size :],
                inner[at * size :],
            )
            if every > 0 or step == steps - 1:
                add(carried, by[(step if every > 0 else 0) * size :], size)
            _by_new(new, carried, now[size:], now[2 * size :], size)
            _by_keep(keep, carried, before, now[size:], now[2 * size :], size)
            _by_sigmoid(reset, new, seen, now, size)
            _times(inward, new, now, size)
            _times(whole, carried, now[size:], size)
            _scatter_rows(now, reset, batch, width, 3 * width)
            _scatter_rows(now[width:], keep, batch, width, 3 * width)
            _scatter_rows(now[2 * width :], new, batch, width, 3 * width)
            _scatter_rows(own, reset, batch, width, 3 * width)
            _scatter_rows(own[width:], keep, batch, width, 3 * width)
            _scatter_rows(own[2 * width :], inward, batch, width, 3 * width)
            multiply(
                carried,
                width,
                whole,
                width,
                own,
                3 * width,
                1,
                weight[client * 3 * width * width :],
                width,
                batch,
                width,
                3 * width,
            )


@loop
def long_forth(
    first: int,
    last: int,
    steps: int,
    batch: int,
    width: int,
    drive: Floats,
    turned: Floats,
    bias: Floats,
    states: Floats,
    memories: Floats,
    shown: Floats,
    room: Floats,
) -> None:
    """As `plain_forth` for four gates; memories are like states, shown [C, N, B, W] is their tanh
    after each step.

    room: for 4 B W numbers.
    """
    size = batch * width
    for client in range(first, last):
        state, memory = (
            states[client * (steps + 1) * size :],
            memories[client * (steps + 1) * size :],
        )
        fill(state, size, to_float(0))
        fill(memory, size, to_float(0))
        for step in range(steps):
            now, seen = (
                drive[(client * steps + step) * 4 * size :],
                shown[(client * steps + step) * size :],
            )
            _add_rows(now, bias[client * 4 * width :], batch, 4 * width)
            for gate in range(4):
                weight, before = (
                    turned[client * 4 * width * width + gate * width :],
                    state[step * size :],
                )
                multiply(
                    room[gate * size :],
                    width,
                    now[gate * width :],
                    4 * width,
                    before,
                    width,
                    1,
                    weight,
                    4 * width,
                    batch,
                    width,
                    width,
                )
            sigmoids(now, room, 2 * size)
            tanhs(now[2 * size :], room[2 * size :], size)
            sigmoids(now[3 * size :], room[3 * size :], size)
            after = memory[(step + 1) * size :]
            _remember(after, now[size:], memory[step * size :], now, now[2 * size :], size)
            tanhs(seen, after, size)
            _times(state[(step + 1) * size :], now[3 * size :], seen, size)


@loop
def long_back(
    first: int,
    last: int,
    steps: int,
    batch: int,
    width: int,
    every: int,
    gates: Floats,
    slope: Floats,
    weight: Floats,
    memories: Floats,
    shown: Floats,
    room: Floats,
) -> None:
    """As `plain_back`, weight [C, 4 W, W]. room: for 7 B W numbers."""
    size = batch * width
    carried, deep, nothing, to = room, room[size:], room[2 * size :], room[3 * size :]
    fill(nothing, size, to_float(0))
    for client in range(first, last):
        by = slope[client * (steps if every > 0 else 1) * size :]
        fill(carried, size, to_float(0))
        fill(deep, size, to_float(0))
        for step in range(steps - 1, -1, -1):
            at = client * steps + step
            now, seen, memory = (
                gates[at * 4 * size :],
                shown[at * size :],
                memories[(at + client) * size :],
            )
            if every > 0 or step == steps - 1:
                add(carried, by[(step if every > 0 else 0) * size :], size)
            _inward(deep, carried, now[3 * size :], seen, size)
            _by_sigmoid(to, deep, now[2 * size :], now, size)
            _by_sigmoid(to[size:], deep, memory, now[size:], size)
            _by_tanh(to[2 * size :], deep, now, now[2 * size :], size)
            _by_sigmoid(to[3 * size :], carried, seen, now[3 * size :], size)
            _times(deep, deep, now[size:], size)
            for gate in range(4):
                _scatter_rows(now[gate * width :], to[gate * size :], batch, width, 4 * width)
            multiply(
                carried,
                width,
                nothing,
                width,
                now,
                4 * width,
                1,
                weight[client * 4 * width * width :],
                width,
                batch,
                width,
                4 * width,
            )


@loop
def _scatter_rows(out: Floats, part: Floats, batch: int, width: int, apart: int) -> None:
    """Copy contiguous rows [B, W] to rows at a distance of `apart`."""
    multiply(out, apart, part, width, part, 0, 0, part, 0, batch, width, 0)


@loop
def _add_part(out: Floats, part: Floats, batch: int, width: int, apart: int) -> None:
    """Add rows at a distance of `apart` to out [B, W]."""
    for row in range(batch):
        add(out[row * width :], part[row * apart :], width)


@loop
def _add_rows(out: Floats, row: Floats, batch: int, width: int) -> None:
    for place in range(batch):
        add(out[place * width :], row, width)


@loop
def _times(out: Floats, one: Floats, other: Floats, n: int) -> None:
    for i in range(n):
        out[i] = one[i] * other[i]


@loop
def _add_times(out: Floats, one: Floats, other: Floats, n: int) -> None:
    for i in range(n):
        out[i] += one[i] * other[i]


@loop
def _between(out: Floats, new: Floats, before: Floats, keep: Floats, n: int) -> None:
    for i in range(n):
        out[i] = fused(keep[i], before[i] - new[i], new[i])


@loop
def _remember(out: Floats, keep: Floats, before: Floats, take: Floats, new: Floats, n: int) -> None:
    for i in range(n):
        out[i] = fused(keep[i], before[i], take[i] * new[i])


@loop
def _inward(out: Floats, whole: Floats, show: Floats, shown: Floats, n: int) -> None:
    for i in range(n):
        out[i] += whole[i] * show[i] * (1.0 - shown[i] * shown[i])


@loop
def _by_sigmoid(out: Floats, slope: Floats, other: Floats, gate: Floats, n: int) -> None:
    for i in range(n):
        out[i] = slope[i] * other[i] * gate[i] * (1.0 - gate[i])


@loop
def _by_tanh(out: Floats, slope: Floats, other: Floats, gate: Floats, n: int) -> None:
    for i in range(n):
        out[i] = slope[i] * other[i] * (1.0 - gate[i] * gate[i])


@loop
def _by_shown(out: Floats, shown: Floats, n: int) -> None:
    for i in range(n):
        out[i] = out[i] * (1.0 - shown[i] * shown[i])


@loop
def _by_new(out: Floats, whole: Floats, keep: Floats, new: Floats, n: int) -> None:
    for i in range(n):
        out[i] = whole[i] * (1.0 - keep[i]) * (1.0 - new[i] * new[i])


@loop
def _by_keep(out: Floats, whole: Floats, before: Floats, keep: Floats, new: Floats, n: int) -> None:
    for i in range(n):
        out[i] = whole[i] * (before[i] - new[i]) * keep[i] * (1.0 - keep[i])


ENTRIES = (
    plain_forth,
    plain_back,
    gated_forth,
    gated_back,
    long_forth,
    long_back,
    affine,
    outer,
    measure_steps,
)
"""What Python calls."""
