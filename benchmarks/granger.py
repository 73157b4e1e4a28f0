"""An epoch of federated Granger learning against a plain NumPy loop and statsmodels' VAR.

    python benchmarks/granger.py [--clients 16] [--measurements 128] [--steps 4000] [--turns 5]
        [--quick]

All use the same data; growth and bytes are reported too. The loop is algorithm 2 as the paper
states it, client by client and step by step. It is timed on a part of the steps and scaled up,
after both have learned the same numbers on that part. VAR(1) sees the measurements of all clients
in one place, which no federation does: its time is that of one fit to 256 of them. The floor is one
read of all measurements.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time

import numpy as np
from reporting.rows import compare

from fedkg.granger.kalman import Client, steady_gain
from fedkg.granger.learn import Learnt, Rates, learn
from fedkg.granger.moments import Series, series_of
from fedkg.granger.protocol import traffic
from fedkg.granger.synthetic_systems import System, places_of, recorded

RATES = Rates(client=1e-4, server=1e-5, causes=1e-4)
TARGET, COMPILED_TARGET = 10.0, 100.0
LOOP = "a NumPy loop, timed on the first steps and scaled to all"
WIDEST = 256
"""Measurements that VAR receives; its time grows with the third power of their number."""
SHOWN = 200
"""Number of steps on which the loop is timed."""


GROWTH = [
    (2, 128, 4000),
    (64, 128, 1000),
    (512, 16, 200),
    (16, 16, 4000),
    (16, 1024, 1000),
    (16, 128, 16000),
]
"""Clients, measurements and steps for which growth is shown."""


def chain(clients: int, measurements: int, steps: int, states: int = 2) -> Series:
    """Clients in a row, each driving the next."""
    stream = np.random.default_rng(0)
    transition = np.kron(0.7 * np.eye(clients) + 0.1 * np.eye(clients, k=-1), np.eye(states))
    emissions = tuple(
        stream.standard_normal((measurements, states)) / np.sqrt(measurements)
        for _ in range(clients)
    )
    system = System(
        transition=transition,
        emissions=emissions,
        process=0.1 * np.eye(clients * states),
        noise=0.01,
    )
    seen = recorded(system, steps, seed=1)
    made = []
    for m, (place, emission) in enumerate(zip(places_of(system.sizes), emissions, strict=True)):
        own = np.ascontiguousarray(transition[place, place])
        gain = steady_gain(own, emission, 0.1 * np.eye(states), 0.01 * np.eye(measurements))
        made.append(
            Client(
                name=str(m),
                transition=own,
                emission=emission,
                gain=gain,
                measurements=seen.measurements[m],
            )
        )
    return series_of(made)


def looped(series: Series, rates: Rates, steps: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Algorithm 2 with the corrected equations, one sample per step: the causes and every theta."""
    clients, places, states = series.clients, series.places, series.states
    thetas = [np.zeros(client.gain.shape) for client in clients]
    causes = np.zeros((states.shape[1],) * 2)
    for t in range(1, steps):
        misses = []
        for m, client in enumerate(clients):
            miss = client.transition @ (thetas[m] @ client.measurements[t - 1])
            for n in range(len(clients)):
                if n != m:
                    miss = miss - causes[places[m], places[n]] @ states[t - 1, places[n]]
            misses.append(miss)
        for m, client in enumerate(clients):
            gradient = 2 * client.transition.T @ misses[m]
            for n in range(len(clients)):
                if n != m:
                    causes[places[m], places[n]] += (
                        2 * rates.causes * np.outer(misses[m], states[t - 1, places[n]])
                    )
            before, lift = client.measurements[t - 1], client.emission @ client.transition
            residual = client.measurements[t] - lift @ (
                states[t - 1, places[m]] + thetas[m] @ before
            )
            thetas[m] = thetas[m] + np.outer(
                2 * rates.client * lift.T @ residual - rates.server * gradient, before
            )
    return causes, thetas


def take_steps(series: Series, steps: int) -> Series:
    """The series cut to its first steps."""
    own = [
        Client(
            name=c.name,
            transition=c.transition,
            emission=c.emission,
            gain=c.gain,
            measurements=c.measurements[:steps].copy(),
        )
        for c in series.clients
    ]
    return Series(clients=tuple(own), states=series.states[:steps].copy(), allowed=series.allowed)


