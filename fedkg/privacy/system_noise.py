"""Gaussian noise from the operating system's generator, on a grid.

Two things make simulated noise useless against an attacker: it follows from a seed, and floating
point. The sum of a number and a floating-point sample does not reach every floating-point number,
and which ones it reaches depends on the number: the last bits tell the data apart (Mironov, "On
significance of the least significant bits for differential privacy", CCS 2012, for Laplace noise;
Jin and others, arXiv 2112.05307, for Gaussian noise). So fedkg rounds what it protects to a grid
that does not depend on the data, and adds a sample of the discrete Gaussian distribution on it
(Canonne, Kamath and Steinke 2020, arXiv 2004.00010), drawn exactly, in whole numbers.

On a grid of this fineness the discrete Gaussian costs the same Rényi divergence as the continuous
one (theorem 4 there), and for sampled releases, which its theorem does not cover, both
distributions differ by less than exp(-2 pi^2 DEVIATION^2). Rounding moves each number by up to half
a step of the grid, which the noise makes up for, see `grid_of`.
"""

from __future__ import annotations

import itertools
import math
import os
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError

Integers = NDArray[np.int64]

DEVIATION_BITS = 20
DEVIATION = 1 << DEVIATION_BITS
"""Standard deviation of the noise in steps of the grid."""

BITS = 32
"""Random bits of a draw; more follow where they do not decide."""

UNSURE = 2.0**-31
"""Distance between a draw and a probability up to which further bits decide: the width of a draw,
and far more than NumPy's exponential function errs (below 2^-50)."""

EXTRA_BYTES, DIGITS = 32, 120
"""Further random bytes of a draw that is decided exactly, and the decimal digits for it."""

MOST_AT_ONCE = 1 << 20
"""Candidates that are drawn together, to bound the memory."""


def uniform(count: int) -> NDArray[np.float64]:
    """Numbers in (0, 1], 53 random bits each, from the operating system's generator, [count]."""
    words = np.frombuffer(os.urandom(8 * count), dtype=np.uint64) >> np.uint64(11)
    return (words.astype(np.float64) + 1.0) * 2.0**-53


def discrete_gaussian(count: int) -> Integers:
    """Whole numbers with probability proportional to ``exp(-x^2 / (2 DEVIATION^2))``, [count].

    Rejection from a discrete Laplace distribution (Canonne, Kamath and Steinke 2020, algorithms 2
    and 3), with the uniform part and the Gaussian correction of a candidate decided by one draw.
    """
    found = np.empty(count, dtype=np.int64)
    done = 0
    while done < count:
        size = min(MOST_AT_ONCE, int(2.2 * (count - done)) + 64)
        whole = _geometric(size)
        bits = np.frombuffer(os.urandom(4 * size), dtype=np.uint32).astype(np.int64)
        value = (bits & (DEVIATION - 1)) + (whole << DEVIATION_BITS)
        # u / t + (y - t)^2 / (2 t^2) with t the deviation and y = u + t whole, times 2 t^2
        cost = value * value + (1 - 2 * whole) * DEVIATION * DEVIATION
        negative = bits >> 31 == 1
        accepted = _happens(cost, 2 * DEVIATION * DEVIATION) & ~(negative & (value == 0))
        kept = np.where(negative, -value, value)[accepted][: count - done]
        found[done : done + len(kept)] = kept
        done += len(kept)
    return found


def grid_of(noise: float, sensitivity: float, numbers: int) -> float:
    """The step of the grid for a release of so many numbers.

    One unit changes the release by at most `sensitivity`, rounded to the grid by up to ``step *
    sqrt(numbers)`` more. The deviation of the noise, ``DEVIATION * step``, is `noise` times the
    sum of both, so the ledger's `noise` holds for what is released.

    Raises:
        JobError: the noise would be so large that rounding cannot be made up for.
    """
    lost = noise * math.sqrt(numbers) / DEVIATION
    if lost >= 0.5:
        raise JobError(
            "the noise is too large for this many parameters: noise from the "
            "operating system lies on a grid of limited size",
            expected=f"noise * sqrt(parameters) below {DEVIATION // 2}",
            received=f"{noise:g} * sqrt({numbers})",
            help="use less noise or a smaller model",
        )
    return noise * sensitivity / (1.0 - lost) / DEVIATION


def add_noise(value: NDArray[np.float64], steps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values [C, P] rounded to multiples of each row's step [C], with discrete Gaussian noise."""
    draws = discrete_gaussian(value.size).reshape(value.shape)
    return np.asarray((np.rint(value / steps[:, None]) + draws) * steps[:, None])


def _draw(count: int) -> NDArray[np.float64]:
    """Uniform whole numbers of `BITS` bits, as float64."""
    return np.frombuffer(os.urandom(4 * count), dtype=np.uint32).astype(np.float64)


def _geometric(count: int) -> Integers:
    """How often an event of probability 1/e happens before it does not: the largest whole v with a
    uniform number below ``exp(-v)``, [count]."""
    draw = _draw(count) + 0.5
    exponent = -np.log(draw * 2.0**-BITS)
    times = exponent.astype(np.int64)
    unsure = np.abs(exponent - np.rint(exponent)) <= 2.0 / draw
    for place in np.flatnonzero(unsure):
        number = _continue(int(draw[place]))
        times[place] = next(v for v in itertools.count() if not number < _exp(-(v + 1), 1))
    return times


def _happens(cost: Integers, unit: int) -> NDArray[np.bool_]:
    """Whether events of probability ``exp(-cost / unit)`` happen; exact for whole numbers."""
    draw = _draw(len(cost))
    distance = np.exp(cost / -unit) - draw * 2.0**-BITS
    happens = distance > 0
    for place in np.flatnonzero(np.abs(distance) <= UNSURE):
        happens[place] = _continue(int(draw[place])) < _exp(-int(cost[place]), unit)
    return np.asarray(happens)


def _continue(draw: int) -> Decimal:
    """A uniform number in [0, 1) that begins with the bits of a draw, with further bits."""
    with localcontext() as context:
        context.prec = DIGITS
        more = draw << (8 * EXTRA_BYTES) | int.from_bytes(os.urandom(EXTRA_BYTES), "big")
        return Decimal(more) / Decimal(1 << (BITS + 8 * EXTRA_BYTES))


def _exp(numerator: int, denominator: int) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        return (Decimal(numerator) / Decimal(denominator)).exp()
