"""Splits of rows over sites. N rows, K sites, C classes.

`dirichlet` makes sites differ in class mix and in size, in the usual way (Hsu, Qi and Brown, 2019,
"Measuring the effects of non-identical data distribution"): for every class c it draws a share per
site, p_c ~ Dirichlet(alpha * K * q), and distributes the rows of the class in those shares. The
base measure q is uniform, or itself drawn from Dirichlet(size_alpha), which makes sites differ in
size even for large alpha. With small alpha, each site has few classes, and sizes differ by orders
of magnitude; with alpha = 10, sites have nearly equal sizes.

A draw with fewer than `min_samples` rows at a site is repeated, at most `ATTEMPTS` times. Then
fedkg rejects the split and names the site, instead of training with an empty one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.safe_text import list_first
from fedkg.errors import JobError

Index = NDArray[np.int64]

ATTEMPTS = 1000
SHOWN_SITES = 8
"""Most sites that an error names; those with the fewest rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """A split of rows over sites.

    Attributes:
        sites: names of the K sites.
        owner: int64 [N], position of each row's site.
        draws: number of draws until `min_samples` was satisfied (0 for a split without randomness).
    """

    sites: tuple[str, ...]
    owner: Index
    draws: int = 0

    def rows(self, site: int) -> Index:
        """Positions of a site's rows, ascending."""
        return self.index[site]

    @cached_property
    def index(self) -> tuple[Index, ...]:
        """Positions of each site's rows, ascending; computed with one sort, because there may be
        100,000 sites.
        """
        return positions_by_owner(self.owner, len(self.sites))

    def counts(self) -> dict[str, int]:
        """Rows per site."""
        return dict(
            zip(
                self.sites, np.bincount(self.owner, minlength=len(self.sites)).tolist(), strict=True
            )
        )


def positions_by_owner(owner: Index, owners: int) -> tuple[Index, ...]:
    """Positions of the rows of each owner 0 .. `owners` - 1, ascending. Rows with a negative owner
    [N] are skipped.

    One sort: the cost grows with the number of rows plus the number of owners, not with their
    product.
    """
    order = np.argsort(owner, kind="stable")
    order = order[np.count_nonzero(owner < 0) :]
    counts = np.bincount(owner[order], minlength=owners)
    return tuple(np.split(order, np.cumsum(counts)[:-1]))


