"""Golden diagnostics for rules with wrong names, units or types, character by character."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from golden.cases import FILE, Case, cases_under, check

from fedkg_compiler.diagnostics import CODES, render
from fedkg_compiler.pipeline import compile_rules

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = cases_under(GOLDEN / "binding")
NOT_OF_A_CASE = {
    "FKG240",
    "FKG288",
}  # an unreadable file: see test_pipeline.py; an unknown --client: see test_client_packs.py


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the small plant and its sheets that the cases use; it is the current folder."""
    for path in (GOLDEN / "plant").iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_diagnostics_match_the_golden_case(case: Case, folder: Path) -> None:
    Path(FILE).write_text(case.source, encoding="utf-8")
    graphs = [Path("plant.ttl")] if "plant:" in case.source else []
    compilation = compile_rules([Path(FILE)], graphs=graphs, reason=False)
    assert (compilation.pack is None) == any(
        problem.severity == "error" for problem in compilation.diagnostics
    )
    check(
        case,
        "\n".join(render(problem, case.source) for problem in compilation.diagnostics) or "fine",
    )


def test_every_binding_and_sheet_code_has_a_case() -> None:
    said = {code for code in CODES if any(f"[{code}]" in case.said for case in CASES)}
    wanted = {code for code in CODES if "FKG170" <= code < "FKG300"}
    assert wanted - said == NOT_OF_A_CASE
