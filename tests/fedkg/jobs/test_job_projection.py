"""Projected outputs in jobs.

Which rules they satisfy, also by category, and notes on the others.
"""

from __future__ import annotations

import pytest

from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder

RULES = """
signal torque  in N.m span 0 .. 80 column "Torque [Nm]"
signal variant column "Type"
output failure in probability span 0 .. 1 column "Machine failure"
rule strained "A strained machine raises an alarm."
  require if variant is "M" and torque > 40 N.m then failure >= 0.6
rule eased "Another is not."
  require if variant is "L" and torque > 40 N.m then failure < 0.4
rule no_safer kind physical require failure never falls as torque rises
"""


@pytest.mark.usefixtures("no_report")
def test_answers_keep_rules_that_ask_for_a_category_and_the_run_names_the_others(
    job_fields, tmp_path
):
    (tmp_path / "rules.fkg").write_text(RULES)
    fields = {
        name: value
        for name, value in job_fields.items()
        if name not in ("pack", "compare", "corrupt")
    }
    fields |= {
        "rules": [str(tmp_path / "rules.fkg")],
        "algorithm": "fedavg",
        "training": {**fields["training"], "projection": True},
    }
    folder = RunFolder(run_job(fields, out=tmp_path / "run").folder)
    counts = {
        row["rule"]: (int(row["violated"]), int(row["applied"])) for row in folder.rows("rules.csv")
    }
    for rule in ("strained", "eased"):
        assert counts[rule][0] == 0 < counts[rule][1]
    said = "answers are projected onto strained, eased; not, or only in part, onto no_safer"
    assert said in folder.rows("rounds.csv")[0]["notes"]


@pytest.mark.usefixtures("no_report")
def test_a_rule_that_answers_are_projected_onto_is_violated_nowhere(job_fields, tmp_path):
    """The table of rules, in float64, agrees with the score: no answer is above 0.3."""
    (tmp_path / "rules.fkg").write_text(
        'signal torque in N.m span 0 .. 80 column "Torque [Nm]"\n'
        'output failure in probability span 0 .. 1 column "Machine failure"\n'
        "rule low hard require failure <= 0.3\n"
    )
    fields = {
        name: value
        for name, value in job_fields.items()
        if name not in ("pack", "compare", "corrupt")
    }
    fields |= {
        "rules": [str(tmp_path / "rules.fkg")],
        "algorithm": "fedavg",
        "training": {**fields["training"], "projection": True, "positive_weight": 100},
    }
    folder = RunFolder(run_job(fields, out=tmp_path / "run").folder)
    (rule,) = folder.rows("rules.csv")
    assert int(rule["violated"]) == 0 < int(rule["applied"])
    assert folder.rows("rounds.csv")[-1]["rho_worst"] == "0.0"
