"""Memory traffic of compiled rules stays near its recorded values.

Neither windows nor the values that they compare are written to memory.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_memory_traffic.py"


@pytest.mark.slow
@pytest.mark.parametrize("shape", [10, 7])
def test_windows_move_little(shape: int) -> None:
    """`always` over a sum of two columns, and until: the gathered values are moved once (98 MB) and
    the batch twice (12 MB).
    """
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--only", str(shape)],
        capture_output=True,
        text=True,
        check=True,
    )
    for what in ("robustness", "penalty"):
        moved = re.search(rf"{what} +shape {shape} .* moved +([0-9.]+) times", done.stdout)
        assert moved is not None
        assert 1.0 < float(moved[1]) < 1.5
