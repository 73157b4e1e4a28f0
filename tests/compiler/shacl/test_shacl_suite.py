"""The W3C SHACL suite, core and SPARQL: the expected verdict on the graph and on a table, and the
reference's list of engines.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rdflib.compare import isomorphic
from shacl_suite import (
    BEGIN,
    END,
    KNOWN,
    PAGE,
    PARTS,
    Case,
    Verdict,
    cases,
    reports,
    run,
    table_line,
)
from shared import needs_shared

pytestmark = [needs_shared, pytest.mark.slow]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Case, Verdict, Verdict]]:
    folder: Path = tmp_path_factory.mktemp("suite")
    return [(case, *run(case, folder)) for part in PARTS for case in cases(part)]


def test_every_verdict_is_the_expected_one(verdicts: list[tuple[Case, Verdict, Verdict]]) -> None:
    assert len(verdicts) == 98 + 23
    wrong = {case.name for case, graph, _ in verdicts if graph.conforms != case.conforms}
    assert wrong == set(KNOWN)
    assert {
        case.name for case, _, table in verdicts if table.conforms not in (None, case.conforms)
    } <= set(KNOWN)


def test_the_reference_lists_where_each_went(verdicts: list[tuple[Case, Verdict, Verdict]]) -> None:
    listed = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    assert listed.strip().splitlines()[2:] == [
        table_line(case, graph, table) for case, graph, table in verdicts
    ]
    assert listed.count("rows of a table") >= 35


def test_every_report_is_the_expected_one() -> None:
    """Reports are compared as graphs, up to blank nodes; None: the shapes are rejected."""
    pairs = {case.name: reports(case) for part in PARTS for case in cases(part)}
    assert len(pairs) == 98 + 23
    assert not [
        name
        for name, (expected, found) in pairs.items()
        if (expected is None) != (found is None)
        or (expected is not None and found is not None and not isomorphic(expected, found))
    ]
