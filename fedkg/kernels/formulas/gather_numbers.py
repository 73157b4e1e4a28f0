"""What rules read of a batch, or of a model's answers, in one pass over its memory: the numbers of
`binding.rule_input_values`, to the bit.

Letters: B samples, F columns of a sample, N numbers that are read.
"""

from __future__ import annotations

from fedkg.kernels.formulas.loop_argument_positions import INF, LARGEST, NAN, ZERO
from fedkg.kernels.loop_language import Doubles, Float, Floats, Ints, loop

COLUMN, WAYS = range(2)
"""Of each number that is read, int64 [N, 2]: which column (-1: none, it is unknown); what is done
with it."""

SCALED, ROUNDED, RAISED = 1, 2, 4
"""Ways: times `GAIN` and plus `SHIFT`, each rounded; then to a whole number; then plus `MORE`."""

GAIN, SHIFT, MORE = range(3)
"""Of each number that is read, [N, 3]."""

BLOCK = 1 << 11
"""Numbers of the batch that are read at once: they stay in the first cache."""


@loop
def numbers_read(
    x: Floats, begin: int, end: int, places: int, columns: int, ways: Ints, scales: Floats,
    count: int, constants: Floats, into: Floats, most: Doubles,
) -> None:  # fmt: skip
    """Numbers [N, B] of the samples begin..end of [B, F], NaN where they are not finite.

    Args:
        most: becomes the greatest absolute value of all, including its previous value; NaN where
            one is unknown.
    """
    block, nan, largest, inf = (
        max(64, BLOCK // columns),
        constants[NAN],
        constants[LARGEST],
        constants[INF],
    )
    best, known = constants[ZERO], True
    for low in range(begin, end, block):
        n, source = min(block, end - low), x[low * columns :]
        for i in range(count):
            to, column = into[i * places + low :], ways[2 * i + COLUMN]
            if column < 0:
                known = False
                for j in range(n):
                    to[j] = nan
                continue
            _taken(to, source[column:], n, columns)
            _changed(to, n, ways[2 * i + WAYS], scales[3 * i :])
            own = _greatest(to, n, largest, constants[ZERO], inf)
            if own == inf:
                known = False
                _cleared(to, n, largest, nan)
            else:
                best = max(best, own)
    if not known:
        most[0] = nan
    elif best > most[0]:
        most[0] = best


@loop
def _taken(d: Floats, x: Floats, n: int, columns: int) -> None:
    """Every n-th of some numbers."""
    if columns == 1:
        for j in range(n):
            d[j] = x[j]
    else:
        for j in range(n):
            d[j] = x[j * columns]


@loop
def _changed(d: Floats, n: int, ways: int, scales: Floats) -> None:
    gain, shift, more = scales[GAIN], scales[SHIFT], scales[MORE]
    if ways & SCALED:
        for j in range(n):
            d[j] = d[j] * gain + shift
    if ways & ROUNDED:
        for j in range(n):
            d[j] = round(d[j])
    if ways & RAISED:
        for j in range(n):
            d[j] = d[j] + more


@loop
def _greatest(x: Floats, n: int, largest: Float, zero: Float, inf: Float) -> Float:
    """The greatest absolute value; infinite where one is not finite."""
    best = zero
    for j in range(n):
        t = abs(x[j])
        best = max(best, t if t <= largest else inf)
    return best


@loop
def _cleared(d: Floats, n: int, largest: Float, nan: Float) -> None:
    """d, NaN where it is not finite."""
    for j in range(n):
        t = d[j]
        d[j] = t if abs(t) <= largest else nan
