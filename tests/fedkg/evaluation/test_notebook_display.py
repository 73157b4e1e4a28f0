"""What notebooks show of packs, evaluations, reports and modules; evaluations as data frames."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from typing_extensions import override

import fedkg
from fedkg._internal.notebook_html import MOST_ROWS
from fedkg.authoring import validate
from fedkg.errors import MissingExtra
from fedkg.evaluation import Evaluation

RULES = """\
signal pressure in bar span 0 .. 20
output failure in probability span 0 .. 1
rule limit "Below <b>6 bar</b> & more." kind capacity require pressure <= 6 bar
rule alarm require if pressure > 9 bar then failure >= 0.5
"""
TABLE = "pressure,failure\n5,0.1\n7,0.1\n12,0.9\n,0.2\n10,0.1\n"


class Cells(HTMLParser):
    """The cells of each row, as a browser reads them; tags but those of a table are counted."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self._open = False
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        self._open = tag in ("td", "th")

    @override
    def handle_endtag(self, tag: str) -> None:
        self._open = False

    @override
    def handle_data(self, data: str) -> None:
        if self._open:
            self.rows[-1][-1] += data


@pytest.fixture
def pack() -> fedkg.Pack:
    return fedkg.compile(text=RULES)


@pytest.fixture
def found(pack: fedkg.Pack, tmp_path: Path) -> Evaluation:
    (tmp_path / "table.csv").write_text(TABLE)
    return fedkg.evaluate(pack, fedkg.read_table(tmp_path / "table.csv"))


def test_a_pack_shows_its_rules(pack: fedkg.Pack) -> None:
    cells = Cells(pack._repr_html_())
    assert cells.tags == {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert cells.rows[1:] == [
        ["limit", "capacity", "data", "", "1", "Below <b>6 bar</b> & more."],
        ["alarm", "other", "output", "", "1", ""],
    ]


def test_an_evaluation_shows_counts_and_the_worst_row(found: Evaluation) -> None:
    cells = Cells(found._repr_html_())
    assert [row[:5] for row in cells.rows[1:]] == [
        ["limit", "1", "1", "3", "1"],
        ["alarm", "1", "3", "1", "1"],
    ]
    assert cells.rows[1][5] == "-6 bar: row 3"


def test_many_rules_and_long_texts_are_cut() -> None:
    rules = "\n".join(f'rule r{i} "{"x" * 300}" require p >= {i}' for i in range(25))
    with pytest.warns(fedkg.RuleWarning, match="follows from"):
        shown = fedkg.compile(text=f"signal p\n{rules}\n")._repr_html_()
    assert len(Cells(shown).rows) == 1 + MOST_ROWS
    assert "and 5 more" in shown
    assert len(shown) < 10_000


def test_a_module_and_its_report_show_rules_and_verdicts(pack: fedkg.Pack) -> None:
    module = pack.constraints(x=fedkg.columns(["pressure"]), y=fedkg.probability("failure"))
    assert Cells(module._repr_html_()).rows[2] == ["alarm", "other", "output", ""]
    assert "over 1 features: pressure; outputs: failure" in module._repr_html_()
    report = module(torch.tensor([[5.0], [12.0]]), torch.tensor([[0.1], [0.1]]))
    assert [row[:4] for row in Cells(report._repr_html_()).rows[1:]] == [
        ["limit", "1", "1", "0"],
        ["alarm", "1", "1", "0"],
    ]


def test_a_validation_report_shows_its_results(tmp_path: Path) -> None:
    (tmp_path / "data.ttl").write_text(
        "@prefix ex: <https://example.org/> . @prefix sh: <http://www.w3.org/ns/shacl#> .\n"
        "ex:p ex:pressure 12 . ex:S a sh:NodeShape ; sh:targetNode ex:p ;\n"
        'sh:property [ sh:path ex:pressure ; sh:maxInclusive 9 ; sh:message "<i>high</i>" ] .\n'
    )
    report, _ = validate(tmp_path / "data.ttl", [])
    [head, row] = Cells(report._repr_html_()).rows
    assert head == ["result", "message"]
    assert row[0].startswith("violation: ex:p pressure 12: MaxInclusive")
    assert row[1] == "<i>high</i>"


def expected(found: Evaluation) -> list[tuple[object, ...]]:
    alarm = found.rules[1].worst
    assert alarm is not None
    return [
        ("limit", 1, 1, 3, 1, 0.75, -6.0, "bar", None, 3, None),
        ("alarm", 1, 3, 1, 1, 0.25, alarm.robustness, alarm.unit, None, 5, None),
    ]


COLUMNS = (
    *("rule", "bound_rows", "satisfied", "violated", "unknown", "violation_rate"),
    *("worst_robustness", "worst_unit", "worst_entity", "worst_row", "worst_time"),
)


def test_an_evaluation_becomes_a_pandas_frame(found: Evaluation) -> None:
    frame = found.to_pandas()
    assert str(frame["worst_row"].dtype) == "Int64"
    rows = frame[list(COLUMNS)].astype(object).itertuples(index=False, name=None)
    shown = [tuple(None if cell is None or cell != cell else cell for cell in row) for row in rows]
    assert shown == expected(found)


def test_an_evaluation_becomes_a_polars_frame(found: Evaluation) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = found.to_polars()
    assert frame.select(COLUMNS).rows() == expected(found)
    assert frame.schema["worst_time"] == polars.String
    assert frame.schema["worst_row"] == polars.Int64


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_without_the_library_the_install_command_is_shown(
    found: Evaluation, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=r'constraints\.txt -e "\.\[frames\]"'):
        getattr(found, f"to_{library}")()
