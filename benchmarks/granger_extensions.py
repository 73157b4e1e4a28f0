"""Extensions of federated Granger learning against the published method.

    python benchmarks/granger_extensions.py [--steps 3000] [--seeds 5] [--nulls 20] [--quick]

The extensions are lags, networks, windows, streams and tests in noise. Every system is generated,
so its true causes are known. Columns: the error on held-out steps as a share of the error without
any other client's help (1: no gain); how well strengths separate edges from unrelated pairs (area
under the ROC curve, 0.5: chance); processor seconds. Both sides of a row learn from the same states
until convergence; figures are means over seeds. A second table shows how often tests report an edge
that does not exist when clients are slow and their measurements noisy.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from reporting.rows import format_spread, round_digits

from fedkg.granger.edge_significance import best_lags, labels, p_values
from fedkg.granger.fault_detection import area_under_roc
from fedkg.granger.instrumental_variables import under_noise
from fedkg.granger.kalman import Client, steady_gain
from fedkg.granger.learn import Learnt, Rates, at_rest, at_rest_by, losses_of
from fedkg.granger.moments import Series, moments, series_of
from fedkg.granger.neural_augmentation import client_losses, learn_bent
from fedkg.granger.state_extraction import Measured, client_of
from fedkg.granger.synthetic_systems import System, recorded
from fedkg.granger.time_varying_causes import (
    Stream,
    at_rest_of,
    changes,
    continued,
    cut,
    initial_averages,
)

F64 = NDArray[np.float64]
RATES = Rates(client=1.0, server=0.1, causes=1.0)
CLIENTS, SEEN, NOISE, PARTS = 4, 8, 0.01, 12
TRUE = np.eye(CLIENTS, k=-1, dtype=np.bool_)
"""A chain: each client drives the next."""
OFF = ~np.eye(CLIENTS, dtype=np.bool_)
OWN, LOUD = (0.9, 0.5, 0.5, 0.5), (1.0, 0.05, 0.05, 0.05)
"""The share of its state that each client retains per step, and the variance of its noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a row: its error, the area under its ROC, its processor seconds."""

    error: float
    area: float
    seconds: float


PARTS_OF = ("error", "area", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The paper's method and its extension on the same data."""

    paper: Side
    ours: Side
    said: str = ""


def chain(
    steps: int,
    seed: int,
    *,
    delays: Sequence[int] = (1, 1, 1),
    drive: Callable[[int], float] = lambda _: 0.4,
    bent: bool = False,
) -> list[Client]:
    """Clients of one state; client m + 1 takes `drive(t)` times client m's state of `delays[m]`
    steps before.

    bent: the dynamics of all clients except the first are a sine, which their filters approximate
    by a line.
    """
    stream = np.random.default_rng(seed)
    states = np.zeros((steps, CLIENTS))
    for t in range(1, steps):
        states[t] = np.array(OWN) * states[t - 1] + np.sqrt(LOUD) * stream.standard_normal(CLIENTS)
        if bent:
            states[t, 1:] += (
                1.2 * np.sin(2 * states[t - 1, 1:]) - np.array(OWN[1:]) * states[t - 1, 1:]
            )
        for m, delay in enumerate(delays):
            states[t, m + 1] += drive(t) * states[t - delay, m] if t >= delay else 0.0
    made = []
    for m in range(CLIENTS):
        emission, own = stream.standard_normal((SEEN, 1)), np.array([[OWN[m]]])
        seen = states[:, m : m + 1] @ emission.T + np.sqrt(NOISE) * stream.standard_normal(
            (steps, SEEN)
        )
        gain = steady_gain(own, emission, 0.5 * np.eye(1), NOISE * np.eye(SEEN))
        made.append(
            Client(
                name=f"unit {m + 1}",
                transition=own,
                emission=emission,
                gain=gain,
                measurements=seen,
            )
        )
    return made


def unexplained(series: Series, found: Learnt) -> float:
    """The share of driven clients' movement that the learned causes do not explain.

    The movement is what remains without their own dynamics; its square counts.
    """
    before = series.regressors[series.lags - 1 : -1]
    pairs = [
        (labels(series, m), before @ found.causes[series.places[m]].T)
        for m in np.flatnonzero(TRUE.any(1)).tolist()
    ]
    return float(
        np.mean([((label - ahead) ** 2).sum() / (label**2).sum() for label, ahead in pairs])
    )


