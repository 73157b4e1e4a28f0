"""Federations of clients with known causes, small and large, for the tests of Granger learning."""

from __future__ import annotations

from functools import cache

import numpy as np

from fedkg.granger.kalman import Client, steady_gain
from fedkg.granger.moments import Series, series_of
from fedkg.granger.synthetic_systems import System, places_of, recorded, two_clients


def clients_of(
    system: System, *, steps: int, seed: int, process: float = 0.1, noise: float | None = None
) -> tuple[Client, ...]:
    """Clients that know their own blocks, with filters that assume the process noise `process`."""
    seen = recorded(system, steps, seed=seed)
    found = []
    for m, (place, emission) in enumerate(
        zip(places_of(system.sizes), system.emissions, strict=True)
    ):
        own = np.ascontiguousarray(system.transition[place, place])
        spread = (system.noise if noise is None else noise) * np.eye(len(emission))
        gain = steady_gain(own, emission, process * np.eye(emission.shape[1]), spread)
        found.append(
            Client(
                name=f"client {m + 1}",
                transition=own,
                emission=emission,
                gain=gain,
                measurements=seen.measurements[m],
            )
        )
    return tuple(found)


@cache
def setting_s(seed: int, steps: int = 4000) -> tuple[System, Series]:
    """Setting S of the specification, section 9."""
    system = two_clients(seed=seed)
    return system, series_of(clients_of(system, steps=steps, seed=seed + 100))


def uneven(seed: int, *, steps: int = 40) -> tuple[System, Series]:
    """Three clients with unequal numbers of states and of measurements."""
    stream = np.random.default_rng(seed)
    sizes, seen = (2, 1, 3), (5, 4, 6)
    transition = 0.15 * stream.standard_normal((6, 6))
    for place in places_of(sizes):
        transition[place, place] = 0.6 * np.eye(place.stop - place.start)
    emissions = tuple(stream.standard_normal((d, p)) for d, p in zip(seen, sizes, strict=True))
    system = System(transition=transition, emissions=emissions, process=np.eye(6), noise=0.05)
    return system, series_of(clients_of(system, steps=steps, seed=seed))
