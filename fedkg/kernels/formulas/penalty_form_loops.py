"""Penalties (`engine.penalty.PenaltyForm`) of what is missing at a run of places, with their
slopes.

Letters: B batch, C parts of the batch.
"""

from __future__ import annotations

import math

from fedkg.kernels.formulas.elementwise_loops import multiply_number
from fedkg.kernels.formulas.loop_argument_positions import FAR, MARK_MISSING, ZERO
from fedkg.kernels.loop_language import Doubles, Float, Floats, Ints, loop

HINGE, SQUARED, LOG_BARRIER, SLOPES = range(4)
"""Kinds of penalties, and the gradient of robustness instead."""


@loop
def worth_of(
    gate: Floats,
    weight: Floats,
    share: Floats,
    size: int,
    places: Ints,
    n: int,
    dense: bool,
    into: Floats,
) -> None:
    """By what the penalty at each of some places is multiplied."""
    if not dense:
        for j in range(n):
            into[j] = gate[j] * weight[places[j]] * share[places[j] // size]
        return
    j = 0
    while j < n:
        part = places[j] // size
        m = min(n, (part + 1) * size - places[0]) - j
        multiply_number(into[j:], weight[places[j] :], share[part], m, math.inf, share[part])
        j += m
    for i in range(n):
        into[i] = into[i] * gate[i]


@loop
def paid(
    missing: Floats,
    worth: Floats,
    places: Ints,
    n: int,
    dense: bool,
    kind: int,
    sharpness: Float,
    constants: Floats,
    value: Doubles,
) -> bool:
    """Adds to value the penalties (`engine.penalty.PenaltyForm`) of what is missing.

    `worth` becomes their slopes; whether any is not 0.
    """
    zero, mark = constants[ZERO], constants[MARK_MISSING]
    far, edge = constants[FAR] / 2.0, 1.0 / (sharpness * sharpness)
    to, some = value[places[0] :], False
    if kind == LOG_BARRIER:
        some = _barred(missing, worth, n, sharpness, edge, zero, mark, far)
    elif kind == SQUARED:
        some = _squared(missing, worth, n, zero, mark, far)
    else:
        some = _hinged(missing, worth, n, zero, mark, far)
    if dense:
        for j in range(n):
            to[j] = to[j] + missing[j]
    else:
        for j in range(n):
            value[places[j]] += missing[j]
    return some


@loop
def _barred(
    missing: Floats,
    worth: Floats,
    n: int,
    sharpness: Float,
    edge: Float,
    zero: Float,
    mark: Float,
    far: Float,
) -> bool:
    """The penalties of a logarithmic barrier; what is unknown or out of reach costs nothing."""
    some = False
    for j in range(n):
        m, w = missing[j], worth[j]
        off = m == mark or m >= far or m < -1.0
        w, m = zero if off else w, -1.0 if off else m
        inner = m <= -edge
        missing[j] = w * (
            -math.log(-m if inner else edge) / sharpness
            + (zero if inner else sharpness * (m + edge))
        )
        steep = w * (1.0 / (-m * sharpness) if inner else sharpness)
        worth[j] = steep
        some |= steep != zero
    return some


@loop
def _hinged(missing: Floats, worth: Floats, n: int, zero: Float, mark: Float, far: Float) -> bool:
    """What is missing, known and in reach, times its worth; `worth` becomes the slope."""
    some = False
    for j in range(n):
        m, w = missing[j], worth[j]
        m = m if m > mark else zero
        m = m if m < far else zero
        w = w if m > zero else zero
        missing[j] = w * m
        worth[j] = w
        some |= w != zero
    return some


@loop
def _squared(missing: Floats, worth: Floats, n: int, zero: Float, mark: Float, far: Float) -> bool:
    """The same of its square."""
    some = False
    for j in range(n):
        m, w = missing[j], worth[j]
        m = m if m > mark else zero
        m = m if m < far else zero
        w = w if m > zero else zero
        steep = w * (m + m)
        missing[j] = w * m * m
        worth[j] = steep
        some |= steep != zero
    return some
