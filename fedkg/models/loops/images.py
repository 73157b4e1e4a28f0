"""Convolutions of one client upon its images, one image after the other, and the way back.

An image [I, h, w] lies flat. A convolution's result at flat place q is a sum of products with the image's numbers at q plus as many fixed
distances as the window has places: one product of matrices, the rows of the right one being the image shifted. Results have rows as wide as
the image; what stands beyond their own width is nobody's and is not read.

Letters: B samples of a minibatch, V its columns in the dense layers, I and O channels, h and w height and width of what a layer reads (with
zeros around it), g and v those of its result, k side of its window, p of its pool, r and c height and width after that.
"""

from __future__ import annotations

from fedkg.models.loops.clipped import kept_of, squared
from fedkg.models.loops.dense import CLIP, CLIPPED, SEEN, TANH, activate, move
from fedkg.models.loops.products import add, fill, multiply, shifted
from fedkg.native.language import Doubles, Float, Floats, Ints, loop, to_float

COUNT, MEAN, SAMPLE, ROOM, FIRST = range(5)
"""Places of `images`: how many convolutions, whether squares become their mean, F, numbers kept of each sample, and the first layer's."""

(CHANNELS, HIGH, WIDE, SIDE, OUT, PAD, POOL, DOWN, ACROSS, WEIGHTS, READ, MADE, AHEAD, BEHIND, EACH) = range(15)
"""Places of a layer: I, h, w, k, O, the zeros around, p, r, c; where its parameters begin; where a sample's image and result begin among
the numbers kept of it; where in `images` the distances stand, forth and back. Last: how many places these are."""


@loop
def look(own: Floats, form: Ints, images: Ints, x: Floats, rows: Ints, count: int, wide: int, values: Floats, room: Floats) -> None:
    """What the dense layers read, [O r c, V], from images x [S, F]; `room` keeps what each layer reads and makes of each sample."""
    layers = images[COUNT]
    for place in range(wide):
        kept = room[place * images[ROOM] :]
        for number in range(layers):
            layer = images[FIRST + number * EACH :]
            if place < count:
                if number == 0:
                    _enter(kept, x[rows[place] * images[SAMPLE] :], layer)
                _convolve(own, images, layer, kept)
                high, width = layer[HIGH] - layer[SIDE] + 1, layer[WIDE]
                activate(kept[layer[MADE] :], form[TANH], layer[OUT] * high * width)
            if number == layers - 1:
                _pool(values[place:], 0, wide, layer, kept[layer[MADE] :], images[MEAN], place < count)
            elif place < count:
                after = images[FIRST + (number + 1) * EACH :]
                fill(kept[after[READ] :], after[CHANNELS] * after[HIGH] * after[WIDE], to_float(0))
                _pool(kept[after[READ] :], after[PAD], 1, layer, kept[layer[MADE] :], images[MEAN], True)


@loop
def _enter(kept: Floats, x: Floats, layer: Ints) -> None:
    """An image with zeros around it."""
    pad, high, width = layer[PAD], layer[HIGH], layer[WIDE]
    fill(kept, layer[CHANNELS] * high * width, to_float(0))
    inner = width - 2 * pad
    for channel in range(layer[CHANNELS]):
        for row in range(high - 2 * pad):
            to, since = kept[(channel * high + row + pad) * width + pad :], x[(channel * (high - 2 * pad) + row) * inner :]
            for column in range(inner):
                to[column] = since[column]


@loop
def _convolve(own: Floats, images: Ints, layer: Ints, kept: Floats) -> None:
    depth, outputs = layer[CHANNELS] * layer[SIDE] * layer[SIDE], layer[OUT]
    weight, made, apart = own[layer[WEIGHTS] :], kept[layer[MADE] :], (layer[HIGH] - layer[SIDE] + 1) * layer[WIDE]
    there = apart - layer[SIDE] + 1
    for output in range(outputs):
        fill(made[output * apart :], apart, weight[outputs * depth + output])
    shifted(made, apart, weight, depth, kept[layer[READ] :], images[layer[AHEAD] :], outputs, there, depth)


