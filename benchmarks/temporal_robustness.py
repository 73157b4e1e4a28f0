"""Temporal robustness against stlcg++, and thousands of temporal constraints against one read of what they gather.

    python benchmarks/temporal_robustness.py [--repeats 9] [--rows 3000]

First `always[0,24]`, a nested response and `until[0,24]` over 256 traces of 100 steps, as formulas on tensors (`evaluate`) and as a whole
`ConstraintModule`, beside stlcg++ (`stlcgpp`): values and gradients are compared before anything is timed, at the steps whose windows lie
inside the trace. Peak memory is that of a process of its own for each, above what it holds before the call. Then 3,000 constraints of
twelve temporal shapes over a batch of 1,024 windows of 48 steps, beside one read of the numbers that they gather.
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

import numpy as np
import torch
from packs.drawn import Part, drawn_pack, module_of
from torch import Tensor

from fedkg.constraints import ConstraintModule, columns
from fedkg.constraints.engine.traces import windows
from fedkg.constraints.fused.batch import Places, fused_places
from fedkg.constraints.fused.bound import fused
from fedkg.constraints.fused.call import Call
from fedkg.constraints.plain import is_plain
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
)

TRACES, STEPS = 256, 100
BATCH, LENGTH, SIGNALS, OUTPUTS = 1024, 48, 60, 4
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


FORMULAS: dict[str, tuple[Formula, tuple[float, ...], int, tuple[float, float]]] = {
    "always[0,24]": (
        over("always", And(args=(le(A, Y), le(Y, B)))),
        (1, 0, 24, -1, 1, 0, 0),
        24,
        (150, 20),
    ),
    "nested response": (
        over(
            "always",
            Implies(antecedent=le(A, Y), consequent=over("eventually", le(B, Y), LOW2, HIGH2)),
        ),
        (1, 0, 48, -1, 1, 0, 12),
        60,
        (150, 20),
    ),
    "until[0,24]": (until(le(Y, A), le(Y, B)), (1, 0, 24, 2, -0.5, 0, 0), 24, (150, 100)),
}
"""Formula, numbers of its row, horizon, and how many times faster than stlcg++ it is to be, forward and with backward."""

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


def single(name: str) -> ConstraintModule:
    """One of `FORMULAS` as a module whose one row reads the first output."""
    formula, numbers, _, _ = FORMULAS[name]
    pack = drawn_pack(
        [(formula, np.array([[0, 1, SIGNALS]]), np.array([numbers]))], SIGNALS, OUTPUTS, shared=True
    )
    return ConstraintModule(pack, x=columns(["c0"]), y=columns([f"c{SIGNALS}"]))


def formula_on_tensors(name: str) -> Callable[[Tensor], Tensor]:
    """Traces [n, T] to robustness [n, T], NaN where unknown: the formula alone."""
    bank = single(name).banks[0]
    program = fused(bank, torch.float32, missing=False)
    assert program is not None, "there are loops for it"

    known: dict[
        torch.Size, tuple[Places, Tensor]
    ] = {}  # by shape: what a call like an earlier one need not find out again

    def robustness_of(x: Tensor) -> Tensor:
        outputs = x.reshape(1, -1)
        assert is_plain(outputs), "numbers that can be looked at"
        places, none = known.get(x.shape) or learnt(x.shape)
        return Call(program, places.batch(none, outputs), 0, 1).robustness(none, outputs).view_as(x)

    def learnt(shape: torch.Size) -> tuple[Places, Tensor]:
        with torch.inference_mode(mode=False):
            conditions, none = (
                torch.ones(2, shape.numel(), dtype=torch.bool),
                torch.zeros(0, shape.numel()),
            )
            places = fused_places(conditions, windows(*shape, None, clip=False), torch.float32)
        assert places is not None, "conditions on a CPU"
        known[shape] = places, none
        return places, none

    return robustness_of


def module_on_tensors(name: str) -> Callable[[Tensor], Tensor]:
    """The same through the module: layouts, reading, report; with a feature that is there anyway."""
    module = single(name)
    features = torch.zeros(TRACES, STEPS, 1)

    def robustness(x: Tensor) -> Tensor:
        return module(features[: len(x)], x).at_steps.robustness[..., 0]

    return robustness


def stlcgpp(name: str) -> Callable[[Tensor], Tensor]:
    """The same by stlcg++."""
    warnings.filterwarnings("ignore")
    from stlcgpp import formula as stl

    x = stl.Predicate("x", lambda s: s)
    made = {
        "always[0,24]": lambda: stl.Always((x >= -1.0) & (x <= 1.0), interval=[0, 24]),
        "nested response": lambda: stl.Always(
            stl.Implies(x >= -1.0, stl.Eventually(x >= 1.0, interval=[0, 12])), interval=[0, 48]
        ),
        "until[0,24]": lambda: stl.Until(x < 2.0, x < -0.5, interval=[0, 24]),
    }[name]()
    robustness: Callable[[Tensor], Tensor] = torch.vmap(lambda s: made.robustness_trace(s))
    return robustness


WAYS: dict[str, Callable[[str], Callable[[Tensor], Tensor]]] = {
    "formula": formula_on_tensors,
    "module": module_on_tensors,
    "stlcg++": stlcgpp,
}


def traces() -> Tensor:
    """Random walks [n, T]."""
    generator = torch.Generator().manual_seed(0)
    walk, noise = (torch.randn(TRACES, STEPS, generator=generator) for _ in range(2))
    return walk.cumsum(1) * 0.3 + noise * 0.2


def gradient(robustness: Callable[[Tensor], Tensor], x: Tensor, inside: int) -> Tensor:
    """The gradient of the sum of known robustness."""
    leaf = x.clone().requires_grad_()
    (found,) = torch.autograd.grad(robustness(leaf)[:, :inside].sum(), leaf)
    return found


def memory(name: str, way: str, backward: bool) -> float:
    """Peak MiB of one call above what the process held, measured in a process of its own."""
    text = [sys.executable, __file__, "--memory", name, way, str(int(backward))]
    done = subprocess.run(text, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def measure(name: str, way: str, backward: bool) -> float:
    """In this process: warm up on one trace, then the peak of one call on all."""
    torch.set_num_threads(1)
    robustness, x, inside = WAYS[way](name), traces(), STEPS - FORMULAS[name][2]
    call = (lambda t: gradient(robustness, t, inside)) if backward else robustness
    call(x[:1])
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
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
    """Milliseconds of one call."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) * 1e3 / calls


