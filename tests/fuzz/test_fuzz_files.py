"""A short slice of `make fuzz-files`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_hostile_files_are_rejected_within_the_budgets() -> None:
    fuzzer = Path(__file__).with_name("files.py")
    done = subprocess.run(
        [sys.executable, fuzzer, "3", "0", "all", "15"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
