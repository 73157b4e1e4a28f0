"""Nearest points of a polytope, 1,024 x 50 and 100 rows, against four solvers.

    python benchmarks/polytope.py [--points 1024] [--rows 100] [--repeats 7] [--patience 300]
        [--peers FOLDER]

The peers are loops over OSQP and ProxQP, and, with the backward pass, cvxpylayers and qpth. The
rows are random, with a tenth of their entries nonzero and a point inside all of them; the points
are random. All sides use float64. The loops satisfy the rows up to 1e-5, for which they need a
tolerance of 1e-6; ours is exact up to rounding. Before the benchmark measures time, it compares
their points with ours, and ours with its own certificate. The loops update one solver, which reuses
its factors, from point to point. cvxpylayers and qpth get the points in batches of the size at
which a point costs them least, determined beforehand, and run fewer rounds, because a pass takes
seconds. A peer that takes more than `--patience` seconds is stopped; the benchmark prints that and
uses the time until then. All run on one thread. The floor is one read of the points and the rows
and one write of the result.

qpth (0.0.18) declares that it needs NumPy below 2, which does not work with the other packages
here. It calls nothing that NumPy 2 lacks, so it is installed without its dependencies into a
separate folder: FOLDER/qpth, by default in $FEDKG_PEERS or the user's cache folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from reporting.rows import Row, compare, missing, without_peer
from torch import Tensor

from fedkg.projection import Polytope, project_polytope

Array = NDArray[np.float64]
Peer = TypeVar("Peer")
FORWARD, BACKWARD = 1.0, 5.0


def problem(
    points: int, rows: int, dice: np.random.Generator, n: int = 50
) -> tuple[Array, Array, Array]:
    """Points [B, n], rows [m, n] and their bounds [m]."""
    matrix = dice.normal(size=(rows, n)) * (dice.random((rows, n)) < 0.1)
    matrix[~matrix.any(1), 0] = 1.0
    return (
        dice.normal(size=(points, n)) * 2,
        matrix,
        matrix @ (dice.normal(size=n) * 0.3) + dice.uniform(0.2, 1.0, rows),
    )


def osqp_loop(x: Array, matrix: Array, ends: Array) -> Callable[[], Array]:
    """One solver, updated from point to point."""
    import osqp

    solver = osqp.OSQP()
    eye, below = scipy.sparse.csc_matrix(np.eye(x.shape[1])), np.full(len(ends), -np.inf)
    solver.setup(
        eye,
        -x[0],
        scipy.sparse.csc_matrix(matrix),
        below,
        ends,
        verbose=False,
        eps_abs=1e-6,
        eps_rel=1e-6,
        polishing=False,
    )

    def run() -> Array:
        found = np.empty_like(x)
        for i, point in enumerate(x):
            solver.update(q=-point)
            found[i] = solver.solve().x
        return found

    return run


def proxqp_loop(x: Array, matrix: Array, ends: Array) -> Callable[[], Array]:
    """One solver, updated from point to point."""
    from proxsuite import proxqp

    solver = proxqp.dense.QP(x.shape[1], 0, len(ends))
    solver.settings.eps_abs = 1e-6
    solver.init(np.eye(x.shape[1]), -x[0], None, None, matrix, np.full(len(ends), -1e20), ends)

    def run() -> Array:
        found = np.empty_like(x)
        for i, point in enumerate(x):
            solver.update(g=-point)
            solver.solve()
            found[i] = solver.results.x
        return found

    return run


def layer(matrix: Array, ends: Array) -> Callable[[Tensor], Tensor]:
    """cvxpylayers' layer for the same points."""
    import cvxpy
    from cvxpylayers.torch import CvxpyLayer

    given, nearest = cvxpy.Parameter(matrix.shape[1]), cvxpy.Variable(matrix.shape[1])
    posed = cvxpy.Problem(
        cvxpy.Minimize(cvxpy.sum_squares(nearest - given)), [matrix @ nearest <= ends]
    )
    made = CvxpyLayer(posed, [given], [nearest])

    def run(x: Tensor) -> Tensor:
        [found] = made(x)
        return found

    return run