def area(*parts: tuple[F64, NDArray[np.bool_]]) -> float:
    """The area under the ROC of strengths [M, M] against the truth, over the pairs of all parts."""
    return area_under_roc(
        np.concatenate([one[OFF] for one, _ in parts]),
        np.concatenate([true[OFF] for _, true in parts]),
    )


def timed(work: Callable[[], Learnt]) -> tuple[Learnt, float]:
    """The result of `work` and its processor seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def lags(steps: int, seed: int) -> Row:
    """Influences after three, one and two steps.

    Compares one lag, as published, with lags of each client chosen by the criterion.
    """
    clients, known = chain(steps, seed, delays=(3, 1, 2)), steps * 4 // 5
    start = time.process_time()
    own = [max(1, int(one)) for one in best_lags(cut(series_of(clients), 0, known), 5)]
    choosing, sides = time.process_time() - start, []
    for orders, extra in (([1] * CLIENTS, 0.0), (own, choosing)):
        whole = series_of(clients, lags=orders)
        series = cut(whole, 0, known)
        start = time.process_time()
        found = at_rest(series, RATES)
        seconds = time.process_time() - start + extra
        held = cut(whole, known - whole.lags, steps)
        sides.append(
            Side(
                error=unexplained(held, found),
                area=area((found.strength(series), TRUE)),
                seconds=seconds,
            )
        )
    return Row(paper=sides[0], ours=sides[1], said=f"chosen {own[1]} {own[2]} {own[3]}, true 3 1 2")


def network(steps: int, seed: int, *, bent: bool) -> Row:
    """A small network in place of the linear augmentation.

    The error is that of the clients' measurements.
    """
    whole, known = series_of(chain(steps, seed, bent=bent)), steps * 4 // 5
    series, held = cut(whole, 0, known), cut(whole, known - 1, steps)
    found, seconds = timed(lambda: at_rest(series, RATES))
    start = time.process_time()
    other = learn_bent(series, epochs=300, rate=0.02, seed=seed)
    spent = time.process_time() - start
    averages, driven = (
        [moments(held, m) for m in range(CLIENTS)],
        np.flatnonzero(TRUE.any(1)).tolist(),
    )
    plain = [
        losses_of(
            averages[m], found.augmentations[m], found.causes[held.places[m], held.drivers(m)]
        )[0]
        for m in driven
    ]
    curved = client_losses(held, other)
    errors = [
        float(np.mean([each[m] / averages[m].loss for m in driven]))
        for each in (dict(zip(driven, plain, strict=True)), curved)
    ]
    return Row(
        paper=Side(error=errors[0], area=area((found.strength(series), TRUE)), seconds=seconds),
        ours=Side(error=errors[1], area=area((other.learnt.strength(series), TRUE)), seconds=spent),
    )


def switching(steps: int, seed: int) -> tuple[Series, int]:
    """A chain in which the causes begin halfway, and the step at which they begin."""
    return (
        series_of(chain(steps, seed, drive=lambda t: 0.4 if t >= steps // 2 else 0.0)),
        steps // 2,
    )


def windows(steps: int, seed: int) -> Row:
    """Causes that begin halfway.

    Compares one learning of all steps with one for each part between the changes that are found in
    client 2's states.
    """
    series, true = switching(steps, seed)
    start = time.process_time()
    seen = changes(series, 1, least=steps // 20)
    spent = time.process_time() - start
    ends = list(itertools.pairwise((0, *seen, steps)))
    learnt = [cut(series, a, a + (b - a) * 4 // 5) for a, b in ends]
    held = [cut(series, a + (b - a) * 4 // 5 - 1, b) for a, b in ends]
    truths = [TRUE if a + b >= 2 * true else np.zeros_like(TRUE) for a, b in ends]
    whole, seconds = timed(
        lambda: at_rest_of(
            functools.reduce(continued, learnt[1:], initial_averages(learnt[0])), series, RATES
        )
    )
    parts = [timed(functools.partial(at_rest, part, RATES)) for part in learnt]
    return Row(
        paper=Side(
            error=float(np.mean([unexplained(one, whole) for one in held])),
            area=area(*((whole.strength(series), truth) for truth in truths)),
            seconds=seconds,
        ),
        ours=Side(
            error=float(
                np.mean(
                    [unexplained(one, found) for one, (found, _) in zip(held, parts, strict=True)]
                )
            ),
            area=area(
                *(
                    (found.strength(series), truth)
                    for (found, _), truth in zip(parts, truths, strict=True)
                )
            ),
            seconds=spent + sum(seconds for _, seconds in parts),
        ),
        said=f"changes found at {', '.join(map(str, seen)) or 'no step'}, true {true}",
    )


def stream(steps: int, seed: int, *, forget: float) -> Row:
    """Data that arrives in parts.

    Compares learning everything anew after each part with running averages. At the end both predict
    the last fifth.
    """
    series, known = (
        (switching(steps, seed)[0] if forget else series_of(chain(steps, seed))),
        steps * 4 // 5,
    )
    stops = [known * (part + 1) // PARTS for part in range(PARTS)]
    anew, going, kept = 0.0, 0.0, None
    for start, stop in zip((0, *stops), stops, strict=False):
        whole, seconds = timed(functools.partial(at_rest, cut(series, 0, stop), RATES))
        anew += seconds
        began = time.process_time()
        kept = _longer(kept, cut(series, max(0, start - 1), stop), forget)
        found = at_rest_by(series, kept.known, RATES)
        going += time.process_time() - began
    held = cut(series, known - 1, steps)
    far = float(np.abs(found.causes - whole.causes).max())
    return Row(
        paper=Side(
            error=unexplained(held, whole), area=area((whole.strength(series), TRUE)), seconds=anew
        ),
        ours=Side(
            error=unexplained(held, found), area=area((found.strength(series), TRUE)), seconds=going
        ),
        said=f"causes differ by {far:.0e}" if not forget else "",
    )


def _longer(kept: Stream | None, part: Series, forget: float) -> Stream:
    return initial_averages(part, forget=forget) if kept is None else continued(kept, part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noisy:
    """A chain that is tested for edges that do not exist.

    Attributes:
        own: each client's dynamics, [P, P].
        noise: variance of the noise of measurements.
        orders: lags.
        columns: measurements of each client.
        states: how many of a client's states, from the first, are moved, measured and fitted;
            the others are their past.
    """

    name: str
    own: Sequence[F64]
    noise: float
    orders: int = 1
    columns: int = SEEN
    states: int = 1

    def system(self, draw: np.random.Generator) -> System:
        """Each client's first state drives that of the next by 0.2."""
        sizes = [len(one) for one in self.own]
        transition, process, emissions = (
            np.zeros((sum(sizes),) * 2),
            np.zeros((sum(sizes),) * 2),
            [],
        )
        for m, one in enumerate(self.own):
            place = sum(sizes[:m])
            transition[place : place + len(one), place : place + len(one)] = one
            process[place : place + self.states, place : place + self.states] = np.eye(self.states)
            if m:
                transition[place, place - sizes[m - 1]] = 0.2
            shown = np.zeros((self.columns, len(one)))
            shown[:, : self.states] = draw.standard_normal((self.columns, self.states)) / np.sqrt(
                self.columns
            )
            emissions.append(shown)
        return System(
            transition=transition, emissions=tuple(emissions), process=process, noise=self.noise
        )


