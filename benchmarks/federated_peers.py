"""A round of federated averaging against FedJAX, pfl-research, Flower and plain PyTorch.

    python benchmarks/federated_peers.py [--only mlp cnn lstm lstm-windows] [--turns 5] [--quick]
        [--environments FOLDER]

100 of 1,000 clients train, with 50 samples each: one epoch in batches of 10, plain gradient
descent, uniform weights, no evaluation. Each contender runs in a separate process (with its
workers), begins with the same parameters and, except for Flower, trains the same cohorts. They take
turns, one round each, so that other load on the machine affects all alike; ratios are medians over
turns, pair by pair. Before the benchmark measures time, all contenders must reach the same loss.
The peak of memory is that of a round after the timed ones, for the whole process tree, with shared
pages counted once. No contender uses more than two processors; the table shows which ones use one
thread.

The peers live in separate environments, made from the requirements in `benchmarks/peers/federated`
in the user's cache folder, or found in FOLDER (default: $FEDKG_PEERS) under the names `pfl`,
`flower` and `fedjax`. FedJAX is not measured on the convolutional network.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from peers.contenders import Contender, environments, watched
from torch import Tensor

from fedkg.federated import Clients, CrossEntropy, Problem, Settings, fedavg, train
from fedkg.federated.client.losses import Loss, SquaredError
from fedkg.federated.randomness import cohort
from fedkg.models import MLP, Model, predict
from fedkg.models.convnet import small_cnn
from fedkg.models.recurrent import Recurrent

HERE = Path(__file__).resolve().parent / "peers" / "federated"
BATCH, RATE, SAMPLES = 10, 0.05, 50
OURS = ("fedkg, stacked", "fedkg, processes")
LOOP, LOOPS = "plain loop, 1 process", "plain loop, 2 processes"
PFL, PFLS, FLOWER, FEDJAX = (
    "pfl-research, 1 process",
    "pfl-research, 2 processes",
    "Flower, 2 actors",
    "FedJAX, 2 processors",
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A workload and its claims.

    A round takes at most `limit` seconds and is faster than the best peer, and than each of some
    peers, by these factors. The losses are compared after `agreed` rounds.
    """

    kind: str
    title: str
    model: Model
    loss: Loss
    sample: tuple[int, ...]
    turns: int
    limit: float | None = None
    best: float | None = None
    against: tuple[str, ...] = ()
    agreed: int = 3

    @property
    def shape(self) -> dict[str, int]:
        """The forecaster's sizes, for those who build it from PyTorch's own layers."""
        if not isinstance(self.model, Recurrent):
            return {}
        names = ("features", "history", "horizon", "outputs", "hidden", "layers")
        return {name: getattr(self.model, name) for name in names} | {
            "window": self.model.window or 0
        }

    def data(self, population: int) -> tuple[Tensor, Tensor]:
        """Samples [population, 50, ...] and targets: classes around their means, or the end of a
        noisy wave.
        """
        generator = torch.Generator().manual_seed(1)
        noise = torch.randn(population, SAMPLES, *self.sample, generator=generator)
        if isinstance(self.loss, CrossEntropy):
            classes = torch.randint(0, 10, (population, SAMPLES), generator=generator)
            means = (0.15 if len(self.sample) == 3 else 0.6) * torch.randn(
                10, *self.sample, generator=generator
            )
            return noise.add_(means[classes]), classes
        length, shape = self.sample[0], self.shape
        begin = 6.3 * torch.rand(population, SAMPLES, 1, generator=generator)
        wave = torch.sin(begin + 0.26 * torch.arange(length + shape["horizon"]))
        return noise.mul_(0.2).add_(wave[..., :length, None]), wave[..., length:, None].expand(
            -1, -1, -1, shape["outputs"]
        ).flatten(2)

    def start(self) -> dict[str, Tensor]:
        """The first parameters, by the names that PyTorch gives them."""
        found = {}
        for name, value in self.model.init(0).items():
            layer, _, part = name.rpartition(".")
            if self.kind == "mlp":
                name = f"{2 * int(layer.split('.')[1])}.{part}"
            elif self.kind == "cnn":
                name = {
                    "convolutions.0": "0",
                    "convolutions.1": "2",
                    "dense.0": "7",
                    "dense.1": "10",
                }[layer] + f".{part}"
            elif layer.startswith("cells."):
                name = f"cells.{part}_l{layer.split('.')[1]}"
            found[name] = value
        return found


