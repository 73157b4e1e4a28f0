"""How much later the first result comes on a fresh machine, where nothing is compiled yet.

    python benchmarks/first_result.py [--turns 5] [--only job penalty_job long_job module batch]

Each turn runs the same process twice, first with an empty cache folder (`XDG_CACHE_HOME`), then
with the folder that the first one has filled, once its background processes have ended. Measured is
the wall time from the start of the process to its first result: for a job, to the first row of
`rounds.csv`; for a module, to the end of the process. The claim is about the difference. It also
prints the times of whole processes. The processes:

- job: `fedkg run` of a perceptron at three sites, two rules in the report, SCFA, two rounds, which
  are too few for compiled loops;
- penalty_job: the same with the rules' penalty in the loss;
- long_job: the same as job with 300 rounds, of which those after the first use loops;
- module: `fedkg.compile`, and the penalty of eight rows with its gradient;
- batch: the same for 2,000 rows.

Both runs of a job must give the same models and figures of clients, rules and sites, to the bit.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from reporting.rows import Row, limit

MOST = 2.0
"""Seconds by which the first result may be later."""

RULES = """
signal torque in N.m column "Torque [Nm]" span 0 .. 80
signal wear   in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain kind capacity require if torque * wear > 12000 N.m.min then failure >= 0.5
rule calm   kind causal   require if torque < 60 N.m and wear < 200 min then failure <= 0.5
"""

JOB = """
rules: [rules.fkg]
sites: 3
data: {{set: ai4i, size: 2000, split: sizes, alpha: 100, hold_out: auto}}
model: {{hidden: [16]}}
training:
  {{rounds: {rounds}, participation: 1.0, executor: stacked, chunk: 100, penalty: {penalty}}}
evaluation: {{local_baseline: false}}
algorithm: scfa
"""

MODULE = """
import fedkg
pack = fedkg.compile("rules.fkg")
import torch
rules = pack.constraints(
    x=fedkg.columns(["torque", "wear"], mean=[40.0, 108.0], std=[10.0, 64.0]),
    y=fedkg.probability("failure"),
)
x = torch.randn({rows}, 2, generator=torch.Generator().manual_seed(0))
answers = torch.full(({rows}, 1), 0.6, requires_grad=True)
rules(x=x, y=answers).penalty.backward()
"""

RUN = ("-m", "fedkg", "run", "job.yaml", "--out", "run")
COMMANDS: dict[str, tuple[str, ...]] = {
    "job": RUN,
    "penalty_job": RUN,
    "long_job": RUN,
    "module": ("-c", MODULE.format(rows=8)),
    "batch": ("-c", MODULE.format(rows=2000)),
}

QUIET = 2.0
"""Seconds without a lock in the cache after which no background process runs."""


def wait_for_background(cache: Path) -> None:
    """Wait until no process compiles into this folder."""
    since = begun = time.monotonic()
    while time.monotonic() - since < QUIET and time.monotonic() - begun < 120:
        if any(cache.rglob("*.lock")):
            since = time.monotonic()
        time.sleep(0.1)


def results(run: Path) -> dict[str, bytes]:
    """The files of a run that contain no times."""
    return {
        str(path.relative_to(run)): path.read_bytes()
        for pattern in ("checkpoints/*", "clients.csv", "rules.csv", "sites.csv", "sets.csv")
        for path in run.glob(pattern)
    }


def first_and_whole(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Seconds until the first result of a process and until its end."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "FEDKG_KERNELS": "auto"},
        stdout=subprocess.DEVNULL,
    )
    first, rounds = 0.0, folder / "run" / "rounds.csv"
    while process.poll() is None:
        if not first and rounds.exists() and rounds.read_bytes().count(b"\n") > 1:
            first = time.perf_counter() - started
        time.sleep(0.02)
    whole = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{command}: exit code {process.returncode}")
    return first or whole, whole


def turn(name: str, folder: Path) -> list[tuple[float, float]]:
    """Seconds until the first result and the end, with an empty cache and with a full one."""
    (folder / "rules.fkg").write_text(RULES, encoding="utf-8")
    penalty = 10 if name == "penalty_job" else 0
    rounds = 300 if name == "long_job" else 2
    job = JOB.format(penalty=penalty, rounds=rounds)
    (folder / "job.yaml").write_text(job, encoding="utf-8")
    seconds, found = [], []
    for _ in ("empty", "full"):
        seconds.append(first_and_whole(COMMANDS[name], folder))
        wait_for_background(folder / "cache")
        if (folder / "run").exists():
            found.append(results(folder / "run"))
            (folder / "run").rename(folder / f"run{len(found)}")
    if any(one != found[0] for one in found):
        raise SystemExit(f"{name}: the two runs have different results")
    return seconds


def measure(name: str, turns: int) -> Row:
    """The row of one process."""
    late = []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            empty, full = turn(name, Path(folder))
        print(
            f"  {name:12s} first result: empty cache {empty[0]:6.2f} s, full {full[0]:6.2f} s;"
            f" whole process: {empty[1]:6.2f} s, {full[1]:6.2f} s",
            flush=True,
        )
        late.append(max(0.01, empty[0] - full[0]))
    return limit(f"first result of a fresh machine, {name}, s later", late, MOST)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(COMMANDS), default=list(COMMANDS))
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    print(f"load {os.getloadavg()[0]:.1f}")
    print(json.dumps([measure(name, options.turns) for name in options.only]))


if __name__ == "__main__":
    main()
