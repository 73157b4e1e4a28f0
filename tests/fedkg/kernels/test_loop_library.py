"""Libraries are cached on disk and reused; without a usable cache, they are compiled."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
import sample_functions as loops

from fedkg.kernels import loop_library as library
from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.compiled_loop_policy import checks_bounds
from fedkg.kernels.loop_library import Library

pytestmark = pytest.mark.skipif(checks_bounds(), reason="loops with bounds checks are not cached")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fedkg" / "loops"


def says(single: bool = True) -> list[int]:
    """The result of a newly created library."""
    out = np.zeros(2, dtype=np.int64)
    Library((loops.repeat_loop,), single=single).repeat_loop(3, address(out))
    return [int(number) for number in out]


def test_a_library_is_found_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="fedkg"):
        first = says()
    assert "takes a few seconds once" in caplog.text, "no message explains the wait"
    assert len(list(home.iterdir())) == 1
    monkeypatch.setattr(library, "_compiled", None)
    assert says() == first


def test_each_precision_is_kept(home: Path) -> None:
    assert says(True) == says(False)
    assert len(list(home.iterdir())) == 2


def test_libraries_of_the_same_sources_are_kept_apart(home: Path) -> None:
    says()
    x, out = np.array([3], dtype=np.int64), np.zeros(1, dtype=np.int64)
    Library((loops.repeat_loop, loops.branches), single=True).branches(address(x), 1, address(out))
    assert out.tolist() == [10]
    assert len(list(home.iterdir())) == 2


def test_what_is_somebody_elses_is_read_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = says()

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(library.os, "utime", refused)
    monkeypatch.setattr(library, "_compiled", None)
    assert says() == first


def test_what_is_damaged_is_compiled_anew(home: Path) -> None:
    first = says()
    (kept,) = home.iterdir()
    kept.write_bytes(kept.read_bytes()[:-5])
    assert says() == first
    assert len(list(home.iterdir())) == 1


def test_what_is_long_unused_is_thrown_away(home: Path) -> None:
    says()
    (old,) = home.iterdir()
    long_ago = time.time() - 2 * library.UNUSED
    os.utime(old, (long_ago, long_ago))
    says(False)
    assert not old.exists()
    assert len(list(home.iterdir())) == 1


def test_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert says() == [54, 3]


def test_no_home_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert says() == [54, 3]


def test_constants_of_another_value_are_kept_apart(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def branched() -> int:
        x, out = np.array([5], dtype=np.int64), np.zeros(1, dtype=np.int64)
        Library((loops.branches,), single=True).branches(address(x), 1, address(out))
        return int(out[0])

    assert branched() == 500
    monkeypatch.setattr(loops, "LIMIT", 5)  # the source says 3; it may change while a program runs
    assert branched() == 10
    assert len(list(home.iterdir())) == 2
