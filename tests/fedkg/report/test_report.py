"""The report says what the run folder says, in one file that loads nothing."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedkg.errors import UsageError
from fedkg.report import write_report
from fedkg.report.charts import ALARM
from fedkg.report.comparison import scenarios
from fedkg.report.outcome import outcome
from fedkg.report.records import Figure, read_run
from fedkg.report.sections import flat, size_text

RunFolder = Callable[..., Path]


def _parts(page: Path) -> tuple[str, dict[str, Any]]:
    """The page without plotly.js and style, and its figures."""
    text = page.read_text(encoding="utf-8")
    figures = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert figures is not None
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL), json.loads(figures[1])


def test_every_section_is_there(run_folder: RunFolder) -> None:
    body, figures = _parts(write_report(run_folder()))
    for section in ("outcome", "comparison", "learning", "rules-kept", "weights", "rules", "data", "settings"):
        assert f'<section id="{section}">' in body
        assert f'href="#{section}"' in body
    places = re.findall(r'data-figure="(\w+)"', body)
    assert sorted(places) == sorted(figures)


def test_it_loads_nothing(run_folder: RunFolder) -> None:
    page = write_report(run_folder())
    body, _ = _parts(page)
    assert not re.search(r'(?:src|href)="(?!#|data:,)', body)
    assert "@import" not in page.read_text(encoding="utf-8")
    assert page.read_text(encoding="utf-8").count("plotly.js v") == 1


def test_the_outcome_comes_first_and_in_words(run_folder: RunFolder) -> None:
    said = outcome(read_run(run_folder()))
    assert said[0] == (
        "With sound data, no difference between FedAvg and SCFA is clear of chance in the one setting. "
        "With wrong labels at linz, SCFA keeps an F1 of 0.61 ± 0.01 where FedAvg ends at 0.30 ± 0.01."
    )
    assert "A sentence of the run." in said
    assert "At the end the models find 55% of the failures, and 75% of their alarms are right." in said
    assert any("FedAvg 20.0% at the worst site (critical)" in sentence for sentence in said)
    assert said[-2] == "Some updates were unusable and left out, by name: graz (1 round)."
    assert said[-1] == "The model was kept as it was (FedAvg: 2 of its rounds)."


def test_a_critical_zone_is_explained_while_nothing_taught_the_rules(run_folder: RunFolder) -> None:
    records = read_run(run_folder())
    taught = {"algorithms": {"scfa": {"preset": "scfa", "training": {"penalty": 1.0}}}}
    assert any("`training.penalty` puts the rules" in sentence for sentence in outcome(replace(records, job={})))
    assert not any("training.penalty" in sentence for sentence in outcome(replace(records, job=taught)))


def test_an_unfinished_run_says_so(run_folder: RunFolder) -> None:
    folder = run_folder(finished=False)
    assert outcome(read_run(folder))[0].startswith("This run is not finished: 4 of 8 trainings are still open")
    body, _ = _parts(write_report(folder))
    assert 'id="comparison"' not in body
    assert 'id="learning"' in body


def test_the_corrupted_site_is_seen(run_folder: RunFolder) -> None:
    body, figures = _parts(write_report(run_folder()))
    assert "red: the corrupted site" in body
    red = [trace for figure in figures.values() for trace in figure["data"] if trace.get("line", {}).get("color") == ALARM]
    assert {trace["name"] for trace in red} == {"linz (corrupted)", "linz, by data alone"}
    weights = [trace["y"] for trace in red if trace["name"] == "linz (corrupted)"]
    assert weights == [[0.5, 0.5, 0.5], [0.05, 0.05, 0.05]]


def test_rules_are_shown_in_words_with_examples(run_folder: RunFolder) -> None:
    body, _ = _parts(write_report(run_folder()))
    assert "Heat stays in the tool." in body
    assert "For example: M07, row 12" in body
    assert "Never broken: wear risk." in body
    assert "broken 2 of 100 times" in body


def test_texts_of_the_job_are_texts(run_folder: RunFolder) -> None:
    wild = "</script><script>alert(1)</script> & <i>"
    body, _ = _parts(write_report(run_folder(title=wild)))
    assert f"<h1>{html.escape(wild, quote=True)}</h1>".replace("&#x27;", "&#39;") in body
    assert "rule heat &lt;b&gt;" in body


def test_equal_folders_give_equal_reports(run_folder: RunFolder) -> None:
    folder = run_folder()
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first
    assert not list(folder.glob(".report*"))


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        write_report(tmp_path)


def test_scenarios_keep_the_order_of_the_arms(run_folder: RunFolder) -> None:
    found = scenarios(read_run(run_folder()))
    assert [scenario.title for scenario in found] == ["alpha 1", "alpha 1, linz corrupted"]
    rounds, mean, low, high = found[0].contenders[0].curve(lambda row: row.f1)
    assert rounds == [1, 2, 3]
    assert mean == pytest.approx([0.2, 0.4, 0.6])
    assert low == high == pytest.approx(mean)


def test_the_executor_stands_in_the_environment(run_folder: RunFolder) -> None:
    body, _ = _parts(write_report(run_folder()))
    assert "<dt>executor</dt><dd>stacks of 2: measured</dd>" in body
    assert "executor: stacks" not in body


def test_small_texts() -> None:
    assert [size_text(n) for n in (999.0, 1234.0, 4.16e6, 2.5e9, float("nan"))] == ["999 B", "1.23 kB", "4.16 MB", "2.5 GB", "–"]
    assert flat({"a": {"b": True, "c": [1, 2.5]}, "d": None}) == [("a.b", "yes"), ("a.c", "1, 2.5"), ("d", "–")]
    assert Figure(0.713, 0.02).text() == "0.71 ± 0.02"
    assert Figure(float("nan")).text() == "–"


def test_the_report_needs_no_torch(run_folder: RunFolder) -> None:
    code = f"import sys; from fedkg.report import write_report; write_report({str(run_folder())!r}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
