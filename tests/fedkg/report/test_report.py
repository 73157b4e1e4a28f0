"""The report shows the content of the run folder in one self-contained file."""

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
from chromium import chromium

from fedkg.errors import JobError, UsageError
from fedkg.jobs.folder import RunFolder as Folder
from fedkg.jobs.schema.data_section import Data
from fedkg.report import write_report
from fedkg.report.charts import ALARM
from fedkg.report.comparison_and_rule_tables import (
    comparison_table,
    flatten,
    settings_facts,
    size_text,
)
from fedkg.report.outcome_sentences import describe_outcome
from fedkg.report.page import page
from fedkg.report.records import Figure, read_run
from fedkg.report.trial_groups import scenarios
from fedkg.report.verdict import run_verdict
from fedkg.report.violation_zone_advice import zone_advice, zone_basis

RunFolder = Callable[..., Path]


def _parts(page: Path) -> tuple[str, dict[str, Any]]:
    """The page without plotly.js and style, and its figures."""
    text = page.read_text(encoding="utf-8")
    figures = re.search(
        r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL
    )
    assert figures is not None
    return re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL), json.loads(figures[1])


def test_every_section_is_there(run_folder: RunFolder) -> None:
    body, figures = _parts(write_report(run_folder()))
    for section in (
        "outcome",
        "comparison",
        "learning",
        "violations",
        "weights",
        "rules",
        "data",
        "settings",
    ):
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
    said = describe_outcome(read_run(run_folder()))
    assert said[0] == (
        "With sound data, no difference between FedAvg and SCFA is significant in the one setting. "
        "With wrong labels at linz, SCFA reaches an F1 of 0.61 ± 0.01, "
        "compared with 0.30 ± 0.01 for FedAvg."
    )
    assert "A sentence of the run." in said
    assert (
        "At the end the models find 55% of the failures, and 75% of their alarms are right." in said
    )
    assert any("FedAvg 5.0% (100 of 2,000)" in sentence for sentence in said)
    assert any("(paper zone): FedAvg 20.0% (critical)" in sentence for sentence in said)
    assert said[-2] == "The server excluded unusable updates from: graz (1 round)."
    assert said[-1] == "The model is unchanged (FedAvg: 2 of its rounds)."


def test_a_critical_zone_is_explained_while_nothing_taught_the_rules(run_folder: RunFolder) -> None:
    records = read_run(run_folder())
    taught = {"algorithms": {"scfa": {"preset": "scfa", "training": {"penalty": 1.0}}}}
    assert any(
        "Set `training.penalty` to add the rules" in sentence
        for sentence in describe_outcome(replace(records, job={}))
    )
    assert not any(
        "training.penalty" in sentence
        for sentence in describe_outcome(replace(records, job=taught))
    )


def test_an_unfinished_run_says_so(run_folder: RunFolder) -> None:
    folder = run_folder(finished=False)
    assert describe_outcome(read_run(folder))[0].startswith(
        "This run is not finished: 4 of 8 trials are still open"
    )
    body, _ = _parts(write_report(folder))
    assert 'id="comparison"' not in body
    assert 'id="learning"' in body


def test_the_corrupted_site_is_seen(run_folder: RunFolder) -> None:
    body, figures = _parts(write_report(run_folder()))
    assert "red: the corrupted site" in body
    red = [
        trace
        for figure in figures.values()
        for trace in figure["data"]
        if trace.get("line", {}).get("color") == ALARM
    ]
    assert {trace["name"] for trace in red} == {"linz (corrupted)", "linz, by data alone"}
    weights = [trace["y"] for trace in red if trace["name"] == "linz (corrupted)"]
    assert weights == [[0.5, 0.5, 0.5], [0.05, 0.05, 0.05]]


def test_rules_are_shown_in_words_with_examples(run_folder: RunFolder) -> None:
    body, _ = _parts(write_report(run_folder()))
    assert "Heat stays in the tool." in body
    assert "For example: M07, row 12" in body
    assert "Never violated: wear risk." in body
    assert "violated 2 of 100 times" in body


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


