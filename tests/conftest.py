"""What holds for all tests: fixed randomness, few threads, and a home of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from tries import QUICK

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault(  # where programs keep compiled kernels (`fedkg.kernels`): their home is none of the tests' own, which are empty
    "NUMBA_CACHE_DIR", str(Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "fedkg" / "kernels")
)

settings.load_profile(QUICK)


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees, or changes, what the person who runs it has added to the catalogue of ontologies."""
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path_factory.getbasetemp() / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
