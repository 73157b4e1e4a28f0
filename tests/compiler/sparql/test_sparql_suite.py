"""The W3C suite: fedkg agrees with the store on every query or rejects it with a reason.

The list in the documentation is up to date.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from shared import SHARED, needs_shared
from sparql_suite import FOLDERS, Outcome, queries_of, run_suite

from fedkg_compiler import compile_rules

SUITE = SHARED / "ontologies" / "sparql11-test-suite"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "w3c-test-suites.md"
START, END = "<!-- suite -->\n", "<!-- end of suite -->\n"


def table(outcomes: list[Outcome]) -> str:
    """The list in the documentation."""
    count = Counter(item.where for item in outcomes)
    lines = [
        (
            f"Of {len(outcomes)} evaluation tests, {count['rows']} become rules on rows, the graph"
            f" answers {count['graph']}, and {count['refused']} are rejected or not compared.\n"
        ),
        "| folder | tests | rows | graph | rejected or not compared |",
        "|---|---|---|---|---|",
    ]
    for folder in sorted({item.folder for item in outcomes}):
        names = {
            where: [item.name for item in outcomes if (item.folder, item.where) == (folder, where)]
            for where in ("rows", "graph", "refused")
        }
        tests = sum(map(len, names.values()))
        lines.append(
            f"| {folder} | {tests} | {', '.join(names['rows'])} | {', '.join(names['graph'])} |"
            f" {', '.join(names['refused'])} |"
        )
    lines += ["", "| rejected or not compared | why |", "|---|---|"]
    lines += [
        f"| {item.folder}/{item.name} | {item.reason.replace('|', chr(92) + '|')} |"
        for item in outcomes
        if item.where == "refused"
    ]
    return "\n".join(lines) + "\n"


@needs_shared
@pytest.mark.slow
def test_the_suite_agrees_and_the_page_lists_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = table(run_suite(SUITE, tmp_path, monkeypatch))
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    if os.environ.get("FEDKG_REWRITE"):
        PAGE.write_text(before + START + text + END + after, encoding="utf-8")
        return
    assert page == before + START + text + END + after


@needs_shared
def test_queries_with_syntax_errors_are_rejected(tmp_path: Path) -> None:
    wrong = [
        path
        for name in FOLDERS
        for paths in queries_of(SUITE / name, "NegativeSyntaxTest11").values()
        for path in paths
    ]
    found = compile_rules(wrong).diagnostics
    refused = {item.span.file for item in found if item.code in ("FKG341", "FKG342")}
    assert len(wrong) >= 9
    assert refused == {str(path) for path in wrong}
