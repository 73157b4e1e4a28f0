"""Confidence intervals of a mean over few seeds, by Student's t."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

T_QUANTILES = (
    *(
        12.706205,
        4.302653,
        3.182446,
        2.776445,
        2.570582,
        2.446912,
        2.364624,
        2.306004,
        2.262157,
        2.228139,
    ),
    *(
        2.200985,
        2.178813,
        2.160369,
        2.144787,
        2.131450,
        2.119905,
        2.109816,
        2.100922,
        2.093024,
        2.085963,
    ),
    *(
        2.079614,
        2.073873,
        2.068658,
        2.063899,
        2.059539,
        2.055529,
        2.051831,
        2.048407,
        2.045230,
        2.042272,
    ),
)
"""97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom.

They decrease, so the last one is conservative for more degrees of freedom.
"""


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean.

    ``mean +/- t spread / sqrt(n)``; None for fewer than two values.

    NaN marks an unmeasured value. The interval covers the randomness of seeds (splits, initial
    models, sampling) only, not other data, sites or models.
    """
    known = [value for value in values if not math.isnan(value)]
    if len(known) < 2:
        return None
    half = (
        T_QUANTILES[min(len(known) - 1, len(T_QUANTILES)) - 1]
        * statistics.stdev(known)
        / math.sqrt(len(known))
    )
    mean = statistics.fmean(known)
    return mean - half, mean + half
