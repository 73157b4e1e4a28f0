"""A command that needs a package which is not installed names it and how to install it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from fedkg.cli.main import run

run(sys.argv[2:])
"""

RULES = """signal heat span 0 .. 9
output fault in probability span 0 .. 1
rule hot require if heat > 8 then fault >= 0.5
"""
TABLE = "heat,fault\n" + "".join(f"{step % 9},{step % 2}\n" for step in range(60))

JOB = """name: small
rules: [rules.fkg]
sites: [north, south]
data: {label: fault, path: table.csv, min_samples: 2}
model: {hidden: []}
training: {rounds: 1, executor: stacked}
"""


@pytest.mark.parametrize("package", ["yaml", "torch"])
def test_a_missing_package_is_named(package: str, tmp_path: Path) -> None:
    (tmp_path / "rules.fkg").write_text(RULES)
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "job.yaml").write_text(JOB)
    command = [sys.executable, "-c", PROGRAM, package, "run", "job.yaml", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        f"error: this command needs the package `{package}`, which is not installed" in done.stderr
    )
    assert 'help: in a clone of fedkg, pip install -c constraints.txt -e ".[all]"' in done.stderr
    assert "a fault in fedkg itself" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_run_needs_no_compiler(tmp_path: Path) -> None:
    (tmp_path / "rules.fkg").write_text(RULES)
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "job.yaml").write_text(JOB)
    command = [sys.executable, "-c", PROGRAM, "numba", "run", "job.yaml", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("not installed: numba; fedkg uses tensor operations") == 1
