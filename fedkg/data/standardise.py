"""Federated standardisation: sites share counts, sums and squares, but no rows. N rows, F
features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Counts, means and squared deviations of the known values of F features, float64 [F] each.

    Sites send these sums instead of rows.

    Attributes:
        count: number of known values.
        mean: their mean, in source units; 0 without values.
        squares: sum of squared deviations from the mean.
    """

    count: F64
    mean: F64
    squares: F64

    def merge(self, other: Moments) -> Moments:
        """The moments of both parts together.

        Source: Chan, Golub and LeVeque, 1979.
        """
        total = np.maximum(self.count + other.count, 1.0)
        delta = other.mean - self.mean
        return Moments(
            count=self.count + other.count,
            mean=self.mean + delta * other.count / total,
            squares=self.squares + (other.squares + delta**2 * self.count * other.count / total),
        )

    def scaling(self, names: Sequence[str], *, where: str = "the training data") -> Scaling:
        """The scaling of F features with these moments.

        Raises:
            JobError: a feature has no known value.
        """
        counts = zip(names, self.count.tolist(), strict=True)
        if empty := [name for name, count in counts if count == 0]:
            raise JobError(
                f"column `{empty[0]}` has no value in {where}",
                expected="numbers in at least some rows",
                help="leave columns without values out of data.features: "
                + ", ".join(f"`{name}`" for name in empty),
            )
        std = np.sqrt(self.squares / self.count)
        flat = std <= 1e-12 * np.maximum(np.abs(self.mean), 1.0)
        return Scaling(names=tuple(names), mean=self.mean, std=np.where(flat, 1.0, std))


def moments_of(parts: Iterable[F64], features: int) -> Moments:
    """The moments of the rows of all parts [n_k, F]; unknown values are skipped."""
    found = Moments(count=np.zeros(features), mean=np.zeros(features), squares=np.zeros(features))
    for part in parts:
        known = ~np.isnan(part)
        n = known.sum(axis=0).astype(np.float64)
        own = np.divide(
            np.where(known, part, 0.0).sum(axis=0), n, out=np.zeros(features), where=n > 0
        )
        deviation = (np.where(known, part - own, 0.0) ** 2).sum(axis=0)
        found = found.merge(Moments(count=n, mean=own, squares=deviation))
    return found


def merge_moments(each: Iterable[Moments]) -> Moments:
    """The moments of all parts together, merged in order; those of one part stay as they are."""
    return reduce(Moments.merge, each)


def pooled_scaling(
    parts: Iterable[F64], names: Sequence[str], *, where: str = "the training data"
) -> Scaling:
    """Pool the parts [n_k, F] into one scaling, from the moments of each part.

    Raises:
        JobError: a feature has no known value in any part.
    """
    return moments_of(parts, len(names)).scaling(names, where=where)
