"""More ways to deal rows to sites: unequal in size, in classes, or as the source has them. N rows, K sites, C classes.

Beside `fedkg.data.partition`, whose `dirichlet` skews classes (and sizes) and whose `iid` skews nothing. Every split is a `Split`; one that
leaves a site with fewer than `min_samples` rows is drawn again, and refused by the name of the site after `ATTEMPTS` draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.data.partition import ATTEMPTS, Index, Split, apportion, too_few_rows
from fedkg.errors import JobError


def dirichlet_sizes(
    rows: int,
    sites: Sequence[str],
    alpha: float,
    stream: np.random.Generator,
    *,
    min_samples: int = 1,
) -> Split:
    """A split whose sizes follow Dirichlet(alpha), all sites with the same mix of rows up to chance.

    Raises:
        JobError: when alpha is not above 0, or some site has fewer than `min_samples` rows in every draw.
    """
    if not alpha > 0:
        raise JobError(
            "the concentration of a Dirichlet split must be above 0",
            received=str(alpha),
            help="data.alpha: 0.1 for very unequal sites, 10 for nearly equal ones",
        )

    def draw() -> Index:
        return _dealt(apportion(stream.dirichlet(np.full(len(sites), alpha)), rows), stream)

    return _drawn(draw, sites, min_samples, f"sizes with alpha {alpha:g}")


def quantity_skew(
    rows: int,
    sites: Sequence[str],
    shares: Sequence[float],
    stream: np.random.Generator,
    *,
    min_samples: int = 1,
) -> Split:
    """A split into sizes in proportion to `shares`, one a site, such as (470, 120, 330, 95, 165); all with the same mix up to chance.

    Raises:
        JobError: when there is not one share above 0 for each site, or a site has fewer than `min_samples` rows.
    """
    if len(shares) != len(sites) or not min(shares, default=0) > 0:
        raise JobError(
            "a quantity skew needs one share above 0 for each site",
            expected=f"{len(sites)} shares",
            received=str(list(shares)),
            help="data.shares: one number for each of `sites`",
        )
    counts = apportion(np.asarray(shares, dtype=np.float64), rows)
    if int(counts.min()) < min_samples:
        raise too_few_rows(sites, counts.tolist(), min_samples, "a quantity skew")
    return Split(sites=tuple(sites), owner=_dealt(counts, stream))


def classes_per_site(
    labels: NDArray[np.generic],
    sites: Sequence[str],
    count: int,
    stream: np.random.Generator,
    *,
    min_samples: int = 1,
) -> Split:
    """A split in which each site holds `count` classes, drawn at random; a row goes to a random one of the sites that hold its class.

    After the experiments of knowledge injection (Fan and others, 2022; a draw in which nobody holds some class is drawn again).

    Raises:
        JobError: when there are not so many classes, when the sites together cannot hold all classes, or see `dirichlet_sizes`.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    if not 1 <= count <= len(classes):
        raise JobError(
            "a site cannot hold so many classes",
            expected=f"1 to {len(classes)}",
            received=str(count),
            help="data.classes_per_site: a number in this range",
        )
    if count * len(sites) < len(classes):
        raise JobError(
            f"{len(sites)} sites of {count} classes cannot hold {len(classes)} classes",
            help="more sites, or more classes per site",
        )

    def draw() -> Index | None:
        holds = np.zeros((len(classes), len(sites)), dtype=bool)
        for site in range(len(sites)):
            holds[stream.choice(len(classes), count, replace=False), site] = True
        if not holds.any(axis=1).all():
            return None
        owner = np.empty(len(labels), dtype=np.int64)
        for code in range(len(classes)):
            members = np.flatnonzero(codes == code)
            owner[members] = stream.choice(np.flatnonzero(holds[code]), len(members))
        return owner

    return _drawn(draw, sites, min_samples, f"{count} classes per site")


def by_site(clients: NDArray[np.object_], *, min_samples: int = 1) -> Split:
    """The split the source itself has: one site for each of its stations, units, runs, in order of first appearance.

    Raises:
        JobError: when a site has fewer than `min_samples` rows.
    """
    names = list(dict.fromkeys(clients.tolist()))
    position = {name: i for i, name in enumerate(names)}
    owner = np.array([position[name] for name in clients.tolist()], dtype=np.int64)
    counts = np.bincount(owner, minlength=len(names)).tolist()
    if not names or min(counts) < min_samples:
        raise too_few_rows(names or ["none"], counts or [0], min_samples, "the sites of the source")
    return Split(sites=tuple(names), owner=owner)


def _dealt(counts: Index, stream: np.random.Generator) -> Index:
    """Owners of rows in random order, so many of each site."""
    return stream.permutation(np.repeat(np.arange(len(counts)), counts))


def _drawn(
    draw: Callable[[], Index | None], sites: Sequence[str], min_samples: int, how: str
) -> Split:
    """The first draw in which every site has enough rows."""
    best = [0] * len(sites)
    for number in range(1, ATTEMPTS + 1):
        owner = draw()
        if owner is None:
            continue
        counts = np.bincount(owner, minlength=len(sites)).tolist()
        if min(counts) >= min_samples:
            return Split(sites=tuple(sites), owner=owner, draws=number)
        best = max(best, counts, key=min)
    raise too_few_rows(sites, best, min_samples, f"{how}, the best of {ATTEMPTS} draws")