@loop
def _pool(out: Floats, pad: int, step: int, layer: Ints, made: Floats, mean: int, there: bool) -> None:
    """Squares of a result as one value each: into an image with `pad` zeros around it, or (`step` apart) into a column; else zeros."""
    side, down, across, width = layer[POOL], layer[DOWN], layer[ACROSS], layer[WIDE]
    apart = (layer[HIGH] - layer[SIDE] + 1) * width
    row_to, share = across + 2 * pad, 1.0 / to_float(side * side)
    for channel in range(layer[OUT]):
        for row in range(down):
            at = (channel * (down + 2 * pad) + row + pad) * row_to + pad
            for column in range(across):
                value = to_float(0)
                if there:
                    square = made[channel * apart + row * side * width + column * side :]
                    value = square[0]
                    if side > 1:
                        value = _mean(square, side, width) * share if mean > 0 else square[_largest(square, side, width)]
                out[(at + column) * step] = value


@loop
def _mean(square: Floats, side: int, width: int) -> Float:
    total = to_float(0)
    for row in range(side):
        for column in range(side):
            total += square[row * width + column]
    return total


@loop
def _largest(square: Floats, side: int, width: int) -> int:
    """The place of the first of the largest values; of the last NaN, where there is one."""
    found = 0
    if side == 2:
        a, b, c, d = square[0], square[1], square[width], square[width + 1]
        right = b > a or b != b
        most, found = b if right else a, 1 if right else 0
        below = c > most or c != c
        most, found = c if below else most, width if below else found
        return width + 1 if d > most or d != d else found
    for row in range(side):
        for column in range(side):
            v = square[row * width + column]
            if v > square[found] or v != v:
                found = row * width + column
    return found


