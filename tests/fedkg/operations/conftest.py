"""One small run with everything that can watch it, shared by the tests of this folder."""

from __future__ import annotations

import csv
import json
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedkg.jobs import Event, run_job
from fedkg.operations.run_event_listeners import Observation, observe

RULES = """\
signal torque  in N.m  column "Torque [Nm]"
signal wear    in min  column "Tool wear [min]"  span 0 .. 260
output failure in probability span 0 .. 1  column "Machine failure"
rule strain  kind capacity  hard  require if torque * wear > 11000 N.m.min then failure >= 0.5
rule wear_risk  kind temporal  require failure never falls as wear rises
"""

SINK = """\
import json, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(json.load(sys.stdin)) + "\\n")
"""


@dataclass(frozen=True)
class Recorded:
    """What a run told, and what its watchers wrote."""

    folder: Path
    fields: dict[str, Any]
    events: tuple[Event, ...]
    exposition: str
    notifications: tuple[dict[str, Any], ...]

    def rows(self, name: str) -> list[dict[str, str]]:
        """The rows of a table of the run."""
        with (self.folder / name).open() as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    base = tmp_path_factory.mktemp("watched")
    (base / "rules.fkg").write_text(RULES)
    (base / "sink.py").write_text(SINK)
    fields = {
        "name": "small",
        "rules": [str(base / "rules.fkg")],
        "sites": ["graz", "linz", "wien"],
        "data": {"rows": 900, "min_samples": 20, "alpha": 0.5},
        "model": {"hidden": [4]},
        "training": {"rounds": 3, "participation": 1.0, "executor": "sequential"},
        "evaluation": {"local_baseline": False, "every": 2},
        "compare": {"algorithm": ["fedavg", "scfa"]},
    }
    events: list[Event] = []
    pages: list[str] = []

    def show(event: Event) -> None:
        events.append(event)
        if event.kind == "finished":
            [note] = [one.message for one in events if one.message.startswith("metrics: ")]
            address = note.removeprefix("metrics: ")
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=10) as answer:
                pages.append(answer.read().decode())

    command = f"{sys.executable} {base / 'sink.py'} {base / 'sent.jsonl'}"
    wanted = Observation(track=("tensorboard", "mlflow"), notify=(command,), metrics_port=0)
    with observe(wanted, show) as listen:
        run_job(fields, out=base / "run", on_event=listen, report=False)
    failures = [one.message for one in events if "failed" in one.message]
    assert failures == []
    sent = tuple(json.loads(line) for line in (base / "sent.jsonl").read_text().splitlines())
    return Recorded(base / "run", fields, tuple(events), pages[0], sent)
