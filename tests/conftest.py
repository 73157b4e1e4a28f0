"""Fixtures for all tests: fixed randomness, few threads, and a temporary home folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
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
# Compiled kernels are cached here (`fedkg.kernels.kernel_compilation`): tests have empty home
# folders.
os.environ.setdefault(
    "NUMBA_CACHE_DIR",
    str(
        Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        / "fedkg"
        / "kernels"
    ),
)

settings.load_profile(QUICK)


def pytest_configure() -> None:
    """Register the fake device early: torch lists the kinds of devices at its first
    differentiation.
    """
    import simulated_device  # noqa: F401


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests neither see nor change the user's additions to the catalogue of ontologies."""
    # `fedkg --limit` sets it for its process, here the process of all tests
    monkeypatch.setenv("FEDKG_LIMITS", "")
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path_factory.getbasetemp() / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


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
