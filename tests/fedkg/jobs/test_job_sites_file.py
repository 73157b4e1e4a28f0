"""`data.sites_file`: a job over sites in their own formats gives the results of plain tables."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from run_figures import csv_of, figures

from fedkg.data.ai4i import generate
from fedkg.errors import JobError, TableError, UsageError
from fedkg.jobs import resume, run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.job_reader import parse_job

pytestmark = pytest.mark.usefixtures("no_report")

SITES = """\
sites:
  graz:
    url: graz.csv
    dialect: {delimiter: ";", skipRows: 2}
    datatype: {decimalChar: ",", groupChar: "."}
    tableSchema:
      columns:
        - {name: torque, titles: Drehmoment, unit: N.mm}
        - {name: wear, titles: Standzeit, unit: s}
        - {name: failure, titles: Ausfall, datatype: {base: boolean, format: "JA|NEIN"}}
        - {name: machine, titles: Maschine}
        - {name: Type, titles: Typ}
    settings: {machines: [M1, M2]}
  linz: {url: linz.csv, settings: {machines: [M3], local_epochs: 2}}
  wien:
    url: wien.txt
    tableSchema:
      columns:
        - {name: torque, titles: M}
        - {name: wear, titles: t, unit: min}
        - {name: failure, titles: F, null: "?"}
        - {name: Type, titles: grade, values: {a: L, b: M, c: H}}
    settings: {machines: [M4]}
"""

MACHINES = {"graz": ["M1", "M2"], "linz": ["M3"], "wien": ["M4"]}
HEADERS = ("Torque [Nm]", "Tool wear [min]", "Machine failure", "machine", "Type")


def german(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return text.replace(",", "_").replace(".", ",").replace("_", ".")


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Path]:
    """Write `sites.yaml`, the sites' own files, and plain tables; return the latter."""
    frame = generate(1500, 6)
    rows = np.arange(frame.rows)
    machines = [
        MACHINES[site][i % len(MACHINES[site])]
        for i, site in enumerate(("graz", "linz", "wien")[k % 3] for k in range(frame.rows))
    ]
    frame = frame.with_texts("machine", machines)
    plain: dict[str, Path] = {}
    (tmp_path / "plain").mkdir()
    for number, site in enumerate(MACHINES):
        part = frame.take(rows % 3 == number)
        plain[site] = csv_of(part, tmp_path / "plain" / f"{site}.csv")
        cells = list(zip(*(part.texts(header) for header in HEADERS), strict=True))
        if site == "linz":
            (tmp_path / "linz.csv").write_text(plain[site].read_text())
        elif site == "graz":
            lines = ["Werk Graz", "", "Drehmoment;Standzeit;Ausfall;Maschine;Typ"]
            lines += [
                f"{german(float(torque) * 1000, 3)};{german(float(wear) * 60, 0)};"
                f"{('NEIN', 'JA')[int(failure)]};{machine};{kind}"
                for torque, wear, failure, machine, kind in cells
            ]
            (tmp_path / "graz.csv").write_text("\n".join([*lines, ""]))
        else:
            grade = dict(zip("LMH", "abc", strict=True))
            lines = ["M|t|F|machine|grade"]
            lines += [
                f"{torque}|{wear}|{failure}|{machine}|{grade[kind]}"
                for torque, wear, failure, machine, kind in cells
            ]
            (tmp_path / "wien.txt").write_text("\n".join([*lines, ""]))
    (tmp_path / "sites.yaml").write_text(SITES)
    return plain


@pytest.mark.slow
def test_a_job_over_a_sites_file_equals_one_over_plain_tables(job_fields, tables, tmp_path):
    data = {**job_fields["data"], "features": ["Torque [Nm]", "Tool wear [min]"]}
    sites = {
        name: {"machines": MACHINES[name], "table": str(table)} for name, table in tables.items()
    }
    sites["linz"]["local_epochs"] = 2
    fields = {**job_fields, "corrupt": None, "data": data}
    plain = run_job({**fields, "sites": sites}, out=tmp_path / "plain_run").folder
    data = {**data, "sites_file": str(tmp_path / "sites.yaml")}
    own = {key: value for key, value in fields.items() if key != "sites"}
    run = run_job({**own, "data": data}, out=tmp_path / "own_run").folder
    assert figures(run) == figures(plain)
    environment = json.loads((run / "environment.json").read_text())
    assert environment["job"]["sites"]["linz"]["local_epochs"] == 2
    two = run_job({**fields, "data": data, "sites": ["graz", "wien"]}, out=tmp_path / "two").folder
    split = json.loads((two / "split.json").read_text())["splits"][0]["sites"]
    assert list(split) == ["graz", "wien"]
    (tmp_path / "sites.yaml").write_text(SITES + "\n")
    with pytest.raises(JobError, match=r"sites\.yaml has changed since the run started"):
        resume(run)


