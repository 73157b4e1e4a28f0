"""Accountants: what Gaussian releases cost together, and how much noise a budget asks for.

Neighbours differ by one unit that is there or not. All three give an upper bound, and differ in how
close it is:

* ``rdp``: Rényi differential privacy of the Poisson-subsampled Gaussian (Mironov, Talwar and Zhang
  2019), turned into (epsilon, delta) by
  Balle and others 2020, theorem 21; computed by Opacus.
* ``prv``: numerical composition of privacy loss random variables (Gopi, Lee and Wutschitz 2021), by
  Opacus; closest, and slower.
* ``paper``: the classical Gaussian mechanism of Dwork and Roth 2014, theorem A.1, ``noise = sqrt(2
  ln(1.25 / delta)) / epsilon``, proven
  for epsilon below 1 of one release only; k releases cost k epsilon at k delta. No use is made of
  sampling.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from fedkg.errors import JobError, MissingExtra
from fedkg.privacy.ledger import Entry, Gaussian, Spent

if TYPE_CHECKING:
    from numpy.typing import NDArray

AccountantName = Literal["rdp", "prv", "paper"]
ACCOUNTANTS: tuple[str, ...] = get_args(AccountantName)

ORDERS: tuple[float, ...] = (
    *(1 + place / 10 for place in range(1, 100)),
    *map(float, range(11, 64)),
    80.0,
    128.0,
    256.0,
    512.0,
    1024.0,
)
"""Rényi orders that are tried; Opacus's own and a few larger ones for small epsilon."""

PRECISION = 1e-4
"""Relative width at which the search for noise ends."""


def epsilon_of(entries: Sequence[Entry], delta: float, accountant: str = "rdp") -> float:
    """The epsilon at which all entries together are (epsilon, delta)-differentially private;
    infinite where there is no noise.

    Under ``rdp`` and ``prv``, releases that are known to be epsilon-differentially private are
    composed with the Gaussian ones by their
    Rényi divergence (`_pure`); those with a delta, and all under ``paper``, are added (basic
    composition), and their delta is taken from
    the rest's. The less of both is told: both hold.

    Raises:
        JobError: an unknown accountant, a delta outside of 0 .. 1. MissingExtra: Opacus is not
            installed.
    """
    if accountant not in ACCOUNTANTS:
        raise JobError(
            "`accountant` has an unknown value",
            expected=", ".join(ACCOUNTANTS),
            received=repr(accountant),
        )
    if not 0 < delta < 1:
        raise JobError("delta must be a probability", expected="0 < delta < 1", received=str(delta))
    known = [entry for entry in entries if isinstance(entry, Spent)]
    noised = tuple(entry for entry in entries if isinstance(entry, Gaussian) and entry.releases)
    left = delta - math.fsum(entry.releases * entry.delta for entry in known)
    if left <= 0 or any(entry.noise == 0 for entry in noised):
        return math.inf
    pure = tuple(entry for entry in known if not entry.delta)
    added = math.fsum(entry.releases * entry.epsilon for entry in known)
    apart = added + (_COMPOSED[accountant](noised, left) if noised else 0.0)
    if accountant == "paper" or not pure:
        return apart
    return min(
        apart,
        math.fsum(entry.releases * entry.epsilon for entry in known if entry.delta)
        + _rdp(noised, left, pure),
    )


def noise_for(
    epsilon: float, delta: float, cost: Callable[[float], Sequence[Entry]], accountant: str = "rdp"
) -> float:
    """The least noise with which planned releases cost at most epsilon, rounded up to 0.01 %.

    Args:
        cost: a function from the noise to the entries of the ledger.

    Raises:
        JobError: no noise below a million is enough, because other entries already cost epsilon,
            or the accountant cannot prove a lower cost.
    """
    if not epsilon > 0:
        raise JobError(
            "epsilon must be above 0",
            received=str(epsilon),
            help="an epsilon of 1 gives strong privacy, of 10 weak privacy",
        )
    low, high = 0.0, 1.0
    while epsilon_of(cost(high), delta, accountant) > epsilon:
        low, high = high, 2 * high
        if high > 1e6:
            raise _never_so_little(
                epsilon,
                delta,
                [entry for entry in cost(low) if isinstance(entry, Spent)],
                accountant,
                cost(low),
            )
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        if epsilon_of(cost(middle), delta, accountant) > epsilon:
            low = middle
        else:
            high = middle
    return high


def _never_so_little(
    epsilon: float, delta: float, others: Sequence[Entry], accountant: str, planned: Sequence[Entry]
) -> JobError:
    """What to tell where no noise is enough: what is spent already, or how little the accountant
    can show at all.
    """
    least, before = (
        epsilon_of(planned, delta, accountant),
        epsilon_of(others, delta, accountant) if others else 0.0,
    )
    if math.isinf(before):
        return JobError(
            f"no noise keeps this training private at delta {delta:g}: other releases of the same "
            "unit have spent as much delta",
            received=", ".join(
                f"delta {entry.releases * entry.delta:.3g} for {entry.what}"
                for entry in others
                if isinstance(entry, Spent) and entry.delta
            ),
            help="use a larger delta, or smaller deltas for the other releases",
        )
    if before >= epsilon:
        return JobError(
            f"no noise keeps this training within epsilon {epsilon:g}: other releases of the same"
            " unit have spent as much",
            received=(
                f"epsilon {before:.3g} for"
                f" {', '.join(dict.fromkeys(entry.what for entry in others))}"
            ),
            help="use a larger epsilon, or smaller epsilons for the other releases",
        )
    return JobError(
        f"the accountant `{accountant}` cannot prove epsilon {epsilon:g} at delta {delta:g} for any"
        " noise",
        expected=f"an epsilon of at least {least:.3g}",
        help="use a larger epsilon or delta"
        + (", or `accountant: prv`, which proves smaller ones" if accountant == "rdp" else ""),
    )


