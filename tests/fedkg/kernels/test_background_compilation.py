"""Compilation in a background process, and by several processes at once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedkg.kernels import background_compilation as background
from fedkg.kernels.compile_lock import is_locked
from fedkg.kernels.compiled_loop_policy import checks_bounds
from fedkg.kernels.loop_library import cache_path

pytestmark = pytest.mark.skipif(
    checks_bounds(), reason="code with bounds checks is neither cached nor compiled ahead"
)

COMPILE = """
import logging, sys, time
logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
sys.path.insert(0, {folder!r})
import sample_functions as loops
from fedkg.kernels import loop_library as library
compile_loops = library._compiled
def slowly(*given):
    print("compiles", flush=True)
    time.sleep({seconds})
    return compile_loops(*given)
library._compiled = slowly
library.Library((loops.repeat_loop,), single=True)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(background, "_started", {})
    monkeypatch.setattr(background, "_compiled", set())
    background._marker.cache_clear()
    yield tmp_path / "fedkg"
    background._marker.cache_clear()


def compiler(seconds: float) -> subprocess.Popen[str]:
    """A process that compiles a library, which takes this much longer than usual."""
    code = COMPILE.format(folder=str(Path(__file__).parent), seconds=seconds)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_compile_a_library_once(home: Path) -> None:
    processes = [compiler(1.0) for _ in range(2)]
    printed = "".join(process.communicate(timeout=120)[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert printed.count("compiles\n") == 1, printed
    assert printed.count("waiting for another process") <= 1
    assert [file.suffix for file in (home / "loops").iterdir()] == [".o"]


@pytest.mark.slow
def test_a_killed_compiler_leaves_nothing_that_disturbs(home: Path) -> None:
    killed = compiler(600.0)
    assert killed.stdout is not None
    while "compiles" not in killed.stdout.readline():
        pass
    waiting = compiler(0.0)
    assert waiting.stdout is not None
    assert "waiting for another process" in waiting.stdout.readline()
    (lock,) = (home / "loops").iterdir()
    assert is_locked(lock)
    killed.kill()
    killed.communicate()
    assert "compiles" in waiting.communicate(timeout=120)[0]
    assert [file.suffix for file in (home / "loops").iterdir()] == [".o"]


def test_the_background_compiles_what_a_job_needs(home: Path) -> None:
    background.compile_ahead(["cells"])
    (process,) = set(background._started.values())
    assert process.wait(timeout=120) == 0
    place = cache_path(*background._parts("cells"))
    assert place is not None
    assert place.exists()
    background._started.clear()
    background.compile_ahead(["cells"])
    assert not background._started, "it is there already"


@pytest.mark.slow
def test_kernels_serve_when_they_are_compiled(home: Path) -> None:
    assert not background.is_compiled("scoring-float32")
    process = background._started["scoring-float32"]
    until = time.monotonic() + 120
    while not background.is_compiled("scoring-float32") and time.monotonic() < until:
        time.sleep(0.1)
    assert process.wait(timeout=10) == 0
    assert [file.suffix for file in (home / "kernels").glob("*.*")] == [".compiled"]
    assert len(list((home / "kernels").rglob("*.nbc"))) == 2


def test_the_background_imports_no_torch() -> None:
    code = (
        "import sys; from fedkg.kernels.background_compilation import LOOPS; import importlib; "
        "[importlib.import_module(name) for name in LOOPS.values()]; "
        "import fedkg.kernels.scoring.bit_program_kernels; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_error_in_the_background_leaves_the_work_to_the_caller(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert not background.is_compiled("scoring-float32")
    assert background._started["scoring-float32"].wait(timeout=60) != 0
    assert background.is_compiled("scoring-float32")


def test_without_a_cache_nothing_starts(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    background.compile_ahead(list(background.LOOPS))
    assert background.is_compiled("scoring-float32"), "the caller compiles it"
    assert not background._started


def test_off_starts_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKG_KERNELS", "off")
    monkeypatch.setattr(background, "can_compile_loops", background.can_compile_loops.__wrapped__)
    background.compile_ahead(list(background.LOOPS))
    assert not background._started
    assert not home.exists()


JOB = """
rules: [rules.fkg]
sites: 3
data: {set: ai4i, size: 300, split: sizes, alpha: 100, min_samples: 1, hold_out: auto}
model: {hidden: [4]}
training: {rounds: 2, participation: 1.0, executor: stacked, chunk: 100}
evaluation: {local_baseline: false}
algorithm: scfa
"""
RULES = """
signal torque in N.m column "Torque [Nm]" span 0 .. 80
signal wear   in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain kind capacity require if torque * wear > 12000 N.m.min then failure >= 0.5
rule calm   kind causal   require if torque < 60 N.m and wear < 200 min then failure <= 0.5
"""


@pytest.mark.slow
def test_a_job_gives_equal_bits_with_an_empty_cache_and_with_a_full_one(
    tmp_path: Path, home: Path
) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "rules.fkg").write_text(RULES)
    for folder in ("cold", "warm"):
        subprocess.run(
            [sys.executable, "-m", "fedkg", "run", "job.yaml", "--out", folder],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip
        until = time.monotonic() + 2 * background.LONGEST
        while time.monotonic() < until and not list((home / "kernels").glob("*.compiled")):
            time.sleep(0.1)
    found = [
        {
            file.relative_to(tmp_path / folder): file.read_bytes()
            for pattern in ("*.csv", "checkpoints/*")
            for file in (tmp_path / folder).glob(pattern)
            if file.name != "rounds.csv"  # with seconds
        }
        for folder in ("cold", "warm")
    ]
    assert len(found[0]) > 5
    assert found[0] == found[1]