def test_one_data_set_of_all_sites_has_the_rows_of_the_plain_table(tables, tmp_path):
    pytest.importorskip("lark")
    (tmp_path / "rules.fkg").write_text(
        'signal torque in N.m column "Torque [Nm]"\n'
        'signal wear in min column "Tool wear [min]"\n'
        'output failure in probability span 0 .. 1 column "Machine failure"\n'
        "rule strong require torque <= 70 N.m\n"
        "rule worn require if wear > 240 min then failure >= 0.5\n"
    )
    text = [path.read_text().split("\n") for path in tables.values()]
    whole = [f"{text[0][0]},site"]
    for site, lines in zip(tables, text, strict=True):
        whole += [f"{line},{site}" for line in lines[1:] if line]
    (tmp_path / "whole.csv").write_text("\n".join([*whole, ""]))
    fields = {"rules": [str(tmp_path / "rules.fkg")], "model": {"hidden": [4]}}
    plain = {"set": "table", "path": str(tmp_path / "whole.csv"), "split": "column"}
    own = {"set": "table", "sites_file": str(tmp_path / "sites.yaml")}
    sites = {"graz": {}, "linz": {"local_epochs": 2}, "wien": {}}
    one, two = (
        samples_of({**fields, "data": data, "sites": sites}, tmp_path) for data in (plain, own)
    )
    for site, summary in two.sites.items():
        rows = [
            np.column_stack([data.source.x, data.source.y])[data.source.clients == site]
            for data in (one, two)
        ]
        assert np.array_equal(*rows)  # rows stay in the order of the site's table
        counts = np.bincount(two.use[two.source.clients == site], minlength=4)
        assert summary.rows == tuple(counts)
        assert summary.labels.sum() == sum(summary.rows)
        # Held-out rows of a site do not depend on the other sites.
        alone = samples_of({**fields, "data": own, "sites": {site: {}}}, tmp_path)
        assert np.array_equal(alone.use, two.use[two.source.clients == site])


def samples_of(fields: dict, base: Path):
    job = parse_job(fields, name="job", base=base)
    return create_experiment(job, load_rules(job)[0]).samples


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ({"sites": ["graz", "lins"]}, JobError, "did you mean `linz`"),
        (
            {"sites": {"graz": {"columns": {"torque": {"column": "x"}}}}},
            JobError,
            r"`sites\.graz\.columns` and `data\.sites_file` exclude each other",
        ),
        ({"sites": {"graz": {"table": "x.csv"}}}, JobError, r"`sites\.graz\.table` and"),
        ({"data": {"path": "x.csv"}}, JobError, "`path` and `sites_file` exclude each other"),
        ({"data": {"set": "mnist"}}, JobError, "`sites_file` describes tables"),
        ({"data": {"sites_file": "none.yaml"}}, UsageError, "cannot read sites file"),
    ],
)
def test_a_job_that_contradicts_its_sites_file_is_rejected(
    change, kind, said, job_fields, tables, tmp_path
):
    fields = {key: value for key, value in job_fields.items() if key not in ("sites", "corrupt")}
    data = {"sites_file": str(tmp_path / "sites.yaml"), **change.pop("data", {})}
    with pytest.raises(kind, match=said):
        run_job({**fields, "data": data, **change}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_wrong_cell_ends_the_job_before_training(job_fields, tables, tmp_path):
    text = (tmp_path / "graz.csv").read_text().split("\n")
    text[400] = text[400].replace(";JA;", ";VIELLEICHT;").replace(";NEIN;", ";VIELLEICHT;")
    (tmp_path / "graz.csv").write_text("\n".join(text))
    fields = {key: value for key, value in job_fields.items() if key not in ("sites", "corrupt")}
    data = {**fields["data"], "sites_file": str(tmp_path / "sites.yaml")}
    with pytest.raises(TableError, match='row 401, column `Ausfall`: "VIELLEICHT" is neither'):
        run_job({**fields, "data": data}, out=tmp_path / "run")


def test_a_job_cannot_read_lists(job_fields, tables, tmp_path):
    text = SITES.replace("titles: grade,", 'titles: grade, separator: ",",')
    (tmp_path / "sites.yaml").write_text(text)
    fields = {key: value for key, value in job_fields.items() if key not in ("sites", "corrupt")}
    data = {**fields["data"], "sites_file": str(tmp_path / "sites.yaml"), "categories": ["Type"]}
    with pytest.raises(TableError, match=r"the cells of column `grade` of .* are lists"):
        run_job({**fields, "data": data}, out=tmp_path / "run")


def test_a_job_reports_repeated_times(job_fields, tables, tmp_path):
    pytest.importorskip("lark")
    (tmp_path / "rules.fkg").write_text(
        'timeline time column "when" step 1 h\nsignal torque in N.m column "Torque [Nm]"\n'
        'output failure in probability span 0 .. 1 column "Machine failure"\n'
        "rule strain require if torque > 60 N.m then failure >= 0.5\n"
    )
    lines = tables["linz"].read_text().split("\n")
    rows = [line for line in lines[1:] if line]
    start = datetime(2024, 1, 1)
    rows = [f"{line},{start + timedelta(hours=max(i, 1))}" for i, line in enumerate(rows)]
    (tmp_path / "linz.csv").write_text("\n".join([f"{lines[0]},when", *rows, ""]))
    (tmp_path / "one.yaml").write_text("sites: {linz: linz.csv}\n")
    fields = {
        "rules": [str(tmp_path / "rules.fkg")],
        "data": {"sites_file": str(tmp_path / "one.yaml")},
        "model": {"hidden": [4]},
        "training": {"rounds": 1, "participation": 1.0, "executor": "sequential"},
        "evaluation": {"local_baseline": False},
    }
    with pytest.warns(UserWarning, match="linz: times in `when` repeat in rows 2 and 3"):
        run_job(fields, out=tmp_path / "run")
