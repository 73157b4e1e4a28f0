"""What the event log and its counts cost: their share of the processor time of a run, in percent.

    python benchmarks/event_log_cost.py [--share 1]

Two jobs: few small sites, whose rounds take milliseconds, and a thousand sites. `--share` scales
the number of rounds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from reporting.rows import Row, limit

from fedkg.jobs import run_job
from fedkg.jobs.events import EVENTS, EventLog
from fedkg.jobs.round_verdict_counts import VerdictCounts

RULES = """\
signal torque  in N.m  column "Torque [Nm]"
signal wear    in min  column "Tool wear [min]"  span 0 .. 260
output failure in probability span 0 .. 1  column "Machine failure"
rule strain  kind capacity  require if torque * wear > 11000 N.m.min then failure >= 0.5
rule wear_risk  kind temporal  require failure never falls as wear rises
"""

JOBS = {
    "5 sites, 200 rounds": {
        "sites": 5,
        "data": {"rows": 2000, "min_samples": 20},
        "training": {"rounds": 200},
    },
    "1,000 sites, 20 rounds": {
        "sites": 1000,
        "data": {"rows": 100_000, "alpha": 100, "min_samples": 2},
        "training": {"rounds": 20},
    },
}


def timed(spent: list[float], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; appends the processor time of each call, in seconds.

    `Any`: its arguments and result.
    """

    @wraps(function)
    def call(*arguments: Any) -> Any:
        begun = time.process_time()
        try:
            return function(*arguments)
        finally:
            spent.append(time.process_time() - begun)

    return call


def measure(base: Path, title: str, fields: dict[str, Any], share: float) -> list[Row]:
    """Run one job; rows for the log alone, and for the log with its counts."""
    log: list[float] = []
    counts: list[float] = []
    (base / "rules.fkg").write_text(RULES)
    training = {"rounds": max(1, round(fields["training"]["rounds"] * share))}
    common = {"rules": [str(base / "rules.fkg")], "evaluation": {"local_baseline": False}}
    with (
        patch.object(EventLog, "__call__", timed(log, EventLog.__call__)),
        patch.object(VerdictCounts, "count", timed(counts, VerdictCounts.count)),
    ):
        begun = time.process_time()
        run_job(common | fields | {"training": training}, out=base / "run", report=False)
        total = time.process_time() - begun
    size = (base / "run" / EVENTS).stat().st_size
    print(f"{title}: {total:.1f} s, log of {size:,} bytes")
    return [
        limit(f"event log of {title}, % of processor time", [100 * sum(log) / total], 1.0),
        limit(
            f"event log with counts of {title}, % of processor time",
            [100 * (sum(log) + sum(counts)) / total],
            1.0,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the number of rounds")
    options = parser.parse_args()
    rows: list[Row] = []
    for title, fields in JOBS.items():
        with tempfile.TemporaryDirectory() as name:
            rows += measure(Path(name), title, fields, options.share)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
