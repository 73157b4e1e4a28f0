"""Further splits of rows over sites: by size, by class, or as in the source. N rows, K sites, C
classes.

`fedkg.data.partition` has `dirichlet`, which skews classes (and sizes), and `iid`, which skews
nothing. Every split is a `Split`. fedkg repeats a draw that leaves a site with fewer than
`min_samples` rows, and rejects the split after `ATTEMPTS` draws, naming the site.
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
    """Draw a split with sizes from Dirichlet(alpha); all sites have the same mix of rows up to
    chance.

    Raises:
        JobError: alpha is not above 0, or every draw leaves some site with fewer than `min_samples`
            rows.
    """
    if not alpha > 0:
        raise JobError(
            "the concentration of a Dirichlet split must be above 0",
            received=str(alpha),
            help="data.alpha: 0.1 for very unequal sites, 10 for nearly equal ones",
        )

    def draw() -> Index:
        return _shuffle_owners(
            apportion(stream.dirichlet(np.full(len(sites), alpha)), rows), stream
        )

    return _draw_until_valid(draw, sites, min_samples, f"sizes with alpha {alpha:g}")


def quantity_skew(
    rows: int,
    sites: Sequence[str],
    shares: Sequence[float],
    stream: np.random.Generator,
    *,
    min_samples: int = 1,
) -> Split:
    """Draw a split with sizes in proportion to `shares`, one per site, such as (470, 120, 330, 95,
    165).

    All sites have the same mix of rows up to chance.

    Raises:
        JobError: there is not one share above 0 for each site, or a site has fewer than
            `min_samples` rows.
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
    return Split(sites=tuple(sites), owner=_shuffle_owners(counts, stream))


def classes_per_site(
    labels: NDArray[np.generic],
    sites: Sequence[str],
    count: int,
    stream: np.random.Generator,
    *,
    min_samples: int = 1,
) -> Split:
    """Draw a split with `count` random classes at each site; a row goes to a random site with its
    class.

    After the experiments of knowledge injection (Fan and others, 2022). A draw that leaves a class
    without a site is repeated.

    Raises:
        JobError: there are fewer classes, or all sites together cannot hold all classes, or see
            `dirichlet_sizes`.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    if not 1 <= count <= len(classes):
        raise JobError(
            "a site cannot hold this number of classes",
            expected=f"1 to {len(classes)}",
            received=str(count),
            help="data.classes_per_site: a number in this range",
        )
    if count * len(sites) < len(classes):
        raise JobError(
            f"{len(sites)} sites of {count} classes cannot hold {len(classes)} classes",
            help="use more sites, or more classes per site",
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

    return _draw_until_valid(draw, sites, min_samples, f"{count} classes per site")


def by_site(clients: NDArray[np.object_], *, min_samples: int = 1) -> Split:
    """Split rows as in the source: one site for each station, unit or run, in order of first
    appearance.

    Raises:
        JobError: a site has fewer than `min_samples` rows.
    """
    names = list(dict.fromkeys(clients.tolist()))
    position = {name: i for i, name in enumerate(names)}
    owner = np.array([position[name] for name in clients.tolist()], dtype=np.int64)
    counts = np.bincount(owner, minlength=len(names)).tolist()
    if not names or min(counts) < min_samples:
        raise too_few_rows(names or ["none"], counts or [0], min_samples, "the sites of the source")
    return Split(sites=tuple(names), owner=owner)


def _shuffle_owners(counts: Index, stream: np.random.Generator) -> Index:
    """Owners of rows in random order, with this number of rows for each site."""
    return stream.permutation(np.repeat(np.arange(len(counts)), counts))


def _draw_until_valid(
    draw: Callable[[], Index | None], sites: Sequence[str], min_samples: int, how: str
) -> Split:
    """The first draw that gives every site enough rows."""
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
