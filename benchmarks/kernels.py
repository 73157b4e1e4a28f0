"""What compiled loops gain: realistic jobs with and without them.

    python benchmarks/kernels.py [--turns 3] [--share 1] [--only NAME ...]

Each turn runs every command twice in new processes, with the default `FEDKG_KERNELS=auto` and with
`FEDKG_KERNELS=off`, in an order that alternates. A run beforehand compiles the loops and fills the
caches. *Rounds* is the wall time of all training rounds, as `rounds.csv` states it; it includes
loading the loops in the first round. *Later rounds* leaves the first round out. *Command* is the
wall time of the whole process, with start-up, data, scoring and report. The ratio says how many
times as long the job takes without loops. A kernel stays in fedkg if a realistic job is at least
twice as fast with it. `--share` scales the number of rounds.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reporting.rows import Row, compare, format_spread, ratios

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TARGET = 2.0
IMAGES = """name: images
data: {set: mnist, size: 3000, split: iid}
sites: 10
model: {name: lenet5}
training: {rounds: 4, participation: 0.5, batch: 32, learning_rate: 0.05, executor: stacked}
evaluation: {local_baseline: false}
algorithm: fedavg
"""
SETS = "set small keep parameters in l2_ball(radius = job)\n"
MILLING = ("seeds=1", "corrupt=null", "evaluation.local_baseline=false", "compare={}")
PRIVATE = "privacy={unit: example, clip: 1.0, noise: 1.0, delta: 1.0e-4}"
EVAL_ROWS, RULES = 200_000, ("table.fkg", "plant.ttl")


@dataclass(frozen=True, slots=True)
class Job:
    """A command of fedkg.

    Attributes:
        command: its arguments; a run gets `--out` too. rounds: of training; 0: no rounds.
    """

    name: str
    command: tuple[str, ...]
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """Wall times of one process in seconds; those of rounds are empty for commands without."""

    command: float
    rounds: tuple[float, ...]


def milling(name: str, rounds: int, *settings: str) -> Job:
    """The milling job with some settings."""
    return Job(name, run(EXAMPLES / "milling/job.yaml", *MILLING, *settings), rounds)


def run(job: Path, *settings: str) -> tuple[str, ...]:
    """Arguments of `fedkg run`."""
    return "run", str(job), *(part for setting in settings for part in ("--set", setting))


def jobs(folder: Path) -> tuple[Job, ...]:
    """All jobs. Writes the files that they need into the folder."""
    (folder / "images.yaml").write_text(IMAGES, encoding="utf-8")
    measure("auto", folder, ("data", "ai4i", "-o", "big.csv", "--rows", str(EVAL_ROWS)))
    (folder / "sets.fkg").write_text(SETS, encoding="utf-8")
    agents = (
        f"rules=[{EXAMPLES / 'milling/rules.fkg'}, {folder / 'sets.fkg'}]",
        "training.participation=1",
        "training.learning_rate=0.01",
        "algorithm={preset: pcfedavg, agents: {penalty: 2.0, given: {radius: 3}}}",
    )
    causes = ("shifts=49",)
    return (
        milling("milling, FedAvg", 30, "algorithm=fedavg"),
        milling("milling, SCFA", 30, "algorithm=scfa"),
        milling("milling, SCFA with penalty", 6, "algorithm=taught"),
        milling("milling, private FedAvg", 10, "algorithm=fedavg", PRIVATE),
        milling("milling, PC-FedAvg", 10, *agents),
        Job(
            "traffic, FedSTL with a GRU",
            run(
                EXAMPLES / "traffic/job.yaml",
                "compare={}",
                "algorithm=fedstl",
                "evaluation.local_baseline=false",
            ),
            6,
        ),
        Job("images, FedAvg with LeNet-5", run(folder / "images.yaml"), 4),
        Job("causes, Granger", run(EXAMPLES / "causes/job.yaml", *causes)),
        Job(
            f"eval, {EVAL_ROWS:,} rows",
            ("eval", *(str(EXAMPLES / "milling" / one) for one in RULES), "big.csv"),
        ),
    )


def measure(kernels: str, folder: Path, command: Sequence[str]) -> Times:
    """Run one command in a new process."""
    is_run, out = command[0] == "run", folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "fedkg", *command, *(("--out", "out") if is_run else ())],
        cwd=folder,
        env=os.environ | {"FEDKG_KERNELS": kernels, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    wall = time.perf_counter() - start
    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
    rounds = out / "rounds.csv"
    if not is_run or not rounds.exists():
        return Times(wall, ())
    with rounds.open(newline="") as text:
        return Times(wall, tuple(float(row["seconds"]) for row in csv.DictReader(text)))


def describe(name: str, on: Sequence[float], off: Sequence[float]) -> str:
    """A line with medians, the median ratio and its spread."""
    found = ratios(on, off)
    return (
        f"  {name:13} {statistics.median(on):8.3f} {statistics.median(off):8.3f}"
        f" {statistics.median(found):6.2f}   {format_spread(found)}"
    )


def report(job: Job, on: Sequence[Times], off: Sequence[Times]) -> Row:
    """Print the times of one job and return its row, by rounds, or else by the command."""
    print(job.name, flush=True)
    parts = {"command": ([one.command for one in on], [one.command for one in off])}
    if on[0].rounds:
        for title, first in (("later rounds", 1), ("rounds", 0)):
            parts = {
                title: (
                    [sum(one.rounds[first:]) for one in on],
                    [sum(one.rounds[first:]) for one in off],
                )
            } | parts
    for title, (ours, peer) in parts.items():
        print(describe(title, ours, peer), flush=True)
    title, (ours, peer) = next(iter(parts.items()))
    rounds = f"{len(on[0].rounds)} rounds" if on[0].rounds else "the command"
    return compare(f"{job.name}: {rounds}, s", ours, peer, "without compiled loops", target=TARGET)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0, help="of the number of rounds")
    parser.add_argument("--only", nargs="+", default=[], help="jobs with one of these words")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        print(f"{'seconds':15} {'with':>8} {'without':>8}  ratio   spread of the ratio")
        for job in jobs(Path(name)):
            if options.only and not any(word in job.name for word in options.only):
                continue
            rounds = max(2, round(job.rounds * options.share))
            command = (*job.command, *(("--set", f"training.rounds={rounds}") * bool(job.rounds)))
            measure("auto", Path(name), command)  # compiles the loops
            times: dict[str, list[Times]] = {"auto": [], "off": []}
            for turn in range(options.turns):
                for kernels in ("auto", "off") if turn % 2 == 0 else ("off", "auto"):
                    times[kernels].append(measure(kernels, Path(name), command))
            rows.append(report(job, times["auto"], times["off"]))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
