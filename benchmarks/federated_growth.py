"""How a stacked round grows with clients, samples and parameters.

    python benchmarks/federated_growth.py [--turns 5]

An MLP 32-64-64-10 and 1,000 clients with 50 samples each in batches of 10; 100 clients train in a
round. One of the three numbers varies at a time. Times are processor time of one thread, the median
of some rounds. The claim is that each of 10,000 clients costs at most one and a half times as much
as each of 100. The peer is the same engine at 100 clients. The floor is the products' operations at
the rate of a large product.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable

import torch
from reporting.rows import compare

from fedkg.federated import Clients, CrossEntropy, Problem, Settings, fedavg, train
from fedkg.models import MLP

MOST = 1.5


def rounds(clients: int, samples: int, width: int, turns: int) -> tuple[list[float], int]:
    """Seconds of rounds in which `clients` clients train, and the number of parameters.

    Two warm-up rounds are not counted.
    """
    generator, population = torch.Generator().manual_seed(1), max(1000, clients)
    xs = torch.randn(population, samples, 32, generator=generator)
    ys = torch.randint(0, 10, (population, samples), generator=generator)
    data = Clients(
        names=tuple(f"client_{place}" for place in range(population)), x=tuple(xs), y=tuple(ys)
    )
    model = MLP(inputs=32, hidden=(width, width), outputs=10)
    settings = Settings(
        rounds=10**6,
        participation=clients / population,
        local_epochs=1,
        batch=10,
        learning_rate=0.05,
        executor="stacked",
        measure=False,
    )
    run = train(Problem(model=model, loss=CrossEntropy(), clients=data), fedavg(), settings)
    taken = [timed(lambda: next(run)) for _ in range(turns + 2)]
    return taken[2:], sum(value.numel() for value in model.init(0).values())


def timed(work: Callable[[], object]) -> float:
    """Seconds of processor time of one call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch"
        f" {torch.__version__}, float32"
    )
    print(
        f"load {os.getloadavg()[0]:.1f}; {turns} rounds\n  clients  samples  parameters     a round"
        "     a client and sample"
    )
    each: dict[int, list[float]] = {}
    sizes = [(clients, 50, 64) for clients in (10, 100, 1000, 10000)]
    for clients, samples, width in [
        *sizes,
        (100, 10, 64),
        (100, 1000, 64),
        (100, 50, 16),
        (100, 50, 256),
        (100, 50, 512),
    ]:
        taken, parameters = rounds(clients, samples, width, turns)
        middle = statistics.median(taken)
        if (samples, width) == (50, 64):
            each[clients] = [one / clients for one in taken]
        print(
            f"  {clients:7d}  {samples:7d}  {parameters:10d}  {1e3 * middle:8.1f} ms "
            f" {1e6 * middle / clients / samples:14.2f} us"
        )
    side = torch.randn(768, 768)
    rate = 2 * 768**3 / min(timed(lambda: side @ side) for _ in range(9))
    claim = compare(
        "a stacked round, CPU s for each of 10,000 clients",
        each[10000],
        each[100],
        "fedkg, a round of 100 clients",
        target=1 / MOST,
        floor=6.0 * 6922 * 50 / rate,
    )
    print(json.dumps([claim]))


if __name__ == "__main__":
    main()
