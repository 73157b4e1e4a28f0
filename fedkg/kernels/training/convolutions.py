"""Convolutions of one client, one image after the other: forward and backward pass.

An image [I, h, w] is flat. A convolution's output at flat position q is a sum of products with the
image's numbers at q plus fixed distances, one for each position of the window: one matrix product
with shifted copies of the image as rows of the right matrix. Output rows are as wide as the
image's; numbers beyond the output's width are unused.

Letters: B samples of a minibatch, V its columns in the dense layers, I and O channels, h and w
height and width of a layer's input (with padding), g and v those of its output, k side of its
window, p of its pool, r and c height and width after pooling.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import Doubles, Float, Floats, Ints, loop, to_float
from fedkg.kernels.training.dense_layers import (
    CLIP,
    CLIPPED,
    SEEN,
    TANH,
    WIDTHS,
    activate,
    apply_penalties,
)
from fedkg.kernels.training.llvm_primitives import lanes
from fedkg.kernels.training.matrix_products import fill, multiply, shifted
from fedkg.kernels.training.max_pooled_convolution_gradient import N, channels_last, sparse_backward
from fedkg.kernels.training.pooling import pool, unpool
from fedkg.kernels.training.sample_norms import clip_factor, sum_of_squares
from fedkg.kernels.training.transposes import transpose

COUNT, MEAN, SAMPLE, ROOM, FIRST = range(5)
"""Positions in `images`: number of convolutions, flag for mean pooling, F, workspace numbers per
sample, and the first layer's numbers.
"""

(
    CHANNELS,
    HIGH,
    WIDE,
    SIDE,
    OUT,
    PAD,
    POOL,
    DOWN,
    ACROSS,
    WEIGHTS,
    READ,
    MADE,
    AHEAD,
    BEHIND,
    EACH,
) = range(15)
"""Positions of a layer: I, h, w, k, O, padding, p, r, c; first parameter; first number of a
sample's input and output in the workspace; first forward and backward distance in `images`. Last:
the number of these positions.
"""

REPEATED = 16
"""Copies of a number that a product starts from: as many as a tile has per row."""


@loop
def convolve_forward(
    own: Floats,
    form: Ints,
    images: Ints,
    x: Floats,
    rows: Ints,
    count: int,
    out: Floats,
    room: Floats,
) -> None:
    """The dense layers' input, [B, O r c], from images x [S, F]; `room` stores the input and output
    of each layer and sample.

    Outputs are stored before the rectifier, but after tanh.
    """
    layers, floor = images[COUNT], to_float(-1 if form[TANH] > 0 else 0)
    for place in range(count):
        kept = room[place * images[ROOM] :]
        _enter(kept, x[rows[place] * images[SAMPLE] :], images[FIRST:])
        for number in range(layers):
            layer = images[FIRST + number * EACH :]
            _convolve(own, images, layer, kept, room[count * images[ROOM] :])
            apart = (layer[HIGH] - layer[SIDE] + 1) * layer[WIDE]
            if form[TANH] > 0:
                activate(kept[layer[MADE] :], 1, layer[OUT] * apart)
            to, row, size = out[place * form[WIDTHS] :], layer[ACROSS], layer[DOWN] * layer[ACROSS]
            if number < layers - 1:
                after = images[FIRST + (number + 1) * EACH :]
                to, row, size = (
                    kept[after[READ] + after[PAD] * (after[WIDE] + 1) :],
                    after[WIDE],
                    after[HIGH] * after[WIDE],
                )
                if after[PAD] > 0:
                    fill(kept[after[READ] :], after[CHANNELS] * size, to_float(0))
            for channel in range(layer[OUT]):
                made = kept[layer[MADE] + channel * apart :]
                pool(
                    to[channel * size :],
                    row,
                    made,
                    layer[WIDE],
                    layer[DOWN],
                    layer[ACROSS],
                    layer[POOL],
                    images[MEAN],
                    floor,
                )


@loop
def _enter(kept: Floats, x: Floats, layer: Ints) -> None:
    """Copy an image into its padding."""
    pad, high, width = layer[PAD], layer[HIGH], layer[WIDE]
    if pad > 0:
        fill(kept, layer[CHANNELS] * high * width, to_float(0))
    inner = width - 2 * pad
    for channel in range(layer[CHANNELS]):
        for row in range(high - 2 * pad):
            to, since = (
                kept[(channel * high + row + pad) * width + pad :],
                x[(channel * (high - 2 * pad) + row) * inner :],
            )
            for column in range(inner):
                to[column] = since[column]


@loop
def _convolve(own: Floats, images: Ints, layer: Ints, kept: Floats, spare: Floats) -> None:
    depth, outputs = layer[CHANNELS] * layer[SIDE] * layer[SIDE], layer[OUT]
    weight, made, apart = (
        own[layer[WEIGHTS] :],
        kept[layer[MADE] :],
        (layer[HIGH] - layer[SIDE] + 1) * layer[WIDE],
    )
    there, wide = apart - layer[SIDE] + 1, lanes()
    for output in range(outputs):
        fill(spare[output * wide :], wide, weight[outputs * depth + output])
    shifted(
        made,
        apart,
        spare,
        wide,
        weight,
        depth,
        kept[layer[READ] :],
        images[layer[AHEAD] :],
        outputs,
        there,
        depth,
    )


@loop
def convolve_backward(
    own: Floats,
    form: Ints,
    numbers: Doubles,
    images: Ints,
    count: int,
    values: Floats,
    room: Floats,
    rate: Float,
    strength: Floats,
    anchor: Floats,
    drift: Floats,
    squares: Floats,
    share: Float,
    clipped: Floats,
) -> None:
    """A gradient step of the convolutions, from the derivative by the dense layers' input, `values`
    [B, O r c].

    With clipping, `squares` [B] has the squared norms of the other layers' gradients and becomes
    the samples' factors, times `share`; the sum of gradients is then added to `clipped` instead.
    """
    layers, total = images[COUNT], form[SEEN]
    begin = room[count * images[ROOM] :]
    flipped = begin[2 * REPEATED :]
    sums = flipped[total:]
    one = sums[total if form[CLIPPED] > 0 else 0 :]
    turned = one[total:]
    fill(begin, REPEATED, to_float(0))
    begin[REPEATED] = to_float(1)
    fill(sums, total, to_float(0))
    for number in range(1, layers):
        layer = images[FIRST + number * EACH :]
        if _is_sparse(layer, images[MEAN]):
            square = layer[SIDE] * layer[SIDE]
            channels_last(
                flipped[layer[WEIGHTS] :],
                own[layer[WEIGHTS] :],
                layer[OUT],
                layer[CHANNELS],
                square,
            )
        else:
            _flip(flipped, own, layer)
    for place in range(count):
        if form[CLIPPED] > 0:
            fill(one, total, to_float(0))
        kept = room[place * images[ROOM] :]
        for number in range(layers - 1, -1, -1):
            layer = images[FIRST + number * EACH :]
            apart, size = (layer[HIGH] - layer[SIDE] + 1) * layer[WIDE], layer[HIGH] * layer[WIDE]
            margin = (layer[SIDE] - 1) * (layer[WIDE] + 1)
            long = margin + size
            slopes = turned[apart * layer[OUT] :]
            fill(slopes, layer[OUT] * long, to_float(0))
            by, row, area = (
                values[place * form[WIDTHS] :],
                layer[ACROSS],
                layer[DOWN] * layer[ACROSS],
            )
            if number < layers - 1:
                after = images[FIRST + (number + 1) * EACH :]
                by, row, area = (
                    kept[after[READ] + after[PAD] * (after[WIDE] + 1) :],
                    after[WIDE],
                    after[HIGH] * after[WIDE],
                )
            for channel in range(layer[OUT]):
                to, made, slope = (
                    slopes[margin + channel * long :],
                    kept[layer[MADE] + channel * apart :],
                    by[channel * area :],
                )
                wide, down, across, side = layer[WIDE], layer[DOWN], layer[ACROSS], layer[POOL]
                unpool(to, made, wide, slope, row, down, across, side, images[MEAN], form[TANH])
            gradient, image, weight, above = (
                one[layer[WEIGHTS] :],
                kept[layer[READ] :],
                flipped[layer[WEIGHTS] :],
                slopes[margin:],
            )
            channels, outputs, k, distances = (
                layer[CHANNELS],
                layer[OUT],
                layer[SIDE],
                images[layer[BEHIND] :],
            )
            if _is_sparse(layer, images[MEAN]):
                spare, places = (
                    slopes[outputs * long :],
                    (layer[HIGH] - k) * layer[WIDE] + layer[WIDE] - k + 1,
                )
                sparse_backward(
                    gradient,
                    image,
                    weight,
                    above,
                    long,
                    places,
                    layer[WIDE],
                    size,
                    channels,
                    outputs,
                    k,
                    number,
                    spare,
                )
            else:
                _gradient(gradient, layer, image, above, long, turned, apart, begin[REPEATED:])
                if number > 0:  # overwrites the layer's input; slopes are zero-padded
                    depth = outputs * k * k
                    shifted(
                        image,
                        size,
                        begin,
                        0,
                        weight,
                        depth,
                        above,
                        distances,
                        channels,
                        size,
                        depth,
                    )
        if form[CLIPPED] > 0:
            squares[place] = (
                clip_factor(
                    squares[place] + sum_of_squares(one, total, turned), to_float(numbers[CLIP])
                )
                * share
            )
            if squares[place] > 0.0:
                _add_times(sums, one, squares[place], total)
    for number in range(layers):
        layer = images[FIRST + number * EACH :]
        depth, at = layer[CHANNELS] * layer[SIDE] * layer[SIDE], layer[WEIGHTS]
        many = (depth + 1) * layer[OUT]
        if form[CLIPPED] > 0:
            _add_turned(clipped[at:], sums[at:], depth, layer[OUT], to_float(1))
        else:
            apply_penalties(
                own[at:], form, numbers, rate, strength[at:], anchor[at:], drift[at:], many
            )
            _add_turned(own[at:], sums[at:], depth, layer[OUT], -rate)


@loop
def _add_turned(out: Floats, sums: Floats, depth: int, outputs: int, by: Float) -> None:
    """Add `by` times the sums of weights, [I k k, O], as [O, I k k], and of the biases after
    them."""
    for output in range(outputs):
        for place in range(depth):
            out[output * depth + place] += by * sums[place * outputs + output]
        out[depth * outputs + output] += by * sums[depth * outputs + output]


@loop
def _add_times(sums: Floats, one: Floats, by: Float, n: int) -> None:
    for i in range(n):
        sums[i] += by * one[i]


@loop
def _gradient(
    sums: Floats,
    layer: Ints,
    image: Floats,
    slopes: Floats,
    long: int,
    turned: Floats,
    apart: int,
    one: Floats,
) -> None:
    """Add a sample's derivative by the weights, [I k k, O], and by the bias after them; `one` is
    1."""
    outputs, side, channels, width = layer[OUT], layer[SIDE], layer[CHANNELS], layer[WIDE]
    square, there, size = side * side, apart - side + 1, layer[HIGH] * width
    transpose(turned, outputs, slopes, long, outputs, there)
    totals = sums[channels * square * outputs :]
    multiply(totals, outputs, totals, outputs, one, 0, 0, turned, outputs, 1, outputs, there)
    for row in range(side):
        if channels >= side:
            for column in range(side):
                to, since = sums[(row * side + column) * outputs :], image[row * width + column :]
                multiply(
                    to,
                    square * outputs,
                    to,
                    square * outputs,
                    since,
                    size,
                    1,
                    turned,
                    outputs,
                    channels,
                    outputs,
                    there,
                )
        else:
            for channel in range(channels):
                to, since = (
                    sums[(channel * square + row * side) * outputs :],
                    image[channel * size + row * width :],
                )
                multiply(
                    to, outputs, to, outputs, since, 1, 1, turned, outputs, side, outputs, there
                )


@loop
def _is_sparse(layer: Ints, mean: int) -> bool:
    """Whether most derivatives by a layer's output are 0, and windows have runs that fit
    vectors."""
    return layer[POOL] > 1 and mean == 0 and layer[CHANNELS] * layer[SIDE] >= N


@loop
def _flip(flipped: Floats, own: Floats, layer: Ints) -> None:
    """A layer's weights [O, I, k k] as [I, O, k k]."""
    outputs, square, channels = layer[OUT], layer[SIDE] * layer[SIDE], layer[CHANNELS]
    to, weight = flipped[layer[WEIGHTS] :], own[layer[WEIGHTS] :]
    for output in range(outputs):
        for channel in range(channels):
            for place in range(square):
                to[(channel * outputs + output) * square + place] = weight[
                    (output * channels + channel) * square + place
                ]
