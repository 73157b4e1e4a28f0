"""SCFA, clusters, teacher, knowledge, sets and privacy in one job; rejected combinations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_forecast_jobs import DATA, RULES, fields

from fedkg.errors import FedkgError, JobError
from fedkg.jobs import run_job
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.learned_knowledge_reader import read_learned
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.privacy_section import Privacy
from fedkg.jobs.trial_expansion import expand_trials

ROWS = {"unit": "example", "noise": 1.0, "delta": 1e-3, "mined": {"epsilon": 6.0}}
SITES = {"unit": "client", "noise": 0.5, "delta": 1e-2}


@pytest.fixture
def rules(tmp_path: Path) -> str:
    (tmp_path / "rules.fkg").write_text(RULES)
    return str(tmp_path / "rules.fkg")


def combined_job(rules: str, privacy: dict[str, Any] | None, **fedstl: Any) -> dict[str, Any]:
    joints = {
        "title": "All at once",
        "weighting": "scfa",
        "grouping": {"fedstl": {"clusters": 2, "weight": 0.5, "cluster_epochs": 0, **fedstl}},
        "sets": {"penalty": 0.5, "given": {"radius": 1.5}},
    }
    job = fields(
        rules,
        model={"inject": {"trust": 0.2}},
        training={"penalty": 0.1},
        algorithms={"all": joints},
        algorithm="all",
    )
    return job | {"data": {**DATA, "server": 0.2}, "privacy": privacy}


def test_all_of_it_under_the_privacy_of_rows(rules, tmp_path):
    run = run_job(combined_job(rules, ROWS), out=tmp_path / "run", report=False)
    folder = RunFolder(run.folder)
    spent = folder.rows("privacy.csv")
    assert [row["what"] for row in spent] == ["mined properties", "training"] * 4
    mined = [row for row in spent if row["what"] == "mined properties"]
    assert {(row["each"], row["releases"]) for row in mined} == {("1.5", "4")}
    assert all(float(row["epsilon"]) > 6.0 for row in spent)
    state = load_state(folder, folder.rows("rounds.csv")[0]["trial"])
    assert state is not None
    assert sorted(state.joints["start"]["cluster"].bincount().tolist()) == [2, 2]
    assert all(row["validity"] and not row["status"] for row in folder.rows("clients.csv"))
    assert {row["by"] for row in folder.rows("forecasts.csv")} == {
        "client",
        "cluster",
        "teacher",
        "truth",
    }
    found = folder.rows("properties.csv")
    assert {row["trial"] for row in found} <= {
        "all-s0"
    }  # the rules of local sites were mined without noise
    assert {row["epsilon"] for row in found} <= {"6.0"}
    learned = read_learned(run.folder)
    assert len(learned.properties) == len({(row["client"], row["inference"]) for row in found})
    assert {one.about for one in learned.evidence} <= {"model"}
    assert (
        folder.environment()["window"] is None
    )  # and not in the report: the time range of the data has no noise
    assert {row["from"] + row["to"] for row in found} <= {""}


@pytest.mark.slow
def test_all_of_it_under_the_privacy_of_sites(rules, tmp_path):
    run = run_job(
        combined_job(rules, SITES, assignment="argmin"), out=tmp_path / "run", report=False
    )
    [spent] = RunFolder(run.folder).rows("privacy.csv")
    assert (spent["unit"], spent["what"], spent["releases"]) == ("a client", "training", "2")
    assert not RunFolder(run.folder).rows(
        "properties.csv"
    )  # private to each site, and without noise


@pytest.mark.parametrize(
    ("privacy", "fedstl", "said"),
    [
        ({**ROWS, "mined": None}, {}, "`privacy.mined: {epsilon: ...}`"),
        (ROWS, {"cluster_epochs": 2}, "the server trains clusters on samples that clients send"),
        (SITES, {}, "`assignment: argmin`"),
    ],
)
def test_what_noise_does_not_cover_is_rejected(rules, privacy, fedstl, said):
    with pytest.raises(JobError) as caught:
        expand_trials(Job.model_validate(combined_job(rules, privacy, **fedstl)))
    assert said in str(caught.value)


def test_clusters_need_rows_of_the_server_under_the_privacy_of_rows(rules):
    job = combined_job(rules, ROWS)
    job["data"]["server"] = 0
    with pytest.raises(JobError, match="clusters sites with rows of the server"):
        expand_trials(Job.model_validate(job))


def test_a_property_of_all_sites_together_is_rejected_under_the_privacy_of_sites(rules, tmp_path):
    Path(rules).write_text(RULES.replace("infer late per client", "infer late per run"))
    with pytest.raises(JobError, match="mined in the data of all clients together"):
        run_job(combined_job(rules, SITES, assignment="argmin"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_mined_privately_is_rejected_before_there_is_a_folder(rules, tmp_path):
    Path(rules).write_text(
        RULES
        + "infer soon per client find ?high, ?end in operational_range(volume, 0, ?high, 0, ?end)\n"
    )
    with pytest.raises(FedkgError, match="bounds of windows cannot be mined privately"):
        run_job(combined_job(rules, ROWS), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_mining_that_leaves_the_training_nothing_is_rejected():
    with pytest.raises(ValueError, match="must be below `epsilon`, the budget of mining and"):
        Privacy(unit="example", epsilon=2.0, mined={"epsilon": 2.0})
    with pytest.raises(ValueError, match="requires `unit: example`"):
        Privacy(unit="client", epsilon=2.0, mined={"epsilon": 1.0})
