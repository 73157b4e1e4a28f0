"""Mining parameters for 500 clients in one call, against the published search with SciPy.

    python benchmarks/mining.py [--clients 500] [--length 180] [--repeats 7] [--searched 4]

Templates 1 to 7 of An, Johnson and Ma 2024 (table 1), as in the rule library, over the whole
length. The peer handles one client at a time: it maximises the TeLEX metric by L-BFGS-B from random
starts, stretches the result until the traces satisfy the formula, and bisects back (tolerance
0.01). The paper's times are of this method; it is timed on a few clients. Before the benchmark
measures time, it compares the values of both: the search's values must satisfy the traces and must
not be tighter than ours. The floor is one read of the traces.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from reporting.rows import compare
from scipy import optimize

import fedkg
from fedkg.mining import mine

TARGET = 100
PAPER = {"1": 0.0032, "2'": 0.0052, "3": 0.0111, "4": 0.0065, "5": 0.0239, "6": 0.0251, "7": 0.0274}
"""Seconds for one property (An, Johnson and Ma 2024, table 3; length 180)."""
LIBRARY = """
timeline step 1 h
signal x in % span 0 .. 100
signal y in % span 0 .. 100
use rules templates.operational_range, templates.until, templates.temporal_implication
use rules templates.extremes, templates.intra_task
use rules templates.nested_intra_task, templates.multiple_eventualities
"""


def calls(length: int) -> dict[str, str]:
    """Each template with its mined values and the call."""
    last, half = length - 1, length // 2
    return {
        "1": f"?low, ?high in operational_range(x, ?low, ?high, 0, {last})",
        "2'": f"?high, ?low in extremes(x, ?high, ?low, 0, {last})",
        "3": f"?b, ?a in until(x, ?a, ?b, 0, {last})",
        "4": f"?a in intra_task(x, y, ?a, 0, {last})",
        "5": f"?answer in temporal_implication(x, 75, ?answer, 0, {last - 4}, 1, 4)",
        "6": f"?answer in nested_intra_task(x, y, 75, ?answer, 0, {last - 4}, 1, 4)",
        "7": f"?a, ?b in multiple_eventualities(x, ?a, 0, {half}, ?b, {half + 1}, {last})",
    }


def metric(r: np.ndarray) -> np.ndarray:
    """TeLEX's theta (Jha et al. 2017) of residuals."""
    falling: np.ndarray = np.exp(-np.maximum(r, -500))
    return 1 / (r + falling) - falling


