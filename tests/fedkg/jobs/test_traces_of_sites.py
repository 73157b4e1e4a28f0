"""Traces within the table of a site: rules about predictions never read across two of them."""

from __future__ import annotations

from pathlib import Path

import yaml

import fedkg
from fedkg.data.sets.series_windows import labelled_windows
from fedkg.data.sets.table_data_set import table_set
from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.job_reader import read_job

RULES = """
timeline step 1 min time column "time" trace column "heat"
signal temp in degC span 0 .. 300
output y in dimensionless span 0 .. 1
rule jump require if temp - temp 1 min ago > 5 K then y <= 0.5
rule low require y >= 0.1
"""
HEATS, LENGTH = 6, 20


def write_job(folder: Path, rules: str = RULES) -> Path:
    """Two sites with six heats each, one after the other in time; each heat is 50 K warmer."""
    for site in ("a", "b"):
        lines = ["time,heat,temp,y\n"]
        for minute in range(HEATS * LENGTH):
            heat, hour = minute // LENGTH, minute // 60
            temp = 50 * heat + 0.1 * (minute % 7)
            lines.append(f"2025-01-01 {hour:02}:{minute % 60:02},h{heat},{temp:.1f},0.9\n")
        (folder / f"{site}.csv").write_text("".join(lines))
    (folder / "sites.yaml").write_text("sites: {a: {url: a.csv}, b: {url: b.csv}}\n")
    (folder / "rules.fkg").write_text(rules)
    job = {
        "name": "heats",
        "rules": ["rules.fkg"],
        "output": "y",
        "data": {
            "set": "table",
            "sites_file": "sites.yaml",
            "split": "column",
            "test": 0.5,
            "server": 0,
            "min_samples": 5,
        },
        "algorithm": "fedavg",
        "model": {"hidden": [4]},
        "training": {"rounds": 1},
        "evaluation": {"local_baseline": False},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return folder / "job.yaml"


def run(job: Path) -> RunFolder:
    return RunFolder(run_job(read_job(job), out=job.parent / "run", report=False).folder)


def test_no_rule_reads_the_row_before_of_another_trace(tmp_path):
    rows = {row["rule"]: row for row in run(write_job(tmp_path)).rows("rules.csv")}

    # the test is the last half of each heat, and the row before its first one is for training
    assert int(rows["low"]["evaluations"]) == 2 * HEATS * LENGTH // 2
    assert int(rows["jump"]["evaluations"]) == 2 * HEATS * (LENGTH // 2 - 1)
    assert int(rows["jump"]["applied"]) == 0


def test_a_trace_column_is_also_a_key(tmp_path):
    """Rules about one heat are evaluated on its rows."""
    (tmp_path / "plant.ttl").write_text(
        "@prefix p: <https://example.org/p#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        'p:Heat a owl:Class ; fkg:keyColumn "heat" . p:h5 a p:Heat ; p:most 0.5 .\n'
    )
    rules = RULES.replace(
        "signal temp", "use plant\nprefix p: <https://example.org/p#>\nsignal temp"
    )
    rules = rules.replace("signal temp in", "signal temp(?h) in").replace(
        "rule jump require if temp - temp 1 min ago > 5 K then y <= 0.5",
        "rule hot for ?h, ?most where { ?h a p:Heat ; p:most ?most }\n"
        "  require if temp(?h) > 0 degC then y <= ?most",
    )

    [hot] = [
        row for row in run(write_job(tmp_path, rules)).rows("rules.csv") if row["rule"] == "hot"
    ]

    assert int(hot["evaluations"]) == 2 * LENGTH // 2


def test_windows_end_with_their_trace(tmp_path):
    """A heat of twenty steps has sixteen windows of five; none has rows of two heats."""
    write_job(tmp_path)
    contract = fedkg.compile(tmp_path / "rules.fkg").manifest.contract
    lines = (tmp_path / "a.csv").read_text().splitlines()
    table = "".join([lines[0] + ",site\n", *(f"{line},a\n" for line in lines[1:])])
    (tmp_path / "named.csv").write_text(table)

    windows = labelled_windows(table_set(tmp_path / "named.csv", contract, site="site"), history=5)

    assert windows.samples == HEATS * (LENGTH - 4)
    temperatures = windows.x[:, :, windows.features.index("temp")]
    assert (temperatures.max(axis=1) - temperatures.min(axis=1)).max() < 1
