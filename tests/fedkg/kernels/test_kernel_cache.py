"""Compiled kernels: cached in a folder named by their sources, or compiled in each process."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numba
import numpy as np
import pytest

from fedkg.kernels import kernel_compilation

SOURCE = """
import numpy as np
from fedkg.kernels.kernel_compilation import kernel, kernel_part
FACTOR = {factor}

@kernel_part
def times(x):
    return FACTOR * x

@kernel
def scaled(x):
    out = np.empty_like(x)
    for i in range(x.shape[0]):
        out[i] = times(x[i])
    return out
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # Python distinguishes sources by size and second of modification
    kernel_compilation.cache_folder.cache_clear()
    yield tmp_path / "cache"
    kernel_compilation.cache_folder.cache_clear()


def scaled(folder: Path, factor: int) -> tuple[object, float]:
    """A kernel from a package of one file, declared as by a new program; and its result for 2."""
    folder.mkdir(exist_ok=True)
    (folder / "loops.py").write_text(SOURCE.format(factor=factor), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("loops", folder / "loops.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    kernel_compilation.cache_folder.cache_clear()
    spec.loader.exec_module(module)
    return module.scaled, float(module.scaled(np.full(3, 2.0))[0])


def cached_files(home: Path) -> list[Path]:
    return sorted(home.glob("fedkg/kernels/*/*"))


def test_kernels_are_kept_and_found_again(home: Path, tmp_path: Path) -> None:
    _, value = scaled(tmp_path / "package", 3)
    again, same = scaled(tmp_path / "package", 3)
    assert value == same == 6.0
    assert len(cached_files(home)) == 1
    assert list(cached_files(home)[0].rglob("*.nbi"))
    assert sum(again.stats.cache_hits.values()) == 1  # type: ignore[attr-defined]
    assert numba.config.CACHE_DIR == "", "other kernels are kept where they were"


def test_what_a_kernel_calls_decides_too(home: Path, tmp_path: Path) -> None:
    """Numba itself only checks the file of the kernel."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "other.py").write_text("A = 1\n", encoding="utf-8")
    scaled(tmp_path / "package", 3)
    (tmp_path / "package" / "other.py").write_text("A = 2\n", encoding="utf-8")
    again, _ = scaled(tmp_path / "package", 3)
    assert not again.stats.cache_hits  # type: ignore[attr-defined]
    assert scaled(tmp_path / "package", 5)[1] == 10.0
    assert len(cached_files(home)) == 3


def test_kernels_of_sources_that_are_no_more_are_thrown_away(home: Path, tmp_path: Path) -> None:
    scaled(tmp_path / "elsewhere", 3)
    scaled(tmp_path / "package", 3)
    (elsewhere, old) = sorted(cached_files(home), key=lambda path: path.parent.name)
    long_ago = time.time() - 2 * kernel_compilation.STALE_AFTER_SECONDS
    for folder in (elsewhere, old):
        for part in (folder, *folder.rglob("*")):
            os.utime(part, (long_ago, long_ago))
    scaled(tmp_path / "package", 4)
    scaled(tmp_path / "package", 5)
    assert elsewhere.exists()
    assert not old.exists()
    assert len(cached_files(home)) == 3, "what a program that runs may have loaded stays"


def test_the_folder_of_numba_itself_is_taken(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "own"))
    assert scaled(tmp_path / "package", 3)[1] == 6.0
    assert list((tmp_path / "own").rglob("*.nbi"))
    assert not home.exists()


def test_a_file_in_place_of_the_folder_is_no_error(home: Path, tmp_path: Path) -> None:
    home.write_text("no folder", encoding="utf-8")
    found, value = scaled(tmp_path / "package", 3)
    assert value == 6.0
    assert kernel_compilation.cache_folder(tmp_path / "package") is None
    assert not list(tmp_path.rglob("*.nbi"))
    assert not found.stats.cache_path


def test_no_home_is_no_error(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", nowhere)
    assert scaled(tmp_path / "package", 3)[1] == 6.0
    assert not list(tmp_path.rglob("*.nbi"))


def test_sources_that_cannot_be_written_to_get_no_kernels(home: Path, tmp_path: Path) -> None:
    scaled(tmp_path / "package", 3)
    assert not list((tmp_path / "package").rglob("*.nbi"))