CASES = (
    Case(kind="mlp", title="MLP 32-64-64-10", model=MLP(inputs=32, hidden=(64, 64), outputs=10), loss=CrossEntropy(), sample=(32,), turns=5,
         limit=0.010, best=7.0),
    Case(kind="cnn", title="CNN of 1.6 M parameters, 3 x 32 x 32", model=small_cnn(), loss=CrossEntropy(), sample=(3, 32, 32), turns=2,
         against=(LOOPS, PFL, PFLS), agreed=1),
    Case(kind="lstm", title="LSTM of width 16, 24 steps of 4 values", loss=SquaredError(), sample=(24, 4), turns=5, best=5.0,
         model=Recurrent(cell="lstm", features=4, history=24, horizon=4, layers=1)),
    Case(kind="lstm-windows", title="LSTM of FedSTL, 2 layers of width 16, 24 windows of 96 h",
         model=Recurrent(cell="lstm", history=120, horizon=24, window=96), loss=SquaredError(), sample=(120, 1), turns=5),
)  # fmt: skip


def write(case: Case, folder: Path, population: int, sampled: int, rounds: int) -> None:
    """The workload as files."""
    x, y = case.data(population)
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "y.npy", y.contiguous().numpy())
    np.savez(folder / "start.npz", **{name: value.numpy() for name, value in case.start().items()})
    np.save(
        folder / "cohorts.npy",
        np.stack(
            [cohort(0, number, population, sampled).numpy() for number in range(1, rounds + 1)]
        ),
    )
    told = {"kind": case.kind, "rate": RATE, "batch": BATCH, "rounds": rounds, "shape": case.shape}
    (folder / "workload.json").write_text(json.dumps(told))


def ours(name: str, kind: str, folder: Path) -> None:
    """This process as a contender."""
    sys.path.insert(0, str(HERE))
    from contender_protocol import PROBED, Asked

    case = next(case for case in CASES if case.kind == kind)
    x, y = (torch.from_numpy(np.load(folder / f"{part}.npy", mmap_mode="c")) for part in "xy")
    cohorts = np.load(folder / "cohorts.npy")
    clients = Clients(
        names=tuple(f"client_{place}" for place in range(len(x))), x=tuple(x), y=tuple(y)
    )
    problem = Problem(model=case.model, loss=case.loss, clients=clients)
    executor = "processes" if name == OURS[1] else "stacked"
    torch.set_num_threads(
        2
    )  # which compiled loops take as well; the library's operations take one, as the settings say
    settings = Settings(
        rounds=len(cohorts),
        participation=cohorts.shape[1] / len(x),
        local_epochs=1,
        batch=BATCH,
        learning_rate=RATE,
        executor=executor,
        workers=2 if executor == "processes" else None,
    )
    params = case.model.init(0)

    def loss() -> float:
        output = predict(case.model, params, x[:PROBED].flatten(0, 1))
        return float(case.loss.value(output[None], y[:PROBED].flatten(0, 1)[None]).mean())

    asked = Asked(folder, loss)
    rounds = train(problem, fedavg(), settings)
    for _ in cohorts:
        asked.wait()
        state, _record = next(rounds)
        asked.done()
        params = {name: value[0] for name, value in state.models.items()}
    asked.wait()


