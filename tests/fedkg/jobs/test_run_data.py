"""The data of a run: tables, sites and columns, and error messages."""

from __future__ import annotations

import json

import numpy as np
import pytest
from run_figures import csv_of, figures

from fedkg.data.ai4i import generate
from fedkg.errors import FedkgError, JobError, TableError
from fedkg.jobs import resume, run_job
from fedkg.jobs.folder import RunFolder

pytestmark = pytest.mark.usefixtures("no_report")


def test_a_data_file_that_changed_is_rejected(job_fields, tmp_path):
    table = csv_of(generate(1500, 6), tmp_path / "table.csv")
    fields = {**job_fields, "corrupt": None, "data": {**job_fields["data"], "path": str(table)}}
    folder = run_job(fields, out=tmp_path / "run").folder
    table.write_text(table.read_text() + "\n")
    with pytest.raises(JobError, match=r"table\.csv has changed since the run started"):
        resume(folder)
    table.unlink()
    with pytest.raises(JobError, match=r"table\.csv, which the run has read, is missing"):
        resume(folder)


def test_a_table_from_a_file_trains_as_the_generated_one(job_fields, tmp_path):
    fields = {**job_fields, "corrupt": None}
    one = run_job(fields, out=tmp_path / "one").folder
    table = csv_of(generate(1500, 6), tmp_path / "table.csv")
    two = run_job(
        {**fields, "data": {**fields["data"], "path": str(table)}}, out=tmp_path / "two"
    ).folder
    assert figures(one)["states"] == figures(two)["states"]


