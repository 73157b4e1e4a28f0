"""Causal discovery jobs: from the file to the folder, the report and the graph; error messages."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from command import call

from fedkg.errors import FedkgError, JobError, TableError
from fedkg.jobs.causes.job_file import CausesJob, is_causes_job, read_causes_job
from fedkg.jobs.causes.measurements import read_measurements
from fedkg.jobs.causes.run import run_causes
from fedkg.jobs.checksum_verification import verify
from fedkg.jobs.learned_knowledge_reader import read_learned

EXAMPLE = Path(__file__).parents[4] / "examples/causes/job.yaml"
SMALL = (
    "data.plant.steps=900",
    "data.plant.clients=3",
    "shifts=199",
    "rules=[]",
    "learning.epochs=8",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_causes(
        EXAMPLE, out=tmp_path_factory.mktemp("causes") / "run", overrides=SMALL
    ).folder


def _table(path: Path, *, gap: int = 0) -> Path:
    stream = np.random.default_rng(0)
    slow = np.zeros(600)
    for t in range(1, 600):
        slow[t] = 0.95 * slow[t - 1] + stream.standard_normal()
    late = np.roll(slow, 1)
    columns = {"P1": slow, "T1": 2 * slow, "P7": late, "N2": -late}
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for t in range(600):
            cells = [
                f"{values[t] + 0.1 * stream.standard_normal():.5f}" for values in columns.values()
            ]
            writer.writerow(["", *cells[1:]] if 100 <= t < 100 + gap else cells)
    return path


def _job(folder: Path, text: str) -> Path:
    (folder / "job.yaml").write_text(text)
    return folder / "job.yaml"


TABLE_JOB = """\
kind: causes
name: plant
data: {path: plant.csv}
clients: {boiler: [P1, T1], turbine: [P7, N2]}
states: 1
shifts: 99
learning: {mode: closed_form, lags: choose}
"""


def test_the_folder_holds_what_was_found(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {
        "edges.csv",
        "losses.csv",
        "learned.json",
        "results.json",
        "report.html",
        "job.yaml",
        "environment.json",
    } <= names
    results = json.loads((folder / "results.json").read_text())
    found = {
        (edge["driver"], edge["driven"]) for edge in results["edges"] if edge["adjusted"] <= 0.05
    }
    assert {("unit 1", "unit 2"), ("unit 2", "unit 3")} <= found
    assert any(
        "The discovery found 2 of 2 true edges of the generated plant" in sentence
        for sentence in results["sentences"]
    )
    assert len((folder / "losses.csv").read_text().splitlines()) == 9
    assert any(
        "the learning has not settled: epoch 8 still changed" in note for note in results["notes"]
    )
    assert [one["client"] for one in results["reached"]["unit 1"]][:2] == ["unit 2", "unit 3"]
    page = (folder / "report.html").read_text()
    assert "unit 1 drives unit 2" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert read_learned(folder).edges


def test_what_is_learnt_goes_to_the_graph_and_comes_back(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "found.trig"
    assert call(capsys, "ontology", "learned", folder, "-o", graph).code == 0
    assert "cause found_1_ahead" in call(capsys, "suggest", graph).out
    assert call(capsys, "suggest", graph, "-o", tmp_path / "a.fkg").out.endswith(
        f"{tmp_path / 'a.fkg'} {graph}\n"
    )
    said = call(capsys, "suggest", folder, "-o", tmp_path / "b.fkg").out
    assert f"fedkg ontology learned {folder} -o learned.trig" in said
    assert said.endswith("b.fkg learned.trig\n")


def test_a_learning_of_causes_is_no_damaged_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no rounds to count, resume or repeat."""
    for words in (("status", folder), ("run", "--resume", folder), ("reproduce", folder)):
        said = call(capsys, *words)
        assert said.code == 2
        assert "contains a causal discovery" in said.err
        assert "report.html" in said.err
        assert "damaged" not in said.err


def test_a_damaged_discovery_cannot_be_resumed(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "results.json").unlink()
    [problem] = verify(copy).problems
    assert "restore it from a copy" in problem
    assert "--resume" not in problem


def test_the_command_and_the_prior_of_the_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(
        capsys,
        "run",
        EXAMPLE,
        "--out",
        tmp_path / "run",
        "--set",
        "data.plant.steps=600",
        "--set",
        "shifts=19",
        "--json",
    )
    assert done.code == 0
    edges = {(edge["driver"], edge["driven"]) for edge in done.json["results"]["edges"]}
    assert ("unit 1", "unit 2") in edges
    assert ("unit 1", "unit 4") not in edges
    assert call(capsys, "run", EXAMPLE, "--out", tmp_path / "run").code == 1
    assert call(capsys, "run", EXAMPLE, "--seeds", "2").code == 2


