"""PC-FedAvg in jobs: parameter sets, their numbers, and valid combinations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedkg.errors import JobError, SetError
from fedkg.federated.pcfedavg.agent_sets import sets_of
from fedkg.federated.pcfedavg.block_steps import AllBlocks, OwnAndMean
from fedkg.federated.pcfedavg.round_step_sizes import Equally
from fedkg.federated.server.optimisers import AdaptiveStep
from fedkg.jobs import Job, run_job
from fedkg.jobs.algorithm_builder import build_algorithm
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.job import Scoring
from fedkg.jobs.trial_expansion import expand_trials
from fedkg.models import MLP
from fedkg.projection import L2Ball

RULES = """
signal torque  in N.m  column "Torque [Nm]"
signal wear    in min  column "Tool wear [min]"  span 0 .. 260
output failure in probability span 0 .. 1  column "Machine failure"
rule strain    kind capacity  require if torque * wear > 12000 N.m.min then failure >= 0.5
set small keep parameters in l2_ball(radius = job)
"""


def made(**section):
    return build_algorithm(
        "x",
        Algorithm.model_validate(section),
        Scoring(),
        MLP(inputs=3, hidden=(4,)),
        sets_of([L2Ball(1.0)] * 2),
    )


def test_the_section_becomes_the_algorithm():
    one = made(preset="pcfedavg", agents={"strength": 0.5, "penalty": 2.0, "growing": True})
    assert (one.name, one.start, one.local.strengths, one.alike) == (
        "x",
        OwnAndMean(),
        (0.5,),
        True,
    )
    assert one.before.schedule.at(4, 10) == 4.0
    other = made(agents={"form": "all", "smooth": 3.0, "by_rule": True}, server="adam")
    assert (other.start, other.server) == (AllBlocks(), AdaptiveStep(memory="adam"))
    assert isinstance(other.weighting, Equally)
    x = {"w": torch.tensor([[3.0], [1.0]])}
    assert other.local.sets.distance2(x, torch.arange(2)).tolist() == [4.0, 0.0]


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"agents": {"growing": True}}, "requires an initial `penalty`"),
        ({"agents": {"by_rule": True}}, "`by_rule` requires `smooth`"),
        ({"agents": {"strength": -1.0}}, "greater than or equal to 0"),
        ({"agents": {}, "aggregate": "median"}, "its mean of blocks together"),
        ({"agents": {}, "local": "scaffold"}, "its mean of blocks together"),
        ({"agents": {}, "proximal": 0.1}, "already has a model for each client"),
        ({"agents": {}, "personal": {}}, "already has a model for each client"),
        ({"agents": {}, "grouping": "ifca"}, "already has a model for each client"),
        ({"agents": {}, "exchange": "none"}, "nothing is exchanged"),
        ({"agents": {}, "weighting": "scfa"}, "the plain mean of all agents"),
        ({"agents": {}, "sets": {}}, "already penalises the distance of each agent's block"),
    ],
)
def test_contradicting_options_are_rejected(section, said):
    with pytest.raises(ValueError, match=said):
        Algorithm.model_validate(section)


def test_sites_that_stay_away_are_rejected():
    job = Job.model_validate(
        {
            "pack": "p",
            "sites": ["graz", "linz", "wien"],
            "algorithm": "pcfedavg",
            "training": {"participation": 0.5},
        }
    )
    with pytest.raises(JobError, match="all agents in every round"):
        expand_trials(job)


@pytest.mark.usefixtures("no_report")
def test_the_sets_of_the_rules_hold_the_sites(tmp_path: Path):
    (tmp_path / "rules.fkg").write_text(RULES, encoding="utf-8")
    algorithms = {
        f"within_{radius}": {
            "preset": "pcfedavg",
            "agents": {"penalty": 100.0, "given": {"radius": radius}},
        }
        for radius in (1, 1000)
    }
    fields = {
        "name": "sets",
        "rules": [str(tmp_path / "rules.fkg")],
        "sites": ["north", "south"],
        "data": {"rows": 1500},
        "model": {"hidden": [4]},
        "training": {
            "rounds": 4,
            "participation": 1.0,
            "local_steps": 5,
            "learning_rate": 0.01,
            "executor": "stacked",
        },
        "algorithms": algorithms,
        "compare": {"algorithm": list(algorithms)},
    }
    run = run_job(fields, out=tmp_path / "run")
    last = {row["trial"]: row["loss"] for row in RunFolder(run.folder).rows("rounds.csv")}
    assert last["within_1-s0"] != last["within_1000-s0"]
    misspelt = {"budgets": {"preset": "pcfedavg", "agents": {"given": {"radius": 1, "raduis": 2}}}}
    with pytest.raises(SetError, match="no parameter set leaves `raduis` open"):
        run_job(
            {**fields, "compare": {}, "algorithms": misspelt, "algorithm": "budgets"},
            out=tmp_path / "misspelt",
        )
    nothing = {**fields, "algorithms": {}, "compare": {}, "algorithm": "pcfedavg"}
    with pytest.raises((SetError, JobError), match="to the job, which does not give it"):
        run_job(nothing, out=tmp_path / "other")


@pytest.mark.usefixtures("no_report")
def test_steps_that_are_too_long_and_sets_that_are_not_there_are_reported_once(tmp_path: Path):
    (tmp_path / "rules.fkg").write_text(RULES.rpartition("set small")[0], encoding="utf-8")
    fields = {
        "rules": [str(tmp_path / "rules.fkg")],
        "sites": ["north", "south"],
        "data": {"rows": 1000},
        "model": {"hidden": [4]},
        "training": {"rounds": 2, "participation": 1.0, "local_steps": 5, "learning_rate": 0.05},
        "algorithm": {"preset": "pcfedavg", "agents": {"penalty": 2.0, "smooth": 4.0}},
    }
    told: list[str] = []
    run_job(fields, out=tmp_path / "run", on_event=lambda event: told.append(event.message))
    assert sum("agents drift apart within 5 local steps" in one for one in told) == 1
    assert sum("pcfedavg has no effect on parameters" in one for one in told) == 1
