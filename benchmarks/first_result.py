"""How much later the first result comes on a fresh machine, where nothing is compiled yet.

    python benchmarks/first_result.py [--turns 5] [--only job penalty_job module batch]

Each turn runs the same process twice, first with an empty cache folder (`XDG_CACHE_HOME`), then
with the folder that the first one has filled, once its background processes have ended. Measured is
the wall time of the whole process; the claim is about the difference. The processes:

- job: `fedkg run` of a perceptron at three sites, two rules in the report, SCFA;
- penalty_job: the same with the rules' penalty in the loss;
- module: `fedkg.compile`, and the penalty of eight rows with its gradient, by tensor operations;
- batch: the same for 2,000 rows, by loops.

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
training: {{rounds: 2, participation: 1.0, executor: stacked, chunk: 100, penalty: {penalty}}}
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


def turn(name: str, folder: Path) -> tuple[float, float]:
    """Seconds of the process with an empty cache and with a full one."""
    (folder / "rules.fkg").write_text(RULES, encoding="utf-8")
    penalty = 10 if name == "penalty_job" else 0
    (folder / "job.yaml").write_text(JOB.format(penalty=penalty), encoding="utf-8")
    seconds, found = [], []
    for _ in ("empty", "full"):
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, *COMMANDS[name]],
            cwd=folder,
            env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds.append(time.perf_counter() - started)
        wait_for_background(folder / "cache")
        if (folder / "run").exists():
            found.append(results(folder / "run"))
            (folder / "run").rename(folder / f"run{len(found)}")
    if any(one != found[0] for one in found):
        raise SystemExit(f"{name}: the two runs have different results")
    return seconds[0], seconds[1]


def measure(name: str, turns: int) -> Row:
    """The row of one process."""
    late = []
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            empty, full = turn(name, Path(folder))
        print(f"  {name:12s} empty cache {empty:6.2f} s, full cache {full:6.2f} s", flush=True)
        late.append(max(0.01, empty - full))
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
