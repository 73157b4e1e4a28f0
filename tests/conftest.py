"""Fixtures for all tests: fixed randomness, few threads, and a temporary home folder."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tries import QUICK

if TYPE_CHECKING:
    import torch

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Compiled loops from the first call: short tests would never use them.
os.environ.setdefault("FEDKG_KERNELS", "on")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fedkg"
"""The user's cache. Tests share compiled code with it; for all else they have their own."""
os.environ.setdefault("NUMBA_CACHE_DIR", str(CACHE / "kernels"))

GARBAGE_THRESHOLDS = gc.get_threshold()

settings.load_profile(QUICK)


def pytest_configure() -> None:
    """Register the fake device early: torch lists the kinds of devices at its first
    differentiation.
    """
    import simulated_device  # noqa: F401


@pytest.fixture(scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that is empty but for compiled loops, which depend on their sources alone.

    Each worker and each session would else compile them for a minute or two.
    """
    cache, loops = tmp_path_factory.getbasetemp() / "cache", CACHE / "loops"
    (cache / "fedkg").mkdir(parents=True)
    with suppress(OSError):  # a home that cannot be written, or Windows without symbolic links
        loops.mkdir(parents=True, exist_ok=True)
        (cache / "fedkg" / "loops").symlink_to(loops)
    return cache


@pytest.fixture(autouse=True)
def _own_home(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, _own_cache: Path
) -> None:
    """Tests neither see nor change the user's additions to the catalogue of ontologies."""
    # `fedkg` searches for garbage more rarely, here in the process of all tests
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    # `fedkg --limit` sets it for its process, here the process of all tests
    monkeypatch.setenv("FEDKG_LIMITS", "")
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path_factory.getbasetemp() / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(_own_cache))


@pytest.fixture(params=["second device", pytest.param("cuda", marks=pytest.mark.gpu)])
def elsewhere(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """A device other than the CPU: the fake one, and an accelerator if there is one."""
    import torch
    from simulated_device import FAR, second_device

    if request.param == "cuda":
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        yield torch.device("cuda", 0)
        return
    with second_device():
        yield FAR
