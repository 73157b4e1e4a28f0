"""A round of federated training: stacked, one client after the other, and in plain PyTorch.

    python benchmarks/federated_executors.py [--pairs 15] [--quick]

The contenders take turns, one round each, so that other load on the machine affects all of them
alike. A ratio is the median over turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from peers.sampled_clients import sampled_clients
from reporting.rows import Row, compare, limit
from torch import Tensor, nn

from fedkg.federated import (
    BinaryCrossEntropy,
    Clients,
    CrossEntropy,
    Problem,
    Settings,
    fedavg,
    train,
)
from fedkg.models import MLP, Params

PEER = "plain PyTorch loop"


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A workload.

    `limit`: seconds that a stacked round may take. `least`: how many times faster than the peer it
    must be.
    """

    name: str
    problem: Problem
    settings: Settings
    limit: float | None = None
    least: float | None = None


def fleet(name: str, widths: tuple[int, ...], limit: float | None, least: float | None) -> Case:
    """100 of 1,000 clients with 50 samples each, batches of 10, one epoch."""
    generator = torch.Generator().manual_seed(1)
    means = 0.6 * torch.randn(widths[-1], widths[0], generator=generator)
    ys = [torch.randint(0, widths[-1], (50,), generator=generator) for _ in range(1000)]
    xs = [means[y] + torch.randn(50, widths[0], generator=generator) for y in ys]
    clients = Clients(names=tuple(f"client_{i}" for i in range(1000)), x=tuple(xs), y=tuple(ys))
    model = MLP(inputs=widths[0], hidden=widths[1:-1], outputs=widths[-1])
    settings = Settings(
        rounds=10**6, participation=0.1, local_epochs=1, batch=10, learning_rate=0.05
    )
    return Case(
        name=name,
        problem=Problem(model=model, loss=CrossEntropy(), clients=clients),
        settings=settings,
        limit=limit,
        least=least,
    )


def milling() -> Case:
    """The shape of the milling example.

    Three of five sites of very different size, 6,500 rows in all, five epochs in batches of 64.
    """
    generator = torch.Generator().manual_seed(2)
    sizes = (2900, 1700, 1100, 600, 200)
    xs = [torch.randn(size, 6, generator=generator) for size in sizes]
    ys = [
        (torch.rand(size, generator=generator) < torch.sigmoid(2 * x[:, 0] - 3)).float()
        for size, x in zip(sizes, xs, strict=True)
    ]
    clients = Clients(names=("graz", "linz", "wien", "steyr", "villach"), x=tuple(xs), y=tuple(ys))
    problem = Problem(
        model=MLP(inputs=6, hidden=(32, 32), outputs=1), loss=BinaryCrossEntropy(), clients=clients
    )
    settings = Settings(
        rounds=10**6, participation=0.6, local_epochs=5, batch=64, learning_rate=0.05
    )
    return Case(
        name="milling, 3 of 5 sites, MLP 6-32-32-1, 5 epochs", problem=problem, settings=settings
    )


def ours(
    case: Case, executor: str, threads: int, told: list[str] | None = None
) -> Iterator[Params]:
    """The parameters after each round under an executor; what the rounds note goes into `told`."""
    for state, record in train(
        case.problem, fedavg(), replace(case.settings, executor=executor, threads=threads)
    ):
        if told is not None:
            told += record.notes
        yield state.params


