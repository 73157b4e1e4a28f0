"""The tables of rules: rows with missing values, and examples of violations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedkg.jobs import Job
from fedkg.jobs.chronological_holdout import ROW_COLUMN, SITE_COLUMN
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.experiment.rule_evaluation import Deployed, evaluate_rows, rule_rows
from fedkg.jobs.experiment.site_sample_statistics import TEST
from fedkg.jobs.source_data_checks import check_rows, count_frames
from fedkg.jobs.trial_expansion import expand_trials
from fedkg.pack import CategoryIs, Pack


class Flat:
    """A model with a constant output."""

    def apply(self, params, x):
        return x.new_zeros((1, x.shape[0], 1))


def built(job_fields, pack):
    """The first trial of a job."""
    job = Job.model_validate({**job_fields, "compare": {}, "corrupt": None})
    experiment = create_experiment(job, pack)
    [config] = expand_trials(job)
    experiment.prepare([config])
    return experiment.build_trial(config)


def held_out_rows(trial):
    """The test rows of a trial."""
    return trial.frame.take(trial.samples.rows(TEST))


def rules_on(trial, model, **columns):
    """Rows of `rules.csv` for a model, with other values in columns of the table."""
    frame, index = trial.frame, trial.samples.rows(TEST)
    for header, cells in columns.items():
        frame = frame.with_texts(header, cells) if isinstance(cells, list) else cells(frame)
    everywhere = Deployed(params={}, index=index, counted=np.ones(len(index), dtype=bool))
    found = evaluate_rows(
        trial.rules, trial.samples, frame, trial.inputs, model, trial.output, [everywhere]
    )
    return rule_rows(trial.rules, found.rules, trial.samples, "trial")


def checks(pack, frame):
    """Rows of `checks.csv` for one table."""
    return check_rows(pack, count_frames(pack, [frame]))


def test_a_row_without_the_wear_says_nothing_of_more_wear(job_fields, pack):
    trial = built(job_fields, pack)
    index = trial.samples.rows(TEST)
    wear = trial.frame.numbers("Tool wear [min]").copy()
    wear[index[: len(index) // 2]] = np.nan
    applied = [
        next(
            row["applied"]
            for row in rules_on(trial, Flat(), **columns)
            if row["rule"] == "risk_follows_wear"
        )
        for columns in ({}, {"wear": lambda frame: frame.with_numbers("Tool wear [min]", wear)})
    ]
    assert applied == [len(index), len(index) - len(index) // 2]


def test_a_check_of_the_data_says_what_is_missed_and_where(job_fields, pack):
    """Examples show truth values; a rule without an entity names only the row."""
    kept = pack.banks[2]
    machine = replace(
        kept, skeleton=CategoryIs(slot=0, param=0), slots=np.full_like(kept.slots, 3)
    ).take(np.array([0]))
    everywhere = replace(
        machine,
        keys=machine.keys[:, :0],
        codes=machine.codes[:, :0],
        entity=np.zeros_like(machine.entity),
    )
    manifest = pack.manifest.model_copy(
        update={"skeletons": (*pack.manifest.skeletons[:2], everywhere.skeleton)}
    )
    test = held_out_rows(built(job_fields, pack))
    [first] = [i for i, name in enumerate(test.texts("machine")) if name != "M1"][:1]
    one = test.take(np.array([first]))
    found = checks(Pack(manifest=manifest, banks=(*pack.banks[:2], everywhere)), one)
    row = int(one.numbers(ROW_COLUMN)[0])
    example = f"row {row}: machine {one.texts('machine')[0]}"
    assert [(check["violated"], check["rate"], check["example"]) for check in found] == [
        (1, 1.0, example)
    ]
    cold = one.with_numbers("Torque [Nm]", np.array([-2.5]))
    assert (
        checks(pack, cold)[0]["example"] == f"{one.texts('machine')[0]}, row {row}: violation 2.5"
    )


class Denying:
    """A model that never predicts a failure."""

    def apply(self, params, x):
        return x.new_full((1, x.shape[0], 1), -9.0)


def test_the_worst_violation_is_that_in_one_unit(job_fields, pack):
    strain = replace(pack.banks[0], unit=np.array([2, 1, 1, 1], dtype=np.int32))
    manifest = pack.manifest.model_copy(update={"units": ("", "1", "%")})
    trial = built(job_fields, replace(pack, manifest=manifest, banks=(strain, *pack.banks[1:])))
    assert not rules_on(trial, Denying())[0]["example"].startswith("M1,")


def test_an_example_names_the_site_where_every_site_brings_its_own_table(job_fields, pack):
    """Two tables each have a row 7."""
    trial = built(job_fields, pack)
    one = held_out_rows(trial).take(np.array([0])).with_numbers("Torque [Nm]", np.array([-2.5]))
    [machine], row = one.texts("machine"), int(one.numbers(ROW_COLUMN)[0])
    assert (
        checks(pack, one.with_texts(SITE_COLUMN, ["linz"]))[0]["example"]
        == f"{machine}, site linz, row {row}: violation 2.5"
    )
    sites = {SITE_COLUMN: ["graz"] * trial.frame.rows}
    examples = [line["example"] for line in rules_on(trial, Denying(), **sites) if line["example"]]
    assert examples
    assert all("site graz, row " in example for example in examples)


@pytest.mark.parametrize("fires", [False, True])
def test_the_cases_of_a_rule_that_fires_at_no_site_do_not_count(job_fields, pack, fires):
    """One process and one evaluation for each site, as in a federation, count the same cases."""
    strain = pack.banks[0]
    params = strain.params.copy()
    params[:, 0] = [1e9, 1e9, 1e9, 0.0 if fires else 1e9]  # the last machine is that of one site
    trial = built(
        job_fields, replace(pack, banks=(replace(strain, params=params), *pack.banks[1:]))
    )
    model = trial.problem.model.init(0)
    found = trial.evaluation_rows(trial.evaluate_sites([model]))
    each = trial.evaluation_rows([trial.evaluate(model, [site], 0.5) for site in range(3)])
    cases = [
        [(row["violated"], row["evaluations"]) for row in rows["sites.csv"]]
        for rows in (found, each)
    ]
    assert cases[0] == cases[1]
    expected = {row["rule"]: row["evaluations"] for row in found["rules.csv"] if row["applied"]}
    assert ("overstrain" in expected) == fires
    assert sum(evaluations for _, evaluations in cases[0]) == sum(expected.values()) > 0


def test_a_site_without_test_rows_has_no_cases(job_fields, pack):
    trial = built(job_fields, pack)
    nothing = Deployed(params={}, index=np.array([], dtype=np.int64), counted=np.zeros(0, bool))
    found = evaluate_rows(
        trial.rules, trial.samples, trial.frame, trial.inputs, Flat(), trial.output, [nothing]
    )
    assert [len(part) for part in (*found.violated, *found.evaluations)] == [0, 0]
    rows = rule_rows(trial.rules, found.rules, trial.samples, "trial")
    assert rows
    assert all(row["evaluations"] == 0 and row["rate"] is None for row in rows)
