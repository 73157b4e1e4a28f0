"""A few cases of the fuzzer for run folders; `make fuzz-runs` runs more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_damaged_run_folders_are_reported_or_repaired() -> None:
    # A process of its own: the peak of this one contains the memory of all tests before.
    script = Path(__file__).with_name("runs.py")
    options = ["--cases", "15", "--seconds", "600", "--memory", "2000"]
    done = subprocess.run(
        [sys.executable, script, *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 cases, 0 failed" in done.stdout
