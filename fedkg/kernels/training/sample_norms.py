"""Norms of the gradients of a minibatch's samples, and their clipped sum (Abadi and others 2016,
algorithm 1).

A sample's gradient by a dense layer is an outer product of the derivative by the layer's output and
of the layer's input, and its squared norm is the product of their squared norms. So the gradients
are never materialised: once all layers are measured, each sample's derivatives are scaled by its
clip factor, and the sum is a matrix product as usual. The gradient of a weight that a sample passes
at several steps is materialised temporarily to measure it.

Letters: C clients, N steps of time, B most samples of a minibatch, V columns of its samples, W all
widths of the layers together, O and I output and input width of a layer, n numbers of a vector.
"""

from __future__ import annotations

import math

from fedkg.kernels.loop_language import Double, Doubles, Float, Floats, Ints, loop, to_float
from fedkg.kernels.training.dense_layers import (
    ALL,
    BATCH,
    BIAS,
    LAYERS,
    PARAMETERS,
    WIDTHS,
    add_rows,
    backward_inputs,
)
from fedkg.kernels.training.matrix_products import add, fill, multiply

RUN = 64
"""Number of partial sums of squares: for vector instructions, and for fewer rounding errors than
one long sum, which may be far too small.
"""

FLOOR = 2.0**-100
"""Added to sums of squares before their product: a factor may underflow when squared although the
other one is very large.
"""


@loop
def measure(
    own: Floats,
    form: Ints,
    numbers: Doubles,
    values: Floats,
    factors: Floats,
    carried: Floats,
    squares: Floats,
    spare: Floats,
    count: int,
    wide: int,
) -> None:
    """The squared norms, [V], of the samples' gradients by the dense layers, and the derivatives by
    all layer outputs.

    On entry, the derivative by the outputs is in the place of the outputs; the derivative of each
    layer overwrites its values [W, V]. `spare` has room for 3 V numbers.
    """
    at, since, added = (
        form[PARAMETERS],
        form[ALL] - form[WIDTHS + form[LAYERS]],
        to_float(1 if form[BIAS] > 0 else 0),
    )
    fill(squares, wide, to_float(0))
    for layer in range(form[LAYERS] - 1, -1, -1):
        fan, outputs = form[WIDTHS + layer], form[WIDTHS + layer + 1]
        slope = values[since * wide :]
        since -= fan
        at -= outputs * fan + (outputs if form[BIAS] > 0 else 0)
        below = values[since * wide :]
        _columns(spare, slope, outputs, wide, spare[2 * wide :])
        _columns(spare[wide:], below, fan, wide, spare[2 * wide :])
        _add_products(squares, spare, spare[wide:], added, wide)
        backward_inputs(
            layer,
            own[at:],
            form,
            numbers,
            below,
            slope,
            factors[since * wide :],
            carried,
            count,
            wide,
        )


@loop
def clip_factors(squares: Floats, clip: Float, share: Float, count: int) -> None:
    """Replace each sample's squared gradient norm by its clip factor."""
    for place in range(count):
        squares[place] = clip_factor(squares[place], clip) * share


@loop
def clip_factor(square: Float, clip: Float) -> Float:
    """The factor that clips a gradient; 0 for a zero gradient, or one that is not finite."""
    if square - square != 0.0:
        return to_float(0)
    norm = math.sqrt(square)
    return clip / norm if norm > clip else to_float(1)


@loop
def sum_of_squares(values: Floats, n: int, spare: Floats) -> Float:
    """The sum of squares. spare: for RUN numbers."""
    fill(spare, RUN, to_float(0))
    for first in range(0, n, RUN):
        _add_squares(spare, values[first:], min(RUN, n - first))
    return _sum(spare, RUN)


@loop
def _sum(values: Floats, n: int) -> Float:
    total = to_float(0)
    for i in range(n):
        total += values[i]
    return total


