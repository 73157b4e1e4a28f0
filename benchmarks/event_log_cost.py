"""What the event log and its counts cost: their share of the processor time of a run.

    python benchmarks/event_log_cost.py

Two jobs: few small sites, whose rounds take milliseconds, and a thousand sites.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from fedkg.jobs import run_job
from fedkg.jobs.events import EVENTS, EventLog
from fedkg.jobs.verdict_counts import VerdictCounts

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


def main() -> None:
    """Print a line for each job."""
    log: list[float] = []
    counts: list[float] = []
    EventLog.__call__ = timed(log, EventLog.__call__)  # type: ignore[method-assign]
    VerdictCounts.count = timed(counts, VerdictCounts.count)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        (base / "rules.fkg").write_text(RULES)
        common = {"rules": [str(base / "rules.fkg")], "evaluation": {"local_baseline": False}}
        for number, (title, fields) in enumerate(JOBS.items()):
            log.clear()
            counts.clear()
            begun = time.process_time()
            run_job(common | fields, out=base / str(number), report=False)
            total = time.process_time() - begun
            size = (base / str(number) / EVENTS).stat().st_size
            sys.stdout.write(
                f"{title}: {total:.1f} s, log {sum(log) / total:.2%}, "
                f"counts {sum(counts) / total:.2%}, {size:,} bytes\n"
            )


if __name__ == "__main__":
    main()
