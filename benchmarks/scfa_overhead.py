"""What SCFA adds to a round of federated averaging, on the shape of the milling job.

    python benchmarks/scfa_overhead.py [--rows 3000] [--probe 256] [--turns 50]

SCFA judges 3,000 constraints on 256 probe rows. Five sites of very different size have 6,500 rows
in all; an MLP 6-32-32-1, five epochs in batches of 64, one thread. It is measured with three of the
five sites in a round, each trained alone, as in the job, and with all five in one stack. Both sides
train from the same state in turn, a round each; FedAvg does not evaluate constraints. Times are
processor time of the process. Before the benchmark measures time, it checks that both sides give
the same model to the bit if all constraints hold. The floor is the forward passes of the models
over the probe rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from packs.pack_from_arrays import drawn_pack, module_of
from reporting.rows import Row, compare

from fedkg.constraints import ConstraintModule
from fedkg.federated import (
    BinaryCrossEntropy,
    Clients,
    PackScorer,
    Problem,
    Settings,
    fedavg,
    scfa,
    train,
)
from fedkg.models import MLP, Params
from fedkg.pack import And, Compare, Formula, Implies, Param, Slot, Term

FEATURES, MOST = 6, 0.10
SIZES = (2900, 1700, 1100, 600, 200)
MODEL = MLP(inputs=FEATURES, hidden=(32, 32), outputs=1)
A, B, Y = Slot(index=0), Slot(index=1), Slot(index=2, role="output")
GUARD, SECOND, LIMIT, SCALE = (Param(index=i) for i in range(4))


def le(left: Term, right: Term) -> Compare:
    """``left <= right``."""
    return Compare.model_validate({"op": "le", "left": left, "right": right, "scale": SCALE.index})


SHAPES: tuple[Formula, ...] = (
    le(Y, LIMIT),
    Implies(antecedent=le(GUARD, A), consequent=le(LIMIT, Y)),
    Implies(antecedent=le(A, GUARD), consequent=le(Y, LIMIT)),
    Implies(antecedent=And(args=(le(GUARD, A), le(B, SECOND))), consequent=le(LIMIT, Y)),
)


def rules(rows: int, *, kept: bool = False) -> ConstraintModule:
    """Limits on the output, mostly under guards over the inputs.

    With `kept`, every answer satisfies them.
    """
    dice, parts = np.random.default_rng(0), []
    for number, skeleton in enumerate(SHAPES):
        count = rows // len(SHAPES) + (number < rows % len(SHAPES))
        upper = number in (0, 2)
        limits = (
            np.full(count, 9.0 if upper else -9.0)
            if kept
            else dice.uniform(0.4, 0.9, count)
            if upper
            else dice.uniform(0, 0.4, count)
        )
        slots = np.concatenate(
            [dice.integers(0, FEATURES, (count, 2)), np.full((count, 1), FEATURES)], axis=1
        )
        parts.append(
            (
                skeleton,
                slots,
                np.stack(
                    [dice.normal(0, 1, count), dice.normal(0, 1, count), limits, np.ones(count)],
                    axis=1,
                ),
            )
        )
    return module_of(drawn_pack(parts, FEATURES, 1))


def milling() -> Problem:
    """The five sites."""
    generator = torch.Generator().manual_seed(2)
    xs = tuple(torch.randn(size, FEATURES, generator=generator) for size in SIZES)
    ys = tuple(
        (torch.rand(len(x), generator=generator) < torch.sigmoid(2 * x[:, 0] - 3)).float()
        for x in xs
    )
    clients = Clients(names=("graz", "linz", "wien", "steyr", "villach"), x=xs, y=ys)
    return Problem(model=MODEL, loss=BinaryCrossEntropy(), clients=clients)


def scorer(rows: int, probe: int, *, kept: bool = False) -> PackScorer:
    """The server's scorer."""
    return PackScorer(
        MODEL,
        rules(rows, kept=kept),
        torch.randn(probe, FEATURES, generator=torch.Generator().manual_seed(3)),
    )


