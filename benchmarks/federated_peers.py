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
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from peers.contender_process import Contender, find_environments, watched
from peers.sampled_clients import sampled_clients
from reporting.rows import Row, compare, limit, without_peer
from torch import Tensor

from fedkg.federated import Clients, CrossEntropy, Problem, Settings, SquaredError, fedavg, train
from fedkg.models import MLP, Model, Recurrent, predict, small_cnn

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

PEERS_OF = {"pfl": (PFL, PFLS), "flower": (FLOWER,), "fedjax": (FEDJAX,)}
"""The contenders of each separate environment."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A workload and its claims.

    A round takes at most `limit` seconds and is faster than the best peer, and than each of some
    peers, by these factors. The losses are compared after `agreed` rounds.
    """

    kind: str
    title: str
    model: Model
    loss: CrossEntropy | SquaredError
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
    Case(
        kind="mlp",
        title="MLP 32-64-64-10",
        model=MLP(inputs=32, hidden=(64, 64), outputs=10),
        loss=CrossEntropy(),
        sample=(32,),
        turns=5,
        limit=0.010,
        best=7.0,
    ),
    Case(
        kind="cnn",
        title="CNN of 1.6 M parameters, 3 x 32 x 32",
        model=small_cnn(),
        loss=CrossEntropy(),
        sample=(3, 32, 32),
        turns=2,
        against=(LOOPS, PFL, PFLS),
        agreed=1,
    ),
    Case(
        kind="lstm",
        title="LSTM of width 16, 24 steps of 4 values",
        loss=SquaredError(),
        sample=(24, 4),
        turns=5,
        best=5.0,
        model=Recurrent(cell="lstm", features=4, history=24, horizon=4, layers=1),
    ),
    Case(
        kind="lstm-windows",
        title="LSTM of FedSTL, 2 layers of width 16, 24 windows of 96 h",
        model=Recurrent(cell="lstm", history=120, horizon=24, window=96),
        loss=SquaredError(),
        sample=(120, 1),
        turns=5,
    ),
)


