"""Compare temporal robustness with stlcg++, and many temporal rules with reading their inputs.

    python benchmarks/temporal_robustness.py [--repeats 9] [--rows 3000]

Part 1: `always[0,24]`, a nested response and `until[0,24]` over 256 traces of 100 steps. Ours is a
call of a `ConstraintModule` with the compiled rule, input checks and report included; the peer is
stlcg++ (`stlcgpp`). Before the timing, values and gradients of both are compared at the steps with
windows inside the trace. Peak memory is measured in a new process for each side, above what the
process holds before the call.

Part 2: 3,000 constraints of twelve temporal shapes over a batch of 1,024 windows of 48 steps. No
other library evaluates such a set; the peer is one read of the numbers that the rules gather.
"""

from __future__ import annotations

import argparse
import importlib.util
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

import numpy as np
import torch
from packs.pack_from_arrays import Part, drawn_pack, module_of
from reporting.rows import Row, compare, missing, without_peer
from torch import Tensor

import fedkg
from fedkg.pack import (
    And,
    Compare,
    Formula,
    Implies,
    Negate,
    Or,
    Param,
    Product,
    Slot,
    Sum,
    Temporal,
    Until,
    used_slots,
)

TRACES, STEPS = 256, 100
BATCH, LENGTH, SIGNALS, OUTPUTS = 1024, 48, 60, 4
PEER = "stlcg++"
MEMORY_TARGET, READS_TARGET = 50.0, 0.2
MEASURABLE_MIB = 1 / 8
"""Peak memory below this is not distinguished: the system counts whole pages."""

RULES: dict[str, tuple[str, int, tuple[float, float]]] = {
    "always[0,24]": ("always [0, 24] -1 <= y <= 1", 24, (150, 20)),
    "nested response": (
        "always [0, 48] (if y >= -1 then eventually [0, 12] y >= 1)",
        60,
        (150, 20),
    ),
    "until[0,24]": ("(y <= 2) until [0, 24] (y <= -0.5)", 24, (150, 100)),
}
"""The text of each rule, its horizon in steps, and the least ratio forward and with backward."""

SCALE, LOW, HIGH, P, Q, LOW2, HIGH2 = range(7)
A, B = Param(index=P), Param(index=Q)
X, Z, Y = Slot(index=0), Slot(index=1), Slot(index=2, role="output")


def le(left: object, right: object) -> Compare:
    """``left <= right``."""
    return Compare.model_validate({"op": "le", "left": left, "right": right, "scale": SCALE})


def over(op: str, arg: Formula, low: int = LOW, high: int = HIGH) -> Temporal:
    """A temporal operator over a window."""
    return Temporal.model_validate({"op": op, "low": low, "high": high, "arg": arg})


def until(left: Formula, right: Formula) -> Until:
    """`left` until `right`."""
    return Until(op="until", low=LOW, high=HIGH, left=left, right=right)


SHAPES: tuple[Formula, ...] = (
    over("always", le(Y, A)),
    over("always", And(args=(le(A, Y), le(Y, B)))),
    over("eventually", le(A, Y)),
    over("historically", le(Y, B)),
    over("always", le(Product(args=(A, X)), Y)),
    Implies(antecedent=le(A, X), consequent=over("eventually", le(B, Y))),
    over(
        "always", Implies(antecedent=le(A, X), consequent=over("eventually", le(B, Y), LOW2, HIGH2))
    ),
    until(le(Y, A), le(X, B)),
    over("always", Or(args=(le(X, A), le(Y, B)))),
    Implies(antecedent=over("once", le(A, X)), consequent=le(Y, B)),
    over("always", le(Sum(args=(Y, Negate(arg=X))), A)),
    Implies(antecedent=And(args=(le(A, X), le(Z, B))), consequent=over("always", le(Y, B))),
)
"""The shapes of part 2."""


def module_robustness(name: str) -> Callable[[Tensor], Tensor]:
    """Robustness [n, T] of traces [n, T] by a `ConstraintModule` of one rule; NaN where unknown."""
    text = f"timeline step 1 h\noutput y span -10 .. 10\nrule r require {RULES[name][0]}\n"
    rules = fedkg.compile(text=text).constraints(x=fedkg.columns(["none"]), y=fedkg.columns(["y"]))
    features = torch.zeros(TRACES, STEPS, 1)

    def robustness(x: Tensor) -> Tensor:
        found: Tensor = rules(features[: len(x)], x).at_steps.robustness[..., 0]
        return found

    return robustness


