"""Jobs and commands without compiled loops: the same results, and neither compiler is imported."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedkg.errors import UsageError
from fedkg.kernels.compiled_loop_policy import can_compile_loops

EXAMPLES = Path(__file__).parents[3] / "examples"

PROGRAM = """
import json, sys

class NoCompilers:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise AssertionError(f"{name} is imported without compiled loops")

if sys.argv[1] == "off":
    sys.meta_path.insert(0, NoCompilers())
from fedkg.cli.main import run

for arguments in json.loads(sys.argv[2]):
    print("==", *arguments)
    try:
        run(arguments)
    except SystemExit as end:
        if end.code:
            raise
if sys.argv[1] == "off":
    assert not {"numba", "llvmlite"} & set(sys.modules)
"""

TABLE_RULES = """
signal torque column "Torque [Nm]" in N.m span 0 .. 80
signal wear column "Tool wear [min]" in min span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain kind capacity require if torque * wear > 11000 N.m.min then failure >= 0.5
rule fresh kind causal require if torque < 40 N.m and wear < 100 min then failure < 0.5
rule worn kind temporal require failure never falls as wear rises
"""
TABLE = {
    "rules": ["table.fkg"],
    "sites": ["a", "b", "c"],
    "data": {"rows": 900, "seed": 6, "split": "dirichlet", "label": "Machine failure"},
    "model": {"hidden": [8]},
    "training": {
        "rounds": 2,
        "batch": 32,
        "learning_rate": 0.1,
        "executor": "stacked",
        "participation": 1,
    },
    "scoring": {"probe_rows": 50, "rows_per_rule": 2},
    "evaluation": {"local_baseline": False},
}
FORECAST_RULES = """
timeline step 1 h ends clip
output volume span 0 .. 20000
use rules templates.operational_range
rule no_jump kind causal require volume <= 4 * past volume + 400
infer early per client find ?low, ?high in operational_range(volume, ?low, ?high, 0, 2)
infer late per client find ?low, ?high in operational_range(volume, ?low, ?high, 3, 5)
"""
WINDOW = {"history": 12, "horizon": 6, "stride": 6, "targets": ["volume"], "gaps": "interpolate"}
FORECAST = {
    "rules": ["forecast.fkg"],
    "data": {"set": "traffic", "size": 240, "clients": 4, "min_samples": 3, "window": WINDOW},
    "model": {"kind": "gru", "hidden": 4, "layers": 1},
    "training": {"rounds": 2, "batch": 8, "learning_rate": 0.1, "executor": "stacked"},
    "algorithm": {
        "preset": "fedstl",
        "grouping": {"fedstl": {"clusters": 2, "weight": 0.5, "share": 0.3}},
    },
}
JOBS = {
    "taught": TABLE | {"algorithm": {"preset": "scfa", "training": {"penalty": 10}}},
    "agents": TABLE
    | {
        "rules": ["table.fkg", "sets.fkg"],
        "algorithm": {"preset": "pcfedavg", "agents": {"penalty": 2.0, "given": {"radius": 1.5}}},
    },
    "private": TABLE
    | {
        "algorithm": "fedavg",
        "privacy": {"unit": "example", "clip": 1.0, "noise": 1.0, "delta": 1e-3},
    },
    "forecast": FORECAST,
}
CAUSES = (
    "data.plant.steps=600",
    "data.plant.clients=3",
    "shifts=19",
    "rules=[]",
    "learning.epochs=2",
)


def run_all(folder: Path, kernels: str) -> str:
    """Run all jobs and commands in one process and return what it prints."""
    (folder / "table.fkg").write_text(TABLE_RULES)
    (folder / "sets.fkg").write_text("set small keep parameters in l2_ball(radius = job)\n")
    (folder / "forecast.fkg").write_text(FORECAST_RULES)
    rows = "".join(f"{step % 80},{7 * step % 260},{step % 2}\n" for step in range(600))
    (folder / "table.csv").write_text(f"Torque [Nm],Tool wear [min],Machine failure\n{rows}")
    commands = [["check", "table.fkg"], ["eval", "table.fkg", "table.csv"]]
    for name, fields in JOBS.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, **fields}))
        commands.append(["run", f"{name}.yaml", "--out", f"{kernels}/{name}"])
    overrides = [part for override in CAUSES for part in ("--set", override)]
    commands.append(
        ["run", str(EXAMPLES / "causes/job.yaml"), "--out", f"{kernels}/causes", *overrides]
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kernels, json.dumps(commands)],
        cwd=folder,
        env=os.environ | {"FEDKG_KERNELS": kernels},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "not installed" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The jobs, with their results and outputs in `on` and `off`.

    They share a folder because the noise of private jobs depends on the paths of their rules.
    """
    folder = tmp_path_factory.mktemp("kernels")
    for kernels in ("on", "off"):
        (folder / f"{kernels}.txt").write_text(run_all(folder, kernels))
    return folder


def numbers(file: Path) -> list[dict[str, str | float]]:
    """The rows of a results file, with numbers for the cells that are numbers."""

    def read(cell: str) -> str | float:
        try:
            return float(cell)
        except ValueError:
            return cell

    with file.open(newline="") as text:
        return [
            {name: read(cell) for name, cell in row.items() if name != "seconds"}
            for row in csv.DictReader(text)
        ]


def near(cell: str | float) -> object:
    return cell if isinstance(cell, str) else pytest.approx(cell, rel=1e-5, abs=1e-7, nan_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("job", [*JOBS, "causes"])
def test_results_are_the_same(job: str, folder: Path) -> None:
    files = sorted(path.name for path in (folder / "on" / job).glob("*.csv"))
    assert files
    for name in files:
        expected, found = (numbers(folder / kernels / job / name) for kernels in ("on", "off"))
        assert len(found) == len(expected)
        for left, right in zip(found, expected, strict=True):
            assert left == {column: near(cell) for column, cell in right.items()}, name


@pytest.mark.slow
def test_commands_print_the_same(folder: Path) -> None:
    with_loops, without = (
        (folder / f"{kernels}.txt").read_text().partition("== run")[0] for kernels in ("on", "off")
    )
    assert "strain" in with_loops
    assert without == with_loops


@pytest.mark.parametrize("setting", ["fast", "OFF"])
def test_an_unknown_setting_is_an_error(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKG_KERNELS", setting)
    with pytest.raises(UsageError, match="`FEDKG_KERNELS` has an unknown value") as found:
        can_compile_loops.__wrapped__()
    assert f"expected: auto, on, off or check\n  received: {setting}" in str(found.value)
