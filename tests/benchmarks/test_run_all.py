"""The run of all benchmarks goes on past those that fail, and names them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

RUN_ALL = Path(__file__).resolve().parents[2] / "benchmarks" / "run_all.py"
CLAIM = '{"claim": "one | two", "ours": 2, "peer": 4, "peer_name": "loop", "ratio": 2.0, "spread": "1 .. 3", "target": 1, "holds": true}'
SCRIPTS = {
    "good": f"print('a table')\nprint('[{CLAIM}]')",
    "lacking": "import no_such_peer",
    "endless": "print('begun', flush=True)\nwhile True: pass",
    "silent": "print('no claims')",
}


@pytest.fixture(scope="module")
def run_all() -> ModuleType:
    told = importlib.util.spec_from_file_location("run_all_benchmarks", RUN_ALL)
    assert told is not None
    assert told.loader is not None
    module = importlib.util.module_from_spec(told)
    sys.modules[told.name] = module
    told.loader.exec_module(module)
    return module


def test_what_fails_is_named_and_the_others_stand_in_the_table(
    run_all: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(run_all, "HERE", tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["run_all.py", "--limit", "2", "--into", str(tmp_path / "RESULTS.md")]
    )
    assert run_all.main() == 1
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "1 of 1 targets are met; 1 of 4 benchmarks ran to their end." in text
    assert "| one / two | 2 | 4 loop | 2.0 | 1 .. 3 | 1 | yes |  |" in text
    assert "- `lacking`: exit code 1: ModuleNotFoundError: No module named 'no_such_peer'" in text
    assert "- `endless`: stopped after 2 s" in text
    assert "- `silent`: its last line has no claims" in text
    (tmp_path / "silent.py").unlink()
    (tmp_path / "lacking.py").write_text(SCRIPTS["good"], encoding="utf-8")
    monkeypatch.setattr(
        sys, "argv", ["run_all.py", "lacking", "--into", str(tmp_path / "RESULTS.md")]
    )
    assert run_all.main() == 0
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert (
        "2 of 2 targets are met; 2 of 3 benchmarks ran to their end." in text
    )  # the others stand as they were; one is no more
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## endless",
        "## good",
        "## lacking",
    ]
    assert "begun" in text
    assert text.count(" s in all; ") == 3
    monkeypatch.setattr(
        sys, "argv", ["run_all.py", "good", "--quick", "--into", str(tmp_path / "RESULTS.md")]
    )
    assert run_all.main() == 0
    text = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    assert "its figures say nothing" in text
    assert "1 of 1 benchmarks ran to their end." in text


def test_every_benchmark_has_a_small_size(run_all: ModuleType) -> None:
    names = {script.stem for script in RUN_ALL.parent.glob("*.py")} - {"run_all"}
    assert set(run_all.QUICK) == names


def test_a_name_that_there_is_not_is_refused(
    run_all: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run_all.py", "nothing"])
    with pytest.raises(SystemExit):
        run_all.main()
    assert "there is no benchmark nothing" in capsys.readouterr().err
