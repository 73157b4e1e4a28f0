"""Jobs on another device have the same figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from run_figures import figures
from test_forecast_jobs import RULES
from test_private_forecast_jobs import ROWS, combined_job

from fedkg.errors import JobError, Stopped
from fedkg.jobs import Event, resume, run_job
from fedkg.jobs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.fixture
def device(elsewhere: torch.device, monkeypatch: pytest.MonkeyPatch) -> str:
    """The `device` field of a job for the second device."""
    monkeypatch.setattr(
        "fedkg.jobs.trial_training.device_named",
        lambda name: elsewhere if name == "cuda" else torch.device("cpu"),
    )
    return "cuda"


def alike(fields: dict[str, Any], device: str, tmp_path: Path) -> Path:
    """Train on both devices, compare figures within float32, and return the second folder."""
    training = {**fields["training"], "executor": "stacked", "chunk": 8}
    here, there = (
        run_job({**fields, "training": {**training, "device": name}}, out=tmp_path / name).folder
        for name in ("cpu", device)
    )
    for one, other in zip(figures(here)["rounds.csv"], figures(there)["rounds.csv"], strict=True):
        for name in ("loss", "mse", "train_loss", "rho_worst"):
            if one.get(name):
                assert float(other[name]) == pytest.approx(float(one[name]), rel=1e-3, abs=1e-6), (
                    name
                )
    return there


@pytest.mark.slow
def test_weights_by_the_rules_penalty_and_projection(
    job_fields: dict[str, Any], device: str, tmp_path: Path
) -> None:
    algorithms = {"compare": {"algorithm": ["scfa", "scaffold", "ditto"]}}
    alike(
        {**job_fields, **algorithms, "training": {**job_fields["training"], "penalty": 0.1}},
        device,
        tmp_path,
    )


@pytest.mark.slow
def test_all_of_it_under_privacy(device: str, tmp_path: Path) -> None:
    (tmp_path / "rules.fkg").write_text(RULES)
    fields = combined_job(str(tmp_path / "rules.fkg"), ROWS)
    assert RunFolder(alike(fields, device, tmp_path)).rows("forecasts.csv")


@pytest.mark.slow
def test_a_run_there_is_resumed(job_fields: dict[str, Any], device: str, tmp_path: Path) -> None:
    fields = {**job_fields, "compare": {"algorithm": ["scaffold"]}}
    fields = {
        **fields,
        "training": {**job_fields["training"], "device": device, "executor": "stacked"},
    }
    whole = figures(run_job(fields, out=tmp_path / "whole").folder)

    def stop(event: Event) -> None:
        if event.kind == "round" and event.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_job(fields, out=tmp_path / "stopped", on_event=stop)
    assert figures(resume(tmp_path / "stopped").folder)["rounds.csv"] == whole["rounds.csv"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_rejected(job_fields: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"training\.device: this computer has no device cuda"):
        run_job(
            {**job_fields, "training": {**job_fields["training"], "device": "cuda"}},
            out=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()  # the error appears before the folder is created