def epochs_of(series: Series, turns: int) -> list[float]:
    """Seconds of an epoch that continues from the learned parameters."""
    found: list[float] = []
    state: Learnt | None = learn(series, RATES, epochs=1)
    for _ in range(turns):
        begun = time.perf_counter()
        learn(series, RATES, epochs=1, start=state)
        one = time.perf_counter() - begun
        begun = time.perf_counter()
        learn(series, RATES, epochs=3, start=state)
        found.append((time.perf_counter() - begun - one) / 2)
    return found


def fitted(series: Series) -> float:
    """Seconds of one VAR(1) on the measurements of all clients, at most `WIDEST` of them."""
    from statsmodels.tsa.api import VAR

    together = np.concatenate([client.measurements for client in series.clients], axis=1)[
        :, :WIDEST
    ]
    begun = time.perf_counter()
    VAR(together).fit(1)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--measurements", type=int, default=128)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    options = parser.parse_args()
    m, d, t = (
        (4, 16, 400) if options.quick else (options.clients, options.measurements, options.steps)
    )
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, numpy {np.__version__}, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    series = chain(m, d, t)
    shown = min(SHOWN, t)
    part = take_steps(series, shown)
    ours, (causes, thetas) = learn(part, RATES, epochs=1), looped(part, RATES, shown)
    assert np.allclose(ours.causes, causes, rtol=0, atol=1e-12)
    assert all(
        np.allclose(own, other, rtol=0, atol=1e-12)
        for own, other in zip(ours.augmentations, thetas, strict=True)
    )
    mine, theirs = [], []
    for _ in range(options.turns):
        mine += epochs_of(series, 1)
        begun = time.perf_counter()
        looped(part, RATES, shown)
        theirs.append((time.perf_counter() - begun) * (t - 1) / (shown - 1))
    begun = time.perf_counter()
    sum(float(client.measurements.sum()) for client in series.clients)
    floor = time.perf_counter() - begun
    begun = time.perf_counter()
    learn(series, RATES, mode="closed_form")
    rest = time.perf_counter() - begun
    own, peer, var = statistics.median(mine), statistics.median(theirs), fitted(series)
    sent = traffic(series)
    print(
        f"M = {m}, D = {d}, T = {t}, two states each; the same numbers to 1e-12; {options.turns}"
        " turns\n"
    )
    print(
        f"  an epoch, ours              {own * 1e3:10.2f} ms  ({min(mine) * 1e3:.2f} .."
        f" {max(mine) * 1e3:.2f})"
    )
    print(
        f"  an epoch, a NumPy loop      {peer * 1e3:10.2f} ms  ({min(theirs) * 1e3:.0f} .."
        f" {max(theirs) * 1e3:.0f})"
    )
    print(f"  the point of rest, at once  {rest * 1e3:10.2f} ms")
    print(
        f"  VAR(1) of statsmodels, {min(WIDEST, m * d)} of {m * d} measurements at one place, one"
        f" fit  {var * 1e3:.0f} ms"
    )
    print(
        f"  sent: {8 * sent.up} bytes up and {8 * sent.down} down a step; all measurements would be"
        f" {8 * sent.centralised}\n"
    )
    print("growth, an epoch:")
    for sizes in (
        [(2, 8, 400)]
        if options.quick
        else [
            (2, 128, 4000),
            (64, 128, 1000),
            (512, 16, 200),
            (16, 16, 4000),
            (16, 1024, 1000),
            (16, 128, 16000),
        ]
    ):
        print(
            f"  M = {sizes[0]:4d}  D = {sizes[1]:5d}  T = {sizes[2]:6d} "
            f" {statistics.median(epochs_of(chain(*sizes), 2)) * 1e3:9.2f} ms"
        )
    claim = f"Granger learning: an epoch one sample at a time, M = {m}, D = {d}, T = {t}, s"
    claims = [
        compare(claim, mine, theirs, LOOP, target=target, floor=floor)
        for target in (TARGET, COMPILED_TARGET)
    ]
    print(json.dumps(claims))


if __name__ == "__main__":
    main()