def write(case: Case, folder: Path, population: int, sampled: int, rounds: int) -> None:
    """The workload as files."""
    x, y = case.data(population)
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "y.npy", y.contiguous().numpy())
    np.savez(folder / "start.npz", **{name: value.numpy() for name, value in case.start().items()})
    np.save(
        folder / "cohorts.npy",
        np.array(sampled_clients(population, sampled / population, rounds, seed=0)),
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
    for cohort in cohorts:
        asked.wait()
        state, record = next(rounds)
        asked.done()
        assert record.clients == tuple(clients.names[place] for place in cohort)
        params = {name: value[0] for name, value in state.models.items()}
    asked.wait()


def commands(case: Case, folder: Path, homes: Mapping[str, Path]) -> dict[str, list[str]]:
    """How each contender is started; only those with an environment in `homes`."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    plain = [sys.executable, str(HERE / "plain.py"), str(folder)]
    here = [sys.executable, str(Path(__file__).resolve()), "--contender"]
    found = {name: [*here, name, case.kind, str(folder)] for name in OURS}
    found |= {LOOP: [*plain, "1"], LOOPS: [*plain, "2"]}
    if "pfl" in homes:
        pfl = [str(homes["pfl"]), str(HERE / "pfl_research.py"), str(folder)]
        found |= {PFL: pfl, PFLS: [pfl[0], *torchrun, *pfl]}
    if "flower" in homes:
        found[FLOWER] = [str(homes["flower"]), str(HERE / "flower.py"), str(folder)]
    if "fedjax" in homes and case.kind != "cnn":
        found[FEDJAX] = [str(homes["fedjax"]), str(HERE / "fed_jax.py"), str(folder)]
    return found


def busy() -> float:
    """Seconds of processor time that the whole machine has spent."""
    numbers = [int(part) for part in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


def measure(
    case: Case, homes: Mapping[str, Path], turns: int, population: int, sampled: int
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """The seconds of each contender's turns, and why others have none ("failed: ...").

    Prints them, how well all agree, how quiet the machine was, and the peaks of memory.
    """
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as place, ExitStack() as running:
        write(case, Path(place), population, sampled, case.agreed + turns + 1)
        contenders: dict[str, Contender] = {}

        def ask(name: str, what: str) -> float | None:
            """The reply of a contender; one that fails leaves the race."""
            try:
                return contenders[name].ask(what)
            except RuntimeError as error:
                failed[name] = f"failed: {str(error).strip().splitlines()[-1]}"
                del contenders[name]
                return None

        for name, command in commands(case, Path(place), homes).items():
            folder = Path(place) / name.replace(" ", "_").replace(",", "")
            folder.mkdir()
            for file in ("x.npy", "y.npy", "start.npz", "cohorts.npy", "workload.json"):
                (folder / file).symlink_to(Path(place) / file)
            own = [str(folder) if part == place else part for part in command]
            try:
                contenders[name] = Contender(own, folder)
            except RuntimeError as error:
                failed[name] = f"failed: {str(error).strip().splitlines()[-1]}"
            else:
                running.callback(contenders[name].end)
        for _ in range(case.agreed):
            for name in [*contenders]:
                ask(name, "round")
        losses = {name: loss for name in [*contenders] if (loss := ask(name, "loss")) is not None}
        middle = statistics.median(losses.values())
        apart = max(abs(loss / middle - 1) for loss in losses.values())
        assert apart < 0.05, f"{case.title}: the contenders do not agree: {losses}"
        print(f"  after {case.agreed} rounds the loss is {middle:.4f}, within {apart:.1%} in all")
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        begun, spent = (
            time.perf_counter(),
            busy() - sum(one.processor() for one in contenders.values()),
        )
        for turn in range(turns):
            names = [*contenders]
            first = turn % len(names)  # so that no contender always follows the same other
            for name in names[first:] + names[:first]:
                seconds = ask(name, "round")
                if seconds is not None:
                    taken[name].append(seconds)
        spent = busy() - sum(one.processor() for one in contenders.values()) - spent
        print(
            f"  other processes kept {max(0.0, spent) / (time.perf_counter() - begun):.2f} cores "
            f"busy meanwhile; {turns} turns"
        )
        taken = {name: values for name, values in taken.items() if name in contenders}
        for name, values in taken.items():
            low, middle, high = statistics.quantiles(
                values * 2 if len(values) == 1 else values, n=4
            )
            print(f"  {name:26s} {1e3 * middle:9.1f} ms  ({1e3 * low:.1f} .. {1e3 * high:.1f})")
        for name, one in contenders.items():
            with watched(one) as seen:
                one.ask("round")
            print(f"  {name:26s} {max(seen):9.0f} MiB at most")
    for name, reason in failed.items():
        print(f"  {name:26s} {reason}")
    missing = [name for name in OURS if name in failed]
    assert not missing, f"{missing[0]}: {failed[missing[0]]}"
    return taken, failed


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


def claims(
    case: Case, times: Mapping[str, list[float]], reasons: Mapping[str, str], least: float
) -> list[Row]:
    """A row for each peer; the target is for the fastest one, or for those that the case names."""
    middle = {name: statistics.median(values) for name, values in times.items()}
    mine = min(OURS, key=lambda name: middle[name])
    peers = sorted((name for name in times if name not in OURS), key=lambda name: middle[name])
    claim = f"{case.title}: a round of {mine}, s"
    made = [
        compare(
            claim,
            times[mine],
            times[peer],
            f"{peer}, the fastest peer" if peer == peers[0] else peer,
            target=1.0 if peer in case.against else case.best if peer == peers[0] else None,
            floor=least,
        )
        for peer in peers
    ]
    for peer, reason in reasons.items():
        target = 1.0 if peer in case.against else None
        made.append(without_peer(claim, reason, peer, ours=times[mine], target=target, floor=least))
    if case.limit is not None:
        made.append(limit(claim, times[mine], case.limit, floor=least))
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
    homes, lacking = find_environments(HERE, (*PEERS_OF,), arguments.environments)
    for name, reason in lacking.items():
        print(f"{name}: {reason}")
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, torch"
        f" {torch.__version__}, float32"
    )
    made = []
    for case in CASES:
        if case.kind not in arguments.only:
            continue
        population, sampled = (100, 10) if arguments.quick else (1000, 100)
        turns = arguments.turns or (2 if arguments.quick else case.turns)
        print(f"\n{sampled} of {population} clients, {case.title}")
        found, failed = measure(case, homes, turns, population, sampled)
        reasons = {peer: reason for name, reason in lacking.items() for peer in PEERS_OF[name]}
        if case.kind == "cnn":
            reasons.pop(FEDJAX, None)
        least = floor(case, sampled)
        print(f"  {'floor':26s} {1e3 * least:9.1f} ms")
        made += claims(case, found, reasons | failed, least)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
