"""3,000 constraints over a batch of 1,024, against a loop over constraints.

    python benchmarks/constraint_module.py [--rows 3000] [--batch 1024] [--repeats 15]

The rules have twelve shapes, as a plant's rules do: limits, guarded limits, sums, products,
monotonicity, classes. The peer evaluates the same formulas in PyTorch one constraint at a time, as
one would write them by hand: one closure per constraint over columns of the batch. The benchmark
compares the verdicts and penalties of both before it measures time. The floor reads the inputs
once.
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
import torch
from packs.pack_from_arrays import drawn_pack, module_of
from reporting.rows import compare
from torch import Tensor

from fedkg.pack import And, Compare, Formula, Implies, Not, Or, Pack, Param, Product, Slot, Sum

SIGNALS, OUTPUTS = 60, 4
TARGETS = {"robustness": 5, "penalty, forward and backward": 10}
A, B, C = Slot(index=0), Slot(index=1), Slot(index=2)
Y, Z = Slot(index=3, role="output"), Slot(index=4, role="output")
P, Q, SCALE = Param(index=0), Param(index=1), 2

Numbers = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
Peer = Callable[[Numbers, float, float], tuple[Tensor, Tensor]]


def le(left: object, right: object) -> Compare:
    """``left <= right``."""
    return Compare.model_validate({"op": "le", "left": left, "right": right, "scale": SCALE})


def hinge(margin: Tensor) -> Tensor:
    """The penalty of a margin."""
    return torch.relu(-margin)


def guarded(guard: Tensor, margin: Tensor) -> tuple[Tensor, Tensor]:
    """Robustness and penalty of: if the guard (a margin over inputs) then the margin."""
    return torch.maximum(-guard, margin), hinge(margin) * (guard >= 0)


def pair(margin: Tensor) -> tuple[Tensor, Tensor]:
    """Robustness and penalty of a single margin."""
    return margin, hinge(margin)


SHAPES: tuple[tuple[Formula, Peer], ...] = (
    (le(Y, P), lambda n, p, q: pair(p - n[3])),
    (le(P, Y), lambda n, p, q: pair(n[3] - p)),
    (And(args=(le(P, Y), le(Y, Q))), lambda n, p, q: pair(torch.minimum(n[3] - p, q - n[3]))),
    (
        Implies(antecedent=le(P, A), consequent=le(Q, Y)),
        lambda n, p, q: guarded(n[0] - p, n[3] - q),
    ),
    (
        Implies(antecedent=And(args=(le(P, A), le(B, Q))), consequent=le(P, Y)),
        lambda n, p, q: guarded(torch.minimum(n[0] - p, q - n[1]), n[3] - p),
    ),
    (le(Sum(args=(Y, Z)), P), lambda n, p, q: pair(p - (n[3] + n[4]))),
    (le(Product(args=(P, Y)), A), lambda n, p, q: pair(n[0] - p * n[3])),
    (le(Product(args=(A, Y)), Q), lambda n, p, q: pair(q - n[0] * n[3])),
    (Or(args=(le(Y, P), le(Q, Z))), lambda n, p, q: pair(torch.maximum(p - n[3], n[4] - q))),
    (
        Not(arg=And(args=(le(P, Y), le(Q, Z)))),
        lambda n, p, q: pair(torch.maximum(p - n[3], q - n[4])),
    ),
    (
        Implies(antecedent=le(Product(args=(A, B)), P), consequent=le(Y, Q)),
        lambda n, p, q: guarded(p - n[0] * n[1], q - n[3]),
    ),
    (
        le(Sum(args=(Product(args=(P, A)), B, Y)), C),
        lambda n, p, q: pair(n[2] - (p * n[0] + n[1] + n[3])),
    ),
)


def make_pack(rows: int, dice: np.random.Generator) -> Pack:
    """Constraints of all shapes over random signals and outputs."""
    parts = []
    for (skeleton, _), part in zip(
        SHAPES, np.array_split(np.arange(rows), len(SHAPES)), strict=True
    ):
        count = len(part)
        inputs, outputs = (
            dice.integers(0, SIGNALS, (count, 3)),
            dice.integers(SIGNALS, SIGNALS + OUTPUTS, (count, 2)),
        )
        params = np.concatenate([dice.normal(size=(count, 2)), np.ones((count, 1))], axis=1)
        parts.append((skeleton, np.concatenate([inputs, outputs], axis=1), params))
    return drawn_pack(parts, SIGNALS, OUTPUTS, shared=True)


def loop(pack: Pack, x: Tensor, y: Tensor) -> tuple[list[Tensor], Tensor]:
    """Robustness of each constraint, and the penalty, one constraint at a time."""
    columns_of = (*x.unbind(1), *y.unbind(1))
    robustness: list[Tensor] = []
    penalty = x.new_zeros(())
    for bank, (_, peer) in zip(pack.banks, SHAPES, strict=True):
        for slots, (p, q, _) in zip(bank.slots.tolist(), bank.params.tolist(), strict=True):
            a, b, c, d, e = (columns_of[slot] for slot in slots)
            value, missing = peer((a, b, c, d, e), p, q)
            robustness.append(value)
            penalty = penalty + missing.mean() / bank.rows
    return robustness, penalty


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    dice = np.random.default_rng(0)
    pack = make_pack(options.rows, dice)
    rules = module_of(pack)
    x, y = (
        torch.randn(options.batch, SIGNALS),
        torch.randn(options.batch, OUTPUTS, requires_grad=True),
    )
    gathered = [
        torch.randn(len(b.inputs) + len(b.outputs), b.rows, options.batch) for b in rules.banks
    ]

    report = rules(x, y)
    values, penalty = loop(pack, x, y)
    assert torch.allclose(report.robustness, torch.stack(values, dim=1), atol=1e-6)
    assert torch.allclose(report.penalty, penalty, rtol=1e-4)

    @torch.no_grad()
    def verdicts() -> object:
        return rules(x, y).robustness

    @torch.no_grad()
    def verdicts_by_loop() -> object:
        return loop(pack, x, y)[0]

    works: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "robustness": (verdicts, verdicts_by_loop),
        "penalty, forward and backward": (
            lambda: torch.autograd.grad(rules(x, y).penalty, y),
            lambda: torch.autograd.grad(loop(pack, x, y)[1], y),
        ),
    }
    print(
        f"{options.rows} constraints of {len(SHAPES)} shapes x batch {options.batch}, float32,"
        f" {options.repeats} repeats"
    )
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads on {os.cpu_count()} cores,"
        f" {platform.machine()}"
    )
    print(f"load before: {os.getloadavg()[0]:.1f}")
    results = []
    for claim, (ours, theirs) in works.items():
        for work in (ours, ours, theirs):
            work()
        pairs = [
            (timed(ours), timed(theirs), timed(lambda: [part.sum() for part in gathered]))
            for _ in range(options.repeats)
        ]
        mine, peer, floor = ([p[i] * 1e3 for p in pairs] for i in range(3))
        ratio = statistics.median(p[1] / p[0] for p in pairs)
        for what, times in (
            ("module", mine),
            ("loop over constraints", peer),
            ("reading the gathered inputs once", floor),
        ):
            low, high = np.quantile(times, (0.25, 0.75))
            print(
                f"  {claim:32s} {what:34s} median {statistics.median(times):9.2f} ms   quartiles"
                f" {low:8.2f} .. {high:8.2f}"
            )
        multiple = statistics.median(p[0] / p[2] for p in pairs)
        print(
            f"  {claim:32s} {ratio:.0f} times faster than the loop; {multiple:.1f} times the"
            " reading of the inputs"
        )
        results.append(
            compare(
                f"{claim}: {options.rows} constraints x batch {options.batch}, ms",
                mine,
                peer,
                "PyTorch, one constraint at a time",
                target=TARGETS[claim],
                floor=statistics.median(floor),
            )
        )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
