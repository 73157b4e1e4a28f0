"""The server's scores for 100 clients: 3,000 constraints on 256 probe rows.

    python benchmarks/client_scoring.py [--rows 3000] [--probe 256] [--clients 100] [--repeats 15]

Ours is specialised to the probe rows. The bank resembles that of a plant: twelve shapes, guards
over inputs by number, limits on four outputs from one side and from both, linear and not linear in
the inputs, each row with other columns and numbers. "Levels" draws the limits on outputs from 20
levels, as people write them; "each its own" draws every limit independently, so that no two rows
share a comparison. The peer is the module on the answers of all clients at once. Both must count
the same before the benchmark measures time. The floor reads the answers and writes the counts once.
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
from reporting.rows import Row, compare, limit
from torch import Tensor

from fedkg.constraints import ConstraintModule
from fedkg.pack import (
    And,
    Compare,
    Formula,
    Implies,
    Negate,
    Or,
    Pack,
    Param,
    Product,
    Quotient,
    Slot,
    Sum,
    Term,
)

SIGNALS, OUTPUTS, TARGET, MOST = 60, 4, 20.0, 10.0
BANKS = (("limits at 20 levels", 20), ("each limit its own", None))
A, B, C = Slot(index=0), Slot(index=1), Slot(index=2)
Y, Z = Slot(index=3, role="output"), Slot(index=4, role="output")
GUARD, SECOND, LOW, HIGH, GAIN, SCALE = (Param(index=i) for i in range(6))


def le(left: Term, right: Term, op: str = "le") -> Compare:
    """``left <= right``."""
    return Compare.model_validate({"op": op, "left": left, "right": right, "scale": SCALE.index})


def when(guard: Formula, then: Formula) -> Implies:
    """If the guard holds, the consequence must hold."""
    return Implies(antecedent=guard, consequent=then)


BETWEEN = And(args=(le(LOW, Y), le(Y, HIGH)))
LINE = Sum(args=(Product(args=(GAIN, A)), HIGH))
SHAPES: tuple[Formula, ...] = (
    le(LOW, Y),
    BETWEEN,
    when(le(GUARD, A), le(LOW, Y)),
    when(le(A, GUARD), le(Y, HIGH, "lt")),
    when(And(args=(le(GUARD, A), le(B, SECOND))), le(LOW, Y)),
    when(Or(args=(le(A, GUARD, "lt"), le(SECOND, B))), BETWEEN),
    when(le(GUARD, Product(args=(A, B))), le(LOW, Y)),
    when(le(GUARD, Sum(args=(A, Negate(arg=B)))), when(le(SECOND, C), le(Y, HIGH))),
    le(Y, LINE),
    when(le(GUARD, B), le(Sum(args=(Product(args=(GAIN, A)), LOW)), Y)),
    when(le(GUARD, A), le(Sum(args=(Y, Z)), HIGH)),
    when(
        le(GUARD, Quotient(numerator=A, denominator=Sum(args=(Product(args=(B, B)), SCALE)))),
        Or(args=(le(LOW, Y), le(Z, HIGH))),
    ),
)


def make_pack(rows: int, levels: int | None, dice: np.random.Generator) -> Pack:
    """A pack of the twelve shapes.

    Limits on outputs are drawn from this number of levels, or independently (None).
    """

    def limits(low: float, high: float, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return (
            dice.uniform(low, high, count)
            if levels is None
            else np.round(dice.integers(0, levels, count) / levels * (high - low) + low, 3)
        )

    parts = []
    for number, skeleton in enumerate(SHAPES):
        count = rows // len(SHAPES) + (number < rows % len(SHAPES))
        params = [
            dice.normal(0, 1, count).round(2),
            dice.normal(0, 1, count).round(2),
            limits(-1.5, 0, count),
            limits(0, 1.5, count),
        ]
        params += [dice.choice([-0.5, -0.1, 0.1, 0.2, 0.5], count), np.ones(count)]
        outputs = np.array([dice.permutation(OUTPUTS)[:2] for _ in range(count)])
        slots = np.concatenate([dice.integers(0, SIGNALS, (count, 3)), SIGNALS + outputs], axis=1)
        parts.append((skeleton, slots, np.stack(params, axis=1)))
    return drawn_pack(parts, SIGNALS, OUTPUTS)


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def plain_counts(rules: ConstraintModule, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Violated and evaluated rows of each constraint for each client, by the ordinary module."""
    report = rules(x.repeat(y.shape[0], 1), y.flatten(0, 1))
    violated, evaluated = (
        part.reshape(y.shape[0], x.shape[0], -1).sum(dim=1)
        for part in (report.violated, report.fired & ~report.unknown)
    )
    return violated, evaluated


def compared(claim: str, levels: int | None, options: argparse.Namespace) -> list[Row]:
    """Compare the counts of both on one bank, and time them."""
    torch.manual_seed(0)
    pack = make_pack(options.rows, levels, np.random.default_rng(0))
    rules = module_of(pack)
    x, y = torch.randn(options.probe, SIGNALS), torch.randn(options.clients, options.probe, OUTPUTS)
    start = time.perf_counter()
    special = rules.specialise(x)
    once = (time.perf_counter() - start) * 1e3
    counts, (violated, evaluated) = special.counts(y), plain_counts(rules, x, y)
    assert torch.equal(counts.violated, violated), "violated"
    assert torch.equal(counts.evaluated, evaluated), "evaluated"
    print(
        f"{claim}: {special.expressed.float().mean():.0%} of the rows by thresholds, the rest"
        " evaluated for each client;"
    )
    print(
        f"  {evaluated.double().mean() / options.probe:.0%} of the probe rows open on average;"
        f" specialised once in {once:.0f} ms"
    )
    ours: list[float] = []
    peer: list[float] = []
    floor: list[float] = []
    for _ in range(options.repeats):
        ours.append(timed(lambda: special.counts(y)))
        floor.append(timed(lambda: (y.sum(), torch.empty_like(violated).zero_())))
        peer.append(timed(lambda: plain_counts(rules, x, y)))
    for what, times in (
        ("specialised", ours),
        ("as they are", peer),
        ("reading answers, writing counts", floor),
    ):
        low, high = np.quantile(times, (0.25, 0.75))
        print(
            f"  {what:34s} median {statistics.median(times):9.2f} ms   quartiles {low:8.2f} .."
            f" {high:8.2f}   best {min(times):8.2f}"
        )
    mine, other = statistics.median(ours), statistics.median(peer)
    print(
        f"  {other / mine:.0f} times faster; at most {MOST:.0f} ms:"
        f" {'holds' if mine <= MOST else 'does not hold'}"
    )
    name = (
        f"scores of {options.clients} clients, {options.rows} constraints x {options.probe} "
        f"probe rows, {claim}, ms"
    )
    least = statistics.median(floor)
    return [
        compare(name, ours, peer, "the module, not specialised", target=TARGET, floor=least),
        limit(name, ours, MOST, floor=least),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--probe", type=int, default=256)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    print(
        f"{options.rows} constraints of {len(SHAPES)} shapes, {options.probe} probe rows,"
        f" {options.clients} clients, float32"
    )
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads on {os.cpu_count()} cores,"
        f" {platform.machine()}"
    )
    print(f"load before: {os.getloadavg()[0]:.1f}; {options.repeats} repeats")
    print(
        json.dumps([line for claim, levels in BANKS for line in compared(claim, levels, options)])
    )


if __name__ == "__main__":
    main()
