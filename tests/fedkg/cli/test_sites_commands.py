"""`--sites FILE [--site NAME]` of the commands."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from command import Command, call
from three_sites import write_sites


@pytest.fixture
def sites(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    """The command in a folder with `rules.fkg`, `sites.yaml` and the files of three sites."""
    monkeypatch.chdir(tmp_path)
    write_sites(tmp_path)
    return partial(call, capsys)


def counts(evaluation: dict[str, list[dict[str, int]]]) -> list[tuple[int, int, int]]:
    return [(one["satisfied"], one["violated"], one["unknown"]) for one in evaluation["rules"]]


def test_eval_gives_each_site_the_verdicts_of_its_plain_table(sites: Command) -> None:
    done = sites("eval", "rules.fkg", "--sites", "sites.yaml", "--json")
    assert done.code == 0, done.err
    assert list(done.json["sites"]) == ["graz", "ohio", "lyon"]
    for site, found in done.json["sites"].items():
        plain = sites("eval", "rules.fkg", f"plain/{site}.csv", "--json").json
        assert counts(found) == counts(plain)
        alone = sites("eval", "rules.fkg", "--sites", "sites.yaml", "--site", site, "--json").json
        assert alone["site"] == site
        assert counts(alone) == counts(plain)
    shown = sites("eval", "rules.fkg", "--sites", "sites.yaml")
    assert "site graz" in shown.out
    assert "data/graz.csv: 60 rows; semicolon-separated" in shown.out


def test_eval_names_rows_of_the_file(sites: Command) -> None:
    own = sites("eval", "rules.fkg", "--sites", "sites.yaml", "--site", "graz", "--json").json
    plain = sites("eval", "rules.fkg", "plain/graz.csv", "--json").json
    for one, other in zip(own["rules"], plain["rules"], strict=True):
        assert one["worst"]["row"] == other["worst"]["row"] + 5  # three titles, two header rows


def test_eval_compares_one_site_with_its_baseline(sites: Command, tmp_path: Path) -> None:
    arguments = ("eval", "rules.fkg", "--sites", "sites.yaml")
    (tmp_path / "old.json").write_text(sites(*arguments, "--site", "ohio", "--json").out)
    done = sites(*arguments, "--site", "ohio", "--baseline", "old.json")
    assert done.code == 0, done.err
    done = sites(*arguments, "--baseline", "old.json")
    assert done.code == 2
    assert "--site NAME" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plain/graz.csv", "--sites", "sites.yaml"], "--sites names the tables"),
        (["--site", "graz"], "--site requires --sites"),
        (["--sites", "sites.yaml", "--site", "gratz"], "did you mean `graz`?"),
        (["--sites", "none.yaml"], "cannot read sites file none.yaml"),
        (["--sites", "sites.yaml", "--dates", "day-first"], "--dates cannot be combined"),
    ],
)
def test_wrong_options_are_usage_errors(arguments: list[str], said: str, sites: Command) -> None:
    done = sites("eval", "rules.fkg", *arguments)
    assert done.code == 2
    assert not done.out
    assert said in done.err


def test_a_wrong_cell_ends_eval_before_any_output(sites: Command, tmp_path: Path) -> None:
    path = tmp_path / "data" / "lyon.tsv"
    text = path.read_text("windows-1252").replace("n.d.", "en panne")
    path.write_text(text, encoding="windows-1252")
    done = sites("eval", "rules.fkg", "--sites", "sites.yaml")
    assert done.code == 1
    assert not done.out
    assert "data/lyon.tsv: column `Pression [kPa]` has text where numbers are needed" in done.err
    assert '"en panne" in row 6 (line 7)' in done.err


def test_check_reads_every_site(sites: Command) -> None:
    done = sites("check", "rules.fkg", "--sites", "sites.yaml")
    assert done.code == 0, done.err
    assert "ohio: 60 rows; `pressure` from `PT101` (psi, converted to bar)" in done.out
    found = sites("check", "rules.fkg", "--sites", "sites.yaml", "--json").json["sites"]
    assert found["graz"]["columns"][0]["header"] == "Kessel Druck [mbar]"


def test_check_lists_the_problems_of_all_sites(sites: Command, tmp_path: Path) -> None:
    (tmp_path / "data" / "graz.csv").unlink()
    text = (tmp_path / "sites.yaml").read_text("utf-8").replace("unit: degF", "unit: m")
    (tmp_path / "sites.yaml").write_text(text, encoding="utf-8")
    done = sites("check", "rules.fkg", "--sites", "sites.yaml")
    assert done.code == 1
    assert "error: site graz: sites.yaml: the table of site graz does not exist" in done.err
    assert "error: site ohio: sites.yaml:26: column `temp`.unit of site ohio" in done.err
    assert "lyon: 60 rows" in done.out
    done = sites("check", "rules.fkg", "--sites", "sites.yaml", "--site", "lyon")
    assert done.code == 0, done.err


def test_repeated_times_are_reported(sites: Command, tmp_path: Path) -> None:
    path = tmp_path / "data" / "ohio.txt"
    lines = path.read_text("utf-8").split("\n")
    path.write_text("\n".join([*lines[:3], lines[2], *lines[3:]]), encoding="utf-8")
    done = sites("check", "rules.fkg", "--sites", "sites.yaml")
    assert done.code == 0
    assert "note: ohio: times in `time` repeat in rows 3 and 4" in done.err
    done = sites("eval", "rules.fkg", "--sites", "sites.yaml", "--site", "ohio")
    assert "times in `time` repeat in rows 3 and 4" in done.out


def test_test_finds_rules_that_a_site_cannot_decide(sites: Command, tmp_path: Path) -> None:
    rules = (tmp_path / "rules.fkg").read_text("utf-8")
    rules += "example of limit holds for pressure = 3 bar\n"
    (tmp_path / "rules.fkg").write_text(rules, encoding="utf-8")
    done = sites("test", "rules.fkg", "--sites", "sites.yaml", "--site", "graz")
    assert done.code == 0, done.out
    assert "ok    limit  graz: decided in 58 of 60 evaluations" in done.out
    assert "ok    limit holds" in done.out
    text = (tmp_path / "sites.yaml").read_text("utf-8")
    text = text.replace("unit: degF", "suppressOutput: true")
    (tmp_path / "sites.yaml").write_text(text, encoding="utf-8")
    done = sites("test", "rules.fkg", "--sites", "sites.yaml", "--json")
    assert done.code == 1
    wrong = [one for one in done.json["sites"] if not one["passed"]]
    assert [(one["rule"], one["site"]) for one in wrong] == [("hot", "ohio"), ("jump", "ohio")]
    assert wrong[0]["problem"] == "the table has no column `T [degC]`"


def test_explain_names_the_columns_of_each_site(sites: Command) -> None:
    done = sites("explain", "limit", "rules.fkg", "--sites", "sites.yaml")
    assert done.code == 0, done.err
    assert "at ohio: `pressure` from `PT101` (psi, converted to bar)" in done.out
    assert "TI7" not in done.out
    found = sites("explain", "hot", "rules.fkg", "--sites", "sites.yaml", "--json").json["sites"]
    assert [one["unit"] for one in found["ohio"]] == ["degF"]


def test_suggest_uses_the_findings_of_the_sites_in_the_file(sites: Command, tmp_path: Path) -> None:
    from fedkg.learned_knowledge_records import LearnedKnowledge, MinedNumber, MinedProperty
    from fedkg.ontologies import format_learned_graph

    def mined(client: str, value: float) -> MinedProperty:
        number = MinedNumber(name="high", value=value, direction="up")
        text = "operational_range(pressure, 0, ?high, 0, 5)"
        return MinedProperty(
            inference="early",
            template="operational_range",
            text=text,
            client=client,
            numbers=(number,),
            traces=50,
        )

    learned = LearnedKnowledge(
        run="0" * 64,
        title="a run",
        software="fedkg",
        began="2024-01-01T00:00:00",
        properties=(mined("graz", 5.0), mined("ohio", 6.0), mined("bonn", 9.0)),
    )
    (tmp_path / "learned.trig").write_text(format_learned_graph(learned), encoding="utf-8")
    every = sites("suggest", "learned.trig")
    assert "pressure, 0, 9, 0, 5" in every.out
    known = sites("suggest", "learned.trig", "--sites", "sites.yaml")
    assert "pressure, 0, 6, 0, 5" in known.out, known.err
    one = sites("suggest", "learned.trig", "--sites", "sites.yaml", "--site", "graz")
    assert "pressure, 0, 5, 0, 5" in one.out
    done = sites("suggest", "learned.trig", "--sites", "sites.yaml", "--site", "bonn")
    assert done.code == 2
    assert "has no site `bonn`" in done.err
    done = sites("suggest", "learned.trig", "--sites", "sites.yaml", "-o", "more.fkg")
    assert done.out.rstrip().endswith("fedkg check YOUR-RULES.fkg more.fkg --sites sites.yaml")