def qpth_from(folder: Path) -> Callable[..., Tensor]:
    """qpth's batched solver, from a separate folder; installed there if missing."""
    own = folder / "qpth"
    if not (own / "qpth").exists():
        print("installing qpth into a separate folder", file=sys.stderr)
        asked = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(own),
            "qpth==0.0.18",
        ]
        subprocess.run(asked, check=True)
    sys.path.append(str(own))
    from qpth.qp import QPFunction

    solver: Callable[..., Tensor] = QPFunction(verbose=-1)
    return solver


def qpth_layer(folder: Path, matrix: Array, ends: Array) -> Callable[[Tensor], Tensor]:
    """qpth's layer for the same points.

    An interior-point method on all points at once; gradients use its last factors.
    """
    solver = qpth_from(folder)
    eye, rows, limits, none = (
        torch.from_numpy(part) for part in (np.eye(matrix.shape[1]), matrix, ends, np.zeros(0))
    )
    return lambda x: solver(eye, -x, rows, limits, none, none)


def available(makers: dict[str, Callable[[], Peer]], reasons: dict[str, str]) -> dict[str, Peer]:
    """The peers that are installed; for others the reason goes into `reasons`."""
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except ModuleNotFoundError as error:
            reasons[name] = missing(str(error.name))
        except subprocess.CalledProcessError:
            reasons[name] = f"not run: {name} could not be installed"
    return found


def batches(
    project: Callable[[Tensor], Tensor], size: int, patience: float
) -> Callable[[Tensor], Tensor]:
    """The layer on batches of `size` points.

    It prints a message and leaves out the points that it does not reach within `patience` seconds.
    """

    def run(x: Tensor) -> Tensor:
        until, found, parts = time.perf_counter() + patience, [], x.split(size)
        for part in parts:
            found.append(project(part))
            if time.perf_counter() > until:
                print(
                    f"  ended after {len(found)} of {len(parts)} batches: the patience is"
                    f" {patience:g} s"
                )
                break
        return torch.cat(found)

    return run


def in_its_best(
    name: str, project: Callable[[Tensor], Tensor], x: Tensor, patience: float
) -> Callable[[Tensor], Tensor]:
    """The layer in batches of its best size.

    That is the size at which a point with its gradient costs least, among those tried on the first
    points.
    """
    tried = {}
    for size in sorted({min(size, len(x)) for size in (16, 32, 64, 256, len(x))}):
        tried[size] = (
            min(
                timed(lambda size=size: gradient(project, x[:size]))
                for _ in range(2 if size <= 64 else 1)
            )
            / size
        )
    told = ", ".join(f"{size} at a time {cost:.2f}" for size, cost in tried.items())
    best = min(tried, key=tried.__getitem__)
    print(f"  {name}: ms a point with its gradient: {told}; so {best} at a time")
    return batches(project, best, patience)


