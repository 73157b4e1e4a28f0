"""Dense layers of one client on a minibatch: forward pass, and a gradient step in the backward
pass.

A minibatch has its samples as columns, so both passes read a layer's weights as they are stored. A
copy of a layer's input has the samples as rows, for the products that update the weights.

Letters: B most samples of a minibatch, V the same rounded up to whole vectors, L layers, W all
their widths together, P parameters of the layers, O and I output and input width of a layer, n
numbers of a vector.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import Doubles, Float, Floats, Ints, loop, to_float
from fedkg.kernels.training.llvm_primitives import number, sixteen
from fedkg.kernels.training.matrix_products import fill, multiply, rectify, scaled, tanhs
from fedkg.kernels.training.transposes import transpose

PARAMETERS, BATCH, LAYERS, BIAS, TANH, LOSS, PULLED, ANCHORS, DRIFTING = range(9)
ALL, WIDEST, SITE, INWARD, SIZE, STEPS, SEEN, CLIPPED, WIDTHS = range(9, 18)
"""Positions in `form`, which is the same for all clients: P, B, L; flags for a bias, for tanh
instead of the rectifier; the loss (`batch_losses`); flags for a pull, for anchors of each client,
for drift; W, and the widest layer; the dropout site number of the first layer's input; a flag for
layers before the first one, which pass their output by samples and need the derivative by it;
parameters of the whole model, most steps of any client, parameters before the dense layers; a flag
for clipping of samples' gradients. From the last on: the L + 1 widths, and the thresholds of
dropout before each layer (16 random bits below the threshold are dropped).
"""

DECAY, WEIGHT, CLIP, SCALES = range(4)
"""Positions in `numbers`: the pull to 0, the weight of positive samples, the clip norm, and from
the last on the scale of the values that dropout keeps before each layer, 1 without dropout.
"""


@loop
def forth(
    own: Floats,
    form: Ints,
    numbers: Doubles,
    values: Floats,
    turned: Floats,
    factors: Floats,
    key: int,
    count: int,
    wide: int,
) -> None:
    """Compute the outputs at the end of `values` [W, V] from the first layer's input, [I, V] at the
    beginning; in between all layer inputs.

    `turned` [W, B] gets the same by samples, `factors` [W, V] the dropout factors; `key` is that of
    the client's step. If layers precede the first one, their output is in `turned` alone, and its
    factors are by samples, too.
    """
    at, since = 0, 0
    for layer in range(form[LAYERS]):
        fan, outputs = form[WIDTHS + layer], form[WIDTHS + layer + 1]
        below, above, biases = (
            values[since * wide :],
            values[(since + fan) * wide :],
            own[at + outputs * fan :],
        )
        read, inward = turned[since * form[BATCH] :], layer == 0 and form[INWARD] > 0
        if numbers[SCALES + layer] != 1.0:
            named, limit = number(key, layer - form[SITE]), form[WIDTHS + form[LAYERS] + 1 + layer]
            scale, drops = to_float(numbers[SCALES + layer]), factors[since * wide :]
            if inward:
                _drop(read, drops, 1, fan, named, limit, scale, fan, count)
            else:
                _drop(below, drops, wide, 1, named, limit, scale, fan, count)
        if inward:
            transpose(below, wide, read, fan, count, fan)
            for row in range(fan):
                for place in range(count, wide):
                    below[row * wide + place] = 0.0
        elif layer > 0:
            transpose(read, fan, below, wide, fan, count)
        for row in range(outputs):
            fill(above[row * wide :], wide, biases[row] if form[BIAS] > 0 else to_float(0))
        multiply(above, wide, above, wide, own[at:], fan, 1, below, wide, outputs, wide, fan)
        at += outputs * fan + (outputs if form[BIAS] > 0 else 0)
        since += fan
        if layer + 1 < form[LAYERS]:
            activate(above, form[TANH], outputs * wide)


@loop
def activate(values: Floats, tanh: int, n: int) -> None:
    """Apply tanh or the rectifier."""
    if tanh > 0:
        tanhs(values, values, n)
    else:
        rectify(values, n)


@loop
def back(
    own: Floats,
    form: Ints,
    numbers: Doubles,
    values: Floats,
    turned: Floats,
    factors: Floats,
    carried: Floats,
    count: int,
    wide: int,
    rate: Float,
    strength: Floats,
    anchor: Floats,
    drift: Floats,
) -> None:
    """Backward pass with a gradient step.

    On entry, the derivative by the outputs is in the place of the outputs; the derivative of each
    layer overwrites its values.
    """
    at, since = form[PARAMETERS], form[ALL] - form[WIDTHS + form[LAYERS]]
    for layer in range(form[LAYERS] - 1, -1, -1):
        fan, outputs = form[WIDTHS + layer], form[WIDTHS + layer + 1]
        slope = values[since * wide :]
        since -= fan
        at -= outputs * fan + (outputs if form[BIAS] > 0 else 0)
        weight, below = own[at:], values[since * wide :]
        backward_inputs(
            layer,
            weight,
            form,
            numbers,
            below,
            slope,
            factors[since * wide :],
            carried,
            count,
            wide,
        )
        read = turned[since * form[BATCH] :]
        step_layer(
            layer,
            weight,
            form,
            numbers,
            slope,
            read,
            count,
            wide,
            rate,
            strength[at:],
            anchor[at:],
            drift[at:],
        )


@loop
def backward_inputs(
    layer: int,
    weight: Floats,
    form: Ints,
    numbers: Doubles,
    below: Floats,
    slope: Floats,
    factors: Floats,
    carried: Floats,
    count: int,
    wide: int,
) -> None:
    """The derivative by a layer's input before dropout and activation, from that by its output,
    into `below`, if it is needed.

    For layers before the first one, the derivative is by samples.
    """
    fan, outputs = form[WIDTHS + layer], form[WIDTHS + layer + 1]
    if layer > 0 or form[INWARD] > 0:
        fill(carried, fan * wide, to_float(0))
        multiply(carried, wide, carried, wide, weight, 1, fan, slope, wide, fan, wide, outputs)
        if layer > 0:
            backward_activation(
                below, carried, factors, form[TANH], to_float(numbers[SCALES + layer]), fan * wide
            )
        else:
            transpose(below, fan, carried, wide, fan, count)
            if numbers[SCALES] != 1.0:
                _times(below, factors, fan * count)


@loop
def step_layer(
    layer: int,
    weight: Floats,
    form: Ints,
    numbers: Doubles,
    slope: Floats,
    read: Floats,
    count: int,
    wide: int,
    rate: Float,
    strength: Floats,
    anchor: Floats,
    drift: Floats,
) -> None:
    """A layer's gradient step, from the derivative by its output (overwritten) and from its input
    by samples.
    """
    fan, outputs = form[WIDTHS + layer], form[WIDTHS + layer + 1]
    apply_penalties(
        weight,
        form,
        numbers,
        rate,
        strength,
        anchor,
        drift,
        outputs * fan + (outputs if form[BIAS] > 0 else 0),
    )
    scaled(slope, -rate, outputs * wide)
    multiply(weight, fan, weight, fan, slope, wide, 1, read, fan, outputs, fan, count)
    if form[BIAS] > 0:
        add_rows(weight[outputs * fan :], slope, outputs, count, wide)


@loop
def apply_penalties(
    own: Floats,
    form: Ints,
    numbers: Doubles,
    rate: Float,
    strength: Floats,
    anchor: Floats,
    drift: Floats,
    n: int,
) -> None:
    """The part of a step of some parameters that does not depend on the samples."""
    if form[PULLED] > 0:
        _pull(own, anchor, strength, to_float(numbers[DECAY]), rate, n)
    elif numbers[DECAY] > 0.0:
        _decay(own, rate * to_float(numbers[DECAY]), n)
    if form[DRIFTING] > 0:
        step_down(own, drift, rate, n)


@loop
def backward_activation(
    values: Floats, carried: Floats, factors: Floats, tanh: int, scale: Float, n: int
) -> None:
    """The derivative before dropout and activation, from the one after them; overwrites the values
    after them.
    """
    if tanh > 0:
        if scale != 1.0:
            for i in range(n):
                v = values[i] / scale
                values[i] = carried[i] * factors[i] * (1.0 - v * v)
        else:
            for i in range(n):
                v = values[i]
                values[i] = carried[i] * (1.0 - v * v)
    else:
        for i in range(n):  # a value is positive iff the rectifier is on and dropout kept it
            v, c = values[i], carried[i] * scale
            values[i] = 0.0 if v <= 0.0 else c


@loop
def _drop(
    above: Floats,
    factors: Floats,
    apart: int,
    beside: int,
    key: int,
    limit: int,
    scale: Float,
    outputs: int,
    count: int,
) -> None:
    """See `Noise.keep_mask`: one sample after the other, 16 bits per value; distance `apart`
    between a sample's values, `beside` between samples.
    """
    word = 0
    for place in range(count):
        for row in range(outputs):
            i = place * outputs + row
            if i % 4 == 0:
                word = number(key, i // 4)
            factor = scale if sixteen(word, i % 4) >= limit else to_float(0)
            at = row * apart + place * beside
            factors[at] = factor
            above[at] = above[at] * factor


@loop
def add_rows(out: Floats, slope: Floats, outputs: int, count: int, wide: int) -> None:
    """Add the sum of each row."""
    for row in range(outputs):
        total = out[row]
        for place in range(count):
            total += slope[row * wide + place]
        out[row] = total


@loop
def _decay(own: Floats, by: Float, n: int) -> None:
    for i in range(n):
        own[i] -= by * own[i]


@loop
def _pull(own: Floats, anchor: Floats, strength: Floats, decay: Float, rate: Float, n: int) -> None:
    for i in range(n):
        own[i] -= rate * (strength[i] * (own[i] - anchor[i]) + decay * own[i])


@loop
def step_down(own: Floats, drift: Floats, rate: Float, n: int) -> None:
    """``own - rate drift``."""
    for i in range(n):
        own[i] -= rate * drift[i]


@loop
def _times(out: Floats, by: Floats, n: int) -> None:
    for i in range(n):
        out[i] = out[i] * by[i]