@pytest.mark.parametrize("name", ["clients.csv", "trials.json", "split.json", "job.yaml"])
def test_a_damaged_run_gets_no_report(run_folder: RunFolder, name: str) -> None:
    folder = run_folder()
    (folder / name).write_bytes((folder / name).read_bytes()[:-3])
    with pytest.raises(JobError, match=f"{name} is damaged"):
        write_report(folder)
    (folder / name).unlink()
    with pytest.raises(JobError, match=f"{name} is missing"):
        write_report(folder)


def test_a_folder_that_is_no_run_is_rejected(tmp_path: Path) -> None:
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
    assert [size_text(n) for n in (999.0, 1234.0, 4.16e6, 2.5e9, float("nan"))] == [
        "999 B",
        "1.23 kB",
        "4.16 MB",
        "2.5 GB",
        "–",
    ]
    assert flatten({"a": {"b": True, "c": [1, 2.5]}, "d": None}) == [
        ("a.b", "yes"),
        ("a.c", "1, 2.5"),
        ("d", "–"),
    ]
    asked = [
        {"address": "https://a/query", "triples": 6},
        {"address": "https://b/query", "triples": 7},
    ]
    assert flatten({"fetched": asked}) == [
        ("fetched", "address https://a/query triples 6, address https://b/query triples 7")
    ]
    assert Figure(0.713, 0.02).text() == "0.71 ± 0.02"
    assert Figure(float("nan")).text() == "–"


