"""The tables of rules: rows with missing values, and examples of violations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkg.jobs import Job
from fedkg.jobs.table_rule_evaluation import check_tables
from fedkg.jobs.tables.rule_evaluation import constraint_module, rule_table
from fedkg.jobs.tables.table_preparation import ROW_COLUMN, SITE_COLUMN, prepare_tables
from fedkg.pack import CategoryIs, Pack


class Flat:
    """A model with a constant output."""

    def apply(self, params, x):
        return x.new_zeros((1, x.shape[0], 1))


def test_a_row_without_the_wear_says_nothing_of_more_wear(job_fields, pack):
    prepared = prepare_tables(Job.model_validate(job_fields), pack)
    wear = prepared.test.numbers("Tool wear [min]").copy()
    wear[: wear.size // 2] = np.nan
    lacking = replace(prepared, test=prepared.test.with_numbers("Tool wear [min]", wear))
    applied = [
        next(
            row["applied"]
            for row in rule_table(one, constraint_module(one), Flat(), [{}], "trial")
            if row["rule"] == "risk_follows_wear"
        )
        for one in (prepared, lacking)
    ]
    assert applied == [wear.size, wear.size - wear.size // 2]


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
    sited = prepare_tables(Job.model_validate(job_fields), pack)
    [first] = [i for i, name in enumerate(sited.test.texts("machine")) if name != "M1"][:1]
    one = sited.test.take(np.array([first]))
    found = check_tables(Pack(manifest=manifest, banks=(*pack.banks[:2], everywhere)), [one])
    row = int(one.numbers(ROW_COLUMN)[0])
    example = f"row {row}: machine {one.texts('machine')[0]}"
    assert [(check["violated"], check["rate"], check["example"]) for check in found] == [
        (1, 1.0, example)
    ]
    cold = one.with_numbers("Torque [Nm]", np.array([-2.5]))
    assert (
        check_tables(sited.pack, [cold])[0]["example"]
        == f"{one.texts('machine')[0]}, row {row}: violation 2.5"
    )


def test_an_example_names_the_site_where_every_site_brings_its_own_table(job_fields, pack):
    """Two tables each have a row 7."""

    class Denying:
        """A model that never predicts a failure."""

        def apply(self, params, x):
            return x.new_full((1, x.shape[0], 1), -9.0)

    sited = prepare_tables(Job.model_validate(job_fields), pack)
    one = sited.test.take(np.array([0])).with_numbers("Torque [Nm]", np.array([-2.5]))
    [machine], row = one.texts("machine"), int(one.numbers(ROW_COLUMN)[0])
    assert (
        check_tables(sited.pack, [one.with_texts(SITE_COLUMN, ["linz"])])[0]["example"]
        == f"{machine}, site linz, row {row}: violation 2.5"
    )
    named = replace(sited, test=sited.test.with_texts(SITE_COLUMN, ["graz"] * sited.test.rows))
    examples = [
        line["example"]
        for line in rule_table(named, constraint_module(named), Denying(), [{}], "trial")
        if line["example"]
    ]
    assert examples
    assert all("site graz, row " in example for example in examples)