def plain(case: Case, rounds: int) -> Iterator[Params]:
    """Train as a tutorial does: a module and an optimiser, one client after the other.

    The clients of each of the `rounds` rounds are those that fedkg samples, and the numbers and
    sizes of their batches are the same. Drawing the batches is not timed.
    """
    model, settings, clients = case.problem.model, case.settings, case.problem.clients
    assert isinstance(model, MLP)
    layers: list[nn.Module] = []
    for fan_in, fan_out in zip(model.widths[:-1], model.widths[1:], strict=True):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    net = nn.Sequential(*layers[:-1]).to(clients.x[0].dtype)
    loss: Callable[[Tensor, Tensor], Tensor] = (
        nn.CrossEntropyLoss() if model.outputs > 1 else nn.BCEWithLogitsLoss()
    )
    names = {
        f"{2 * i}.{part}": f"layers.{i}.{part}"
        for i in range(model.layers)
        for part in ("weight", "bias")
    }
    world = {
        name: model.init(settings.seed, clients.x[0].dtype)[mine] for name, mine in names.items()
    }
    draw = torch.Generator().manual_seed(0)
    for cohort in sampled_clients(
        len(clients.names), settings.participation, rounds, settings.seed
    ):
        batches, total = draw_batches(case, cohort, draw), 0
        yield {
            mine: world[name] for name, mine in names.items()
        }  # the clock starts here and stops at the next yield
        torch.set_num_threads(1)
        changes = {name: torch.zeros_like(value) for name, value in world.items()}
        for client, steps in zip(cohort, batches, strict=True):
            x, y = clients.x[client], clients.y[client]
            net.load_state_dict(world)
            optimiser = torch.optim.SGD(net.parameters(), lr=settings.learning_rate)
            for rows in steps:
                optimiser.zero_grad()
                output = net(x[rows])
                loss(output if model.outputs > 1 else output.squeeze(-1), y[rows]).backward()
                optimiser.step()
            total += len(x)
            for name, value in net.state_dict().items():
                changes[name] += len(x) * (value - world[name])
        world = {name: value + changes[name] / total for name, value in world.items()}
        yield {mine: world[name] for name, mine in names.items()}


def draw_batches(case: Case, cohort: Sequence[int], draw: torch.Generator) -> list[list[Tensor]]:
    """For each sampled client the rows of each of its batches: every epoch in a new order."""
    settings, found = case.settings, []
    for client in cohort:
        size, steps = len(case.problem.clients.x[client]), []
        for _ in range(settings.local_epochs or 1):
            steps += list(torch.randperm(size, generator=draw).split(settings.batch or size))
        found.append(steps)
    return found


def agree(case: Case, rounds: int = 2) -> float:
    """The largest difference of a parameter between the three after some rounds, in float64.

    A batch is all samples of a client here, because each contender orders them differently.
    In float32, a ReLU unit that is within rounding of zero may be on in one contender and off in
    another, and a long run then differs by more than rounding. In float64 this does not happen in
    any run of this length.
    """
    clients = case.problem.clients
    ys = tuple(y.double() if y.is_floating_point() else y for y in clients.y)
    double = replace(
        case,
        problem=replace(
            case.problem, clients=replace(clients, x=tuple(x.double() for x in clients.x), y=ys)
        ),
        settings=replace(case.settings, batch=max(len(x) for x in clients.x)),
    )
    ends = []
    for executor in ("stacked", "sequential"):
        rounds_of = ours(double, executor, 1)
        ends.append([next(rounds_of) for _ in range(rounds)][-1])
    loop = plain(double, rounds)
    ends.append([next(loop) for _ in range(2 * rounds)][-1])
    return max(float((one[name] - ends[0][name]).abs().max()) for one in ends[1:] for name in one)


def measure(case: Case, pairs: int) -> tuple[dict[str, list[float]], str]:
    """Seconds of each turn of each contender on one thread, and what `auto` chose.

    The first turns, which warm up all contenders, are left out.
    """
    told: list[str] = []
    contenders = {
        "stacked": ours(case, "stacked", 1),
        "auto": ours(case, "auto", 1, told),
        "sequential": ours(case, "sequential", 1),
        PEER: plain(case, pairs + 2),
    }
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(pairs + 2):
        first = turn % len(names)  # nobody always follows the same other
        for name in names[first:] + names[:first]:
            if name == PEER:
                next(contenders[name])
            begun = time.perf_counter()
            next(contenders[name])
            if turn >= 2:
                taken[name].append(time.perf_counter() - begun)
    return taken, told[0]


def two_threads(case: Case, rounds: int) -> list[float]:
    """Seconds of stacked rounds on two threads.

    They are measured separately, because waiting threads spin and would slow down the others.
    """
    contender = ours(case, "stacked", 2)
    taken = []
    for turn in range(rounds + 2):
        begun = time.perf_counter()
        next(contender)
        if turn >= 2:
            taken.append(time.perf_counter() - begun)
    return taken