def nulls(steps: int, seeds: int, asked: Noisy) -> tuple[F64, F64]:
    """How often p <= 0.05 for unrelated pairs and for edges, by test.

    The tests: only the lags, a longer past, noise allowed for, and the larger of both.
    """
    false, true = [], []
    for seed in range(seeds):
        draw = np.random.default_rng(seed)
        seen = recorded(asked.system(draw), steps, seed=seed + 1000).measurements
        names = tuple("abcdefgh"[: asked.columns])
        clients = [
            client_of(Measured(name=str(m), columns=names, values=values), asked.states)
            for m, values in enumerate(seen)
        ]
        series = series_of(clients, lags=asked.orders)
        tests = [
            p_values(series, shifts=99, seed=seed, longest=asked.orders),
            p_values(series, shifts=99, seed=seed),
            under_noise(series),
        ]
        tests.append(np.fmax(tests[1], tests[2]))
        false.append([float((test[OFF & ~TRUE] <= 0.05).mean()) for test in tests])
        true.append([float((test[TRUE] <= 0.05).mean()) for test in tests])
    return np.mean(false, axis=0), np.mean(true, axis=0)


def scalar_dynamics(*shares: float) -> list[F64]:
    """Dynamics of clients that retain these shares of their states."""
    return [np.array([[share]]) for share in shares]


