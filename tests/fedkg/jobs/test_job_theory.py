"""Theory in a run: measured constants, bytewise resume, and unchanged training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_figures import figures

from fedkg.errors import JobError, Stopped
from fedkg.federated.theory.theorems import bound, rate_fit
from fedkg.jobs import Event, Job, resume, run_job
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.trial_expansion import expand_trials

pytestmark = pytest.mark.usefixtures("no_report")


@pytest.mark.parametrize("server", ["adam", {"add": {"rate": 0.5}}])
def test_theorems_about_the_average_need_its_server_step(server):
    fields = {
        "pack": "p",
        "sites": ["graz", "wien"],
        "training": {"participation": 1.0},
        "algorithm": {"preset": "pcfedavg", "server": server},
        "theory": True,
    }
    with pytest.raises(JobError, match="another `server` step does not record it"):
        expand_trials(Job.model_validate(fields))


@pytest.fixture
def fields(job_fields: dict[str, Any]) -> dict[str, Any]:
    found = {**job_fields, "corrupt": None, "theory": {"draws": 50}}
    found["training"] = {**job_fields["training"], "rounds": 4, "local_steps": 2}
    return found


def test_the_field_is_a_section_or_a_yes():
    job = {"pack": "p", "sites": ["graz"]}
    assert Job.model_validate(job).theory is None
    assert Job.model_validate(job | {"theory": False}).theory is None
    asked = Job.model_validate(job | {"theory": True}).theory
    assert asked is not None
    assert (asked.every, asked.draws) == (1, 1000)


@pytest.mark.slow
def test_a_run_under_observation_is_trained_as_any_other(fields: dict[str, Any], tmp_path: Path):
    seen = run_job(fields, out=tmp_path / "seen").folder
    plain = run_job({**fields, "theory": False}, out=tmp_path / "plain").folder
    theory = ("theory.csv", "constants.csv", "theory.json")
    observed, expected = (
        {name: value for name, value in figures(folder).items() if name not in theory}
        for folder in (seen, plain)
    )
    assert observed == expected
    assert not (tmp_path / "plain" / "theory.csv").exists()
    document = json.loads((seen / "theory.json").read_text())
    assert [one["id"] for one in document["trials"]] == ["fedavg-s0", "scfa-s0"]
    rows = RunFolder(seen).rows("theory.csv")
    assert [row["round"] for row in rows if row["trial"] == "scfa-s0"] == ["1", "2", "3", "4"]
    for training in document["trials"]:
        own = [row for row in rows if row["trial"] == training["id"]]
        terms = training["bound"]
        assert terms["total"] == pytest.approx(
            sum(terms[name] for name in ("optimisation", "variance", "drift", "violation"))
        )
        by_hand = bound(
            gap=float(own[0]["objective"]) - min(float(row["objective"]) for row in own),
            rate=0.1,
            rounds=4,
            smoothness=max(float(row["smoothness"]) for row in own),
            local_steps=2,
            variance=max(float(row["variance"]) for row in own),
            clients=3,
            heterogeneity=max(float(row["heterogeneity"]) for row in own) ** 0.5,
            rho=training["rho"]["max"],
            gradient_bound=training["gradient_bound"]["value"],
        )
        assert terms["total"] == pytest.approx(by_hand.total)
        assert terms["step_small_enough"] is by_hand.step_small_enough
        parameters = int(float(RunFolder(seen).rows("rounds.csv")[0]["bytes_paper"])) // 4
        lost, share = training["noise_loss"], training["constants"]["theta"]
        assert lost["unconstrained"] == pytest.approx(training["smoothness"] * parameters)
        assert lost["claimed_constrained"] == (
            pytest.approx(share * lost["unconstrained"]) if share else None
        )
        assert sum(training["zones"].values()) == 4
        assert training["constants"]["draws"] == 50
        assert (
            training["constants"]["theta_low"]
            <= training["constants"]["theta"]
            <= training["constants"]["theta_high"]
        )
    assert document["trials"][0]["rate_fit"]["b"] == 0.0  # FedAvg has no constant term
    assert document["trials"][1]["rate_fit"]["b"] != 0.0


@pytest.mark.slow
def test_a_stopped_run_under_observation_goes_on_to_the_bit(fields: dict[str, Any], tmp_path: Path):
    whole = run_job(fields, out=tmp_path / "whole").folder
    seen = 0

    def interrupt(event: Event) -> None:
        nonlocal seen
        seen += event.kind == "round"
        if seen == 6:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_job(fields, out=tmp_path / "run", on_event=interrupt)
    resume(tmp_path / "run")
    for name in ("theory.csv", "constants.csv", "theory.json"):
        assert (tmp_path / "run" / name).read_text() == (whole / name).read_text()


def test_rounds_between_two_looks_are_left_out(fields: dict[str, Any], tmp_path: Path):
    folder = run_job(
        {**fields, "theory": {"every": 3, "draws": 10, "radius": 0.1}, "compare": {}},
        out=tmp_path / "run",
    ).folder
    assert [row["round"] for row in RunFolder(folder).rows("theory.csv")] == ["1", "3", "4"]


def test_a_model_of_each_site_s_own_has_no_bound(fields: dict[str, Any], tmp_path: Path):
    folder = run_job(
        {**fields, "compare": {}, "algorithm": "local_only"}, out=tmp_path / "run"
    ).folder
    [training] = json.loads((folder / "theory.json").read_text())["trials"]
    assert "bound" not in training
    assert (
        training["note"] == "SCFA's theorems assume one common model, and this algorithm has none"
    )


def test_a_fit_knows_which_rounds_it_saw():
    """Acceptance test 10 with every other round: the same numbers."""
    rounds = list(range(1, 51, 2))
    fit = rate_fit([2.14 / t**0.5 + 0.38 * 0.053 for t in rounds], rounds=rounds, rho=0.053)
    assert (fit.a, fit.b, fit.r2) == pytest.approx((2.14, 0.38, 1.0), abs=1e-9)


def test_certificates_stand_beside_what_a_run_with_sets_came_to(tmp_path: Path):
    (tmp_path / "rules.fkg").write_text(
        'signal torque in N.m column "Torque [Nm]"\noutput failure in probability span '
        '0 .. 1 column "Machine failure"\n'
        "rule strong kind capacity require if torque > 60 N.m then failure >= 0.5\nset "
        "small keep parameters in l2_ball(radius = 0.5)\n"
    )
    fields: dict[str, Any] = {
        "rules": [str(tmp_path / "rules.fkg")],
        "sites": ["north", "south"],
        "data": {"rows": 900, "min_samples": 20},
        "model": {"hidden": [4]},
        "training": {
            "rounds": 5,
            "participation": 1.0,
            "local_steps": 1,
            "batch": 900,
            "learning_rate": 0.01,
            "executor": "stacked",
        },
        "evaluation": {"local_baseline": False},
        "algorithm": "pcfedavg",
        "theory": True,
    }
    folder = run_job(fields, out=tmp_path / "run").folder
    [training] = json.loads((folder / "theory.json").read_text())["trials"]
    found = training["constants"]
    assert 0 < found["infeasibility"] <= found["bound"]
    assert found["lower"] < 0 < found["upper"]
    assert found["limit"] == pytest.approx(2 * found["slope"] / found["penalty"])
    fields["training"] = {**fields["training"], "local_steps": 2}
    [training] = json.loads(
        (run_job(fields, out=tmp_path / "two").folder / "theory.json").read_text()
    )["trials"]
    assert training["constants"]["bound"] is None
    assert "only for one local step per round" in training["note"]
