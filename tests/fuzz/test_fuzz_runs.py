"""A few cases of the fuzzer for run folders; `make fuzz-runs` runs more."""

from __future__ import annotations

import pytest
from fuzz.runs import main


@pytest.mark.slow
def test_damaged_run_folders_are_reported_or_repaired(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--cases", "15", "--seconds", "60", "--memory", "4000"])
    assert code == 0, capsys.readouterr().out
