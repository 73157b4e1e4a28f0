"""The command line, called in this process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from command import Command, call

RULES = """\
signal torque  in N.m  column "Torque [Nm]"
signal wear    in min  column "Tool wear [min]"  span 0 .. 260
output failure in probability span 0 .. 1  column "Machine failure"
rule strong "No torque above 70 N.m."  kind capacity  require torque <= 70 N.m
rule strain  kind capacity  require if torque * wear > 12000 N.m.min then failure >= 0.5
rule wear_risk  kind temporal  require failure never falls as wear rises
"""

TABLE = """\
Torque [Nm];Tool wear [min];Machine failure
40,5;10;0
71,5;200;1
Bad;12;0
"""


@pytest.fixture
def fedkg(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    """`fedkg("check", "rules.fkg")` in a folder that has `rules.fkg` and `table.csv`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.fkg").write_text(RULES, encoding="utf-8")
    (tmp_path / "table.csv").write_text(TABLE, encoding="utf-8")

    return partial(call, capsys)
