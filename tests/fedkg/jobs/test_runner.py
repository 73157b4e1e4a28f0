"""Runs from job to report: the folder, resuming to the bit, refusals, bad data."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fedkg.data.ai4i import generate
from fedkg.errors import FedkgError, JobError, Stopped, TableError, UsageError
from fedkg.jobs import Event, resume, run_job
from fedkg.jobs.folder import RunFolder

FILES = {
    "arms.json",
    "checks.csv",
    "clients.csv",
    "environment.json",
    "job.yaml",
    "pack.fkgpack",
    "results.json",
    "rounds.csv",
    "rules.csv",
    "split.json",
}


@pytest.fixture(autouse=True)
def _no_report(monkeypatch):
    """The report has its own tests; drawing it here would take most of the time."""
    import fedkg.report

    monkeypatch.setattr(fedkg.report, "write_report", lambda folder: Path(folder) / "report.html", raising=False)


def figures(folder: Path) -> dict[str, Any]:
    """Everything a run measured, without the times."""
    rounds = [{k: v for k, v in row.items() if k != "seconds"} for row in RunFolder(folder).rows("rounds.csv")]
    states = {path.name: path.read_bytes() for path in sorted((folder / "checkpoints").glob("*.safetensors"))}
    return {
        "rounds": rounds,
        "clients": RunFolder(folder).rows("clients.csv"),
        "rules": RunFolder(folder).rows("rules.csv"),
        "results": json.loads((folder / "results.json").read_text()),
        "states": states,
    }


def csv_of(frame, path: Path) -> Path:
    columns = [frame.texts(header) for header in frame.headers]
    path.write_text("\n".join([",".join(frame.headers), *(",".join(cells) for cells in zip(*columns, strict=True))]) + "\n")
    return path


def test_a_run_writes_its_folder_and_tells_what_happens(job_fields, tmp_path):
    events: list[Event] = []
    run = run_job(job_fields, out=tmp_path / "run", on_event=events.append)
    assert {path.name for path in run.folder.iterdir() if path.is_file() and not path.name.startswith(".")} == FILES
    kinds = ["prepared", *(["arm", "round", "round", "round", "arm_done"] * 4), "finished"]
    assert [e.kind for e in events if e.kind != "note"] == kinds
    assert [e.message for e in events if e.kind == "note"] == [
        "executor: sequential, as the job says",
        "no update has any weight under the rules: the model was kept as it was",
    ]
    assert len(run.results) == 4
    environment = json.loads((run.folder / "environment.json").read_text())
    assert {"python", "platform", "job_sha256", "pack_sha256", "libraries", "started"} <= set(environment)
    assert all(entry["done"] for entry in json.loads((run.folder / "arms.json").read_text()))
    rows = RunFolder(run.folder).rows("rounds.csv")
    assert len(rows) == 12
    assert all(0 <= float(row["f1"]) <= 1 and row["zone"] and int(row["bytes"]) > 0 for row in rows)
    clients = RunFolder(run.folder).rows("clients.csv")
    assert {row["status"] for row in clients if row["arm"].endswith("flipped-labels") and row["client"] == "linz"} == {"corrupted"}
    for arm in {row["arm"] for row in clients if row["arm"].startswith("fedavg")}:
        assert sum(float(row["alpha"]) for row in clients if row["arm"] == arm) == pytest.approx(3.0)
    split = json.loads((run.folder / "split.json").read_text())
    assert sum(site["rows"] for site in split["splits"][0]["sites"].values()) + split["test"]["rows"] + split["server"]["rows"] == 1500
    checks = RunFolder(run.folder).rows("checks.csv")
    assert checks[0]["evaluations"] == "1500"
    assert checks[0]["violated"] == "0"


def test_fedavg_and_scfa_begin_alike_and_a_run_can_be_repeated_to_the_bit(job_fields, tmp_path):
    one = run_job(job_fields, out=tmp_path / "one").folder
    two = run_job(job_fields, out=tmp_path / "two").folder
    assert figures(one) == figures(two)
    rows = RunFolder(one).rows("rounds.csv")
    first = {row["arm"]: row["train_loss"] for row in rows if row["round"] == "1"}
    assert first["fedavg-s0"] == first["scfa-s0"]


def test_the_examples_in_words_name_machine_row_and_values(job_fields, tmp_path):
    run = run_job({**job_fields, "corrupt": None}, out=tmp_path / "run")
    examples = [row["example"] for row in RunFolder(run.folder).rows("rules.csv") if row["rule"] == "overstrain" and row["example"]]
    assert examples
    assert all(
        text.startswith("M") and "torque" in text and "Wanted: failure at least 0.5, because torque × wear is" in text for text in examples
    )


@pytest.mark.parametrize("stop_at", [1, 4, 8])
def test_ctrl_c_stops_and_resume_goes_on_to_the_bit(job_fields, tmp_path, stop_at):
    whole = figures(run_job(job_fields, out=tmp_path / "whole").folder)
    seen = 0

    def interrupt(event: Event) -> None:
        nonlocal seen
        seen += event.kind == "round"
        if seen == stop_at and event.kind == "round":
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match="fedkg run --resume") as caught:
        run_job(job_fields, out=tmp_path / "run", on_event=interrupt)
    assert caught.value.exit_code == 3
    assert figures(resume(tmp_path / "run").folder) == whole


def test_running_the_same_job_into_its_folder_goes_on(job_fields, tmp_path):
    run_job(job_fields, out=tmp_path / "run")
    events: list[Event] = []
    run_job(job_fields, out=tmp_path / "run", on_event=events.append)
    assert [e.kind for e in events] == ["prepared", "finished"]


def test_lines_beyond_the_last_checkpoint_are_trained_again(job_fields, tmp_path):
    fields = {**job_fields, "corrupt": None}
    fields["training"] = {**fields["training"], "rounds": 5, "checkpoint_every": 2}
    whole = figures(run_job(fields, out=tmp_path / "whole").folder)
    seen = 0

    def interrupt(event: Event) -> None:
        nonlocal seen
        seen += event.kind == "round"
        if seen == 4:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_job(fields, out=tmp_path / "run", on_event=interrupt)
    path = tmp_path / "run" / "rounds.csv"
    path.write_bytes(path.read_bytes() + b"fedavg-s0,5,0.1,0.")
    assert figures(resume(tmp_path / "run").folder) == whole


KILLED = """
import os, signal, sys
from pathlib import Path
import fedkg.report
from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder

