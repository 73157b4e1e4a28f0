"""Losses of a minibatch with samples as columns, and their derivatives by the outputs.

Letters: B samples of the minibatch, V their columns (more may follow), H outputs.
"""

from __future__ import annotations

import math

from fedkg.kernels.loop_language import Double, Float, Floats, Ints, loop, to_float
from fedkg.kernels.training.llvm_primitives import exponential, greater
from fedkg.kernels.training.matrix_products import scaled

CLASSES, BINARY, SQUARED, KNOWN = range(4)
"""Cross entropy of classes, of one logit, mean squared error, and the latter over targets that are
not NaN.
"""


@loop
def add_losses(
    out: Floats,
    outputs: int,
    wide: int,
    loss: int,
    weight: Double,
    classes: Ints,
    targets: Floats,
    index: Ints,
    count: int,
    share: Float,
    spare: Floats,
) -> Float:
    """The sum of `count` samples' losses, times `share`; the derivative overwrites the outputs [H,
    V], with 0 in further columns.

    Sample i has row ``index[i]`` in classes or targets [.., H]; `weight` is that of positive
    samples. `spare` has room for 3 V numbers.
    """
    total, more = to_float(0), to_float(weight)
    if loss == CLASSES:
        total = _of_classes(out, outputs, wide, classes, index, count, spare)
    elif loss == BINARY:
        for place in range(count):
            goal, z = targets[index[place]], out[place]
            out[place] = _slope_of_logit(z, goal, more)
            total += _of_logit(z, goal, more)
    else:
        for place in range(count):
            total += _of_numbers(
                out[place:], outputs, wide, targets[index[place] * outputs :], loss == KNOWN
            )
    scaled(out, share, outputs * wide)
    for output in range(outputs):
        for place in range(count, wide):
            out[output * wide + place] = 0.0
    return total * share


@loop
def _of_classes(
    out: Floats, outputs: int, wide: int, classes: Ints, index: Ints, count: int, spare: Floats
) -> Float:
    """The sum of the samples' cross entropies; softmax minus one-hot overwrites the scores."""
    most, sums = spare, spare[wide:]
    for place in range(wide):
        most[place] = out[place]
        sums[place] = 0.0
    for output in range(1, outputs):
        _greater(most, out[output * wide :], wide)
    total = to_float(0)
    for place in range(count):
        total -= out[classes[index[place]] * wide + place] - most[place]
    for output in range(outputs):
        _raised(out[output * wide :], most, sums, wide)
    for output in range(outputs):
        _divided(out[output * wide :], sums, wide)
    for place in range(count):
        total += math.log(sums[place])
        out[classes[index[place]] * wide + place] -= 1.0
    return total


@loop
def _greater(most: Floats, other: Floats, n: int) -> None:
    for i in range(n):
        most[i] = greater(most[i], other[i])


@loop
def _raised(out: Floats, most: Floats, sums: Floats, n: int) -> None:
    for i in range(n):
        v = exponential(out[i] - most[i])
        out[i] = v
        sums[i] += v


@loop
def _divided(out: Floats, by: Floats, n: int) -> None:
    for i in range(n):
        out[i] = out[i] / by[i]


@loop
def _of_logit(z: Float, goal: Float, weight: Float) -> Float:
    """``(1 - t) z + (1 + (w - 1) t) log(1 + exp(-z))``, without overflow."""
    e = exponential(-abs(z))
    whole = 1.0 + e
    near = e if whole == 1.0 else math.log(whole) * e / (whole - 1.0)
    return (1.0 - goal) * z + (1.0 + (weight - 1.0) * goal) * (near + (-z if z < 0.0 else 0.0))


@loop
def _slope_of_logit(z: Float, goal: Float, weight: Float) -> Float:
    return 1.0 / (1.0 + exponential(-z)) * (1.0 + (weight - 1.0) * goal) - weight * goal


@loop
def _of_numbers(out: Floats, outputs: int, wide: int, goals: Floats, known: bool) -> Float:
    """The mean squared error of a sample with outputs at a distance of `wide`; with `known`, over
    the known targets.
    """
    there = 0
    for output in range(outputs):
        if not known or goals[output] == goals[output]:
            there += 1
    squares, width = to_float(0), to_float(max(there, 1))
    for output in range(outputs):
        error = out[output * wide] - goals[output]
        if known and goals[output] != goals[output]:
            error = to_float(0)
        squares += error * error
        out[output * wide] = (error + error) / width
    return squares / width
