"""Jobs with worker processes, and jobs with client state beyond the memory limit."""

from __future__ import annotations

import math
from typing import Any

import pytest
from run_figures import figures

from fedkg.errors import JobError, Stopped
from fedkg.federated.client_state_store import StoredRows
from fedkg.jobs import Event, checkpoint, resume, run_job
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.folder import EXECUTOR_PREFIX, TRIALS, RunFolder

pytestmark = pytest.mark.usefixtures("no_report")


def rows_of(fields: dict[str, Any], algorithms: list[str], **training: object) -> dict[str, Any]:
    changed = {
        **fields,
        "compare": {"algorithm": algorithms},
        "training": {**fields["training"], **training},
    }
    return {name: value for name, value in changed.items() if name != "corrupt"}


@pytest.mark.slow
def test_a_job_by_processes_is_the_stacked_one(job_fields, tmp_path):
    fields = rows_of(job_fields, ["scfa", "fedrep", "scaffold"], penalty=0.1, chunk=1)
    algorithms = ["scfa", "fedrep", "scaffold"]
    by = [
        run_job(rows_of(fields, algorithms, executor=name, workers=2), out=tmp_path / name)
        for name in ("stacked", "processes")
    ]
    one, other = (figures(run.folder) for run in by)
    said = (
        [row.pop("notes") for row in one["rounds.csv"]],
        [row.pop("notes") for row in other["rounds.csv"]],
    )
    assert EXECUTOR_PREFIX + "2 processes, as the job says, with stacks of 1" in said[1][0]
    assert one["rounds.csv"] == other["rounds.csv"]
    assert one["clients.csv"] == other["clients.csv"]
    assert one["rules.csv"] == other["rules.csv"]


@pytest.mark.slow
def test_what_memory_has_no_room_for_is_part_of_the_run_and_resumed_to_the_bit(
    job_fields, tmp_path
):
    """Three local models of 0.5 MB, 1 MiB of memory, checkpoints every second round, stopped."""
    fields = {
        **rows_of(job_fields, ["ditto"], checkpoint_every=2, rounds=4, executor="stacked"),
        "model": {"hidden": [1024, 128]},
    }
    memory = figures(run_job(fields, out=tmp_path / "memory").folder)
    small = rows_of(fields, ["ditto"], client_memory=1)

    def stop(event: Event) -> None:
        if event.kind == "round" and event.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_job(small, out=tmp_path / "files", on_event=stop)
    state = load_state(RunFolder(tmp_path / "files"), "ditto-s0")
    assert state is not None
    assert state.round == 2
    stored = [name for name, rows in state.clients.items() if isinstance(rows, StoredRows)]
    assert stored == ["own/layers.1.weight"]
    assert (
        checkpoint.rows_folder(RunFolder(tmp_path / "files"), "ditto-s0")
        / "own--layers.1.weight"
        / "0.rows"
    ).is_file()
    files = figures(resume(tmp_path / "files").folder)
    assert (files["rounds.csv"], files["clients.csv"], files["rules.csv"]) == (
        memory["rounds.csv"],
        memory["clients.csv"],
        memory["rules.csv"],
    )
    assert math.isfinite(float(files["rounds.csv"][-1]["train_loss"]))


def test_a_site_trains_at_a_pace_of_its_own(job_fields, tmp_path):
    fields = rows_of(job_fields, ["fedavg"], executor="stacked")
    common = figures(run_job(fields, out=tmp_path / "common").folder)
    linz = {**fields["sites"]["linz"], "local_epochs": 3, "batch": 16, "learning_rate": 0.02}
    one, other = (
        figures(
            run_job(
                {
                    **rows_of(fields, ["fedavg"], executor=executor),
                    "sites": {**fields["sites"], "linz": linz},
                },
                out=tmp_path / executor,
            ).folder
        )
        for executor in ("stacked", "sequential")
    )
    for mine, theirs in zip(one["rounds.csv"], other["rounds.csv"], strict=True):
        assert float(mine["loss"]) == pytest.approx(float(theirs["loss"]), rel=1e-4)
    assert float(one["rounds.csv"][-1]["loss"]) != pytest.approx(
        float(common["rounds.csv"][-1]["loss"]), rel=1e-3
    )


def test_an_executor_is_shared_by_arms_that_ask_for_the_same_one(job_fields, tmp_path):
    """Pooled trials and other stack settings do not share an executor choice."""
    fields = rows_of(job_fields, ["centralised", "fedavg", "fedprox"], executor="stacked")
    fields["compare"]["training.chunk"] = [1, 2]
    folder = RunFolder(run_job(fields, out=tmp_path / "run").folder)
    states = {record["id"]: load_state(folder, record["id"]) for record in folder.read_json(TRIALS)}
    chunks = {
        name: state.choice.chunk
        for name, state in states.items()
        if state is not None and state.choice is not None
    }
    assert chunks == {
        f"chunk{chunk}-{name}-s0": 1 if name == "centralised" else chunk
        for name in fields["compare"]["algorithm"]
        for chunk in (1, 2)
    }


@pytest.mark.parametrize(
    ("algorithm", "training", "said"),
    [
        ("centralised", {}, "no site trains"),
        ("pcfedavg", {}, "PC-FedAvg sets the steps of all"),
        ("fedavg", {"local_steps": 4}, "some sites set `local_epochs`"),
        ("scaffnew", {"local_steps": 4}, "all sites have the same `learning_rate`"),
    ],
)
def test_a_pace_that_cannot_be_kept_is_rejected_before_anything_is_loaded(
    job_fields, tmp_path, algorithm, training, said
):
    fields = rows_of(job_fields, [algorithm], **training)
    fields["sites"] = {**fields["sites"], "wien": {"machines": ["M4"], "local_epochs": 2}}
    fields["sites"]["wien"]["learning_rate"] = 0.02
    with pytest.raises(JobError, match=said):
        run_job(fields, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