def searched(
    score: Callable[[np.ndarray], float],
    holds: Callable[[np.ndarray], bool],
    loose: np.ndarray,
    dice: np.random.Generator,
) -> np.ndarray:
    """The published search for one trace.

    Maximise, stretch towards `loose` until satisfied, then bisect each parameter back.
    """
    best, at = -np.inf, loose
    for _ in range(3):
        found = optimize.minimize(
            lambda p: -score(p),
            dice.uniform(0, 100, loose.shape),
            method="L-BFGS-B",
            bounds=[(-100, 200)] * len(loose),
        )
        if -found.fun > best:
            best, at = -found.fun, found.x
    share = 0.0
    while not holds(at + share * (loose - at)):
        share = min(1.0, 2 * share + 0.01)
    good = at + share * (loose - at)
    for place in range(len(good)):
        bad = good.copy()
        bad[place] -= 2 * (loose[place] - good[place]) + np.sign(loose[place] - 50) * 100
        while abs(good[place] - bad[place]) > 0.01:
            middle = good.copy()
            middle[place] = (good[place] + bad[place]) / 2
            good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def peers(
    length: int,
) -> dict[str, tuple[Callable[[np.ndarray, np.ndarray, np.ndarray], float], np.ndarray]]:
    """The templates on which the search is timed.

    For each, the formula's value with a transform of residuals, and the loosest parameters.
    """
    half = length // 2

    def response(
        of: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray, answer: float
    ) -> float:
        ahead = np.stack([of(y[1 + k : length - 4 + 1 + k] - answer) for k in range(4)]).max(0)
        return float(np.maximum(of(75 - x[: length - 4]), ahead).min())

    return {
        "1": (
            lambda of, x, y, p: float(np.minimum(of(x - p[0]), of(p[1] - x)).min()),
            np.array([-50.0, 150.0]),
        ),  # type: ignore[misc]
        "2'": (
            lambda of, x, y, p: min(of(x - p[0]).max(), of(p[1] - x).max()),
            np.array([-50.0, 150.0]),
        ),  # type: ignore[misc]
        "4": (lambda of, x, y, p: float(of(x - y - p[0]).min()), np.array([-150.0])),  # type: ignore[misc]
        "5": (lambda of, x, y, p: response(of, x, x, p[0]), np.array([-50.0])),  # type: ignore[misc]
        "6": (lambda of, x, y, p: response(of, x, y, p[0]), np.array([-50.0])),  # type: ignore[misc]
        "7": (
            lambda of, x, y, p: min(of(x[: half + 1] - p[0]).max(), of(x[half + 1 :] - p[1]).max()),
            np.array([-50.0, -50.0]),
        ),  # type: ignore[misc]
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--length", type=int, default=180)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--searched", type=int, default=4)
    options = parser.parse_args()
    named = calls(options.length)
    names = {key: f"t{i}" for i, key in enumerate(named)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pack = fedkg.compile(
            text=LIBRARY
            + "".join(f"infer {names[key]} per client find {call}\n" for key, call in named.items())
        )
    inferences = {one.name: one for one in pack.manifest.inferences}
    dice = np.random.default_rng(0)
    traces = torch.from_numpy(dice.uniform(0, 100, (options.clients, 1, options.length, 2)))
    layout = fedkg.columns(["x", "y"])
    of_template = peers(options.length)
    load = os.getloadavg()[0]
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, torch {torch.__version__},"
        f" {torch.get_num_threads()} threads, load {load:.1f}"
    )
    print(
        f"{options.clients} clients, length {options.length}; the search on {options.searched} of"
        f" them; {options.repeats} turns\n"
    )
    print(
        f"{'template':9s} {'ours, all':>12s} {'spread':>18s} {'ours, each':>12s}"
        f" {'search, each':>13s} {'ratio':>9s} {'paper, each':>12s}"
    )
    begun = time.perf_counter()
    traces.sum()
    floor = time.perf_counter() - begun
    results = []
    for key, name in names.items():
        found = mine(pack, inferences[name], traces, layout=layout)
        ours: list[float] = []
        theirs: list[float] = []
        for turn in range(options.repeats):
            begun = time.perf_counter()
            mine(pack, inferences[name], traces, layout=layout)
            ours.append(time.perf_counter() - begun)
            if key in of_template and turn < options.searched:
                formula, loose = of_template[key]
                x, y = traces[turn, 0].T.numpy()
                begun = time.perf_counter()
                signed = partial(formula, lambda r: r, x, y)
                values = searched(
                    partial(formula, metric, x, y),
                    lambda p, signed=signed: signed(p) >= 0,
                    loose,
                    dice,
                )
                theirs.append(time.perf_counter() - begun)
                tight = found.values[turn].numpy()
                assert formula(lambda r: r, x, y, values) >= 0, (key, values)
                assert (np.sign(loose - tight) * (values - tight) >= -1e-3).all(), (
                    key,
                    values,
                    tight,
                )
        mine_s = statistics.median(ours)
        each = mine_s / options.clients
        ratio = statistics.median(theirs) / each if theirs else float("nan")
        shown = (
            f"{statistics.median(theirs):13.4f} {ratio:9.0f}" if theirs else f"{'-':>13s} {'-':>9s}"
        )
        print(
            f"{key:9s} {mine_s:12.4f} {min(ours):8.4f} .. {max(ours):.4f} {each:12.7f} {shown}"
            f" {PAPER[key]:12.4f}"
        )
        if theirs:
            results.append(
                compare(
                    f"mining template {key}, {options.clients} clients in one call: "
                    "seconds for each client",
                    [one / options.clients for one in ours[: len(theirs)]],
                    theirs,
                    "the published search with SciPy, one client at a time",
                    target=TARGET,
                    floor=floor / options.clients,
                )
            )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