def table(claim: str, times: dict[str, list[float]]) -> None:
    """Medians and quartiles."""
    for what, each in times.items():
        low, high = np.quantile(each, (0.25, 0.75))
        print(
            f"  {claim:36s} {what:34s} median {statistics.median(each):9.3f} ms   quartiles {low:8.3f} .. {high:8.3f}"
        )


def formulas(repeats: int) -> list[dict[str, object]]:
    """The first part: three formulas, forward and with backward."""
    x, results = traces(), []
    for name, (_, _, horizon, targets) in FORMULAS.items():
        ways, inside = {way: make(name) for way, make in WAYS.items()}, STEPS - horizon
        with torch.no_grad():
            values = [way(x)[:, :inside] for way in ways.values()]
        assert all(torch.allclose(values[0], other, atol=1e-5) for other in values[1:]), name
        gradients = [gradient(way, x, inside) for way in ways.values()]
        assert all(torch.allclose(gradients[0], other, atol=1e-4) for other in gradients[1:]), name
        for what, target in zip(("forward", "forward and backward"), targets, strict=True):
            backward = what != "forward"
            works: dict[str, Callable[[], object]] = {
                way: partial(gradient, run, x, inside) if backward else partial(run, x)
                for way, run in ways.items()
            }
            works["read and write once"] = lambda: x.clone()
            times: dict[str, list[float]] = {way: [] for way in works}
            with torch.set_grad_enabled(backward):
                for _ in range(repeats):
                    for way, work in works.items():
                        times[way].append(timed(work, 1 if way == "stlcg++" else 10))
            table(f"{name}, {what}", times)
            peaks = {way: memory(name, way, backward) for way in ("formula", "stlcg++")}
            ratio = statistics.median(
                b / a for a, b in zip(times["formula"], times["stlcg++"], strict=True)
            )
            whole = statistics.median(
                b / a for a, b in zip(times["module"], times["stlcg++"], strict=True)
            )
            print(
                f"  {ratio:.0f} times faster as a formula, {whole:.0f} times as a module; peak MiB {peaks}"
            )
            results.append(
                record(
                    f"{name}, {TRACES} traces x {STEPS}, {what}",
                    times,
                    "formula",
                    "stlcg++",
                    ratio,
                    target,
                )
            )
            if name.startswith("until"):
                share = peaks["stlcg++"] / max(peaks["formula"], 1 / 8)
                results.append(
                    {
                        "claim": f"{name}, {what}: peak memory, MiB",
                        "ours": round(peaks["formula"], 2),
                        "peer": round(peaks["stlcg++"], 1),
                        "peer_name": "stlcg++",
                        "ratio": round(share, 1),
                        "target": 50,
                        "holds": share >= 50,
                        "floor": round(2 * x.numel() * 4 / 2**20, 3),
                    }
                )
    return results


