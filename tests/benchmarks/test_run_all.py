"""`run_all.py` runs every benchmark, names those that fail, and keeps the results of the others."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fedkg.errors import describe_install

RUN_ALL = Path(__file__).resolve().parents[2] / "benchmarks" / "run_all.py"
CLAIM = (
    '{"claim": "one | two", "ours": 2, "peer": 4, "peer_name": "loop", "ratio": 2.0, '
    '"spread": "1 .. 3", "target": 1, "holds": true}'
)
PEER_MISSING = (
    '{"claim": "three", "ours": 2, "peer": null, "peer_name": "loop", "ratio": null, '
    '"reason": "not run: needs loop", "target": 1, "holds": false}'
)
SCRIPTS = {
    "good": f"print('a table')\nprint('[{CLAIM}]')",
    "lacking": "import no_such_peer",
    "endless": "print('begun', flush=True)\nwhile True: pass",
    "silent": "print('no claims')",
    "broken": "raise ValueError('no gradient')",
    "partial": f"print('[{CLAIM}, {PEER_MISSING}]')",
}


@pytest.fixture(scope="module")
def run_all() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_all_benchmarks", RUN_ALL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def benchmarks(run_all: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the benchmarks of `SCRIPTS`, which `run_all` takes for its own."""
    for name, text in SCRIPTS.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(run_all, "HERE", tmp_path)
    return tmp_path


def run(module: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> int:
    into = str(folder / "RESULTS.md")
    monkeypatch.setattr(sys, "argv", ["run_all.py", *arguments, "--into", into])
    code: int = module.main()
    return code


def sections(folder: Path) -> dict[str, str]:
    """The text of each section of RESULTS.md, by its heading."""
    _, *parts = (folder / "RESULTS.md").read_text(encoding="utf-8").split("\n## ")
    return {part.partition("\n")[0]: part for part in parts}


@pytest.mark.slow
def test_failed_benchmarks_are_named_with_the_reason(
    run_all: ModuleType, benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(run_all, monkeypatch, benchmarks, "--limit", "2") == 1
    text = (benchmarks / "RESULTS.md").read_text(encoding="utf-8")
    assert "2 of 3 targets are met, 1 are not measured. 2 of 6 benchmarks ran to their end." in text
    assert "| one / two | 2 | 4 loop | 2.0 | 1 .. 3 | 1 | yes |  |" in text
    assert "| three | 2 | loop | not run: needs loop |  | 1 | not measured |  |" in text
    # the wording of fedkg's own messages, because the package index does not have fedkg
    assert f"- `lacking`: not run: needs no_such_peer ({describe_install('bench')})" in text
    assert "- `broken`: failed: exit code 1: ValueError: no gradient" in text
    assert "- `endless`: failed: stopped after 2 s" in text
    assert "- `silent`: failed: its last line has no rows" in text
    assert list(sections(benchmarks)) == sorted(SCRIPTS)
    assert "begun" in sections(benchmarks)["endless"]
    assert all(", setting full, " in section for section in sections(benchmarks).values())


@pytest.mark.slow
def test_a_named_benchmark_replaces_its_own_section_only(
    run_all: ModuleType, benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(run_all, monkeypatch, benchmarks, "--limit", "2") == 1
    before = sections(benchmarks)
    (benchmarks / "silent.py").unlink()
    (benchmarks / "lacking.py").write_text(SCRIPTS["good"], encoding="utf-8")
    assert run(run_all, monkeypatch, benchmarks, "lacking", "--quick") == 0
    after = sections(benchmarks)
    assert list(after) == ["broken", "endless", "good", "lacking", "partial"]
    for name in ("broken", "endless", "good", "partial"):
        assert after[name].rstrip() == before[name].rstrip()
    assert ", setting quick, " in after["lacking"]
    assert "| one / two | 2 | 4 loop | 2.0 |" in after["lacking"]


def test_a_smoke_run_keeps_no_figures_of_other_runs(
    run_all: ModuleType, benchmarks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(run_all, monkeypatch, benchmarks, "partial") == 0
    assert run(run_all, monkeypatch, benchmarks, "good", "--smoke") == 0
    text = (benchmarks / "RESULTS.md").read_text(encoding="utf-8")
    assert "its figures mean nothing" in text
    assert list(sections(benchmarks)) == ["good"]


def test_every_benchmark_has_a_quick_and_a_tiny_size(run_all: ModuleType) -> None:
    names = {script.stem for script in RUN_ALL.parent.glob("*.py")} - {"run_all"}
    assert set(run_all.QUICK) == names
    assert set(run_all.SMOKE) == names


def test_an_unknown_name_is_rejected(
    run_all: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run_all.py", "nothing"])
    with pytest.raises(SystemExit):
        run_all.main()
    assert "unknown benchmark nothing" in capsys.readouterr().err


def test_a_row_has_the_ratio_and_its_spread_over_the_turns() -> None:
    sys.path.insert(0, str(RUN_ALL.parent))
    from reporting.rows import compare, limit

    row = compare("one", [1.0, 2.0, 4.0], [6.0, 8.0, 8.0], "loop", target=4.0, floor=0.5)
    assert row["ours"] == 2.0
    assert row["peer"] == 8.0
    assert row["ratio"] == 4.0  # the ratios of the turns are 6, 4 and 2
    assert row["spread"] == "2 .. 6, 3 turns"
    assert row["holds"] is True
    assert compare("one", [1.0], [3.0], "loop", target=4.0)["holds"] is False
    assert limit("one", [2.0, 5.0, 4.0], 4.0)["holds"] is True  # 4 / 4
    assert limit("one", [5.0, 5.0, 4.0], 4.0)["ratio"] == 0.8
