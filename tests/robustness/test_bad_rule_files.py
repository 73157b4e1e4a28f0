"""Hostile or careless rule files in the whole compiler: one diagnostic per cause, no exception."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from golden.cases import FILE, Case, cases_under, check

from fedkg_compiler.diagnostics import CODES, render
from fedkg_compiler.pipeline import compile_rules

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = cases_under(GOLDEN / "bad_rules")
GRAPH = (
    b"@prefix c: <https://example.org/c#> . @prefix rdfs:"
    b" <http://www.w3.org/2000/01/rdf-schema#> .\n"
)
BESIDE = {
    "nothing.csv": b"",
    "bytes.csv": bytes(range(256)) * 8,
    "twice.csv": b"tag,high,high\nP,8,9\n",
    "text.csv": b"tag,high\nP,8\nT,hot\n",
    "ragged.csv": b"tag,high\nP,8,9,10\nT\n",
    "numbers.csv": b"tag,high\n1,8\n2,9\n",
    "gaps.csv": b"tag,high\nP,8\n,9\nT,\n",
    "huge.csv": b"tag,high\nP,1e400\nT,inf\n",
    "fake.xlsx": b"tag,high\nP,8\n",
    "fake.parquet": b"tag,high\nP,8\n",
    "broken.ttl": b"@prefix b: <https://example.org/b#> .\nb:x a b:B ; b:y \n",
    "bytes.ttl": bytes(range(256)) * 8,
    "void.ttl": b"",
    "half.ttl": (
        b"@prefix plant: <https://example.org/plant#> .\nplant:a a plant:M .\nplant:b a plnt:M"
        b" .\nplant:c a plant:M .\n"
    ),
    "circle.ttl": GRAPH + b"c:A rdfs:subClassOf c:B . c:B rdfs:subClassOf c:A .\nc:x a c:B .\n",
    "odd.ttl": (
        b"@prefix o: <https://example.org/o#> .\no:x o:limit"
        b' "1e999"^^<http://www.w3.org/2001/XMLSchema#double> .\no:y o:limit'
        b' "eight"^^<http://www.w3.org/2001/XMLSchema#double> .\no:z o:limit'
        b' "NaN"^^<http://www.w3.org/2001/XMLSchema#double> .\n'
    ),
}
"""Damaged or wrong files next to the rule file."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small plant with its sheets, and the damaged files; it is the current folder."""
    for path in (GOLDEN / "plant").iterdir():
        shutil.copy(path, tmp_path)
    for name, body in BESIDE.items():
        (tmp_path / name).write_bytes(body)
    for name in ("folder", "dir.ttl"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_bad_files_give_the_golden_diagnostics(case: Case, folder: Path) -> None:
    Path(FILE).write_text(case.source, encoding="utf-8", errors="surrogatepass", newline="")
    graphs = [Path("plant.ttl")] if "plant:" in case.source and "use " not in case.source else []
    compilation = compile_rules([Path(FILE)], graphs=graphs, reason=False)
    problems = compilation.diagnostics
    assert (compilation.pack is None) == any(problem.severity == "error" for problem in problems)
    assert {problem.code for problem in problems} <= CODES.keys()
    assert len({(problem.code, problem.span) for problem in problems}) == len(problems)
    said = "\n".join(
        render(problem, case.source if problem.span.file == FILE else None) for problem in problems
    )
    check(case, said.encode("utf-8", "backslashreplace").decode() or "fine")


def test_there_are_more_than_a_hundred_of_them() -> None:
    assert sum(case.said != "fine" for case in CASES) > 100