SECOND = [np.array([[1.5, -0.6], [1.0, 0.0]])] * CLIENTS
"""Dynamics of order two; a filter of one state models only one of them."""
NOISY = (
    Noisy(name="keep 0.9", own=scalar_dynamics(*[0.9] * CLIENTS), noise=0.01),
    Noisy(name="keep 0.9", own=scalar_dynamics(*[0.9] * CLIENTS), noise=0.3),
    Noisy(name="keep 0.9", own=scalar_dynamics(*[0.9] * CLIENTS), noise=1.0),
    Noisy(name="keep 0.5", own=scalar_dynamics(*[0.5] * CLIENTS), noise=0.3),
    Noisy(name="keep 0.9", own=scalar_dynamics(*[0.9] * CLIENTS), noise=1.0, orders=2),
    Noisy(name="unlike speeds", own=scalar_dynamics(0.95, 0.6, 0.9, 0.3), noise=0.5),
    Noisy(name="one column", own=scalar_dynamics(*[0.9] * CLIENTS), noise=0.5, columns=1),
    Noisy(name="two states", own=[np.diag([0.95, 0.6])] * CLIENTS, noise=0.5, states=2),
    Noisy(name="order two", own=SECOND, noise=0.5),
)
STUDIES: dict[str, Callable[[int, int], Row]] = {
    "lags of each client": lags,
    "network, dynamics that bend": lambda steps, seed: network(steps, seed, bent=True),
    "network, nothing bends": lambda steps, seed: network(steps, seed, bent=False),
    "windows, causes that begin": windows,
    "stream": lambda steps, seed: stream(steps, seed, forget=0.0),
    "stream that forgets, causes that begin": lambda steps, seed: stream(steps, seed, forget=0.005),
}


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _sides(rows: Sequence[Row]) -> tuple[list[Side], list[Side]]:
    return [row.paper for row in rows], [row.ours for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--nulls", type=int, default=20, help="number of generated systems for each noise level"
    )
    parser.add_argument("--quick", action="store_true", help="short series, to see that it runs")
    options = parser.parse_args()
    steps, seeds, systems = (
        (600, 2, 2) if options.quick else (options.steps, options.seeds, options.nulls)
    )
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, numpy {np.__version__}, load"
        f" {os.getloadavg()[0]:.1f}\n"
    )
    at_rest(series_of(chain(50, 0)), RATES)  # compiled before anything is timed
    print(
        f"{'':40s}{'error':>9s}{'':9s}{'area':>9s}{'':9s}{'seconds':>9s}\n{'':40s}"
        + f"{'paper':>9s}{'ours':>9s}" * 3
    )
    claims = []
    for name, study in STUDIES.items():
        rows = [study(steps, seed) for seed in range(seeds)]
        paper, ours = (
            [_mean([getattr(side, part) for side in sides]) for part in PARTS_OF]
            for sides in _sides(rows)
        )
        print(
            f"{name:40s}"
            + "".join(f"{a:9.3f}{b:9.3f}" for a, b in zip(paper, ours, strict=True))
            + f"   {rows[0].said}"
        )
        ratios = [row.paper.error / row.ours.error for row in rows]
        claims.append(
            claim(
                f"{name}: error on steps not learnt from",
                ours[0],
                paper[0],
                "the paper's method",
                ratios,
            )
        )
    print(
        f"\nedges told at 0.05, uncorrected, {systems} chains, dynamics fitted, {steps // 2} steps"
    )
    print(f"{'':40s}{'own lags':>12s}{'longer past':>12s}{'in noise':>12s}{'the larger':>12s}")
    for asked in NOISY:
        false, true = nulls(steps // 2, systems, asked)
        named = f"{asked.name}, noise {asked.noise:g}, lags {asked.orders}"
        print(f"{f'{named}: no edges':40s}" + "".join(f"{value:12.3f}" for value in false))
        print(f"{f'{named}: edges':40s}" + "".join(f"{value:12.3f}" for value in true))
        claims.append(
            claim(
                f"edges told that are not there, {named}",
                float(false[3]),
                float(false[0]),
                "given its lags alone",
                [],
            )
        )
    print(json.dumps(claims))


def claim(
    what: str, ours: float, peer: float, name: str, ratios: Sequence[float]
) -> dict[str, object]:
    """One row: less is better, and it holds if ours is not larger.

    Without `ratios` the numbers are rates, which may be 0, so the row has no ratio.
    """
    return {
        "claim": f"Granger extensions, {what}",
        "ours": round_digits(ours),
        "peer": round_digits(peer),
        "peer_name": name,
        "ratio": round_digits(statistics.median(ratios)) if ratios else None,
        "reason": "" if ratios else "rates of false edges, less is better",
        "spread": format_spread(ratios).replace("turns", "seeds") if ratios else None,
        "target": None,
        "holds": ours <= peer * (1 + 1e-9),
        "floor": None,
    }


if __name__ == "__main__":
    main()