def record(
    claim: str, times: dict[str, list[float]], ours: str, peer: str, ratio: float, target: float
) -> dict[str, object]:
    """One line of the results."""
    return {
        "claim": claim,
        "ours": round(statistics.median(times[ours]), 4),
        "peer": round(statistics.median(times[peer]), 4),
        "peer_name": peer,
        "ratio": round(ratio, 1),
        "target": target,
        "holds": ratio >= target,
        "floor": round(statistics.median(times["read and write once"]), 4),
    }


def plant(rows: int) -> list[Part]:
    """So many rows of `SHAPES` over the signals and outputs of a plant."""
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


def many(rows: int, repeats: int) -> dict[str, object]:
    """The second part: the rows of a plant, against one read of the numbers that they gather."""
    module = module_of(drawn_pack(plant(rows), SIGNALS, OUTPUTS, shared=True, end="clip"))
    x, y = torch.randn(BATCH, LENGTH, SIGNALS), torch.randn(BATCH, LENGTH, OUTPUTS)
    numbers = torch.randn(SIGNALS, BATCH * LENGTH)
    gathers = [(len(bank.inputs) + len(bank.outputs)) * bank.rows for bank in module.banks]
    chunk = torch.randn(max(1, 2**26 // numbers.shape[1]), numbers.shape[1])

    def read() -> None:
        for start in range(0, sum(gathers), chunk.shape[0]):
            chunk[: sum(gathers) - start].sum()

    @torch.no_grad()
    def verdicts() -> object:
        return module(x, y).robustness

    verdicts()
    times: dict[str, list[float]] = {"module": [], "read of the gathered inputs": []}
    for _ in range(repeats):
        times["module"].append(timed(verdicts))
        times["read of the gathered inputs"].append(timed(read))
    claim = f"{rows} rows of {len(SHAPES)} skeletons, {BATCH} x {LENGTH} steps"
    table(claim, times)
    multiple = statistics.median(a / b for a, b in zip(*times.values(), strict=True))
    print(
        f"  {multiple:.1f} times one read of the gathered inputs ({sum(gathers) * numbers.shape[1] * 4 / 2**30:.2f} GiB)"
    )
    times["read and write once"] = times["read of the gathered inputs"]
    return record(claim, times, "module", "read of the gathered inputs", 1 / multiple, 0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(measure(options.memory[0], options.memory[1], options.memory[2] == "1"))
        return
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads on {os.cpu_count()} cores, {platform.machine()}"
    )
    print(f"load before: {os.getloadavg()[0]:.1f}")
    results = formulas(options.repeats)
    results.append(many(options.rows, max(3, options.repeats // 3)))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