def rounds(problem: Problem, settings: Settings, *, judged: bool) -> Iterator[Params]:
    """The models after each round."""
    algorithm = scfa() if judged else fedavg()
    for state, _ in train(problem, algorithm, replace(settings, measure=judged)):
        yield state.models


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of processor time of one call."""
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1e3


def compared(title: str, settings: Settings, options: argparse.Namespace) -> Row:
    """A claim about the time that scoring adds to a round."""
    problem = milling()
    judged = replace(problem, scorer=scorer(options.rows, options.probe))
    trusting = replace(problem, scorer=scorer(options.rows, options.probe, kept=True))
    same, other = (rounds(trusting, settings, judged=True), rounds(problem, settings, judged=False))
    for _ in range(3):
        mine, theirs = next(same), next(other)
        assert all(torch.equal(mine[name], theirs[name]) for name in theirs), (
            "SCFA without violations is not FedAvg"
        )
    sides = {
        "SCFA": rounds(judged, settings, judged=True),
        "FedAvg": rounds(problem, settings, judged=False),
    }
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(options.turns + 2):
        for name in sorted(sides, reverse=bool(turn % 2)):
            spent = timed(lambda side=sides[name]: next(side))
            if turn >= 2:
                taken[name].append(spent)
    more = statistics.median(a / b for a, b in zip(taken["SCFA"], taken["FedAvg"], strict=True)) - 1
    for name, values in taken.items():
        low, middle, high = statistics.quantiles(values * 2 if len(values) == 1 else values, n=4)
        print(f"  {name:8s} {middle:8.2f} ms a round  ({low:.2f} .. {high:.2f})")
    print(f"  judging adds {more:.1%}")
    x = torch.randn(options.probe, FEATURES)
    stack = {name: torch.stack([value] * 5) for name, value in MODEL.init(0).items()}
    return compare(
        f"SCFA, {options.rows} constraints x {options.probe} probe rows, {title}: a round, CPU ms",
        taken["SCFA"],
        taken["FedAvg"],
        f"FedAvg without scores; the target allows {MOST:.0%} more",
        target=1 / (1 + MOST),
        floor=min(timed(lambda: MODEL.apply(stack, x)) for _ in range(9)),
    )


def sizes() -> None:
    """The time of scoring for other numbers of clients, constraints and probe rows."""
    print(
        "\n  clients  constraints  probe rows   prepared once       a round   of a client and"
        " constraint"
    )
    for clients, rows, probe in (
        (5, 300, 256),
        (5, 3000, 256),
        (5, 3000, 2048),
        (5, 30000, 256),
        (100, 3000, 256),
        (1000, 3000, 256),
    ):
        judge: list[PackScorer] = []
        once = timed(lambda judge=judge, rows=rows, probe=probe: judge.append(scorer(rows, probe)))
        several = [MODEL.init(seed) for seed in range(min(clients, 20))]
        stack = {
            name: torch.stack([several[i % len(several)][name] for i in range(clients)])
            for name in several[0]
        }
        best = min(timed(lambda judge=judge[0], stack=stack: judge.score(stack)) for _ in range(5))
        print(
            f"  {clients:7d}  {rows:11d}  {probe:10d}  {once:10.0f} ms  {best:9.2f} ms "
            f" {1e6 * best / clients / rows:10.1f} ns"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--probe", type=int, default=256)
    parser.add_argument("--turns", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch"
        f" {torch.__version__}"
    )
    print(f"load {os.getloadavg()[0]:.1f}; {options.turns} turns, processor time")
    job = Settings(
        rounds=10**6,
        participation=0.6,
        local_epochs=5,
        batch=64,
        learning_rate=0.05,
        executor="stacked",
        chunk=1,
    )
    made = []
    for title, settings in (
        ("3 of 5 sites, one by one", job),
        ("all 5 sites in one stack", replace(job, participation=1.0, chunk=None)),
    ):
        print(f"\n{title}")
        made.append(compared(title, settings, options))
    sizes()
    print(json.dumps(made))


if __name__ == "__main__":
    main()
