"""The example with five plants: their tables, one rule file for all of them, and the job."""

from __future__ import annotations

import runpy
import shutil
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import call

import fedkg
from fedkg.data import Frame
from fedkg.data.ai4i import AIR, FAILURE, FEATURES, PROCESS, SPEED, TORQUE, TYPE, WEAR
from fedkg.data.frame import from_table
from fedkg.jobs import run_job
from fedkg.sites import load_sites, read_site

FOLDER = Path(__file__).parents[2] / "examples/plants"
ROWS, SEED = 900, 4

ROUNDING = {
    ("ohio", TORQUE): 0.0005 * 1.3558179483314004,
    ("ohio", WEAR): 0.00005 * 60,
    ("lyon", SPEED): 0.0005 * 60,
    ("lyon", TORQUE): 0.00005 * 9.80665,
    ("osaka", SPEED): 0.0005 * 60,
    ("poznan", WEAR): 0.00005 * 60,
}
"""Half of the last written digit in the unit of the rules, where the table rounds a value."""

UNREADABLE = {"graz": TORQUE, "ohio": AIR, "lyon": SPEED, "osaka": PROCESS, "poznan": WEAR}
CONDITIONS = {
    "heat_stays_in_the_tool": ("HDF", {AIR, PROCESS, SPEED}),
    "power_outside_limits": ("PWF", {TORQUE, SPEED}),
}
"""For each rule about failures its column of the generator, and the columns that it reads."""


@pytest.fixture(scope="module")
def script() -> Mapping[str, Any]:
    return runpy.run_path(str(FOLDER / "make_tables.py"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, with tables of few rows."""
    for name in ("rules.fkg", "sites.yaml", "job.yaml"):
        shutil.copy(FOLDER / name, tmp_path)
    options = ["--out", str(tmp_path / "tables"), "--rows", str(ROWS), "--seed", str(SEED)]
    monkeypatch.setattr(sys, "argv", ["make_tables.py", *options])
    runpy.run_path(str(FOLDER / "make_tables.py"), run_name="__main__")
    return tmp_path


def read_frame(folder: Path, site: str) -> Frame:
    """The table of a site as the rules see it."""
    contract = fedkg.compile(folder / "rules.fkg").manifest.contract
    table = read_site(load_sites(folder / "sites.yaml"), site, contract).table
    return from_table(table, numeric=(*FEATURES, FAILURE), text=("Time", TYPE))


def test_sites_read_the_numbers_of_the_generator_in_the_units_of_the_rules(
    folder: Path, script: Mapping[str, Any]
) -> None:
    frames = script["make_frames"](ROWS, SEED)
    assert [frame.rows for frame in frames.values()] == [324, 234, 162, 108, 72]
    unreadable = 0
    for site, made in frames.items():
        read = read_frame(folder, site)
        assert read.texts(TYPE) == made.texts(TYPE)
        assert read.numbers(FAILURE).tolist() == made.numbers(FAILURE).tolist()
        times = [datetime.fromisoformat(text) for text in read.texts("Time")]
        assert times == [script["START"] + row * script["STEP"] for row in range(made.rows)]
        for header in FEATURES:
            known = ~np.isnan(read.numbers(header))
            assert known.all() or header == UNREADABLE[site]
            unreadable += int((~known).sum())
            np.testing.assert_allclose(
                read.numbers(header)[known],
                made.numbers(header)[known],
                rtol=0,
                atol=ROUNDING.get((site, header), 0) + 1e-9,
            )
    assert unreadable > 0


@pytest.mark.parametrize("reported", [True, False])
def test_eval_counts_the_failures_of_the_generator_at_each_site(
    folder: Path, script: Mapping[str, Any], capsys: pytest.CaptureFixture[str], *, reported: bool
) -> None:
    """With the generator's failures no rule is violated; with tables that report none, each
    failure by heat or power violates a rule, unless the rule reads an unreadable cell.
    """
    expected = {}
    for number, (site, frame) in enumerate(script["make_frames"](ROWS, SEED).items()):
        if not reported:
            healthy = Frame(
                name=frame.name, columns={**frame.columns, FAILURE: np.zeros(frame.rows)}
            )
            path = folder / "tables" / f"{site}.csv"
            script["write_table"](healthy, script["PLANTS"][site], path, SEED * 5 + number)
        unknown = np.isnan(read_frame(folder, site).numbers(UNREADABLE[site]))
        counts = {"process_is_warmer": 0, "tool_was_replaced": 0}
        for rule, (mode, reads) in CONDITIONS.items():
            known = ~unknown if UNREADABLE[site] in reads else np.ones(frame.rows, dtype=bool)
            failed = (frame.numbers(mode) == 1) & known
            counts[rule] = 0 if reported else int(failed.sum())
        expected[site] = counts
    done = call(capsys, "eval", folder / "rules.fkg", "--sites", folder / "sites.yaml", "--json")
    violated = {
        site: {rule["rule"]: rule["violated"] for rule in found["rules"]}
        for site, found in done.json["sites"].items()
    }
    assert violated == expected
    for rule in CONDITIONS:
        assert (sum(counts[rule] for counts in violated.values()) > 0) != reported


@pytest.mark.slow
def test_the_job_compares_rules_alone_learning_alone_and_both(folder: Path) -> None:
    run = run_job(
        folder / "job.yaml",
        out=folder / "run",
        report=False,
        overrides=[
            "training.rounds=1",
            "training.executor=sequential",
            "training.local_epochs=1",
            "seeds=1",
            "evaluation.local_baseline=false",
            "data.min_samples=20",
        ],
    )
    rows = {row["algorithm"]: row for row in run.results}
    assert set(rows) == {"fedavg", "scfa", "taught", "projected"}
    assert rows["projected"]["rho_mean"]["mean"] == 0
    sentence = run.sentences[0]
    assert sentence.startswith("What knowledge is worth: rules alone F1 ")
    assert "; learning alone F1 " in sentence
    assert "; learning with rules F1 " in sentence
