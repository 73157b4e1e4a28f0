"""Attacks in jobs: who attacks is chosen by the seed, recorded, and compared like other fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedkg.algorithm_compatibility import ATTACKS
from fedkg.errors import JobError
from fedkg.jobs import Job, run_job
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.trial_expansion import plan_trials

pytestmark = pytest.mark.usefixtures("no_report")


def attacked(job_fields: dict[str, Any], **attacks: Any) -> dict[str, Any]:
    plain = {**job_fields, "corrupt": None, "compare": {}, "algorithm": "fedavg"}
    return {**plain, "simulation": {"attacks": attacks}}


def test_every_attack_runs_and_is_recorded(job_fields: dict[str, Any], tmp_path: Path) -> None:
    job = attacked(job_fields, share=0.3, first_round=2)
    job["compare"] = {"simulation.attacks.kind": ["none", *ATTACKS]}
    folder = RunFolder(run_job(job, out=tmp_path / "run").folder)
    rows = folder.rows("clients.csv")
    attackers = set()
    for row in rows:
        kind = next(kind for kind in ("none", *ATTACKS) if row["trial"].startswith(f"kind{kind}-"))
        attacks = row["status"].startswith(("attacks", "excluded"))
        assert not attacks or (kind != "none" and int(row["round"]) >= 2)
        if kind == "nan_update" and attacks:
            assert row["status"].startswith("excluded: its update has NaN")
        elif attacks:
            assert row["status"] == f"attacks: {kind}"
        attackers |= {row["client"]} if attacks else set()
    [one] = attackers  # the seed chooses the same site for all kinds
    notes = [row["notes"] for row in folder.rows("rounds.csv") if row["round"] == "1"]
    assert sum(f"from round 2 on by {one}" in note for note in notes) == len(ATTACKS)


def test_attackers_by_name_and_no_baseline_under_attack(job_fields: dict[str, Any]) -> None:
    job = attacked(job_fields, kind="sign_flipped_update", sites=["linz"])
    job["evaluation"] = {"local_baseline": True}
    [config] = plan_trials(Job.model_validate(job))
    assert config.job.simulation.attacks.sites == ("linz",)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sites": ["nowhere"]}, "unknown site"),
        ({"sites": ["linz"], "share": 0.4}, "give either `share` or `sites`"),
        ({"kind": "loud"}, "loud"),
        ({"share": 2}, "share"),
        ({"first_round": 0}, "first_round"),
    ],
)
def test_wrong_attacks_are_rejected_before_anything_is_read(
    changes: dict[str, Any], said: str, job_fields: dict[str, Any], tmp_path: Path
) -> None:
    job = attacked(job_fields, **{"kind": "nan_update", **changes})
    with pytest.raises(JobError, match=said):
        run_job(job, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_attack_on_updates_contradicts_an_algorithm_that_sends_none(
    job_fields: dict[str, Any],
) -> None:
    job = {**attacked(job_fields, kind="nan_update"), "algorithm": "centralised"}
    with pytest.raises(JobError, match="no update is sent that an attacker could change"):
        plan_trials(Job.model_validate(job))
