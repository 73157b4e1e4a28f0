"""Federated standardisation: sites share counts, sums and squares, but no rows. N rows, F
features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaling:
    """Mean and standard deviation per feature.

    Attributes:
        names: F feature names.
        mean: float64 [F], the mean of each feature in source units.
        std: float64 [F], the standard deviation of each feature in source units; 1 for a constant
            feature.
    """

    names: tuple[str, ...]
    mean: F64
    std: F64

    def apply(self, values: F64) -> F64:
        """Standardise values [N, F]; unknown values (NaN) become the mean, 0."""
        return np.asarray(np.nan_to_num((values - self.mean) / self.std, nan=0.0), dtype=np.float64)


def pooled_scaling(
    parts: Iterable[F64], names: Sequence[str], *, where: str = "the training data"
) -> Scaling:
    """Pool the parts [n_k, F] into one scaling, from the count, mean and squared deviations of each
    part.

    Unknown values are skipped. Source: Chan, Golub and LeVeque, 1979.

    Raises:
        JobError: a feature has no known value in any part.
    """
    count, mean, squares = np.zeros(len(names)), np.zeros(len(names)), np.zeros(len(names))
    for part in parts:
        known = ~np.isnan(part)
        n = known.sum(axis=0).astype(np.float64)
        own = np.divide(
            np.where(known, part, 0.0).sum(axis=0), n, out=np.zeros(len(names)), where=n > 0
        )
        deviation = (np.where(known, part - own, 0.0) ** 2).sum(axis=0)
        total = np.maximum(count + n, 1.0)
        delta = own - mean
        squares += deviation + delta**2 * count * n / total
        mean = mean + delta * n / total
        count = count + n
    empty = [name for name, n in zip(names, count.tolist(), strict=True) if n == 0]
    if empty:
        raise JobError(
            f"column `{empty[0]}` has no value in {where}",
            expected="numbers in at least some rows",
            help=f"leave it out of data.features: {', '.join(f'`{name}`' for name in empty)}",
        )
    std = np.sqrt(squares / count)
    flat = std <= 1e-12 * np.maximum(np.abs(mean), 1.0)
    return Scaling(names=tuple(names), mean=mean, std=np.where(flat, 1.0, std))
