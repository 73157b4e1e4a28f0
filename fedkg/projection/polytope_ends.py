"""The ends of rows made ready for the solver, in one pass over them; compiled by Numba.

Letters: B points, n their length, m rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.kernels import kernel

Numbers = NDArray[Any]  # float32 or float64
Flags = NDArray[np.bool_]


@kernel
def tightened(
    value: Numbers, size: Numbers, lower: Numbers, upper: Numbers, eps: float, low: Numbers, high: Numbers, over: Numbers
) -> None:
    """Ends [B, m] moved inwards by ``eps (1 + |end| + size)``, by a quarter of their distance at most; how far over [B] them a point is.

    Args:
        value, size: of the rows, and of the numbers that they add up, [B, m]. lower, upper: [B, m], or [1, m] for all points.
    """
    step, zero, one, inf = value.dtype.type(eps), value.dtype.type(0), value.dtype.type(1), value.dtype.type(np.inf)
    quarter = value.dtype.type(0.25)
    for b in range(value.shape[0]):
        e = b if lower.shape[0] > 1 else 0
        for i in range(value.shape[1]):
            least, most = lower[e, i], upper[e, i]
            room = (most - least) * quarter
            room = room if room > zero else zero
            up = step * (one + (abs(least) if abs(least) < inf else zero) + size[b, i])
            down = step * (one + (abs(most) if abs(most) < inf else zero) + size[b, i])
            low[b, i] = least + (up if up < room else room)
            high[b, i] = most - (down if down < room else room)
        worst = -inf
        for i in range(value.shape[1]):
            beyond = value[b, i] - high[b, i]
            short = low[b, i] - value[b, i]
            beyond = beyond if beyond > short else short
            worst = beyond if beyond > worst else worst
        over[b] = worst


@kernel
def scaled(
    lower: Numbers, upper: Numbers, length: Numbers, point: Numbers, share: float, low: Numbers, high: Numbers, equal: Flags, slack: Numbers
) -> None:
    """Ends float64 [B, m] of rows of length 1, where they are the same, and the slack [B, 1]: a share of the largest of a point's numbers.

    Args:
        lower, upper: [B, m] of rows of `length` float64 [B, m], or [1, m]. point: float64 [B, n].
    """
    for b in range(lower.shape[0]):
        own = length[b if length.shape[0] > 1 else 0]
        largest = 0.0
        for i in range(point.shape[1]):
            size = abs(point[b, i])
            largest = size if size > largest else largest
        for i in range(lower.shape[1]):
            least, most = np.float64(lower[b, i]) / own[i], np.float64(upper[b, i]) / own[i]
            low[b, i], high[b, i], equal[b, i] = least, most, least == most
            size = max(abs(least) if abs(least) < np.inf else 0.0, abs(most) if abs(most) < np.inf else 0.0)
            largest = size if size > largest else largest
        slack[b, 0] = share * (1.0 + largest)