@lru_cache(maxsize=4096)
def _renyi(noise: float, rate: float) -> NDArray[np.float64]:
    """What one release costs at each of `ORDERS`."""
    try:
        from opacus.accountants.analysis.rdp import compute_rdp
    except ModuleNotFoundError as error:
        raise MissingExtra("accounting of privacy", "run") from error
    with np.errstate(all="ignore"):
        found = np.asarray(
            compute_rdp(q=rate, noise_multiplier=noise, steps=1, orders=list(ORDERS)), np.float64
        )
    found.setflags(write=False)
    return found


@lru_cache(maxsize=4096)
def _pure(epsilon: float) -> NDArray[np.float64]:
    """What one epsilon-differentially private release costs at most at each of `ORDERS`.

    The worst is randomised response: ``ln((sinh(a e) - sinh((a - 1) e)) / sinh e) / (a - 1)`` at
    order a (Bun and Steinke 2016, lemma B.1),
    which is ``(ln cosh((a - 1/2) e) - ln cosh(e / 2)) / (a - 1)``.
    """
    orders = np.asarray(ORDERS)

    def log_cosh(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(x + np.log1p(np.exp(-2 * x)) - math.log(2.0))

    found = (log_cosh((orders - 0.5) * epsilon) - log_cosh(np.full_like(orders, epsilon / 2))) / (
        orders - 1
    )
    found.setflags(write=False)
    return np.asarray(found)


def epsilon_at_most(trainings: Sequence[Sequence[Sequence[Entry]]], delta: float) -> float:
    """The epsilon of a unit that was any one of the units of each training, whose entries are
    given: by Rényi divergence.

    At each order the unit counts that costs most there: which one is worst off hangs on the order,
    so that the ledgers with the greatest
    epsilons alone would not bound what they come to together.

    Raises:
        MissingExtra: Opacus is not installed.
    """
    every = [entry for units in trainings for entries in units for entry in entries]
    if any(isinstance(entry, Gaussian) and entry.noise == 0 and entry.releases for entry in every):
        return math.inf
    return _shown(
        np.sum(
            [np.max([_curve(entries) for entries in units], axis=0) for units in trainings], axis=0
        ),
        delta,
    )


def _curve(entries: Sequence[Entry]) -> NDArray[np.float64]:
    """What entries cost together at each of `ORDERS`; of releases with a delta nothing is known
    there.
    """
    total = np.zeros(len(ORDERS))
    for entry in entries:
        if isinstance(entry, Gaussian):
            total += entry.releases * _renyi(entry.noise, entry.rate) if entry.releases else 0.0
        else:
            total += math.inf if entry.delta else entry.releases * _pure(entry.epsilon)
    return total


def _rdp(entries: tuple[Gaussian, ...], delta: float, pure: tuple[Spent, ...] = ()) -> float:
    return _shown(_curve((*entries, *pure)), delta)


def _shown(total: NDArray[np.float64], delta: float) -> float:
    """The epsilon at a delta of what costs so much at each of `ORDERS`."""
    try:
        from opacus.accountants.analysis.rdp import get_privacy_spent
    except ModuleNotFoundError as error:
        raise MissingExtra("accounting of privacy", "run") from error
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # that the best order is the first or last says the bound is loose, not wrong
        found, _ = get_privacy_spent(orders=list(ORDERS), rdp=list(total), delta=delta)
    return max(0.0, float(found))


@lru_cache(maxsize=1024)
def _prv(entries: tuple[Gaussian, ...], delta: float) -> float:
    try:
        from opacus.accountants import PRVAccountant
    except ModuleNotFoundError as error:
        raise MissingExtra("accounting of privacy", "run") from error
    bound = _rdp(entries, delta)
    if (
        not math.isfinite(bound) or bound > 50
    ):  # its mesh would be finer than memory allows; the other bound holds as well
        return bound
    accountant = PRVAccountant()
    accountant.history = [(entry.noise, entry.rate, entry.releases) for entry in entries]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the looser bound that it takes its domain from
        found = float(accountant.get_epsilon(delta))
    return min(bound, max(0.0, found)) if math.isfinite(found) else bound


def _paper(entries: tuple[Gaussian, ...], delta: float) -> float:
    releases = sum(entry.releases for entry in entries)
    total = 0.0
    for entry in entries:
        each = math.sqrt(2 * math.log(1.25 * releases / delta)) / entry.noise
        if each >= 1:
            return math.inf  # the theorem says nothing there
        total += entry.releases * each
    return total


_COMPOSED: dict[str, Callable[[tuple[Gaussian, ...], float], float]] = {
    "rdp": _rdp,
    "prv": _prv,
    "paper": _paper,
}
