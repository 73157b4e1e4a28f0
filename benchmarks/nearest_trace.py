"""The nearest trace that satisfies a response (template 5), for 10,000 traces of 40 steps.

    python benchmarks/nearest_trace.py [--traces 10000] [--steps 40] [--repeats 5] [--programs 3]

The response is required at every step from which the trace has its whole window. A response that is
allowed from the next step on has as many states as its window has steps. One that is only allowed
later has up to 2 to the power of that number, because any subset of the last steps may still need
an answer. The peer, SciPy's `milp` (HiGHS) on one trace at a time, is exact too; in each turn it
solves `--programs` other traces. Both must have the same cost on them, and every moved trace must
satisfy the rule. Ours includes building the decision diagram. A second part shows how time grows
with the window. The floor is one read and one write of the traces.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time

import numpy as np
import torch
from numpy.typing import NDArray
from reporting.rows import compare, limit
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

import fedkg
from fedkg.constraints import trace_values
from fedkg.pack import Bank
from fedkg.teacher import Teacher

Array = NDArray[np.float64]
TARGET_S, SPAN = 1.0, 100.0


def response(trigger: int, answer: int, soonest: int, latest: int) -> Bank:
    """Whenever x reaches the trigger, it reaches the answer `soonest` to `latest` steps later."""
    rule = (
        f"rule r require if x >= {trigger} % then eventually [{soonest}, {latest}] x >= {answer} %"
    )
    text = f"timeline step 1 h\noutput x in % span 0 .. 100\n{rule}\n"
    [bank] = fedkg.compile(text=text).banks
    return bank


def solve_program(
    trace: Array, trigger: float, answer: float, soonest: int, latest: int
) -> tuple[float, float]:
    """Solve the same problem for one trace with SciPy's `milp` (HiGHS): seconds, and the L1 cost.

    Variables: the values y, their distances d from the trace, and two sets of binaries, with
    ``low[t] = 1`` only if ``y[t]`` is below the trigger and ``high[t] = 1`` only if ``y[t]``
    reaches
    the answer. Values stay within the span, 0 to 100, which is also the big M.
    """
    begun, n = time.perf_counter(), len(trace)
    eye, none = sparse.identity(n), sparse.csr_matrix((n, n))
    starts = range(n - latest)
    window = sparse.lil_matrix((len(starts), n))
    for t in starts:
        window[t, t + soonest : t + latest + 1] = 1
    constraints = [
        # |y - trace| <= d
        LinearConstraint(sparse.hstack([eye, -eye, none, none]), -np.inf, trace),
        LinearConstraint(sparse.hstack([eye, eye, none, none]), trace, np.inf),
        # y + 100 low <= trigger + 100 and y >= answer high
        LinearConstraint(sparse.hstack([eye, none, SPAN * eye, none]), -np.inf, trigger + SPAN),
        LinearConstraint(sparse.hstack([eye, none, none, -answer * eye]), 0, np.inf),
        # low[t] or one of high[t + soonest] ... high[t + latest]
        LinearConstraint(
            sparse.hstack(
                [sparse.csr_matrix((len(starts), 2 * n)), eye.tocsr()[: len(starts)], window]
            ),
            1,
            np.inf,
        ),
    ]
    found = milp(
        np.concatenate([np.zeros(n), np.ones(n), np.zeros(2 * n)]),
        constraints=constraints,
        integrality=np.repeat([0, 0, 1, 1], n),
        bounds=Bounds(0, np.repeat([SPAN, SPAN, 1, 1], n)),
        options={"mip_rel_gap": 0},
    )
    assert found.x is not None, found.message
    return time.perf_counter() - begun, float(found.fun)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--programs", type=int, default=3)
    options = parser.parse_args()
    dice = torch.Generator().manual_seed(0)
    traces = torch.rand(options.traces, options.steps, 1, generator=dice, dtype=torch.float64) * 100
    load = os.getloadavg()[0]
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, torch {torch.__version__},"
        f" {torch.get_num_threads()} threads, load {load:.1f}"
    )
    print(
        f"{options.traces:,} traces of {options.steps} steps, {options.repeats} turns;"
        f" {options.programs} programs in each\n"
    )
    begun = time.perf_counter()
    traces.clone()
    floor = time.perf_counter() - begun
    print(
        f"{'response':28s} {'states':>7s} {'diagram s':>10s} {'all traces s':>13s} {'spread':>18s}"
        f" {'program, each s':>16s}"
    )
    results = []
    for trigger, answer in ((60, 50), (40, 70)):
        for soonest, latest in ((1, 2), (1, 4), (1, 8), (2, 4), (3, 6), (4, 8)):
            bank = response(trigger, answer, soonest, latest)
            begun = time.perf_counter()
            teacher = Teacher(bank, options.steps)
            building = time.perf_counter() - begun
            nearest = teacher.nearest(traces)
            broken = trace_values(
                bank.skeleton, nearest[:500].numpy(), bank.params[0].tolist(), end="strict"
            ).violated
            assert not broken.any(), "a moved trace violates the rule"
            own = (traces - nearest).abs().sum((1, 2)).tolist()
            seconds: list[float] = []
            programs: list[float] = []
            for turn in range(options.repeats):
                begun = time.perf_counter()
                teacher.nearest(traces)
                seconds.append(building + time.perf_counter() - begun)
                solved = []
                for place in range(turn * options.programs, (turn + 1) * options.programs):
                    taken, cost = solve_program(
                        traces[place, :, 0].numpy(), trigger, answer, soonest, latest
                    )
                    assert abs(own[place] - cost) < 1e-2, (place, own[place], cost)
                    solved.append(taken)
                programs.append(statistics.mean(solved))
            median, each = statistics.median(seconds), statistics.median(programs)
            name = f"x >= {trigger}: x >= {answer} in [{soonest}, {latest}]"
            print(
                f"{name:28s} {teacher.states:7d} {building:10.3f} {median:13.3f}"
                f" {min(seconds):8.3f} .. {max(seconds):6.3f} {each:16.3f}"
            )
            if latest == 4:
                what = f"teacher, template 5 ({name}), {options.steps} steps, exact"
                results += [
                    limit(f"{what}: {options.traces:,} traces, s", seconds, TARGET_S, floor=floor),
                    compare(
                        f"{what}: seconds for each trace",
                        [one / options.traces for one in seconds],
                        programs,
                        "SciPy's milp (HiGHS), one program for each trace",
                    ),
                ]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