fedkg.report.write_report = lambda folder: Path(folder) / "report.html"
moment, part, written = int(sys.argv[3]), float(sys.argv[4]), 0


def dying(write):
    def wrapped(self, name, content):
        global written
        written += 1
        if written == moment and part < 1:
            body = content if isinstance(content, bytes) else b"torn,line,without end"
            place = self.path / (name if isinstance(content, list) else name + ".part")
            with place.open("ab") as handle:
                handle.write(body[: int(len(body) * part)])
            os.kill(os.getpid(), signal.SIGKILL)
        result = write(self, name, content)
        if written == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return wrapped


RunFolder.append = dying(RunFolder.append)
RunFolder.write_bytes = dying(RunFolder.write_bytes)
run_job(sys.argv[1], out=sys.argv[2])
"""
"""A run that kills itself at the n-th write of a file: in the middle of it, or right after it."""


def killed(job: Path, out: Path, moment: int, part: float) -> int:
    command = [sys.executable, "-c", KILLED, str(job), str(out), str(moment), str(part)]
    return subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False).returncode


def test_kill_9_at_any_moment_resumes_to_the_bit(job_fields, tmp_path):
    whole = figures(run_job(job_fields, out=tmp_path / "whole").folder)
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(job_fields))
    out = tmp_path / "run"
    for moment, part in ((3, 1.0), (14, 0.5), (7, 0.4)):
        assert killed(job, out, moment, part) == -signal.SIGKILL
    assert figures(resume(out).folder) == whole


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_kill_9_at_every_write_resumes_or_says_why_not(job_fields, tmp_path, part):
    fields = {**job_fields, "corrupt": None, "training": {**job_fields["training"], "rounds": 2}}
    whole = figures(run_job(fields, out=tmp_path / "whole").folder)
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(fields))
    for moment in range(1, 30, 2):
        out = tmp_path / f"run{moment}"
        if killed(job, out, moment, part) == 0:
            break
        if RunFolder(out).exists():
            resume(out)
        else:
            with pytest.raises(UsageError, match="begin again"):
                resume(out)
            run_job(job, out=out)
        assert figures(out) == whole


def test_a_changed_job_is_shown_as_a_difference_and_refused(job_fields, tmp_path):
    folder = run_job({**job_fields, "corrupt": None}, out=tmp_path / "run").folder
    document = yaml.safe_load((folder / "job.yaml").read_text())
    document["training"]["rounds"] = 9
    (folder / "job.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(JobError, match=r"training\.rounds: 3 -> 9") as caught:
        resume(folder)
    assert "job.yaml was changed" in str(caught.value)
    changed = {**job_fields, "corrupt": None, "model": {"hidden": [9]}}
    with pytest.raises(JobError, match=r"model\.hidden: \[8\] -> \[9\]"):
        run_job(changed, out=folder)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pack.fkgpack", "pack.fkgpack is not the pack"),
        ("environment.json", "environment.json is damaged"),
        ("arms.json", "arms.json is damaged"),
        ("job.yaml", "job.yaml"),
        ("checkpoints/scfa-s0.safetensors", "checkpoint .* is damaged"),
    ],
)
def test_damaged_files_are_named(job_fields, tmp_path, name, said):
    folder = run_job({**job_fields, "corrupt": None}, out=tmp_path / "run").folder
    arms = json.loads((folder / "arms.json").read_text())
    (folder / "arms.json").write_text(json.dumps([{**arm, "done": False} for arm in arms]))
    (folder / name).write_bytes(b"\x00{")
    with pytest.raises(JobError, match=said):
        resume(folder)


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(UsageError, match="is not a run folder"):
        resume(tmp_path)


def test_a_data_file_that_changed_is_refused(job_fields, tmp_path):
    table = csv_of(generate(1500, 6), tmp_path / "table.csv")
    fields = {**job_fields, "corrupt": None, "data": {**job_fields["data"], "path": str(table)}}
    folder = run_job(fields, out=tmp_path / "run").folder
    table.write_text(table.read_text() + "\n")
    with pytest.raises(JobError, match=r"table\.csv is not the one the run was begun with"):
        resume(folder)
    table.unlink()
    with pytest.raises(JobError, match=r"table\.csv of the run is gone"):
        resume(folder)


def test_a_table_from_a_file_trains_as_the_generated_one(job_fields, tmp_path):
    fields = {**job_fields, "corrupt": None}
    one = run_job(fields, out=tmp_path / "one").folder
    table = csv_of(generate(1500, 6), tmp_path / "table.csv")
    two = run_job({**fields, "data": {**fields["data"], "path": str(table)}}, out=tmp_path / "two").folder
    assert figures(one)["states"] == figures(two)["states"]


def broken(frame, header: str, cells: list[str] | np.ndarray):
    return frame.with_texts(header, cells) if isinstance(cells, list) else frame.with_numbers(header, cells)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: broken(f, "Torque [Nm]", ["40"] * 8 + ["high"] + ["41"] * (f.rows - 9)), r"table\.csv: column `Torque \[Nm\]`.*text"),
        (lambda f: broken(f, "Torque [Nm]", np.full(f.rows, np.nan)), r"column `Torque \[Nm\]` has no value at all"),
        (lambda f: broken(f, "Machine failure", np.arange(f.rows, dtype=float)), r"label column `Machine failure` must be 0 or 1.*"),
        (lambda f: broken(f, "Machine failure", np.where(np.arange(f.rows) == 4, np.nan, 0.0)), r"label column `Machine failure`"),
    ],
)
def test_bad_columns_are_named(job_fields, tmp_path, change, said):
    table = csv_of(change(generate(600, 6)), tmp_path / "table.csv")
    with pytest.raises(FedkgError, match=said):
        run_job({**job_fields, "data": {**job_fields["data"], "path": str(table)}}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_some_unknown_cells_are_noted_and_do_no_harm(job_fields, tmp_path):
    frame = generate(1500, 6)
    torque = np.where(np.arange(1500) % 100 == 0, np.nan, frame.numbers("Torque [Nm]"))
    table = csv_of(frame.with_numbers("Torque [Nm]", torque), tmp_path / "table.csv")
    run = run_job({**job_fields, "corrupt": None, "data": {**job_fields["data"], "path": str(table)}}, out=tmp_path / "run")
    assert any("column `Torque [Nm]`" in note and "unknown cells" in note for note in run.notes)
    assert all(float(row["train_loss"]) > 0 for row in RunFolder(run.folder).rows("rounds.csv"))


def test_a_test_set_without_failures_is_said_to_say_nothing(job_fields, tmp_path):
    frame = generate(1500, 6)
    labels = np.zeros(1500)
    labels[:1] = 1
    table = csv_of(frame.with_numbers("Machine failure", labels), tmp_path / "table.csv")
    run = run_job({**job_fields, "corrupt": None, "data": {**job_fields["data"], "path": str(table)}}, out=tmp_path / "run")
    assert any("no failure among the test rows" in note for note in run.notes)


def test_a_missing_column_is_named_with_the_nearest(job_fields, tmp_path):
    table = csv_of(generate(600, 6), tmp_path / "table.csv")
    table.write_text(table.read_text().replace("Tool wear [min]", "Tool-wear [min]"))
    with pytest.raises(TableError, match=r"no column `Tool wear \[min\]`") as caught:
        run_job({**job_fields, "data": {**job_fields["data"], "path": str(table)}}, out=tmp_path / "run")
    assert "Tool-wear" in caught.value.help


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"min_samples": 1000}, r"site `\w+` has .* after the split"),
        ({"categories": ["Tpye"]}, "no column `Tpye`"),
        ({"features": ["Torque [Nm]", "Speed"]}, "no column `Speed`"),
        ({"features": ["Torque [Nm]", "Machine failure"]}, "is the label itself"),
        ({"label": "failed"}, "no column `failed`"),
        ({"path": "none.csv"}, r"none\.csv"),
        ({"split": "column"}, "no column `site`"),
        ({"categories": ["Product ID"]}, "different texts"),
        ({"test": 0.0001}, "data.test: no rows are left"),
        ({"rows": 40}, "after the split"),
    ],
)
def test_bad_data_settings_are_one_message_before_anything_is_trained(job_fields, tmp_path, data, said):
    with pytest.raises(FedkgError, match=said):
        run_job({**job_fields, "data": {**job_fields["data"], **data}}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_that_does_not_read_what_the_rules_raise_is_refused(job_fields, tmp_path):
    data = {**job_fields["data"], "features": ["Torque [Nm]"]}
    with pytest.raises(FedkgError, match="wear"):
        run_job({**job_fields, "data": data}, out=tmp_path / "run")


def test_sites_with_tables_columns_and_units_of_their_own(job_fields, tmp_path):
    frame = generate(1500, 6)
    rows = np.arange(1500)
    graz = frame.take(rows % 3 == 0)
    graz = graz.with_numbers("Torque [Nm]", graz.numbers("Torque [Nm]") / 1000)
    tables = {site: frame.take(rows % 3 == k) for k, site in enumerate(("graz", "linz", "wien"))} | {"graz": graz}
    sites = {
        site: {"machines": machines, "table": str(csv_of(tables[site], tmp_path / f"{site}.csv"))}
        for site, machines in (("graz", ["M1", "M2"]), ("linz", ["M3"]), ("wien", ["M4"]))
    }
    text = (tmp_path / "graz.csv").read_text().replace("Torque [Nm]", "Drehmoment").replace("Tool wear [min]", "Standzeit")
    (tmp_path / "graz.csv").write_text(text)
    sites["graz"]["columns"] = {"torque": {"column": "Drehmoment", "unit": "kN.m"}, "wear": {"column": "Standzeit"}}
    fields = {**job_fields, "sites": sites, "corrupt": None}
    run = run_job(fields, out=tmp_path / "run")
    split = json.loads((run.folder / "split.json").read_text())
    assert {site: counts["rows"] for site, counts in split["splits"][0]["sites"].items()} == {"graz": 325, "linz": 325, "wien": 325}
    scaling = json.loads((run.folder / "environment.json").read_text())["features"]
    assert scaling["mean"][scaling["names"].index("Torque [Nm]")] == pytest.approx(40, abs=1)
    for change, said in (
        ({"torque": {"column": "Drehmomnt", "unit": "kN.m"}}, r"graz\.csv: there is no column `Drehmomnt`"),
        ({"torqe": {"column": "Drehmoment"}}, r"sites\.graz\.columns\.torqe"),
        ({"torque": {"column": "Drehmoment", "unit": "bar"}}, r"sites\.graz\.columns\.torque\.unit: bar and N\.m measure different things"),
        ({"torque": {"column": "Drehmoment"}}, r"no column `Tool wear \[min\]`, which site graz needs"),
    ):
        wrong = {**sites, "graz": {**sites["graz"], "columns": change}}
        with pytest.raises(FedkgError, match=said):
            run_job({**fields, "sites": wrong}, out=tmp_path / "other")


def test_a_site_names_columns_only_with_a_table(job_fields, tmp_path):
    sites = {**job_fields["sites"], "graz": {"machines": ["M1"], "columns": {"torque": {"column": "x"}}}}
    with pytest.raises(JobError, match=r"sites\.graz\.columns"):
        run_job({**job_fields, "sites": sites}, out=tmp_path / "run")


def test_a_split_by_column(job_fields, tmp_path):
    frame = generate(1500, 6).with_texts("site", [("graz", "linz", "wien")[i % 3] for i in range(1500)])
    table = csv_of(frame, tmp_path / "table.csv")
    data = {**job_fields["data"], "path": str(table), "split": "column"}
    run = run_job({**job_fields, "data": data, "corrupt": None}, out=tmp_path / "run")
    sites = json.loads((run.folder / "split.json").read_text())["splits"][0]["sites"]
    assert all(300 < counts["rows"] < 350 for counts in sites.values())


def test_threshold_from_the_server_rows_and_evaluation_every_other_round(job_fields, tmp_path):
    fields = {**job_fields, "corrupt": None, "evaluation": {"every": 2, "threshold": "server"}}
    rows = RunFolder(run_job(fields, out=tmp_path / "run").folder).rows("rounds.csv")
    assert [bool(row["f1"]) for row in rows[:3]] == [False, True, True]
    assert rows[2]["threshold"] != "0.5"


def test_a_penalty_teaches_the_rules(job_fields, tmp_path):
    algorithms = {"taught": {"preset": "fedavg", "title": "FedAvg with penalty", "training": {"penalty": 50.0}}}
    fields = {**job_fields, "corrupt": None, "algorithms": algorithms, "compare": {"algorithm": ["fedavg", "taught"]}}
    run = run_job({**fields, "training": {**job_fields["training"], "rounds": 6}}, out=tmp_path / "run")
    rates = {(row["arm"], row["rule"]): float(row["rate"]) for row in RunFolder(run.folder).rows("rules.csv")}
    assert rates["taught-s0", "risk_follows_wear"] < 0.5 * rates["fedavg-s0", "risk_follows_wear"]


def test_the_model_may_differ_between_arms(job_fields, tmp_path):
    fields = {**job_fields, "corrupt": None, "compare": {"model.dropout": [0.0, 0.5]}}
    run_job(fields, out=tmp_path / "run")
    losses = {row["arm"]: row["train_loss"] for row in RunFolder(tmp_path / "run").rows("rounds.csv")}
    assert losses["dropout0-scfa-s0"] != losses["dropout0.5-scfa-s0"]


def test_balanced_weight_and_the_default_folder(job_fields, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fields = {
        **job_fields,
        "corrupt": None,
        "compare": {},
        "training": {**job_fields["training"], "positive_weight": "balanced", "rounds": 1},
    }
    assert run_job(fields).folder == Path("runs/small-001")
    assert run_job(fields).folder == Path("runs/small-002")