@pytest.mark.slow
def test_the_report_needs_no_torch(run_folder: RunFolder) -> None:
    code = (
        "import sys; from fedkg.report import write_report; "
        f"write_report({str(run_folder())!r}); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_zone_says_what_it_rests_on_and_what_to_do(run_folder: RunFolder) -> None:
    folder = run_folder()
    text = re.sub("</?code>", "`", html.unescape(_parts(write_report(folder))[0]))
    assert "critical: above 18%, see which rules before the model is used" in text
    assert (
        "if more than 5% of the rows to which it applies violate it (a hard rule: a "
        "single row to which it applies)"
    ) in text
    assert "They were not measured on these machines" in text
    advice = zone_advice(read_run(folder))
    assert advice[0] == (
        "Find the rules: final models violate 1 of 2, most often \u201cHeat stays in "
        "the tool\u201d (25% of its cases)."
    )
    assert advice[1] == "Check the data: it violates 1 of the 1 rules over the data alone (below)."
    assert advice[-1].startswith("Include the rules in training: set `training.penalty`")
    assert all(step in text for step in advice)


def test_the_advice_follows_the_run(run_folder: RunFolder) -> None:
    records = read_run(run_folder())
    assert any(
        step.startswith("Give the rules more weight")
        for step in zone_advice(replace(records, job={"training": {"penalty": 0.1}}))
    )
    assert not any("data" in step for step in zone_advice(replace(records, checks=())))
    assert zone_advice(replace(records, rules=()))[0].startswith(
        "Find the rules: this run evaluated none"
    )
    kept = tuple(replace(row, rate=0.0) for row in records.rules)
    assert zone_advice(replace(records, rules=kept))[0].startswith(
        "Find the rules: the final models violate none"
    )
    calm = tuple(result for result in records.results if result.figure("rho_worst").mean < 0.05)
    assert zone_advice(replace(records, results=calm)) == []
    assert zone_basis({"scoring": {"graded": True}}) == zone_basis({})
    assert (
        "more than 2% of the rows to which it applies)"
        in zone_basis({"scoring": {"hard_tolerance": 0.02}})[0]
    )
    assert (
        "more than 2.5% of the rows to which it applies violate it"
        in zone_basis({"scoring": {"soft_tolerance": 0.025}})[0]
    )
    rare = tuple(replace(row, rate=0.003) for row in records.rules)
    assert "(0.3% of its cases)" in zone_advice(replace(records, rules=rare))[0]


def test_a_run_without_a_measured_rule_has_no_zone_and_no_advice(run_folder: RunFolder) -> None:
    """Without rules about outputs the report has neither a violation rate nor a zone."""
    records = read_run(run_folder())
    blank = tuple(
        replace(
            result,
            figures={
                name: one for name, one in result.figures.items() if not name.startswith("rho")
            },
        )
        for result in records.results
    )
    unmeasured = replace(records, results=blank)
    assert zone_advice(unmeasured) == []
    assert "Training did not include the rules" in " ".join(describe_outcome(records))
    assert "Training did not include the rules" not in " ".join(describe_outcome(unmeasured))


def test_models_whose_answers_are_projected_are_not_told_to_be_untaught(
    run_folder: RunFolder,
) -> None:
    records = read_run(run_folder())
    training = dict(records.job.get("training") or {}, projection=True)
    projected = replace(records, job=dict(records.job, training=training))
    assert "Training did not include the rules" in " ".join(describe_outcome(records))
    assert "Training did not include the rules" not in " ".join(describe_outcome(projected))


def test_a_run_without_rules_has_no_columns_for_them(run_folder: RunFolder) -> None:
    records = read_run(run_folder())
    blank = [
        replace(
            result,
            figures={
                name: one for name, one in result.figures.items() if not name.startswith("rho")
            },
        )
        for result in records.results
    ]
    assert {"violated cases", "rules with a violation, worst site", "paper zone"} <= set(
        comparison_table(records.results, 0.5, {})["headers"]
    )
    assert not {"violated cases", "rules with a violation, worst site", "paper zone"} & set(
        comparison_table(blank, 0.5, {})["headers"]
    )


def test_settings_that_have_no_say_are_left_out() -> None:
    data = {
        "set": "mnist",
        "path": "m",
        "rows": 10000,
        "label": "Machine failure",
        "split": "sites",
        "alpha": 1.0,
        "test": 0.2,
    }
    job = {
        "data": data,
        "algorithm": "scfa",
        "compare": {"algorithm": ["fedavg"]},
        "scoring": {"beta": 1.0},
        "rules": [],
    }
    assert [name for name, _ in settings_facts(job)] == [
        "data.set",
        "data.path",
        "data.split",
        "data.test",
        "compare.algorithm",
    ]


def test_settings_of_a_split_are_left_out_where_sites_bring_tables() -> None:
    data = Data(path=None, size_alpha=2.0, min_samples=20).model_dump(mode="json")
    job = {
        "data": data,
        "sites": {"graz": {"table": "a.csv"}, "linz": {"table": "b.csv"}},
        "rules": ["r.fkg"],
    }
    assert [name for name, _ in settings_facts(job)] == [
        *(
            "data.seed",
            "data.label",
            "data.machine",
            "data.min_samples",
            "data.test",
            "data.hold_out",
            "data.server",
        ),
        "rules",
    ]
    shared = job | {"sites": {"graz": {"table": None}, "linz": {"table": None}}}
    assert {"data.rows", "data.split", "data.alpha", "data.size_alpha"} <= {
        name for name, _ in settings_facts(shared)
    }


def test_one_is_told_as_one(run_folder: RunFolder) -> None:
    """A note of a single round has no count, and one trial is singular."""
    records = read_run(run_folder())
    noted = replace(
        records,
        rounds=(replace(records.rounds[0], notes="the training ends"), *records.rounds[1:4]),
    )
    assert describe_outcome(noted)[-1] == "The training ends (FedAvg)."
    one = records.trials[0].id
    alone = replace(
        records,
        trials=records.trials[:1],
        rounds=tuple(row for row in records.rounds if row.trial == one),
        results=(),
        rules=(),
    )
    assert "1 trial, 3 sites" in page(alone)


def test_the_outcome_says_who_breaks_clearly_fewer_rules(run_folder: RunFolder) -> None:
    records = read_run(run_folder())
    sound = [result for result in records.results if not result.corrupted]
    rates = {"fedavg": (0.4, 0.5, 0.42), "scfa": (0.2, 0.24, 0.19)}

    def with_rates(changed: dict[str, tuple[float, ...]]) -> list[str]:
        results = [
            replace(
                one,
                figures={
                    **one.figures,
                    "violation_rate": Figure(
                        sum(changed[one.preset]) / 3, 0.02, changed[one.preset]
                    ),
                },
            )
            for one in sound
        ]
        return describe_outcome(
            replace(records, results=[*results, *(one for one in records.results if one.corrupted)])
        )

    assert (
        "SCFA violates clearly fewer cases than FedAvg: 21.0% instead of 44.0%."
        in with_rates(rates)[0]
    )
    assert (
        "violates clearly fewer cases"
        not in with_rates({"fedavg": (0.4, 0.5, 0.42), "scfa": (0.41, 0.3, 0.47)})[0]
    )


def test_every_cell_of_a_narrow_screen_has_its_name(run_folder: RunFolder) -> None:
    body, _ = _parts(write_report(run_folder()))
    cells = re.findall(r"<td[^>]*>", body)
    assert cells
    assert all("data-label=" in cell or 'class="said"' in cell for cell in cells)
    heads = re.findall(r"<th\b[^>]*>", "".join(re.findall(r"<thead>.*?</thead>", body, re.DOTALL)))
    assert all('scope="col"' in head for head in heads)


def test_missing_updates_are_listed_with_their_reason_and_a_remedy(run_folder: RunFolder) -> None:
    rows = tuple(
        {
            "trial": "fedavg",
            "round": str(number),
            "client": "graz",
            "state": state,
            "decided_by": "contract",
            "reason": "no site process answers on <site.sock>",
            "since": "2",
            "rounds": str(number - 1),
            "help": "`fedkg site run SITE` at the site",
        }
        for number, state in ((2, "missing"), (3, "missing"), (4, "lost"))
    )
    records = read_run(run_folder())

    text = page(replace(records, exclusions=rows))

    assert "graz (lost)" in text
    assert "3 (2 to 4)" in text
    assert "no site process answers on &lt;site.sock&gt;" in text
    assert "<code>fedkg site run SITE</code> at the site" in text
    assert "Missing updates" not in page(records)


def test_the_report_begins_with_a_verdict_three_figures_and_actions(run_folder: RunFolder) -> None:
    body, _ = _parts(write_report(run_folder()))
    outcome = body[body.index('<section id="outcome">') : body.index('<section id="comparison">')]
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", outcome)).split())
    assert text.startswith("Outcome SCFA finds failures best, with F1 0.61")
    assert "3.0% of them at the worst site (safe)" in text
    assert outcome.count("<dd>") == 3
    assert "1 of 1" in text, "rules violated by the data"
    assert "Recommended actions" in text
    assert "Warmer inside" in text


def test_the_page_uses_the_name_of_the_target(run_folder: RunFolder) -> None:
    folder = run_folder()
    environment = json.loads((folder / "environment.json").read_text())
    (folder / "environment.json").write_text(json.dumps(environment | {"event": "attack"}))
    Folder(folder).log_files(["environment.json"])
    body, figures = _parts(write_report(folder))
    assert "finds attacks best" in body
    assert "failure" not in body + json.dumps(figures)


def test_a_model_no_better_than_a_constant_answer_is_not_recommended(run_folder: RunFolder) -> None:
    poor = replace(read_run(run_folder()), trivial=0.7)
    found = run_verdict(poor)
    assert "so do not use it yet" in found["verdict"]
    assert any(step.startswith("Train for more rounds") for step in found["actions"])
    better = replace(poor, trivial=0.1)
    assert "do not use" not in run_verdict(better)["verdict"]


@pytest.mark.slow
def test_the_page_is_there_before_its_charts(run_folder: RunFolder) -> None:
    page = write_report(run_folder())
    with chromium() as tab:
        tab.open(page, width=1280)
        assert tab.main_thread_seconds() < 1, "half of the 2 s that a page may take"
        assert tab.run("typeof Plotly") == "undefined", "the text needs no plotly.js"
        tab.run("document.querySelector('.plot').scrollIntoView()")
        tab.wait("document.querySelector('.plot svg')")
        tab.print_pdf()
        assert tab.run("document.querySelectorAll('.plot:not(:has(svg))').length") == 0
        assert tab.errors() == []