def gradient(project: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The gradient of the sum of squares of the nearest points."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(project(x).square().sum(), x)[0]


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def compared(
    claim: str, works: dict[str, Callable[[], object]], repeats: int, target: float, floor: float
) -> Row:
    """Time the functions in turn.

    The first one is ours; the claim compares it with the best of the others.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(timed(work))
    ours, *peers = works
    best = min(peers, key=lambda name: statistics.median(times[name]))
    ratio = statistics.median(
        peer / own for peer, own in zip(times[best], times[ours], strict=True)
    )
    for name, values in times.items():
        print(
            f"  {claim:36s} {name:14s} median {statistics.median(values):9.2f} ms   spread"
            f" {min(values):9.2f} .. {max(values):9.2f}"
        )
    print(
        f"  {claim:36s} {ratio:.1f} times faster than {best};"
        f" {statistics.median(times[ours]) / floor:.0f} times the floor"
    )
    return compare(f"{claim}, ms", times[ours], times[best], best, target=target, floor=floor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--points", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--patience",
        type=float,
        default=300.0,
        help="seconds that one pass of a peer's layer may take",
    )
    cache = (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedkg" / "benchmarks"
    )
    parser.add_argument("--peers", type=Path, default=Path(os.environ.get("FEDKG_PEERS") or cache))
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="cvxpy|cvxpylayers|diffcp|qpth")
    torch.set_num_threads(1)
    x, matrix, ends = problem(options.points, options.rows, np.random.default_rng(0))
    wide, rows, limits = (torch.from_numpy(part) for part in (x, matrix, ends))
    polytope = Polytope(rows, limits)
    reasons: dict[str, str] = {}
    layers = available(
        {
            "cvxpylayers": lambda: layer(matrix, ends),
            "qpth": lambda: qpth_layer(options.peers, matrix, ends),
        },
        reasons,
    )
    loops = available(
        {
            "OSQP loop": lambda: osqp_loop(x, matrix, ends),
            "ProxQP loop": lambda: proxqp_loop(x, matrix, ends),
        },
        reasons,
    )

    exact = project_polytope(wide, torch.from_numpy(matrix), torch.from_numpy(ends))
    assert float(exact.residual.max()) < 1e-9
    assert float(exact.multipliers.min()) >= 0
    ours = polytope.project(wide)
    assert float(polytope.excess(ours).max()) < 1e-5
    assert float((ours - exact.point).abs().max()) < 1e-5
    for name, run in loops.items():
        missed = np.abs(run() - exact.point.numpy()).max()
        print(f"  {name}: {missed:.1e} from the exact points at most")
        assert missed < 1e-2
    few = wide[:32]
    right = gradient(lambda v: project_polytope(v, rows.double(), limits.double()).point, few)
    for name, theirs in layers.items():
        missed = float((theirs(few) - exact.point[:32]).abs().max())
        apart = (gradient(theirs, few) - right).abs()
        print(
            f"  {name}: {missed:.1e} from the exact points at most, its gradients"
            f" {float(apart.median()):.1e} from them in the median"
        )
        assert missed < 5e-2  # cvxpylayers' default tolerance is off by more than a hundredth

    layers = {
        name: in_its_best(name, theirs, wide, options.patience) for name, theirs in layers.items()
    }
    print(
        f"{options.points} points of 50 entries, {options.rows} rows, {options.repeats} repeats,"
        " alternating"
    )
    print(
        f"torch {torch.__version__}, 1 thread, {platform.machine()}, load {os.getloadavg()[0]:.1f}"
    )
    out = torch.empty_like(wide)
    floor = min(timed(lambda: (rows.sum(), torch.add(wide, 1, out=out))) for _ in range(20))
    forward: dict[str, Callable[[], object]] = {"fedkg": lambda: polytope.project(wide), **loops}
    both: dict[str, Callable[[], object]] = {
        "fedkg": lambda: gradient(polytope.project, wide),
        **{name: partial(gradient, theirs, wide) for name, theirs in layers.items()},
    }
    layered: dict[str, Callable[[], object]] = {
        "fedkg": forward["fedkg"],
        **{name: partial(theirs, wide) for name, theirs in layers.items()},
    }
    size = f"{options.points} x 50 x {options.rows}"
    few_turns = min(options.repeats, max(2, options.repeats // 3))
    results = [
        compared(claim, works, turns, target, floor)
        for claim, works, turns, target in (
            (f"polytope {size}, forward", forward, options.repeats, FORWARD),
            (f"polytope {size}, forward of layers", layered, few_turns, FORWARD),
            (f"polytope {size}, with backward", both, few_turns, BACKWARD),
        )
        if len(works) > 1
    ]
    results += [without_peer(f"polytope {size}", reason, name) for name, reason in reasons.items()]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
