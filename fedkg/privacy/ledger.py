"""What was released of one unit (a sample, a client) so far, and what it costs together.

Letters: epsilon and delta as in (epsilon, delta)-differential privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from fedkg.errors import JobError

Randomness = Literal["seeded", "system"]
"""Where random numbers come from: a seed, so that a simulation can be repeated and protects
nothing, or the operating system's generator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """Releases of sums with Gaussian noise. A unit adds a vector of at most unit length to each sum
    that it is sampled for.

    Attributes:
        what: description of the released data.
        noise: standard deviation of the noise in each coordinate, in units of the largest length
            that one unit can add.
        rate: probability that the unit is in a sum, independently of all others (Poisson
            sampling); 1: it is in all sums.
        releases: number of sums.
    """

    what: str
    noise: float
    rate: float
    releases: int

    def __post_init__(self) -> None:
        if not (self.noise >= 0 and 0 < self.rate <= 1 and self.releases >= 0):
            raise JobError(
                "invalid numbers of a Gaussian mechanism",
                expected="noise >= 0, 0 < rate <= 1, releases >= 0",
                received=f"noise {self.noise}, rate {self.rate}, releases {self.releases} of "
                f"{self.what}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Releases with a known guarantee, such as parameters mined with `fedkg.mining.private`, or
    other private statistics.

    Attributes:
        what: description of the released data.
        epsilon: epsilon of each release.
        delta: delta of each release.
        releases: number of releases.
    """

    what: str
    epsilon: float
    delta: float = 0.0
    releases: int = 1

    def __post_init__(self) -> None:
        if not (
            self.epsilon >= 0
            and math.isfinite(self.epsilon)
            and 0 <= self.delta < 1
            and self.releases >= 0
        ):
            raise JobError(
                "invalid numbers of a privacy guarantee",
                expected="a finite epsilon >= 0, 0 <= delta < 1 and releases >= 0",
                received=f"epsilon {self.epsilon}, delta {self.delta}, releases {self.releases} of "
                f"{self.what}",
            )


Entry = Gaussian | Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """All releases about one unit. A ledger is immutable.

    Examples:
        >>> ledger = Ledger(unit="a row of graz").plus(Spent(what="mined parameters", epsilon=0.5))
        >>> ledger = ledger.plus(Gaussian(what="training", noise=20.0, rate=1.0, releases=1))
        >>> ledger.epsilon(1e-5, "paper") < 0.75
        True
    """

    unit: str
    entries: tuple[Entry, ...] = ()

    def plus(self, entry: Entry) -> Ledger:
        """The ledger with one more entry; more releases of the same mechanism are counted in its
        entry.
        """
        for place, own in enumerate(self.entries):
            if isinstance(own, Gaussian) and isinstance(entry, Gaussian) and _alike(own, entry):
                more = replace(own, releases=own.releases + entry.releases)
                return Ledger(
                    unit=self.unit,
                    entries=(*self.entries[:place], more, *self.entries[place + 1 :]),
                )
        return Ledger(unit=self.unit, entries=(*self.entries, entry))

    def epsilon(self, delta: float, accountant: str = "rdp") -> float:
        """What all entries together cost at a delta; see `epsilon_of`."""
        from fedkg.privacy.accountants import epsilon_of

        return epsilon_of(self.entries, delta, accountant)

    def document(self) -> dict[str, Any]:
        """The ledger as JSON. `Any`: texts and numbers."""
        return {"unit": self.unit, "entries": [_describe_entry(entry) for entry in self.entries]}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Ledger:
        """The ledger of a document. Raises JobError when it is none. `Any`: JSON."""
        try:
            entries = tuple(_entry(dict(one)) for one in document["entries"])
            return cls(unit=str(document["unit"]), entries=entries)
        except (KeyError, TypeError, ValueError) as error:
            raise JobError(
                "the saved privacy ledger cannot be read",
                expected="`unit` and `entries`, as `Ledger.document` writes them",
                received=f"no field {error}" if isinstance(error, KeyError) else str(error),
                help="restore the ledger from a copy; without it, the spent budget is unknown",
            ) from error


def _alike(one: Gaussian, other: Gaussian) -> bool:
    return (one.what, one.noise, one.rate) == (other.what, other.noise, other.rate)


def _describe_entry(entry: Entry) -> dict[str, Any]:
    match entry:
        case Gaussian():
            return {
                "kind": "gaussian",
                "what": entry.what,
                "noise": entry.noise,
                "rate": entry.rate,
                "releases": entry.releases,
            }
        case Spent():
            return {
                "kind": "spent",
                "what": entry.what,
                "epsilon": entry.epsilon,
                "delta": entry.delta,
                "releases": entry.releases,
            }


def _entry(told: dict[str, Any]) -> Entry:
    kind = told.pop("kind")
    if kind not in ("gaussian", "spent"):
        raise ValueError(f"unknown kind of entry {kind!r}")
    return Gaussian(**told) if kind == "gaussian" else Spent(**told)