def broken(frame, header: str, cells: list[str] | np.ndarray):
    return (
        frame.with_texts(header, cells)
        if isinstance(cells, list)
        else frame.with_numbers(header, cells)
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda f: broken(f, "Torque [Nm]", ["40"] * 8 + ["high"] + ["41"] * (f.rows - 9)),
            r"table\.csv: column `Torque \[Nm\]`.*text",
        ),
        (
            lambda f: broken(f, "Torque [Nm]", np.full(f.rows, np.nan)),
            r"column `Torque \[Nm\]` has no value in",
        ),
        (
            lambda f: broken(f, "Machine failure", np.arange(f.rows, dtype=float)),
            r"label column `Machine failure` must be 0 or 1.*",
        ),
        (
            lambda f: broken(f, "Machine failure", np.where(np.arange(f.rows) == 4, np.nan, 0.0)),
            r"label column `Machine failure`",
        ),
    ],
)
def test_bad_columns_are_named(job_fields, tmp_path, change, said):
    table = csv_of(change(generate(600, 6)), tmp_path / "table.csv")
    with pytest.raises(FedkgError, match=said):
        run_job(
            {**job_fields, "data": {**job_fields["data"], "path": str(table)}}, out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


def test_some_unknown_cells_are_noted_and_do_no_harm(job_fields, tmp_path):
    frame = generate(1500, 6)
    torque = np.where(np.arange(1500) % 100 == 0, np.nan, frame.numbers("Torque [Nm]"))
    table = csv_of(frame.with_numbers("Torque [Nm]", torque), tmp_path / "table.csv")
    run = run_job(
        {**job_fields, "corrupt": None, "data": {**job_fields["data"], "path": str(table)}},
        out=tmp_path / "run",
    )
    assert any("column `Torque [Nm]`" in note and "unknown cells" in note for note in run.notes)
    assert all(float(row["train_loss"]) > 0 for row in RunFolder(run.folder).rows("rounds.csv"))


def test_a_test_set_without_failures_is_said_to_say_nothing(job_fields, tmp_path):
    frame = generate(1500, 6)
    labels = np.zeros(1500)
    labels[:1] = 1
    table = csv_of(frame.with_numbers("Machine failure", labels), tmp_path / "table.csv")
    run = run_job(
        {**job_fields, "corrupt": None, "data": {**job_fields["data"], "path": str(table)}},
        out=tmp_path / "run",
    )
    assert any("the test rows contain no failures" in note for note in run.notes)


def test_a_missing_column_is_named_with_the_nearest(job_fields, tmp_path):
    table = csv_of(generate(600, 6), tmp_path / "table.csv")
    table.write_text(table.read_text().replace("Tool wear [min]", "Tool-wear [min]"))
    with pytest.raises(TableError, match=r"no column `Tool wear \[min\]`") as caught:
        run_job(
            {**job_fields, "data": {**job_fields["data"], "path": str(table)}}, out=tmp_path / "run"
        )
    assert "Tool-wear" in caught.value.help


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"min_samples": 1000}, r"site `\w+` has .* after the split"),
        ({"categories": ["Tpye"]}, "no column `Tpye`"),
        ({"features": ["Torque [Nm]", "Speed"]}, "no column `Speed`"),
        ({"features": ["Torque [Nm]", "Machine failure"]}, "is the label"),
        ({"label": "failed"}, "no column `failed`"),
        ({"path": "none.csv"}, r"none\.csv"),
        ({"split": "column"}, "no column `site`"),
        ({"categories": ["Product ID"]}, "different texts"),
        ({"test": 0.0001}, "data.test: this share gets no rows"),
        ({"rows": 40}, "after the split"),
    ],
)
def test_bad_data_settings_are_one_message_before_anything_is_trained(
    job_fields, tmp_path, data, said
):
    with pytest.raises(FedkgError, match=said):
        run_job({**job_fields, "data": {**job_fields["data"], **data}}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_model_that_does_not_read_what_the_rules_raise_is_rejected(job_fields, tmp_path):
    data = {**job_fields["data"], "features": ["Torque [Nm]"]}
    with pytest.raises(FedkgError, match="wear"):
        run_job({**job_fields, "data": data}, out=tmp_path / "run")


def test_sites_with_tables_columns_and_units_of_their_own(job_fields, tmp_path):
    frame = generate(1500, 6)
    rows = np.arange(1500)
    graz = frame.take(rows % 3 == 0)
    graz = graz.with_numbers("Torque [Nm]", graz.numbers("Torque [Nm]") / 1000)
    tables = {
        site: frame.take(rows % 3 == k) for k, site in enumerate(("graz", "linz", "wien"))
    } | {"graz": graz}
    sites = {
        site: {"machines": machines, "table": str(csv_of(tables[site], tmp_path / f"{site}.csv"))}
        for site, machines in (("graz", ["M1", "M2"]), ("linz", ["M3"]), ("wien", ["M4"]))
    }
    text = (
        (tmp_path / "graz.csv")
        .read_text()
        .replace("Torque [Nm]", "Drehmoment")
        .replace("Tool wear [min]", "Standzeit")
    )
    (tmp_path / "graz.csv").write_text(text)
    sites["graz"]["columns"] = {
        "torque": {"column": "Drehmoment", "unit": "kN.m"},
        "wear": {"column": "Standzeit"},
    }
    fields = {**job_fields, "sites": sites, "corrupt": None}
    run = run_job(fields, out=tmp_path / "run")
    split = json.loads((run.folder / "split.json").read_text())
    assert {site: counts["rows"] for site, counts in split["splits"][0]["sites"].items()} == {
        "graz": 325,
        "linz": 325,
        "wien": 325,
    }
    scaling = json.loads((run.folder / "environment.json").read_text())["features"]
    assert scaling["mean"][scaling["names"].index("Torque [Nm]")] == pytest.approx(40, abs=1)
    for change, said in (
        ({"torque": {"column": "Drehmomnt", "unit": "kN.m"}}, r"graz\.csv: no column `Drehmomnt`"),
        ({"torqe": {"column": "Drehmoment"}}, r"sites\.graz\.columns\.torqe"),
        (
            {"torque": {"column": "Drehmoment", "unit": "bar"}},
            r"sites\.graz\.columns\.torque\.unit: bar and N\.m measure different things",
        ),
        (
            {"torque": {"column": "Drehmoment"}},
            r"no column `Tool wear \[min\]`, which site graz needs",
        ),
    ):
        wrong = {**sites, "graz": {**sites["graz"], "columns": change}}
        with pytest.raises(FedkgError, match=said):
            run_job({**fields, "sites": wrong}, out=tmp_path / "other")


def test_a_site_names_columns_only_with_a_table(job_fields, tmp_path):
    sites = {
        **job_fields["sites"],
        "graz": {"machines": ["M1"], "columns": {"torque": {"column": "x"}}},
    }
    with pytest.raises(JobError, match=r"sites\.graz\.columns"):
        run_job({**job_fields, "sites": sites}, out=tmp_path / "run")


def test_a_split_by_column(job_fields, tmp_path):
    names = ("Süd", "Nord ost", "[wien]")
    frame = generate(1500, 6).with_texts("site", [names[i % 3] for i in range(1500)])
    table = csv_of(frame, tmp_path / "table.csv")
    data = {**job_fields["data"], "path": str(table), "split": "column"}
    own = {name: {**site} for name, site in zip(names, job_fields["sites"].values(), strict=True)}
    job = {**job_fields, "data": data, "corrupt": None, "sites": own}
    run = run_job(job, out=tmp_path / "run")
    sites = json.loads((run.folder / "split.json").read_text())["splits"][0]["sites"]
    assert tuple(sites) == names
    assert all(300 < counts["rows"] < 350 for counts in sites.values())
