"""The time until the first round of a job, from 10 to 100,000 sites, and what probes with traces
add to a round.

    python benchmarks/first_round.py [--sites 10 100 1000 10000 100000] [--turns 5]

A job with SCFA reads a generated table (set: ai4i, or a table that is split), four rows a site and
at least 2,000, and trains one percent of the sites in a round. Measured is processor time from the
call to the end of the first round. The slope is that of a line through the logarithms of time and
of the number of sites, over the jobs with 1,000 sites and more: 1 means linear.

Traces: five sites, the rules of one row each, and the same with two rules over time, which the
server scores on traces of its rows. Measured is the time of a round of each, in turn, from
`rounds.csv`, against FedAvg.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from reporting.rows import Row, compare

from fedkg.jobs import Event, run_job
from fedkg.jobs.folder import RunFolder

os.environ["FEDKG_KERNELS"] = "auto"  # the start of a job, as users see it

LIMIT = 20.0
"""Seconds of processor time that the first round of 10,000 sites may take."""

STEEPEST = 1.1
"""Largest slope that counts as linear: caches make large jobs slower for each row."""

RULES = """
timeline step 1 s
signal torque in N.m column "Torque [Nm]" span 0 .. 80
signal wear   in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain    kind capacity require if torque * wear > 12000 N.m.min then failure >= 0.5
rule calm      kind causal   require if torque < 60 N.m and wear < 200 min then failure <= 0.5
"""
OVER_TIME = """
rule settles   kind temporal require if failure >= 0.9 then eventually within 5 s failure < 0.9
rule lasting   kind temporal require always within 3 s failure <= 0.99
"""
SOURCES: dict[str, Any] = {
    "set": lambda rows: {"set": "ai4i", "size": rows, "split": "sizes", "alpha": 100},
    "table": lambda rows: {"rows": rows, "split": "iid", "categories": ["Type"]},
}


def job(folder: Path, rules: str, data: dict[str, Any], sites: int, **training: Any) -> Any:
    """A job file as a document. `Any`: JSON."""
    (folder / "rules.fkg").write_text(rules)
    return {
        "rules": [str(folder / "rules.fkg")],
        "sites": sites,
        "data": {**data, "min_samples": 1, "hold_out": "auto"},
        "model": {"hidden": [4]},
        "training": {"executor": "stacked", "chunk": 100, **training},
        "evaluation": {"local_baseline": False},
        "algorithm": "scfa",
    }


def first_round(kind: str, sites: int) -> float:
    """Processor time in seconds until the end of the first round."""
    with tempfile.TemporaryDirectory() as name:
        rules = RULES.replace("timeline step 1 s\n", "")  # rows in random order
        data = SOURCES[kind](max(2000, 4 * sites))
        fields = job(Path(name), rules, data, sites, rounds=1, participation=max(0.01, 1 / sites))
        begun, first = time.process_time(), 0.0

        def watch(event: Event) -> None:
            nonlocal first
            if event.kind == "round" and not first:
                first = time.process_time() - begun

        run_job(fields, out=Path(name) / "run", on_event=watch, report=False)
    return first


def growth(kind: str, counts: list[int]) -> list[Row]:
    """The claims about one way to read the data."""
    taken = {sites: first_round(kind, sites) for sites in counts}
    for sites, seconds in taken.items():
        print(
            f"  {kind:6s} {sites:8,d} sites {seconds:8.2f} s {1e3 * seconds / sites:9.3f} ms a site"
        )
    rows = []
    if 10_000 in taken:
        rows.append(
            compare(
                f"first round of 10,000 sites, {kind}, CPU s",
                [taken[10_000]],
                [LIMIT],
                "a limit, not a peer",
                target=1.0,
            )
        )
    large = [sites for sites in counts if sites >= 1000]
    if len(large) > 1:
        slope = float(np.polyfit(np.log(large), np.log([taken[one] for one in large]), 1)[0])
        print(f"  {kind:6s} slope {slope:.2f} from {large[0]:,} to {large[-1]:,} sites")
        rows.append(
            compare(
                f"slope of the first round, {kind}, {large[0]:,} to {large[-1]:,} sites",
                [slope],
                [STEEPEST],
                "a limit, not a peer",
                target=1.0,
            )
        )
    return rows


def seconds_of_rounds(rules: str, algorithm: str, turns: int) -> list[float]:
    """Seconds of each round but the first ones."""
    with tempfile.TemporaryDirectory() as name:
        data = {"rows": 10_000, "split": "iid"}
        fields = job(
            Path(name), rules, data, 5, rounds=turns + 2, participation=1.0, local_epochs=5
        )
        fields["algorithm"] = algorithm
        done = run_job(fields, out=Path(name) / "run", report=False)
        rows = RunFolder(done.folder).rows("rounds.csv")
    return [float(row["seconds"]) for row in rows][2:]


def traces(turns: int) -> list[Row]:
    """What scores on traces add to a round."""
    found: dict[str, list[float]] = {"fedavg": [], "rows": [], "traces": []}
    for _ in range(3):
        found["fedavg"] += seconds_of_rounds(RULES, "fedavg", turns)
        found["rows"] += seconds_of_rounds(RULES, "scfa", turns)
        found["traces"] += seconds_of_rounds(RULES + OVER_TIME, "scfa", turns)
    for name, values in found.items():
        print(f"  {name:8s} {1e3 * statistics.median(values):8.2f} ms a round")
    return [
        compare(
            f"a round with {title}, s",
            found[name],
            found["fedavg"],
            "FedAvg, which scores nothing",
            target=None,
        )
        for name, title in (
            ("rows", "scores on probe rows"),
            ("traces", "scores on probe rows and traces"),
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, nargs="+", default=[10, 100, 1000, 10_000, 100_000])
    parser.add_argument("--turns", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{platform.platform()}, Python {platform.python_version()}, torch {torch.__version__}")
    print(f"load {os.getloadavg()[0]:.1f}")
    made = [row for kind in SOURCES for row in growth(kind, options.sites)]
    print(json.dumps(made + traces(options.turns)))


if __name__ == "__main__":
    main()
