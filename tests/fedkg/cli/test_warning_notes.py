"""Python warnings on the command line become notes: one line each, once, without fedkg's files."""

from __future__ import annotations

import subprocess
import sys

WARNS = """
import sys, warnings
import numpy as np
from fedkg.cli import main
from fedkg.cli import status as module


def status(folder: str) -> None:
    for number in range(2):
        warnings.warn("rule `r` is\\nnot evaluated", UserWarning)
        warnings.warn("rule `r` is not evaluated", UserWarning)
        np.array([1e200]) * np.array([1e200])
        warnings.warn("old name", DeprecationWarning)


module.status = status
main.run(["status", "x"])
"""


def stderr(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", WARNS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_warnings_are_notes_in_one_line_once_each() -> None:
    lines = stderr().splitlines()
    assert lines[0] == "note: rule `r` is not evaluated"
    assert lines[1].startswith("note: some numbers are too large or undefined (overflow")
    assert len(lines) == 2


def test_options_of_python_stay_in_force() -> None:
    assert "UserWarning: rule `r` is" in stderr("-W", "always")