@loop
def add_clipped(
    sums: Floats, form: Ints, values: Floats, turned: Floats, counted: Floats, count: int, wide: int
) -> None:
    """Add the gradients from the derivatives of `measure`, each sample's times its factor in
    `counted`.
    """
    for place in range(count):
        if counted[place] == 0.0:  # NaN times 0 would stay NaN
            _forget(values, turned, form, place, wide)
    at, since = 0, 0
    for layer in range(form[LAYERS]):
        fan, outputs = form[WIDTHS + layer], form[WIDTHS + layer + 1]
        slope, read = values[(since + fan) * wide :], turned[since * form[BATCH] :]
        for row in range(outputs):
            _weigh(slope[row * wide :], counted, count)
        multiply(sums[at:], fan, sums[at:], fan, slope, wide, 1, read, fan, outputs, fan, count)
        if form[BIAS] > 0:
            add_rows(sums[at + outputs * fan :], slope, outputs, count, wide)
        at += outputs * fan + (outputs if form[BIAS] > 0 else 0)
        since += fan


@loop
def measure_steps(
    first: int,
    last: int,
    steps: int,
    batch: int,
    outputs: int,
    inputs: int,
    bias: int,
    eps: Double,
    squares: Floats,
    left: Floats,
    right: Floats,
    room: Floats,
) -> None:
    """The squared norms [C, B] of ``sum over n of left[n, b, o] right[n, b, i]`` for clients first
    .. last - 1.

    With a bias, the norm is that of both gradients. Steps may cancel so far that rounding leaves a
    sum that is far too small for clipping. The largest possible error is added, by Cauchy's
    inequality at most ``(N + 1) eps |left[:, b]| |right[:, b]|``.

    Args:
        bias: 1 or 0.
        eps: machine epsilon of the dtype.
        left: [C, N, B, O].
        right: [C, N, B, I].
        room: for I O + 2 O + I + RUN numbers.
    """
    lefts = room[inputs * outputs :]
    sums = lefts[outputs:]
    rights = sums[outputs:]
    spare = rights[inputs:]
    for client in range(first, last):
        for place in range(batch):
            by, read = (
                left[(client * steps * batch + place) * outputs :],
                right[(client * steps * batch + place) * inputs :],
            )
            fill(room, inputs * outputs, to_float(0))
            multiply(
                room,
                outputs,
                room,
                outputs,
                read,
                1,
                batch * inputs,
                by,
                batch * outputs,
                inputs,
                outputs,
                steps,
            )
            fill(lefts, 2 * outputs + inputs, to_float(0))
            for step in range(steps):
                _add_squares(lefts, by[step * batch * outputs :], outputs)
                _add_squares(rights, read[step * batch * inputs :], inputs)
                if bias > 0:
                    add(sums, by[step * batch * outputs :], outputs)
            whole = sum_of_squares(room, inputs * outputs, spare)
            if bias > 0:
                whole += sum_of_squares(sums, outputs, spare)
            far = _sum(lefts, outputs) * (_sum(rights, inputs) + to_float(steps * bias))
            norm = math.sqrt(whole) + to_float(eps) * to_float(steps + 1) * math.sqrt(far)
            squares[client * batch + place] = norm * norm


@loop
def _forget(values: Floats, turned: Floats, form: Ints, place: int, wide: int) -> None:
    """Set a sample's derivatives and layer inputs to 0."""
    since = 0
    for layer in range(form[LAYERS] + 1):
        width = form[WIDTHS + layer]
        fill(
            turned[since * form[BATCH] + place * width :],
            width if layer < form[LAYERS] else 0,
            to_float(0),
        )
        for row in range(since, since + width):
            values[row * wide + place] = 0.0
        since += width


@loop
def _columns(out: Floats, values: Floats, rows: int, wide: int, part: Floats) -> None:
    """The sum of squares of each column, plus FLOOR. part: for V numbers."""
    fill(out, wide, to_float(FLOOR))
    for first in range(0, rows, RUN):
        fill(part, wide, to_float(0))
        for row in range(first, min(first + RUN, rows)):
            _add_squares(part, values[row * wide :], wide)
        add(out, part, wide)


@loop
def _add_squares(out: Floats, values: Floats, n: int) -> None:
    for i in range(n):
        out[i] += values[i] * values[i]


@loop
def _add_products(out: Floats, one: Floats, other: Floats, added: Float, n: int) -> None:
    for i in range(n):
        out[i] += one[i] * (other[i] + added)


@loop
def _weigh(out: Floats, by: Floats, n: int) -> None:
    for i in range(n):
        out[i] = out[i] * by[i]
