"""The cost of example-level privacy: rounds of DP-SGD against rounds of plain steps.

    python benchmarks/dp_sgd_overhead.py [--turns 15]

The shape is that of the milling job: five sites of very different size with 6,500 rows in all, an
MLP 8-32-32-1, five epochs in batches of 64, float32, one thread. It is measured with all five in
one stack, and with each trained alone, as in the job. Both sides train a round in turn; times are
processor time. Before the benchmark measures time, it checks that with a clip that cuts nothing and
without noise, the private gradient of a whole client is the plain one. The floor is the plain
round.

Then it measures other models, without a claim: four clients of 40 samples in minibatches of 10, the
fastest of `--turns` rounds of each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator

import torch
from reporting.rows import compare

from fedkg.federated import (
    BinaryCrossEntropy,
    Clients,
    CrossEntropy,
    Problem,
    Settings,
    SquaredError,
    fedavg,
    train,
)
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.models import MLP, Model, Recurrent, lenet5, small_cnn, softmax_regression

SIZES, FEATURES, MOST = (2900, 1700, 1100, 600, 200), 8, 3.0
MODEL = MLP(inputs=FEATURES, hidden=(32, 32), outputs=1)
STACKS = {"all five in one stack": 5, "each site alone": 1}

OTHERS: dict[str, tuple[Model, tuple[int, ...]]] = {
    "softmax regression 784-10": (softmax_regression(784, 10), (784,)),
    "MLP 784-200-200-10": (MLP(inputs=784, hidden=(200, 200), outputs=10), (784,)),
    "LeNet-5": (lenet5(), (1, 28, 28)),
    "small CNN": (small_cnn(dropout=(0.0, 0.0)), (3, 32, 32)),
    "LSTM of width 16": (Recurrent(cell="lstm", history=24, horizon=4), (24, 1)),
    "GRU of width 16": (Recurrent(cell="gru", history=24, horizon=4), (24, 1)),
}
"""Models and the shape of a sample."""


def problem() -> Problem:
    """Rows with failures in a tenth of them."""
    generator = torch.Generator().manual_seed(1)
    xs = tuple(torch.randn(size, FEATURES, generator=generator) for size in SIZES)
    ys = tuple((torch.rand(size, generator=generator) < 0.1).float() for size in SIZES)
    names = tuple(f"site_{place}" for place in range(len(SIZES)))
    return Problem(
        model=MODEL,
        loss=BinaryCrossEntropy(pos_weight=5.0),
        clients=Clients(names=names, x=xs, y=ys),
    )


def other(model: Model, sample: tuple[int, ...]) -> Problem:
    """Four clients with random targets: ten classes, or four values."""
    generator, forecast = torch.Generator().manual_seed(2), isinstance(model, Recurrent)
    xs = tuple(torch.randn(40, *sample, generator=generator) for _ in range(4))
    ys = tuple(
        (
            torch.randn(40, 4, generator=generator)
            if forecast
            else torch.randint(0, 10, (40,), generator=generator)
        )
        for _ in range(4)
    )
    loss = SquaredError() if forecast else CrossEntropy()
    return Problem(model=model, loss=loss, clients=Clients(names=("a", "b", "c", "d"), x=xs, y=ys))


def rounds(
    task: Problem,
    noise: float | None,
    chunk: int = 4,
    epochs: int = 1,
    batch: int = 10,
    rate: float = 0.01,
) -> Iterator[object]:
    """An endless sequence of rounds; plain ones without noise."""
    settings = Settings(
        rounds=10**6,
        local_epochs=epochs,
        batch=batch,
        learning_rate=rate,
        executor="stacked",
        chunk=chunk,
        measure=False,
    )
    algorithm = fedavg()
    if noise is not None:
        promise = Protection(unit="example", clip=1.0, delta=1e-5, noise=noise)
        algorithm = protected(algorithm, promise, task.clients.samples, settings)
    return train(task, algorithm, settings)


def checked(task: Problem) -> float:
    """Largest difference of the two after one step on all rows of every site."""
    settings = Settings(
        rounds=1, local_steps=1, batch=max(SIZES), learning_rate=0.1, executor="stacked"
    )
    promise = Protection(unit="example", clip=1e6, delta=1e-5, noise=1e-12)
    free = protected(fedavg(), promise, task.clients.samples, settings)
    (one, _), (other, _) = (
        next(iter(train(task, algorithm, settings))) for algorithm in (fedavg(), free)
    )
    return max(float((one.params[name] - other.params[name]).abs().max()) for name in one.params)


def timed(run: Iterator[object]) -> float:
    """Seconds of processor time of one round."""
    begun = time.process_time()
    next(run)
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=15)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    task, claims = problem(), []
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch"
        f" {torch.__version__}, float32"
    )
    print(
        f"load {os.getloadavg()[0]:.1f}; {turns} rounds; largest difference without clip and noise"
        f" {checked(task):.1e}"
    )
    for said, chunk in STACKS.items():
        runs = {
            name: rounds(task, noise, chunk, 5, 64, 0.1)
            for name, noise in (("plain", None), ("private", 1.0))
        }
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(turns + 2):
            for name, run in runs.items():
                seconds = timed(run)
                if turn > 1:
                    taken[name].append(seconds)
        ratios = [
            private / plain for private, plain in zip(taken["private"], taken["plain"], strict=True)
        ]
        ratio = statistics.median(ratios)
        for name, seconds in taken.items():
            print(
                f"  {said:22s} {name:8s} {1e3 * statistics.median(seconds):8.1f} ms "
                f" ({1e3 * min(seconds):.1f} .. {1e3 * max(seconds):.1f})"
            )
        print(f"  {said:22s} private / plain {ratio:.2f} ({min(ratios):.2f} .. {max(ratios):.2f})")
        claims.append(
            compare(
                f"a round of DP-SGD, {said}, CPU s",
                taken["private"],
                taken["plain"],
                "the same round with plain steps",
                target=1 / MOST,
                floor=statistics.median(taken["plain"]),
            )
        )
    for said, (model, sample) in OTHERS.items():
        plain, private = (rounds(other(model, sample), noise) for noise in (None, 1.0))
        pairs = [(timed(plain), timed(private)) for _ in range(turns + 1)][1:]
        least, most = (1e3 * min(side) for side in zip(*pairs, strict=True))
        print(
            f"  {said:26s} plain {least:8.1f} ms  private {most:8.1f} ms  {most / least:.2f} times"
        )
    print(json.dumps(claims))


if __name__ == "__main__":
    main()