def commands(case: Case, folder: Path, homes: dict[str, Path]) -> dict[str, list[str]]:
    """How each contender is started."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    pfl = [str(homes["pfl"]), str(HERE / "pfl_research.py"), str(folder)]
    plain = [sys.executable, str(HERE / "plain.py"), str(folder)]
    fedjax = (
        {}
        if case.kind == "cnn"
        else {FEDJAX: [str(homes["fedjax"]), str(HERE / "fed_jax.py"), str(folder)]}
    )
    return {
        **{
            name: [
                sys.executable,
                str(Path(__file__).resolve()),
                "--contender",
                name,
                case.kind,
                str(folder),
            ]
            for name in OURS
        },
        LOOP: [*plain, "1"],
        LOOPS: [*plain, "2"],
        PFL: pfl,
        PFLS: [pfl[0], *torchrun, *pfl],
        FLOWER: [str(homes["flower"]), str(HERE / "flower.py"), str(folder)],
        **fedjax,
    }


def busy() -> float:
    """Seconds of processor time that the whole machine has spent."""
    numbers = [int(part) for part in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


def measure(
    case: Case, homes: Mapping[str, Path], turns: int, population: int, sampled: int
) -> dict[str, list[float]]:
    """The seconds of each contender's turns.

    Prints them, how well all agree, how quiet the machine was, and the peaks of memory.
    """
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        contenders = {}
        for name, command in commands(case, Path(place), homes).items():
            folder = Path(place) / name.replace(" ", "_").replace(",", "")
            folder.mkdir()
            for file in ("x.npy", "y.npy", "start.npz", "cohorts.npy", "workload.json"):
                if not contenders and file == "x.npy":
                    write(case, Path(place), population, sampled, case.agreed + turns + 1)
                (folder / file).symlink_to(Path(place) / file)
            contenders[name] = Contender(
                [str(folder) if part == place else part for part in command], folder
            )
            running.callback(contenders[name].end)
        for _ in range(case.agreed):
            for one in contenders.values():
                one.ask("round")
        losses = {name: one.ask("loss") for name, one in contenders.items()}
        middle = statistics.median(losses.values())
        apart = max(abs(loss / middle - 1) for loss in losses.values())
        assert apart < 0.05, f"{case.title}: the contenders do not agree: {losses}"
        print(f"  after {case.agreed} rounds the loss is {middle:.4f}, within {apart:.1%} in all")
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        names, begun, spent = (
            list(contenders),
            time.perf_counter(),
            busy() - sum(one.processor() for one in contenders.values()),
        )
        for turn in range(turns):
            first = turn % len(names)  # nobody always follows the same other
            for name in names[first:] + names[:first]:
                taken[name].append(contenders[name].ask("round"))
        spent = busy() - sum(one.processor() for one in contenders.values()) - spent
        print(
            f"  other processes kept {max(0.0, spent) / (time.perf_counter() - begun):.2f} cores busy meanwhile; {turns} turns"
        )
        for name, values in taken.items():
            low, middle, high = statistics.quantiles(
                values * 2 if len(values) == 1 else values, n=4
            )
            print(f"  {name:26s} {1e3 * middle:9.1f} ms  ({1e3 * low:.1f} .. {1e3 * high:.1f})")
        for name, one in contenders.items():
            with watched(one) as seen:
                one.ask("round")
            print(f"  {name:26s} {max(seen):9.0f} MiB at most")
    return taken


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Median over turns of how many times longer one took than the other in the same turn."""
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def floor(case: Case, sampled: int) -> float:
    """Seconds that two processors need at least for the operations of a cohort, at the rate of a
    large product.
    """
    side = torch.randn(768, 768)
    taken = []
    for _ in range(9):
        begun = time.perf_counter()
        side @ side
        taken.append(time.perf_counter() - begun)
    params = case.model.init(0)
    operations = 0.0
    for name, value in params.items():
        uses = 1
        if name.startswith("cells."):
            uses = 24
        elif name.startswith("convolutions."):
            uses = (30 if name.startswith("convolutions.0") else 28) ** 2
        operations += 6.0 * value.numel() * uses * sampled * SAMPLES
    return operations * min(taken) / (2 * 768**3) / 2


def claims(case: Case, times: Mapping[str, list[float]], least: float) -> list[dict[str, object]]:
    """What is claimed of a case, with what was found."""
    middle = {name: statistics.median(values) for name, values in times.items()}
    mine = min(OURS, key=lambda name: middle[name])
    peers = [name for name in times if name not in OURS]
    best = min(peers, key=lambda name: middle[name])

    def claim(
        what: str, peer: str, peer_s: float, won: float, target: float | None
    ) -> dict[str, object]:
        return {
            "claim": f"{case.title}: {mine}, {what}",
            "ours": middle[mine],
            "peer": peer_s,
            "peer_name": peer,
            "ratio": round(won, 2),
            "target": target,
            "holds": target is None or won >= target,
            "floor": least,
            "spread": f"{min(times[mine]):.4f} .. {max(times[mine]):.4f} s",
        }

    made = [
        claim(
            f"against the best peer ({best})",
            best,
            middle[best],
            ratio(times[best], times[mine]),
            case.best,
        )
    ]
    made += [
        claim(f"against {peer}", peer, middle[peer], ratio(times[peer], times[mine]), 1.0)
        for peer in case.against
    ]
    if case.limit is not None:
        made.append(
            claim(
                f"at most {case.limit} s a round",
                "limit",
                case.limit,
                case.limit / middle[mine],
                1.0,
            )
        )
    return made


def main() -> None:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[case.kind for case in CASES],
        default=[case.kind for case in CASES],
    )
    parser.add_argument("--turns", type=int, help="instead of each case's own")
    parser.add_argument(
        "--quick", action="store_true", help="10 of 100 clients and few turns, to see that it runs"
    )
    parser.add_argument("--environments", type=Path, default=os.environ.get("FEDKG_PEERS"))
    parser.add_argument("--contender", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contender:
        name, kind, folder = arguments.contender
        ours(name, kind, Path(folder))
        return
    sys.stdout.reconfigure(line_buffering=True)  # a long run is watched
    torch.set_num_threads(1)
    homes = environments(HERE, ("pfl", "flower", "fedjax"), arguments.environments)
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}, float32"
    )
    made = []
    for case in CASES:
        if case.kind not in arguments.only:
            continue
        population, sampled = (100, 10) if arguments.quick else (1000, 100)
        turns = arguments.turns or (2 if arguments.quick else case.turns)
        print(f"\n{sampled} of {population} clients, {case.title}")
        found = measure(case, homes, turns, population, sampled)
        least = floor(case, sampled)
        print(f"  {'floor':26s} {1e3 * least:9.1f} ms")
        made += claims(case, found, least)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