def stlcgpp_robustness(name: str) -> Callable[[Tensor], Tensor]:
    """The same by stlcg++."""
    warnings.filterwarnings("ignore")
    from stlcgpp import formula as stl

    x = stl.Predicate("x", lambda s: s)
    formula = {
        "always[0,24]": lambda: stl.Always((x >= -1.0) & (x <= 1.0), interval=[0, 24]),
        "nested response": lambda: stl.Always(
            stl.Implies(x >= -1.0, stl.Eventually(x >= 1.0, interval=[0, 12])), interval=[0, 48]
        ),
        "until[0,24]": lambda: stl.Until(x < 2.0, x < -0.5, interval=[0, 24]),
    }[name]()
    robustness: Callable[[Tensor], Tensor] = torch.vmap(lambda s: formula.robustness_trace(s))
    return robustness


SIDES: dict[str, Callable[[str], Callable[[Tensor], Tensor]]] = {
    "fedkg": module_robustness,
    PEER: stlcgpp_robustness,
}


def traces() -> Tensor:
    """Random walks [n, T]."""
    generator = torch.Generator().manual_seed(0)
    walk, noise = (torch.randn(TRACES, STEPS, generator=generator) for _ in range(2))
    return walk.cumsum(1) * 0.3 + noise * 0.2


def gradient(robustness: Callable[[Tensor], Tensor], x: Tensor, inside: int) -> Tensor:
    """The gradient of the sum of the robustness at the first `inside` steps."""
    leaf = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(robustness(leaf)[:, :inside].sum(), leaf)
    return found


