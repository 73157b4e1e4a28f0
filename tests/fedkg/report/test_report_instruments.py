"""Single sites, paired differences, and theory in the report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from theory_figures import training

from fedkg.jobs.folder import RunFolder as Files
from fedkg.report import write_report
from fedkg.report.difference_table import difference_table
from fedkg.report.records import read_run
from fedkg.report.site_tables import site_tables
from fedkg.report.theory_tables import property_lines, theory_tables
from fedkg.report.trial_groups import scenarios

RunFolder = Callable[..., Path]

SITES = """\
trial,client,samples,test_rows,positives,f1,precision,recall,accuracy,rmse,mse,concordance,loss,\
violation,violated,evaluations
fedavg-1-0-sound,graz,300,60,5,0.5,0.5,0.5,,,,,0.1,0.2,12,60
fedavg-1-0-sound,linz,500,100,0,,,,,,,,0.1,0.1,10,100
fedavg-1-1-sound,graz,300,60,5,0.7,0.5,0.5,,,,,0.1,0.4,24,60
scfa-1-0-sound,graz,300,60,5,0.9,0.5,0.5,,,,,0.1,0.0,0,60
"""


@pytest.fixture
def folder(run_folder: RunFolder) -> Path:
    found = run_folder()
    files = Files(found)
    files.write_text("sites.csv", SITES)
    results = json.loads((found / "results.json").read_text())
    for row in results["rows"]:
        row["measure"] = "f1"
    results["rows"][0]["sites"] = {
        "f1": {"mean": {"mean": 0.6}, "worst": {"mean": 0.5}, "deviation": {"mean": None}}
    }
    files.write_json("results.json", results)
    files.write_json(
        "theory.json",
        {
            "trials": [training("FedAvg", 0, 2.0), training("FedAvg", 1, 4.0)],
            "properties": [{"name": "calm", "convex": True}],
        },
    )
    return found


def test_sites_are_shown_as_means_over_seeds_with_their_spread(folder: Path) -> None:
    records = read_run(folder)
    table = site_tables(records, scenarios(records))[0]
    assert [row["site"] for row in table["rows"]] == ["graz", "linz"]
    assert table["rows"][0]["cells"] == [
        "300",
        "60",
        "5",
        "0.600",
        "30.0% (36 of 120)",
        "0.900",
        "0.0% (0 of 60)",
    ]
    assert table["rows"][1]["cells"] == ["500", "100", "0", "–", "10.0% (10 of 100)", "–", "–"]
    assert {row["label"]: row["cells"][0] for row in table["spread"]} == {
        "mean of all sites": "0.600",
        "worst site": "0.500",
    }


def test_differences_are_told_pair_by_pair(folder: Path) -> None:
    rows = difference_table(read_run(folder).results)
    assert [(row["one"], row["other"], row["ahead"]) for row in rows] == [
        ("SCFA", "FedAvg", "1 of 2"),
        ("SCFA", "FedAvg", "2 of 2"),
    ]
    assert rows[1]["mean"] == "+0.305"
    low, high = (float(end) for end in rows[1]["interval"].split(" to "))
    assert (low + high) / 2 == pytest.approx(0.305, abs=1e-3)


def test_theory_is_a_table_of_means_over_seeds(folder: Path) -> None:
    [table] = theory_tables(read_run(folder).theory)
    lines = {line["label"]: line["cells"] for line in table["lines"]}
    assert table["algorithms"] == ["FedAvg"]
    assert lines["Bound on the least squared gradient"] == ["3"]
    assert lines["η ≤ 1 / (L E)"] == ["no: the bound does not apply"]
    assert lines["θ"] == ["10.0% (5.0% to 20.0%)"]
    assert lines["Rounds by zone"] == ["safe 75%, critical 25%"]
    assert lines["Figure by violation rate"] == ["0.8 − 0.4 ρ, R² 0.90 [0.80, 0.95]"]
    assert "Infeasibility" not in lines
    assert table["notes"] == ["FedAvg: a note"]
    assert property_lines(read_run(folder).theory)[0].startswith(
        "calm: the series that satisfy it form a convex set"
    )


def test_the_page_has_all_of_it(folder: Path) -> None:
    body = re.sub(
        r"<(script|style)\b.*?</\1>",
        "",
        write_report(folder).read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    for section in ("differences", "sites", "theory"):
        assert f'<section id="{section}">' in body
        assert f'href="#{section}"' in body
    assert "Properties of time series" in body


def test_a_page_without_them_has_none_of_it(run_folder: RunFolder) -> None:
    body = write_report(run_folder()).read_text(encoding="utf-8")
    for section in ("sites", "theory"):
        assert f'<section id="{section}">' not in body


def test_of_very_many_sites_the_worst_are_shown(folder: Path) -> None:
    lines = [f"fedavg-1-0-sound,site {i},10,10,2,{i / 100},,,,,,,0.1,0.0,0,10" for i in range(50)]
    Files(folder).write_text("sites.csv", SITES.splitlines()[0] + "\n" + "\n".join(lines) + "\n")
    records: Any = read_run(folder)
    [table] = site_tables(records, scenarios(records))[:1]
    assert [row["site"] for row in table["rows"]] == [f"site {i}" for i in range(30)]
    assert table["left_out"] == 20