def test_a_custom_table(tmp_path: Path) -> None:
    _table(tmp_path / "plant.csv", gap=2)
    done = run_causes(_job(tmp_path, TABLE_JOB), out=tmp_path / "run")
    assert "fedkg interpolated 2 unknown values" in done.sentences
    assert any("by the Bayesian information criterion" in sentence for sentence in done.sentences)
    assert done.results["clients"] == {
        "boiler": {"states": 1, "measurements": 2, "lags": 1},
        "turbine": {"states": 1, "measurements": 2, "lags": 3},
    }
    assert (
        "1 lag for boiler; 3 lags for turbine: by the Bayesian information criterion, up to 5"
        in done.sentences
    )
    reference = {
        (edge["driver"], edge["driven"]): edge["reference"] for edge in done.results["edges"]
    }
    assert reference["boiler", "turbine"] > reference["turbine", "boiler"]
    assert done.results["held"]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (("states: 1", "states: none"), JobError, "`states` (line 5)"),
        (("states: 1", "statse: 1"), JobError, "did you mean `states`"),
        (("lags: choose", "lag: 2"), JobError, "`learning.lag`"),
        (("states: 1", "states: 1\nlags: 2"), JobError, "it belongs to `learning.lags`"),
        (("N2]", "N3]"), TableError, "no column `N3`, which client turbine measures"),
        ((", turbine: [P7, N2]", ""), JobError, "`clients` names only one client, boiler"),
        (("kind: causes", "kind: cause"), JobError, "unknown `kind` 'cause'"),
        (("N2]", "P1]"), JobError, "already belongs to client boiler"),
        (
            ("clients: {boiler: [P1, T1], turbine: [P7, N2]}\n", ""),
            JobError,
            "`clients` is missing",
        ),
        (("data: {path: plant.csv}\n", ""), JobError, "its own"),
        (
            ("path: plant.csv", "path: plant.csv, gaps: 1"),
            JobError,
            "has a gap of more than 1 step\n  expected: gaps of at most 1 step (`data.gaps`)\n",
        ),
        (
            ("path: plant.csv", "path: plant.csv, gaps: 0"),
            JobError,
            "has no number\n  expected: a number in every row (`data.gaps` is 0)\n",
        ),
        (("states: 1", "states: 3"), FedkgError, "at most 2 states"),
        (("lags: choose", "lags: {turbin: 2}"), JobError, "learning.lags: unknown client turbin\n"),
        (("lags: choose", "lags: {turbine: 0}"), JobError, "at least 1"),
        (("lags: choose", "lags: often"), JobError, "`learning.lags` (line 7)"),
        (
            ("lags: choose", "device: cuda"),
            JobError,
            "requires `mode: sequential`; `closed_form` runs on the CPU",
        ),
        (("lags: choose", "device: gpu"), JobError, "must be cpu, cuda, or cuda:1"),
    ],
)
def test_what_is_wrong_is_named_before_there_is_a_folder(
    change: tuple[str, str], error: type[FedkgError], said: str, tmp_path: Path
) -> None:
    _table(tmp_path / "plant.csv", gap=2)
    job = _job(tmp_path, TABLE_JOB.replace(*change))
    with pytest.raises(error) as told:
        run_causes(job, out=tmp_path / "run") if is_causes_job(job) else None
    assert said in str(told.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (0, "10 or more"),
        (11, "0.8 of 11 steps gives 8 training steps"),
        (13, "too few steps to choose among 5 lags"),
    ],
)
def test_a_table_that_is_too_short_is_reported(rows: int, said: str, tmp_path: Path) -> None:
    whole = _table(tmp_path / "plant.csv").read_text().splitlines(keepends=True)
    (tmp_path / "plant.csv").write_text("".join(whole[: rows + 1]))
    with pytest.raises(FedkgError, match=said):
        run_causes(_job(tmp_path, TABLE_JOB), out=tmp_path / "run")