@loop
def look_back(
    own: Floats,
    form: Ints,
    numbers: Doubles,
    images: Ints,
    count: int,
    wide: int,
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
    """A step down for the convolutions, from the derivative by what the dense layers read, which stands in its place [O r c, V].

    Where samples' gradients are clipped, `squares` [V] are those of their other parts, and become what samples count, times `share`; their
    sum is then added to `clipped` instead.
    """
    layers, total = images[COUNT], form[SEEN]
    sums = room[count * images[ROOM] :]
    one = sums[total if form[CLIPPED] > 0 else 0 :]
    turned = one[total:]
    fill(sums, total, to_float(0))
    for place in range(count):
        if form[CLIPPED] > 0:
            fill(one, total, to_float(0))
        kept = room[place * images[ROOM] :]
        for number in range(layers - 1, -1, -1):
            layer = images[FIRST + number * EACH :]
            depth, apart = layer[CHANNELS] * layer[SIDE] * layer[SIDE], (layer[HIGH] - layer[SIDE] + 1) * layer[WIDE]
            margin = (layer[SIDE] - 1) * (layer[WIDE] + 1)
            long = margin + layer[HIGH] * layer[WIDE]
            slopes = turned[apart * layer[OUT] :]
            fill(slopes, layer[OUT] * long, to_float(0))
            if number == layers - 1:
                _unpool(slopes[margin:], long, layer, kept[layer[MADE] :], values[place:], 0, wide, images[MEAN], form[TANH])
            else:
                after = images[FIRST + (number + 1) * EACH :]
                _unpool(slopes[margin:], long, layer, kept[layer[MADE] :], kept[after[READ] :], after[PAD], 1, images[MEAN], form[TANH])
            _gradient(one[layer[WEIGHTS] :], layer, kept[layer[READ] :], slopes[margin:], long, turned, apart)
            if number > 0:
                _inward(kept[layer[READ] :], own[layer[WEIGHTS] :], images, layer, slopes[margin:], slopes[layer[OUT] * long :])
        if form[CLIPPED] > 0:
            squares[place] = kept_of(squares[place] + squared(one, total, turned), to_float(numbers[CLIP])) * share
            if squares[place] > 0.0:
                _add_times(sums, one, squares[place], total)
    for number in range(layers):
        layer = images[FIRST + number * EACH :]
        depth, at = layer[CHANNELS] * layer[SIDE] * layer[SIDE], layer[WEIGHTS]
        many = (depth + 1) * layer[OUT]
        if form[CLIPPED] > 0:
            _add_turned(clipped[at:], sums[at:], depth, layer[OUT], to_float(1))
        else:
            move(own[at:], form, numbers, rate, strength[at:], anchor[at:], drift[at:], many)
            _add_turned(own[at:], sums[at:], depth, layer[OUT], -rate)


@loop
def _add_turned(out: Floats, sums: Floats, depth: int, outputs: int, by: Float) -> None:
    """Adds `by` times the sums of weights, [I k k, O], as [O, I k k], and of biases after them."""
    for output in range(outputs):
        for place in range(depth):
            out[output * depth + place] += by * sums[place * outputs + output]
        out[depth * outputs + output] += by * sums[depth * outputs + output]


@loop
def _add_times(sums: Floats, one: Floats, by: Float, n: int) -> None:
    for i in range(n):
        sums[i] += by * one[i]


@loop
def _unpool(slopes: Floats, long: int, layer: Ints, made: Floats, by: Floats, pad: int, step: int, mean: int, tanh: int) -> None:
    """The derivative by a result before its activation, [O, long] with rows as wide as the image, from the one after its pool."""
    side, down, across, width = layer[POOL], layer[DOWN], layer[ACROSS], layer[WIDE]
    apart = (layer[HIGH] - layer[SIDE] + 1) * width
    row_of, share = across + 2 * pad, 1.0 / to_float(side * side)
    for channel in range(layer[OUT]):
        for row in range(down):
            at = (channel * (down + 2 * pad) + row + pad) * row_of + pad
            for column in range(across):
                since = row * side * width + column * side
                square, to, slope = made[channel * apart + since :], slopes[channel * long + since :], by[(at + column) * step]
                if side == 1:
                    to[0] = _before(square[0], slope, tanh)
                elif mean > 0:
                    for down_in in range(side):
                        for across_in in range(side):
                            i = down_in * width + across_in
                            to[i] = _before(square[i], slope * share, tanh)
                else:
                    i = _largest(square, side, width)
                    to[i] = _before(square[i], slope, tanh)


@loop
def _before(value: Float, slope: Float, tanh: int) -> Float:
    """The derivative before an activation with this value."""
    if tanh > 0:
        return slope * (1.0 - value * value)
    return to_float(0) if value <= 0.0 else slope


@loop
def _gradient(sums: Floats, layer: Ints, image: Floats, slopes: Floats, long: int, turned: Floats, apart: int) -> None:
    """Adds a sample's derivative by the weights, [I k k, O], and by the bias after them."""
    outputs, side, channels, width = layer[OUT], layer[SIDE], layer[CHANNELS], layer[WIDE]
    square, there, size = side * side, apart - side + 1, layer[HIGH] * width
    for output in range(outputs):
        since = slopes[output * long :]
        for place in range(there):
            turned[place * outputs + output] = since[place]
    for place in range(there):
        add(sums[channels * square * outputs :], turned[place * outputs :], outputs)
    for row in range(side):
        if channels >= side:
            for column in range(side):
                to, since = sums[(row * side + column) * outputs :], image[row * width + column :]
                multiply(to, square * outputs, to, square * outputs, since, size, 1, turned, outputs, channels, outputs, there)
        else:
            for channel in range(channels):
                to, since = sums[(channel * square + row * side) * outputs :], image[channel * size + row * width :]
                multiply(to, outputs, to, outputs, since, 1, 1, turned, outputs, side, outputs, there)


@loop
def _inward(image: Floats, weight: Floats, images: Ints, layer: Ints, slopes: Floats, spare: Floats) -> None:
    """The derivative by what a layer read is written over it; slopes have zeros before and after what is there."""
    outputs, square, channels = layer[OUT], layer[SIDE] * layer[SIDE], layer[CHANNELS]
    for output in range(outputs):
        for channel in range(channels):
            for place in range(square):
                spare[(channel * outputs + output) * square + place] = weight[(output * channels + channel) * square + place]
    size = layer[HIGH] * layer[WIDE]
    fill(image, channels * size, to_float(0))
    shifted(image, size, spare, outputs * square, slopes, images[layer[BEHIND] :], channels, size, outputs * square)
