"""Kills of every kind of process over Flower change no byte (see `benchmarks/flower_soak.py`)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "flower_soak.py"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes by /proc")
def test_one_kill_of_each_kind_loses_no_round_and_changes_no_byte() -> None:
    """The script fails if a round is lost or a figure differs from that of `fedkg run`."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "4"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("supernode", "site", "superlink", "server"):
        assert f"  {part}: 1 kills" in done.stdout
    assert "figures and models are equal" in done.stdout
    [row] = json.loads(done.stdout.splitlines()[-1])
    assert row["claim"].startswith("4 random kills")