def peak_of(name: str, side: str, backward: bool) -> float:
    """Peak MiB of one call above what the process held before, measured in a new process."""
    command = [sys.executable, __file__, "--memory", name, side, str(int(backward))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def measure_peak(name: str, side: str, backward: bool) -> float:
    """Return the peak of one call on all traces in this process.

    A call on half of the traces comes first, because the first large call of either side loads
    code that stays in memory.
    """
    torch.set_num_threads(1)
    robustness, x, inside = SIDES[side](name), traces(), STEPS - RULES[name][1]
    call = (lambda t: gradient(robustness, t, inside)) if backward else robustness
    call(x[: TRACES // 2])
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak()
    call(x)
    return peak() - before


def peak() -> float:
    """The most MiB that this process has held (Linux)."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


def timed(work: Callable[[], object], calls: int = 1) -> float:
    """Milliseconds of one call, the mean of `calls`."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) * 1e3 / calls


def print_table(claim: str, times: dict[str, list[float]]) -> None:
    """Medians and quartiles."""
    for what, each in times.items():
        low, high = np.quantile(each, (0.25, 0.75))
        print(
            f"  {claim:36s} {what:28s} median {statistics.median(each):9.3f} ms"
            f"   quartiles {low:8.3f} .. {high:8.3f}"
        )


def compare_rules(repeats: int) -> list[Row]:
    """Part 1: three rules, forward and with backward."""
    installed = importlib.util.find_spec("stlcgpp") is not None
    names = [side for side in SIDES if installed or side != PEER]
    x, results = traces(), []
    for name, (_, horizon, targets) in RULES.items():
        sides, inside = {side: SIDES[side](name) for side in names}, STEPS - horizon
        with torch.no_grad():
            values = [side(x)[:, :inside] for side in sides.values()]
        assert all(torch.allclose(values[0], other, atol=1e-5) for other in values[1:]), name
        gradients = [gradient(side, x, inside) for side in sides.values()]
        assert all(torch.allclose(gradients[0], other, atol=1e-4) for other in gradients[1:]), name
        for what, target in zip(("forward", "forward and backward"), targets, strict=True):
            backward = what != "forward"
            works: dict[str, Callable[[], object]] = {
                side: partial(gradient, run, x, inside) if backward else partial(run, x)
                for side, run in sides.items()
            }
            works["read and write once"] = x.clone
            times: dict[str, list[float]] = {side: [] for side in works}
            with torch.set_grad_enabled(backward):
                for _ in range(repeats):
                    for side, work in works.items():
                        times[side].append(timed(work, 1 if side == PEER else 10))
            print_table(f"{name}, {what}", times)
            peaks = {side: peak_of(name, side, backward) for side in names}
            shown = ", ".join(f"{side} {mib:.2f}" for side, mib in peaks.items())
            print(f"  {name}, {what}: peak MiB {shown}")
            results += rows_of(f"{name}, {what}", times, peaks, target)
    return results


def rows_of(
    what: str, times: dict[str, list[float]], peaks: dict[str, float], target: float
) -> list[Row]:
    """The rows of one rule and direction: time, and for `until` the peak memory."""
    claim, memory = (
        f"{what}, {TRACES} traces x {STEPS}, ms",
        f"{what}, {TRACES} traces x {STEPS}: peak memory, MiB, one process each",
    )
    floor = statistics.median(times["read and write once"])
    has_memory = what.startswith("until")
    if PEER not in times:
        reason = missing("stlcgpp")
        found = [without_peer(claim, reason, PEER, ours=times["fedkg"], target=target, floor=floor)]
        if has_memory:
            found.append(
                without_peer(memory, reason, PEER, ours=[peaks["fedkg"]], target=MEMORY_TARGET)
            )
        return found
    found = [compare(claim, times["fedkg"], times[PEER], PEER, target=target, floor=floor)]
    if has_memory:
        ours = max(peaks["fedkg"], MEASURABLE_MIB)
        bytes_moved = 2 * TRACES * STEPS * 4 / 2**20
        found.append(
            compare(memory, [ours], [peaks[PEER]], PEER, target=MEMORY_TARGET, floor=bytes_moved)
        )
    return found


def plant(rows: int) -> list[Part]:
    """Rows of `SHAPES` over the signals and outputs of a plant, `rows` in all."""
    dice = np.random.default_rng(1)
    params = []
    for part in np.array_split(np.arange(rows), len(SHAPES)):
        last = dice.choice([3, 6, 12], len(part))
        numbers = [
            np.ones(len(part)),
            np.zeros(len(part)),
            last,
            dice.normal(-1, 1, len(part)),
            dice.normal(1, 1, len(part)),
        ]
        params.append(
            np.stack([*numbers, np.zeros(len(part)), dice.choice([2, 4], len(part))], axis=1)
        )
    parts = []
    for shape, numbers in zip(SHAPES, params, strict=True):
        slots = [
            dice.integers(0, SIGNALS, (len(numbers), 2)),
            dice.integers(SIGNALS, SIGNALS + OUTPUTS, (len(numbers), 1)),
        ]
        parts.append((shape, np.concatenate(slots, axis=1), numbers))
    return parts


def compare_reads(rows: int, repeats: int) -> Row:
    """Part 2: the constraints of a plant, and one read of the numbers that they gather."""
    module = module_of(drawn_pack(plant(rows), SIGNALS, OUTPUTS, shared=True, end="clip"))
    x, y = torch.randn(BATCH, LENGTH, SIGNALS), torch.randn(BATCH, LENGTH, OUTPUTS)
    gathered = sum(len(used_slots(bank.skeleton)) * bank.rows for bank in module.pack.banks)
    width = BATCH * LENGTH
    chunk = torch.randn(max(1, 2**26 // width), width)

    def read() -> None:
        for start in range(0, gathered, chunk.shape[0]):
            chunk[: gathered - start].sum()

    @torch.no_grad()
    def verdicts() -> object:
        return module(x, y).robustness

    verdicts()
    peer = "one read of the gathered inputs"
    times: dict[str, list[float]] = {"fedkg": [], peer: []}
    for _ in range(repeats):
        times["fedkg"].append(timed(verdicts))
        times[peer].append(timed(read))
    claim = f"{rows} rows of {len(SHAPES)} shapes, {BATCH} x {LENGTH} steps, ms"
    print_table(claim, times)
    print(f"  the gathered inputs are {gathered * width * 4 / 2**30:.2f} GiB")
    floor = statistics.median(times[peer])
    return compare(claim, times["fedkg"], times[peer], peer, target=READS_TARGET, floor=floor)


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(measure_peak(options.memory[0], options.memory[1], options.memory[2] == "1"))
        return
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads on {os.cpu_count()} cores, "
        f"{platform.machine()}, load before {os.getloadavg()[0]:.1f}"
    )
    results = compare_rules(options.repeats)
    results.append(compare_reads(options.rows, max(3, options.repeats // 3)))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