def floor(case: Case) -> float:
    """Seconds that this machine needs at least on one core.

    The longer of: the products' operations at the rate of a large product, and the bytes of the
    cohort's rows and updates, once, at the rate of a large copy.
    """
    torch.set_num_threads(1)
    side = torch.randn(768, 768)
    rate = 2 * 768**3 / best(lambda: side @ side)
    block = torch.zeros(1 << 24)
    bandwidth = 2 * block.numel() * 4 / best(lambda: block.clone())
    sizes = [len(x) for x in case.problem.clients.x]
    share = case.settings.participation
    samples = share * sum(sizes) * (case.settings.local_epochs or 1)
    parameters = sum(value.numel() for value in case.problem.model.init(0).values())
    operations = 6 * parameters * samples
    numbers = sum(x.numel() for x in case.problem.clients.x)
    moved = 4 * (share * numbers + share * len(sizes) * parameters)
    return max(operations / rate, moved / bandwidth)


def best(work: Callable[[], object], turns: int = 7) -> float:
    """The shortest of several runs, in seconds."""
    found = []
    for _ in range(turns):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Median over turns of how many times longer one took than the other in the same turn."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def spread(values: Sequence[float]) -> str:
    """Median, and the quarter and three-quarter points, in milliseconds."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{1e3 * middle:9.2f} ms  ({1e3 * low:.2f} .. {1e3 * high:.2f})"


def busy() -> tuple[float, float]:
    """CPU seconds spent so far by the whole machine, and by this process."""
    numbers = [int(part) for part in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    own = os.times()
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf(
        "SC_CLK_TCK"
    ), own.user + own.system


def bench(case: Case, pairs: int) -> list[Row]:
    """Print a case's table and return its claims."""
    difference = agree(case)
    assert difference < 1e-12, f"{case.name}: the contenders do not agree ({difference})"
    (machine, own), begun = busy(), time.perf_counter()
    taken, chosen = measure(case, pairs)
    (machine_after, own_after), elapsed = busy(), time.perf_counter() - begun
    others = max(0.0, (machine_after - machine) - (own_after - own)) / elapsed
    least = floor(case)
    print(
        f"\n{case.name}\n  agree within {difference:.1e}; other processes kept {others:.2f} cores"
        f" busy meanwhile; {pairs} turns"
    )
    for name, values in taken.items():
        print(f"  {name:20s} {spread(values)}  {ratio(taken[PEER], values):6.2f} x {PEER}")
    print(f"  {'stacked, 2 threads':20s} {spread(two_threads(case, pairs))}  measured apart")
    print(f"  {'floor':20s} {1e3 * least:9.2f} ms\n  {chosen}")
    fastest = min(
        (name for name in taken if name in ("stacked", "sequential")),
        key=lambda name: statistics.median(taken[name]),
    )
    stacked = taken["stacked"]
    claims = [
        compare(
            f"{case.name}: a stacked round, s",
            stacked,
            taken[PEER],
            PEER,
            target=case.least,
            floor=least,
        ),
        compare(
            f"{case.name}: auto takes at most 15 % longer than the faster executor, s",
            taken["auto"],
            taken[fastest],
            fastest,
            target=0.85,
            floor=least,
        ),
    ]
    if case.limit is not None:
        claims.append(limit(f"{case.name}: a stacked round, s", stacked, case.limit))
    return claims


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="fewer turns, to see that it runs")
    arguments = parser.parse_args()
    pairs = 3 if arguments.quick else arguments.pairs
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch"
        f" {torch.__version__}, float32"
    )
    cases = [
        fleet("100 of 1,000 clients, MLP 32-64-64-10", (32, 64, 64, 10), limit=0.010, least=7.0),
        fleet("100 of 1,000 clients, MLP 784-200-10", (784, 200, 10), limit=None, least=None),
        milling(),
    ]
    claims = [claim for case in cases for claim in bench(case, pairs)]
    print(json.dumps(claims))


if __name__ == "__main__":
    main()
