"""Jobs of ten thousand and a hundred thousand sites; `benchmarks/first_round.py` measures their
time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkg.data.partition import positions_by_owner
from fedkg.jobs import Event, Job, run_job
from fedkg.jobs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("no_report")

RULES = """
signal torque in N.m column "Torque [Nm]"
signal wear   in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain    kind capacity require if torque * wear > 12000 N.m.min then failure >= 0.5
rule torque_ok kind physical require torque >= 0 N.m
"""

DATA = {
    "set": lambda rows: {"set": "ai4i", "size": rows, "split": "sizes", "alpha": 100},
    "table": lambda rows: {"rows": rows, "split": "iid", "categories": ["Type"]},
}


def job(tmp_path: Path, kind: str, sites: int, rows: int) -> dict[str, Any]:
    (tmp_path / "rules.fkg").write_text(RULES)
    return {
        "rules": [str(tmp_path / "rules.fkg")],
        "sites": sites,
        "data": {**DATA[kind](rows), "min_samples": 1},
        "model": {"hidden": [4]},
        "training": {"rounds": 1, "participation": 0.01, "executor": "stacked", "chunk": 100},
        "evaluation": {"local_baseline": False},
        "algorithm": "scfa",
    }


def train(fields: dict[str, Any], out: Path) -> list[str]:
    """The messages before the end of the first round."""
    events: list[Event] = []
    run_job(fields, out=out, on_event=events.append)
    kinds = [event.kind for event in events]
    return [event.message for event in events[: kinds.index("round")]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(DATA))
def test_ten_thousand_sites_get_their_rows(kind: str, tmp_path: Path) -> None:
    announced = train(job(tmp_path, kind, 10_000, 50_000), tmp_path / "run")
    assert announced[0].startswith("preparing 10,000 sites")
    folder = RunFolder(tmp_path / "run")
    sites = folder.rows("sites.csv")
    assert len({row["client"] for row in sites}) == 10_000
    share = 0.8 if kind == "set" else 0.65
    assert sum(int(row["samples"]) for row in sites) == pytest.approx(share * 50_000, rel=0.2)
    assert sum(int(row["test_rows"]) for row in sites) == pytest.approx(0.2 * 50_000, rel=0.01)


def test_a_job_of_a_hundred_thousand_sites_has_names_that_differ() -> None:
    job = Job.model_validate({"pack": "p", "sites": 100_000})
    assert len(job.sites) == 100_000
    with pytest.raises(ValueError, match=r"lists the site 'b' twice"):
        Job.model_validate({"pack": "p", "sites": ["a", "b", "c", "b"]})


@pytest.mark.slow
def test_a_hundred_thousand_sites(tmp_path: Path) -> None:
    train(job(tmp_path, "set", 100_000, 400_000), tmp_path / "run")
    assert len(RunFolder(tmp_path / "run").rows("sites.csv")) == 100_000


def test_positions_by_owner_are_those_of_a_naive_search() -> None:
    stream = np.random.Generator(np.random.PCG64(1))
    for owners in (1, 3, 50):
        owner = stream.integers(-1, owners, size=40)
        found = positions_by_owner(owner, owners)
        assert len(found) == owners
        for site, positions in enumerate(found):
            assert positions.tolist() == [at for at in range(40) if owner[at] == site]