def dirichlet(
    labels: NDArray[np.generic],
    sites: Sequence[str],
    alpha: float,
    stream: np.random.Generator,
    *,
    size_alpha: float | None = None,
    min_samples: int = 1,
) -> Split:
    """Draw a split with class mixes and sizes from Dirichlet(alpha) (Hsu, Qi and Brown 2019).

    For each class c, fedkg draws a share per site, p_c ~ Dirichlet(alpha * K * q), and distributes
    the rows of the class in these shares. K is the number of sites. The base measure q is uniform,
    or drawn from Dirichlet(size_alpha). A draw with fewer than `min_samples` rows at a site is
    repeated, at most 1,000 times.

    Args:
        labels: class of each row [N].
        alpha: > 0; concentration per site.
        size_alpha: concentration of the sites' sizes, or None for a uniform base.

    Raises:
        JobError: every draw leaves some site with fewer than `min_samples` rows.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    members = [np.flatnonzero(codes == c) for c in range(len(classes))]
    if len(labels) < min_samples * len(sites):
        raise too_few_rows(
            sites,
            [len(labels) // len(sites)] * len(sites),
            min_samples,
            f"{len(labels)} rows in all",
        )
    worst: list[int] = []
    for draw in range(1, ATTEMPTS + 1):
        base = (
            np.full(len(sites), 1.0 / len(sites))
            if size_alpha is None
            else stream.dirichlet(np.full(len(sites), size_alpha))
        )
        owner = np.empty(len(labels), dtype=np.int64)
        for rows in members:
            shares = stream.dirichlet(np.maximum(alpha * len(sites) * base, 1e-6))
            owner[stream.permutation(rows)] = np.repeat(
                np.arange(len(sites)), apportion(shares, len(rows))
            )
        counts = np.bincount(owner, minlength=len(sites))
        if int(counts.min()) >= min_samples:
            return Split(sites=tuple(sites), owner=owner, draws=draw)
        if not worst or min(worst) < int(counts.min()):
            worst = counts.tolist()
    raise too_few_rows(sites, worst, min_samples, f"alpha {alpha:g}, the best of {ATTEMPTS} draws")


def iid(
    labels: NDArray[np.generic],
    sites: Sequence[str],
    stream: np.random.Generator,
    *,
    min_samples: int = 1,
) -> Split:
    """Draw a split with the same size and class mix at all sites, up to one row per class.

    Raises:
        JobError: there are fewer than `min_samples` rows per site.
    """
    owner = np.empty(len(labels), dtype=np.int64)
    dealt = 0
    for label in np.unique(labels):
        rows = stream.permutation(np.flatnonzero(labels == label))
        owner[rows] = (np.arange(len(rows)) + dealt) % len(sites)
        dealt += len(rows)
    return _require_rows(Split(sites=tuple(sites), owner=owner), min_samples, "an even split")


def by_column(
    cells: Sequence[str], sites: Sequence[str], *, column: str, min_samples: int = 1
) -> Split:
    """Split rows by a column of the table that contains the names of the sites.

    Raises:
        JobError: a cell does not name a site of the job, or a site has fewer than `min_samples`
            rows.
    """
    position = {site: i for i, site in enumerate(sites)}
    unknown = sorted({cell for cell in cells if cell not in position})
    if unknown:
        raise JobError(
            f"data.site_column: column `{column}` names sites that the job does not have",
            expected=", ".join(sites),
            received=list_first([f"`{cell}`" if cell else "an empty cell" for cell in unknown], 8),
            help=", ".join(
                (
                    *(("fill in the empty cells",) if "" in unknown else ()),
                    *(("name the sites under `sites`",) if any(unknown) else ()),
                    "or use another `data.site_column`",
                )
            ),
        )
    owner = np.array([position[cell] for cell in cells], dtype=np.int64)
    return _require_rows(Split(sites=tuple(sites), owner=owner), min_samples, f"column `{column}`")


def apportion(shares: NDArray[np.float64], total: int) -> Index:
    """Whole numbers in proportion to `shares` with the sum `total` (largest remainders; the first
    wins a tie).
    """
    exact = shares / shares.sum() * total
    counts: Index = np.floor(exact).astype(np.int64)
    order = np.argsort(-(exact - counts), kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def deal_names(rows: int, names: Sequence[str], stream: np.random.Generator) -> list[str]:
    """Assign a name to each row in random order, every name equally often up to one row."""
    order = stream.permutation(rows)
    dealt = np.empty(rows, dtype=np.int64)
    dealt[order] = np.arange(rows) % len(names)
    return [names[i] for i in dealt.tolist()]


def hold_out(
    labels: NDArray[np.generic], shares: Sequence[float], stream: np.random.Generator
) -> list[Index]:
    """Split row positions into parts with these shares, stratified by class; ascending within a
    part.
    """
    parts: list[list[Index]] = [[] for _ in shares]
    for label in np.unique(labels):
        rows = stream.permutation(np.flatnonzero(labels == label))
        ends = np.cumsum(apportion(np.asarray(shares, dtype=np.float64), len(rows)))
        for part, piece in zip(parts, np.split(rows, ends[:-1]), strict=True):
            part.append(piece)
    return [
        np.sort(np.concatenate(part)) if part else np.empty(0, dtype=np.int64) for part in parts
    ]


def _require_rows(split: Split, min_samples: int, how: str) -> Split:
    counts = list(split.counts().values())
    if min(counts) < min_samples:
        raise too_few_rows(split.sites, counts, min_samples, how)
    return split


def too_few_rows(
    sites: Sequence[str], counts: Sequence[int], min_samples: int, how: str
) -> JobError:
    """The error for a split with too few rows at a site; `how` describes the split."""
    small = int(np.argmin(counts))
    rows = f"{counts[small] or 'no'} row{'s' * (counts[small] != 1)}"
    advice = "use more rows or fewer sites"
    if min_samples > 1:
        advice += ", or lower data.min_samples"
    if "alpha" in how:
        advice += ", or raise data.alpha"
    return JobError(
        f"data.split: site `{sites[small]}` has {rows} after the split ({how})",
        expected=f"at least {min_samples} row{'s' * (min_samples != 1)} per site "
        "(data.min_samples)",
        received=_describe_fewest(sites, counts),
        help=advice,
    )


def _describe_fewest(sites: Sequence[str], counts: Sequence[int]) -> str:
    """The sites with the fewest rows, in the order of the sites, and the number of the others."""
    few = set(sorted(range(len(sites)), key=lambda i: counts[i])[:SHOWN_SITES])
    named = ", ".join(
        f"{site} {count}"
        for i, (site, count) in enumerate(zip(sites, counts, strict=True))
        if i in few
    )
    return named + (
        f", and {len(sites) - len(few):,} sites with as many or more"
        if len(sites) > len(few)
        else ""
    )
