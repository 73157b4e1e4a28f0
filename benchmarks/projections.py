"""Nearest points of an L1 ball, a simplex and a monotone cone, 1,024 x 50.

    python benchmarks/projections.py [--points 1024] [--repeats 15]

The peers are pyproximal, sparsemax and scipy. All sides use float64; pyproximal and scipy take one
point at a time, because they have no batches. The benchmark compares the results before it
measures time. All run on one thread, because a call has too little work to share. The floor is one
read and one write of the points.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyproximal
import torch
from reporting.rows import compare
from scipy.optimize import isotonic_regression
from sparsemax import Sparsemax
from torch import Tensor

from fedkg.projection import L1Ball, MonotoneCone, Simplex


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(options.points, 50, generator=generator, dtype=torch.float64) * 2
    wide = points.numpy()
    ball, shares = pyproximal.L1Ball(50, 1.0), Sparsemax(dim=-1)
    works: dict[str, tuple[str, Callable[[], Tensor], Callable[[], object]]] = {
        "L1 ball": (
            "pyproximal",
            lambda: L1Ball(1.0).project(points),
            lambda: np.stack([ball.prox(row, 1.0) for row in wide]),
        ),
        "simplex": ("sparsemax", lambda: Simplex().project(points), lambda: shares(points)),
        "isotonic": (
            "scipy",
            lambda: MonotoneCone().project(points),
            lambda: np.stack([isotonic_regression(row).x for row in wide]),
        ),
    }
    print(
        f"{options.points} points of 50 entries, float64, {options.repeats} repeats, one thread,"
        " alternating"
    )
    print(
        f"torch {torch.__version__}, {os.cpu_count()} cores, {platform.machine()}, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    out = torch.empty_like(points)
    floor = min(timed(lambda: torch.add(points, 1, out=out)) for _ in range(20))
    results = []
    for name, (peer, ours, theirs) in works.items():
        apart = np.abs(ours().numpy() - np.asarray(theirs())).max()
        assert apart < (1e-4 if peer == "pyproximal" else 1e-5), (
            f"{name}: {apart}"
        )  # pyproximal bisects
        pairs = [(timed(ours), timed(theirs)) for _ in range(options.repeats)]
        mine, others = ([pair[i] for pair in pairs] for i in range(2))
        for who, times in (("fedkg", mine), (peer, others)):
            print(
                f"  {name:10s} {who:12s} median {statistics.median(times):8.2f} ms   spread"
                f" {min(times):8.2f} .. {max(times):8.2f}"
            )
        results.append(
            compare(
                f"{name}, {options.points} x 50, ms", mine, others, peer, target=1.0, floor=floor
            )
        )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