def test_gaps_of_steps_that_are_learnt_from_take_nothing_from_later_ones(tmp_path: Path) -> None:
    """The gap includes the last training step, 480 of 600."""
    lines = _table(tmp_path / "plant.csv").read_text().splitlines()
    job = _job(tmp_path, TABLE_JOB.replace("path: plant.csv", "path: plant.csv, gaps: 4"))
    known = []
    for later in ("0", "900"):
        rows = [
            f",{line.split(',', 1)[1]}" if 478 <= t < 482 else line
            for t, line in enumerate(lines[1:])
        ]
        rows[482] = f"{later},{rows[482].split(',', 1)[1]}"
        (tmp_path / "plant.csv").write_text("\n".join([lines[0], *rows]) + "\n")
        known.append(read_measurements(read_causes_job(job)).clients[0].values[:480])
    assert np.array_equal(known[0], known[1])
    (tmp_path / "plant.csv").write_text(
        "\n".join([lines[0], *(f",{line.split(',', 1)[1]}" for line in lines[1:550]), *lines[550:]])
        + "\n"
    )
    with pytest.raises(JobError, match="column `P1` has no value in the 480 training steps"):
        read_measurements(read_causes_job(job, ["data.gaps=600"]))


def test_a_client_that_never_changes_is_reported(tmp_path: Path) -> None:
    rows = [line.split(",") for line in _table(tmp_path / "plant.csv").read_text().splitlines()]
    (tmp_path / "plant.csv").write_text(
        "".join(
            f"{a},{b},{c if not n else 3},{d if not n else 3}\n"
            for n, (a, b, c, d) in enumerate(rows)
        )
    )
    with pytest.raises(FedkgError, match="turbine: its measurements never change"):
        run_causes(_job(tmp_path, TABLE_JOB + "correlation: 0\n"), out=tmp_path / "run")


def test_steps_that_are_not_learnt_from_choose_no_measurement(tmp_path: Path) -> None:
    """P9 correlates with the turbine only in the test steps, so it is dropped."""
    lines = _table(tmp_path / "plant.csv").read_text().splitlines()
    noise = np.random.default_rng(1).standard_normal(600)
    late = [
        f"{lines[0]},P9",
        *(
            f"{line},{noise[t] if t < 480 else 50 * float(line.split(',')[2]):.5f}"
            for t, line in enumerate(lines[1:])
        ),
    ]
    (tmp_path / "plant.csv").write_text("\n".join(late) + "\n")
    done = run_causes(
        _job(tmp_path, TABLE_JOB.replace("[P1, T1]", "[P1, T1, P9]")), out=tmp_path / "run"
    )
    assert done.results["clients"]["boiler"]["measurements"] == 2
    assert "measurements dropped because they correlate with no other client: 1" in done.sentences


def test_a_disturbance_goes_along_significant_edges_alone(tmp_path: Path) -> None:
    _table(tmp_path / "plant.csv")
    job = _job(tmp_path, TABLE_JOB)
    found = run_causes(job, out=tmp_path / "run").results
    sure = {(edge["driver"], edge["driven"]) for edge in found["edges"] if edge["adjusted"] <= 0.05}
    assert sure == {("boiler", "turbine")}
    assert {
        name: [one["client"] for one in reached] for name, reached in found["reached"].items()
    } == {"boiler": ["turbine"], "turbine": []}


def test_rules_without_causes_are_rejected(tmp_path: Path) -> None:
    _table(tmp_path / "plant.csv")
    (tmp_path / "rules.fkg").write_text("signal p in bar\nrule low require p <= 3 bar\n")
    with pytest.raises(JobError, match="no `cause` statement"):
        run_causes(_job(tmp_path, TABLE_JOB + "rules: [rules.fkg]\n"), out=tmp_path / "run")


def test_the_example_is_what_its_fields_say() -> None:
    assert read_causes_job(EXAMPLE).data.plant.clients == 4
    assert CausesJob(kind="causes").learning.normalised


def test_the_window_of_the_data_is_that_of_the_steps_learnt_from(
    folder: Path, tmp_path: Path
) -> None:
    assert read_learned(folder).window is None  # a generated plant has no time
    lines = _table(tmp_path / "plant.csv").read_text().splitlines()
    job = TABLE_JOB.replace(
        "data: {path: plant.csv}", "data: {path: plant.csv, train: 0.5}"
    ).replace("shifts: 99", "shifts: 19")
    rows = run_causes(_job(tmp_path, job), out=tmp_path / "rows")
    assert read_learned(rows.folder).window == ("row 1", "row 300")
    assert any(
        "with 19 shifts and 2 pairs" in said and said.endswith("set `shifts: 39`")
        for said in rows.sentences
    )
    dated = [
        f"2024-03-{1 + t // 24:02d} {t % 24:02d}:00,{line}" for t, line in enumerate(lines[1:])
    ]
    (tmp_path / "plant.csv").write_text("\n".join([f"time,{lines[0]}", *dated]))
    found = read_learned(run_causes(_job(tmp_path, job), out=tmp_path / "dated").folder)
    assert found.window == ("2024-03-01T00:00:00", "2024-03-13T11:00:00")
