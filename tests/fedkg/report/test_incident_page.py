"""The incident report of `fedkg eval --report`: counts, events, trends, neighbours and causes."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import axe_script, chromium, serious_problems
from command import Command, call

from fedkg.authoring import check
from fedkg.evaluation import evaluate
from fedkg.evaluation.incidents import BUCKETS, MAX_DETAILED, MAX_EVENTS, find_incidents
from fedkg.graphs import find_neighbours
from fedkg.jobs.folder import RunFolder
from fedkg.pack import Pack
from fedkg.report.incident_page import incident_page
from fedkg.tables import read_table

RULES = """
timeline step 1 min time column "time"
signal p in bar span 0 .. 10 column "p"
signal set in bar span 0 .. 10 column "set"
signal q in bar span 0 .. 10 column "q"
signal on in boolean column "on"
rule high "The pressure stays below its limit."
  require p <= 5 bar
rule reached "A running pump reaches its setpoint."
  require if on is on then p >= set - 0.5 bar
rule absent "The other pressure is small."
  require q <= 5 bar
"""
HIGH = {3: 6.0, 4: 7.5, 5: 6.5, 9: 5.25}
"""Pressures above the limit, by row from 0: one event of three rows, one of a single row."""


def _table(folder: Path, name: str = "plant.csv", high: dict[int, float] = HIGH) -> Path:
    lines = [
        f"2026-03-01 10:{row:02d},{high.get(row, 4.0)},{4.25 if row != 7 else 9.0},"
        f"{'true' if row >= 6 else 'false'}"
        for row in range(12)
    ]
    path = folder / name
    path.write_text("\n".join(["time,p,set,on", *lines]) + "\n")
    return path


def _pack(text: str) -> Pack:
    pack = check(text=text, reason=False).pack
    assert pack is not None
    return pack


@pytest.fixture
def fedkg(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    monkeypatch.chdir(tmp_path)
    return partial(call, capsys)


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    (tmp_path / "rules.fkg").write_text(RULES)
    _table(tmp_path)
    return tmp_path


def _body(page: str) -> str:
    return re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


def _text(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", _body(page)).split())


def _report(fedkg: Command, *arguments: str) -> str:
    done = fedkg("eval", *arguments, "--report", "out.html")
    assert done.code == 0, done.err
    return Path("out.html").read_text(encoding="utf-8")


def _naive_events(flags: list[bool]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for row, flag in enumerate(flags):
        if flag and found and found[-1][1] == row - 1:
            found[-1] = found[-1][0], row
        elif flag:
            found.append((row, row))
    return found


def test_the_page_shows_events_conditions_and_what_was_not_evaluated(
    fedkg: Command, plant: Path
) -> None:
    page = _report(fedkg, "rules.fkg", "plant.csv", "--skip-missing")
    text = _text(page)
    assert "2 of 2 rules are violated." in text
    assert "1 rule was not evaluated." in text
    assert "5 min" not in text
    assert "2 min, 3 rows" in text, "the event of rows 3 to 5"
    assert "p 7.5 bar" in text
    assert "at most 5 bar" in text
    assert "-2.5 bar" in text
    assert "Its condition was true in 6 of 12 evaluations (50.00%)." in text
    assert "Violated in 4 of 12 evaluations (33.33%)." in text
    assert "at least 8.5 bar" in text, "the setpoint of row 7 less its tolerance"
    assert "the table has no column q" in text
    assert not re.search(r'(?:src|href)="(?!#|data:,)', _body(page))


def test_the_margin_of_alternatives_belongs_to_the_value_that_is_shown(
    fedkg: Command, tmp_path: Path
) -> None:
    """`a` exceeds its limit by 2 and `b` by 9: to satisfy the rule, 2 are enough."""
    (tmp_path / "rules.fkg").write_text(
        "signal a\nsignal b\nrule r require not (a > 1 and b > 1)\n"
    )
    (tmp_path / "t.csv").write_text("a,b\n0,0\n3,10\n")
    text = _text(_report(fedkg, "rules.fkg", "t.csv"))
    assert "a 3" in text
    assert "b 10 row" not in text
    assert "(allowed: at most 1)" in text


def test_a_mean_of_temperatures_is_in_their_unit_and_its_margin_in_kelvin(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "rules.fkg").write_text(
        "timeline step 1 h\nsignal t in degC\nrule r require mean of t over last 2 h <= 62 degC\n"
    )
    (tmp_path / "t.csv").write_text("t\n60\n60\n100\n")
    text = _text(_report(fedkg, "rules.fkg", "t.csv"))
    assert "mean of t over last 2 h 80 degC" in text
    assert "at most 62 degC -18 K" in text


def test_limits_and_the_worst_row_are_stated_as_the_rule_and_the_table_have_them(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "rules.fkg").write_text(
        "timeline step 1 h\nsignal p in bar\nsignal q in bar\n"
        "rule a require p < 10 bar and p <= 20 bar\n"
        "rule b require if q > 1 bar then q - past q < 2 bar\n"
        "rule c require always within 1 h q <= 3 bar\n"
    )
    (tmp_path / "t.csv").write_text("p,q\n10,1\n12,4\n9,2\n")
    text = _text(_report(fedkg, "rules.fkg", "t.csv"))
    assert "p 12 bar row 2 (line 3) below 10 bar" in text
    assert "condition of the rule: above 1 bar" in text
    assert "q - previous q 3 bar row 2 (line 3) below 2 bar" in text
    worst = "Its worst event is row 2 (line 3): q 4 bar (allowed: at most 3 bar)"
    assert worst in text, "not the row where the event begins"


def test_a_rule_about_a_model_asks_for_a_run(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "rules.fkg").write_text(
        "signal a span 0 .. 9\noutput y span 0 .. 9\nrule r require y never falls as a rises\n"
    )
    (tmp_path / "t.csv").write_text("a,y\n0,0\n3,1\n")
    text = _text(_report(fedkg, "rules.fkg", "t.csv"))
    assert "Judge 1 rule about changed inputs with a model" in text
    assert "Make the missing data available" not in text


def test_events_are_the_runs_of_a_naive_loop(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    flags = (rng.random(200) < 0.4).tolist()
    path = tmp_path / "t.csv"
    path.write_text("p\n" + "\n".join("6" if flag else "4" for flag in flags) + "\n")
    pack = _pack('signal p in bar span 0 .. 10 column "p"\nrule high require p <= 5 bar\n')
    table = read_table(path)
    found = find_incidents(pack, [("", table)], [evaluate(pack, table)])
    (detail,) = found["details"]
    runs = _naive_events(flags)
    assert detail["events_found"] == len(runs)
    assert detail["rows_violated"] == sum(flags)
    longest = sorted(runs, key=lambda run: run[0] - run[1])[:MAX_EVENTS]
    assert [event["rows"] for event in detail["events"]] == [
        last - first + 1 for first, last in longest
    ]


def test_a_pause_in_the_log_ends_an_event(plant: Path) -> None:
    lines = (plant / "plant.csv").read_text().splitlines()
    late = [line.replace(" 10:", " 15:") for line in lines[6:]]  # row 5 is the last of the event
    (plant / "plant.csv").write_text("\n".join([*lines[:6], *late]) + "\n")
    pack = _pack(RULES)
    table = read_table(plant / "plant.csv")
    result = evaluate(pack, table, missing="skip")
    found = find_incidents(pack, [("", table)], [result], ["high"])
    (detail,) = found["details"]
    assert sorted(event["rows"] for event in detail["events"]) == [1, 1, 2]


def test_reduced_trends_keep_the_extremes_and_the_limit(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(5, 0.5, 20_000)
    values[7_777], values[12_345] = 9.75, 0.25
    path = tmp_path / "t.csv"
    path.write_text("p\n" + "\n".join(f"{value:.4f}" for value in values) + "\n")
    pack = _pack('signal p in mbar span 0 .. 10000 column "p"\nrule high require p <= 0.009 bar\n')
    table = read_table(path)
    found = find_incidents(pack, [("", table)], [evaluate(pack, table)])
    (panel,) = found["details"][0]["panels"]
    (trend,) = panel["whole"]["quantities"]
    assert len(trend["y"]) <= 2 * BUCKETS
    assert max(trend["y"]) == 9.75
    assert min(trend["y"]) == 0.25
    assert trend["unit"] == "mbar"
    assert trend["high"] == pytest.approx(9.0), "the limit in the unit of the column"
    assert panel["whole"]["violated"] == [[pytest.approx(7777 / 19_999, abs=0.003)] * 2]


def test_sites_are_ordered_by_violations_and_named_in_events(fedkg: Command, plant: Path) -> None:
    _table(plant, "calm.csv", {})
    (plant / "sites.yaml").write_text("sites: {graz: {url: plant.csv}, linz: {url: calm.csv}}\n")
    page = _report(fedkg, "rules.fkg", "--sites", "sites.yaml", "--skip-missing")
    text = _text(page)
    assert "2 sites" in text
    assert text.index("graz") < text.index("linz")
    assert "Check graz: it has" in text
    assert "Violated at 1 site." in text


def test_a_graph_adds_neighbours_and_a_discovery_adds_causes(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "plant.ttl").write_text(
        "@prefix p: <https://example.org/p#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        'p:Pump a owl:Class ; fkg:keyColumn "machine" . p:Line a owl:Class .\n'
        "p:line_3 a p:Line . p:pump_1 a p:Pump ; p:partOf p:line_3 .\n"
        "p:pump_2 a p:Pump ; p:partOf p:line_3 .\n"
    )
    (tmp_path / "rules.fkg").write_text(
        "prefix p: <https://example.org/p#>\n"
        'signal p in bar span 0 .. 10 column "p"\n'
        "rule high for ?m in class p:Pump require p <= 5 bar\n"
    )
    (tmp_path / "t.csv").write_text("machine,p\npump_1,4\npump_1,6\npump_2,7\n")
    run = tmp_path / "run"
    run.mkdir()
    edge = {"driver": "boiler", "driven": "hall", "adjusted": 0.01, "reference": 0.5, "lag": 2}
    weak = edge | {"driver": "tower", "adjusted": 0.4}
    documents = {
        "environment.json": {"kind": "causes", "job": {"clients": {"hall": ["p"]}}},
        "results.json": {
            "edges": [weak, edge],
            "clients": {"hall": {}, "boiler": {}, "tower": {}},
            "level": 0.05,
            "step": 60,
        },
    }
    for name, document in documents.items():
        (run / name).write_text(json.dumps(document))
    RunFolder(run).log_files(documents)
    text = _text(_report(fedkg, "rules.fkg", "plant.ttl", "t.csv", "--causes", "run"))
    assert "part of line_3 (Line), shared with 1 other (pump_2)" in text
    assert "of these pump_2 violates the rule too" in text
    strong = text.index("boiler drives hall p = 0.010 corrected, strength 0.5, 2 steps (2 min)")
    assert strong < text.index("tower drives hall p = 0.400 corrected, not significant")


def test_neighbours_come_from_a_graph_that_the_rules_use_and_belong_to_one_thing(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "campus.ttl").write_text(
        "@prefix p: <https://example.org/p#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        'p:Unit a owl:Class ; fkg:keyColumn "unit" . p:Building a owl:Class .\n'
        'p:office a p:Building ; rdfs:label "office" ; p:hasPart p:unit .\n'
        'p:unit a p:Unit ; rdfs:label "office, unit" ; fkg:keyValue "u" ; p:feeds p:hall .\n'
        'p:twin a p:Unit ; rdfs:label "twin" ; fkg:keyValue "v" ; p:feeds p:hall .\n'
        'p:hall a p:Building ; rdfs:label "hall" . p:other a p:Building ; rdfs:label "twin" .\n'
    )
    (tmp_path / "rules.fkg").write_text(
        "use campus\nprefix p: <https://example.org/p#>\n"
        'signal p in bar span 0 .. 10 column "p"\n'
        "rule high for ?m in class p:Unit require p <= 5 bar\n"
    )
    (tmp_path / "t.csv").write_text("unit,p\nu,6\nv,7\n")
    text = _text(_report(fedkg, "rules.fkg", "t.csv"))
    assert "feeds hall (Building)" in text
    assert "office (Building) has part it" in text
    assert "has part office, unit" not in text
    found = find_neighbours(["rules.fkg"], ["office, unit", "twin", "hall", "office"])
    assert {name: [one.name for one in each] for name, each in found.items()} == {
        "office, unit": ["hall", "office"],
        "hall": ["office, unit", "twin"],
        "office": ["office, unit"],
    }


def test_shapes_on_a_graph_have_a_report_without_trends(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "shapes.ttl").write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix x: <https://example.org/x#> .\n"
        "x:S a sh:NodeShape ; sh:targetClass x:Room ;\n"
        "  sh:property [ sh:path x:temperature ; sh:maxInclusive 25 ] .\n"
    )
    rooms = {"hall": 21, "lab": 27, "roof": 31}
    (tmp_path / "rooms.nt").write_text(
        "".join(
            f"<https://example.org/x#{name}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> "
            "<https://example.org/x#Room> .\n"
            f"<https://example.org/x#{name}> <https://example.org/x#temperature> "
            f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
            for name, value in rooms.items()
        )
    )
    text = _text(_report(fedkg, "shapes.ttl", "rooms.nt"))
    assert "Violated in 2 of 3 evaluations (66.67%)." in text
    assert text.index("temperature 31") < text.index("temperature 27"), "the worst first"
    assert "Check limit and unit" in text, "violated in more than half of the evaluations"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--causes", "run"], "--causes requires --report"),
        (["--report", "missing/out.html"], "the folder missing for out.html does not exist"),
        (["--report", "./plant.csv"], "plant.csv is an input of this command"),
        (["--report", "run.yaml", "--causes", "run.yaml"], "run.yaml is an input of this command"),
        (["--report", "out.html", "--causes", "nowhere"], "nowhere is not a run folder"),
    ],
)
def test_wrong_options_are_reported_before_anything_is_written(
    fedkg: Command, plant: Path, arguments: list[str], said: str
) -> None:
    before = (plant / "plant.csv").read_bytes()
    (plant / "run.yaml").touch()
    done = fedkg("eval", "rules.fkg", "plant.csv", *arguments)
    assert done.code != 0
    assert said in done.err
    assert (plant / "plant.csv").read_bytes() == before
    assert not (plant / "out.html").exists()


def _many(folder: Path, rules: int, sites: int, rows: int) -> dict[str, Any]:
    """Incidents of rules of which most are violated at each site."""
    signals = "".join(
        f'signal s{i} in bar span 0 .. 10 column "s{i}"\n' for i in range(min(rules, 10))
    )
    text = 'timeline step 1 min time column "time"\n' + signals
    for i in range(rules):
        text += f'rule r{i} "Pressure {i % 10} stays below its limit number {i}."\n'
        text += f"  require s{i % 10} <= {6 + i / rules:.4f} bar\n"
    pack = _pack(text)
    rng, tables = np.random.default_rng(1), []
    for site in range(sites):
        values = 5 + np.cumsum(rng.normal(0, 0.1, (rows, min(rules, 10))), axis=0)
        path = folder / f"{site}.csv"
        path.write_text(
            "\n".join(
                [
                    "time," + ",".join(f"s{i}" for i in range(values.shape[1])),
                    *(
                        f"2026-01-01 {row // 60:02d}:{row % 60:02d},"
                        + ",".join(f"{value:.3f}" for value in line)
                        for row, line in enumerate(values.tolist())
                    ),
                ]
            )
        )
        tables.append((f"site {site}", read_table(path)))
    results = [evaluate(pack, table) for _, table in tables]
    return find_incidents(pack, tables, results)


def test_a_page_of_many_rules_says_what_it_leaves_out(tmp_path: Path) -> None:
    found = _many(tmp_path, 120, 2, 200)
    violated = sum(bool(rule["violated"]) for rule in found["rules"])
    assert violated > MAX_DETAILED
    text = _text(incident_page(found))
    assert f"{violated - MAX_DETAILED} more violated rules are in the overview only." in text
    assert "For their details, evaluate fewer rules" in text


@pytest.mark.slow
def test_a_thousand_rules_at_a_hundred_sites_stay_below_ten_megabytes(tmp_path: Path) -> None:
    found = _many(tmp_path, 1000, 100, 300)
    page = incident_page(found)
    assert len(found["rules"]) == 1000
    assert len(page.encode()) < 10e6
    ElementTree.fromstring(re.search(r"<nav.*?</nav>", page, re.DOTALL)[0])  # type: ignore[index]


@pytest.mark.slow
def test_the_page_of_a_thousand_rules_renders_what_is_near_the_window(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    path.write_text(incident_page(_many(tmp_path, 1000, 2, 300)), encoding="utf-8")
    last = "[...document.querySelectorAll('#incidents > .incident')].at(-1)"
    is_laid_out = f"{last}.querySelector('h4').checkVisibility({{ contentVisibilityAuto: true }})"
    with chromium() as page:
        page.open(path, width=390)
        assert page.main_thread_seconds() < 1, "half of the 2 s that a page may take"
        assert page.run(is_laid_out) is False
        page.run(f"location.hash = {last}.id")
        page.wait(f"{is_laid_out} && {last}.getBoundingClientRect().top < innerHeight")
        page.send("Emulation.setEmulatedMedia", media="print")
        page.wait(
            "[...document.querySelectorAll('#incidents > .incident h4')]"
            ".every(one => one.checkVisibility({ contentVisibilityAuto: true }))"
        )


@pytest.mark.slow
def test_chromium_shows_the_page_at_both_widths_in_dark_mode_and_in_print(
    fedkg: Command, plant: Path
) -> None:
    _report(fedkg, "rules.fkg", "plant.csv", "--skip-missing")
    with chromium() as page:
        for width, dark in ((1280, False), (390, False), (1280, True)):
            page.open(plant / "out.html", width=width, dark=dark)
            assert page.errors() == []
            assert page.run("document.documentElement.scrollWidth") <= width
        paper = page.run("getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, re.findall(r"\d+", paper)[:3])) < 200, "dark mode has a dark ground"
        page.open(plant / "out.html", width=1280)
        page.press("Tab", 9)
        assert page.run("document.activeElement.textContent") == "Verdict"
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        assert page.print_pdf().startswith(b"%PDF")


def test_axe_finds_no_serious_problem(fedkg: Command, plant: Path) -> None:
    script = axe_script()
    _report(fedkg, "rules.fkg", "plant.csv", "--skip-missing")
    with chromium() as page:
        for dark in (False, True):
            page.open(plant / "out.html", width=1280, dark=dark)
            page.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
            assert serious_problems(page, script) == []
