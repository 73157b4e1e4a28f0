"""Commands on rules, packs and tables: text and JSON output, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkg.cli.main import COMMAND_GROUPS, COMMANDS

Command = Callable[..., Any]


def test_check_is_silent_about_what_is_right(fedkg: Command) -> None:
    done = fedkg("check", "rules.fkg")
    assert (done.code, done.out, done.err) == (0, "rules.fkg: clean, 3 rules, 3 bound rows\n", "")
    assert fedkg("check", "rules.fkg", "--json").json == {"diagnostics": []}


def test_check_names_every_problem(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "wrong.fkg").write_text(
        "signal p in bar\nrule a require p <= 80 degC\nrule b require q <= 1\n"
    )
    done = fedkg("check", "wrong.fkg")
    assert done.code == 1
    assert not done.out
    assert "wrong.fkg:2:21: error[" in done.err
    assert "wrong.fkg:3:16: error[" in done.err
    assert done.err.endswith("\n2 errors\n")
    found = fedkg("check", "wrong.fkg", "--json")
    assert found.code == 1
    first = found.json["diagnostics"][0]
    assert {
        "code",
        "severity",
        "file",
        "line",
        "column",
        "end_line",
        "end_column",
        "message",
        "help",
    } <= set(first)
    assert (first["file"], first["line"], first["column"], first["severity"]) == (
        "wrong.fkg",
        2,
        21,
        "error",
    )


def test_eval_counts_evaluations(fedkg: Command) -> None:
    done = fedkg("eval", "rules.fkg", "table.csv", "--json")
    assert done.code == 0
    strong, strain, wear_risk = done.json["rules"]
    assert (strong["bound_rows"], strong["satisfied"], strong["violated"], strong["unknown"]) == (
        1,
        1,
        1,
        1,
    )
    assert strong["worst"] == {
        "robustness": -1.5,
        "unit": "N.m",
        "entity": None,
        "row": 2,
        "time": None,
    }
    assert (strain["satisfied"], strain["unknown"]) == (2, 1)
    assert wear_risk["needs_model"]
    assert done.json["violation_rate"] == 0.25


def test_eval_shows_a_table_and_says_what_it_found(fedkg: Command) -> None:
    done = fedkg("eval", "rules.fkg", "table.csv")
    assert done.code == 0
    assert "strong" in done.out
    assert "semicolon-separated, decimal comma" in done.out


def test_eval_of_a_pack_equals_eval_of_its_rules(fedkg: Command) -> None:
    assert fedkg("compile", "rules.fkg", "-o", "rules.fkgpack").code == 0
    assert (
        fedkg("eval", "rules.fkgpack", "table.csv", "--json").json
        == fedkg("eval", "rules.fkg", "table.csv", "--json").json
    )


def test_a_baseline_hides_old_violations_and_shows_new_ones(fedkg: Command, tmp_path: Path) -> None:
    old = fedkg("eval", "rules.fkg", "table.csv", "--json")
    (tmp_path / "old.json").write_text(old.out)
    assert fedkg("eval", "rules.fkg", "table.csv", "--baseline", "old.json").code == 0
    worse = old.json
    worse["rules"][0] |= {"satisfied": 1000, "violated": 0}
    (tmp_path / "old.json").write_text(json.dumps(worse))
    done = fedkg("eval", "rules.fkg", "table.csv", "--baseline", "old.json", "--json")
    assert done.code == 1
    assert done.json["baseline"]["worse"]
    assert (
        fedkg("eval", "rules.fkg", "table.csv", "--baseline", "old.json", "--allow", "60%").code
        == 0
    )


def test_compile_writes_equal_bytes(fedkg: Command, tmp_path: Path) -> None:
    done = fedkg("compile", "rules.fkg", "-o", "a.fkgpack", "--json")
    assert done.json["rules"] == done.json["bound_rows"] == 3
    fedkg("compile", "rules.fkg", "-o", "b.fkgpack")
    assert (tmp_path / "a.fkgpack").read_bytes() == (tmp_path / "b.fkgpack").read_bytes()


def test_compile_writes_nothing_when_there_is_an_error(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "wrong.fkg").write_text("rule b require q <= \n")
    assert fedkg("compile", "wrong.fkg", "-o", "wrong.fkgpack").code == 1
    assert fedkg("compile", "wrong.fkg", "-o", "wrong.fkgpack", "--json").json["diagnostics"]
    assert not (tmp_path / "wrong.fkgpack").exists()


def test_inspect_shows_rules_columns_banks_and_provenance(fedkg: Command) -> None:
    fedkg("compile", "rules.fkg", "-o", "rules.fkgpack")
    done = fedkg("inspect", "rules.fkgpack")
    for part in (
        "3 rules, 3 bound rows",
        "No torque above 70 N.m.",
        "Torque [Nm]",
        "torque <= 70",
        "failure[wear + 13 min]",
        "rules.fkg",
    ):
        assert part in done.out
    facts = fedkg("inspect", "rules.fkgpack", "--json").json
    assert [rule["rule"] for rule in facts["rules"]] == ["strong", "strain", "wear_risk"]
    assert facts["banks"][0]["examples"][0]["formula"]
    assert facts["provenance"]["sources"][0]["name"] == "rules.fkg"


def test_new_from_limits_makes_rules_that_check_clean(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("tag,unit,low,high\nTorque [Nm],Nm,0,70\n")
    done = fedkg("new", "limits.csv", "table.csv", "-o", "first.fkg")
    assert done.code == 0
    assert "first.fkg: 1 rule for table.csv" in done.out
    assert fedkg("check", "first.fkg").code == 0
    assert fedkg("new", "limits.csv", "table.csv", "-o", "first.fkg").code == 2
    assert fedkg("new", "table.csv", "-o", "first.fkg", "--force").code == 0


def test_new_names_the_tags_that_are_missing(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("tag,unit,low,high\nTorque [Nm],Nm,0,70\nTorqe,Nm,0,70\n")
    done = fedkg("new", "limits.csv", "table.csv", "-o", "first.fkg")
    assert "1 of 2 tags found; `Torqe`: did you mean `Torque [Nm]`?" in done.out
    done = fedkg("new", "limits.csv", "table.csv", "-o", "first.fkg", "--force", "--json")
    assert done.json["missing_tags"] == {"Torqe": "Torque [Nm]"}


def test_limits_in_another_unit_than_the_header_are_converted(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "wear.csv").write_text("Tool wear [min]\n0\n100\n239\n241\n")
    (tmp_path / "limits.csv").write_text("tag,unit,low,high\nTool wear [min],h,0,4\n")
    assert fedkg("new", "limits.csv", "wear.csv", "-o", "first.fkg").code == 0
    assert fedkg("check", "first.fkg").code == 0
    (rule,) = fedkg("eval", "first.fkg", "wear.csv", "--json").json["rules"]
    assert (rule["satisfied"], rule["violated"]) == (3, 1)


def test_a_table_among_the_rule_files_is_one_error(fedkg: Command, tmp_path: Path) -> None:
    done = fedkg("check", "table.csv", "--json")
    assert [(d["code"], d["help"]) for d in done.json["diagnostics"]] == [
        ("FKG045", "check a table with rules: fedkg eval RULES table.csv")
    ]
    (tmp_path / "book.xlsx").write_bytes(b"PK\x03\x04" + bytes(range(256)))
    assert [d["code"] for d in fedkg("check", "book.xlsx", "--json").json["diagnostics"]] == [
        "FKG045"
    ]


def test_new_writes_into_another_folder(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("tag,low,high\nTorque [Nm],0,70\n")
    (tmp_path / "sub").mkdir()
    assert fedkg("new", "limits.csv", "table.csv", "-o", "sub/first.fkg").code == 0
    assert fedkg("check", "sub/first.fkg").code == 0


def test_explain(fedkg: Command) -> None:
    assert fedkg("explain", "fkg008").out.startswith("FKG008: ")
    assert fedkg("explain", "FKG008", "--json").json["code"] == "FKG008"
    assert any(
        entry["code"] == "FKG001" for entry in fedkg("explain", "--list", "--json").json["codes"]
    )
    assert fedkg("explain", "FKG999").code == 2
    assert fedkg("explain").code == 2


@pytest.mark.slow
def test_ontology_list_show_add_remove(fedkg: Command, tmp_path: Path) -> None:
    names = [entry["name"] for entry in fedkg("ontology", "list", "--json").json["ontologies"]]
    assert {"isa95", "mason"} <= set(names)
    shown = fedkg("ontology", "show", "mason", "--json").json
    assert shown["prefix"] == "mason"
    assert "mason:Lathe" in {term["name"] for term in shown["terms"]}
    assert "13: sosa:ActuatableProperty, " in fedkg("ontology", "show", "sosa").out
    missed = fedkg("ontology", "show", "masn")
    assert missed.code == 2
    assert "did you mean `mason`?" in missed.err
    (tmp_path / "own.ttl").write_text(
        "<http://x.org/a#A> a <http://www.w3.org/2002/07/owl#Class> .\n"
    )
    assert fedkg("ontology", "add", "ours", "own.ttl").code == 0
    assert fedkg("ontology", "show", "ours", "--json").json["loaded_from"].startswith("own.ttl")
    assert fedkg("ontology", "remove", "ours").code == 0
    assert fedkg("ontology", "remove", "ours").code == 2
    failed = fedkg("ontology", "add", "ours", "nowhere.ttl")
    assert (failed.code, failed.err.endswith("ours: not added\n")) == (1, True)


@pytest.mark.slow
def test_ontology_show_of_a_term_and_report(
    fedkg: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path / "home"))
    owl = (
        "Prefix(:=<http://x.org/a#>)\nOntology(<http://x.org/a>\nDeclaration(Class(:Mill))\n"
        "SubClassOf(:SmallMill :Mill))"
    )
    (tmp_path / "own.ofn").write_text(owl)
    (tmp_path / "mill.fkg").write_text(
        "use own\nsignal torque in N.m\nrule r require torque <= 70 N.m\n"
    )
    assert fedkg("check", "mill.fkg").code == 0
    assert fedkg("check", "rules.fkg", "own.ofn").code == 0
    assert fedkg("ontology", "add", "ours", "own.ofn").code == 0
    (term,) = fedkg("ontology", "show", "ours:SmallMill", "--json").json["terms"]
    assert term["parents"] == ["ours:Mill"]
    assert "below it    ours:SmallMill" in fedkg("ontology", "show", "http://x.org/a#Mill").out
    unknown = fedkg("ontology", "show", "ours:Mil")
    assert unknown.code == 2
    assert "did you mean `ours:Mill`?" in unknown.err
    found = fedkg("ontology", "report", "ours", "--json").json
    assert (
        found["total"]["concepts"],
        found["total"]["relations"],
        found["reference"]["concepts"],
    ) == (2, 1, 5247)
    table = fedkg("ontology", "report", "ours").out
    assert "SCFA paper" in table
    assert "fewer than in the paper's graph: 5,245 concepts" in table
    assert fedkg("ontology", "report", "nobody").code == 2


def test_data_writes_the_example_table(fedkg: Command, tmp_path: Path) -> None:
    assert fedkg("data", "ai4i", "-o", "t.csv", "--rows", "50", "--json").json["rows"] == 50
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert len(lines) == 51
    assert lines[0].endswith(",machine")
    assert fedkg("data", "ai4i", "-o", "t.csv").code == 2


WRONG = {
    "no such command": (("evla",), 2, "No such command"),
    "no such option": (("check", "rules.fkg", "--fast"), 2, "No such option"),
    "no such file": (("check", "nowhere.fkg"), 2, "there is no file nowhere.fkg"),
    "a folder": (("check", "."), 2, "is a folder"),
    "no table": (("eval", "rules.fkg"), 2, "a table is missing"),
    "no such table": (("eval", "rules.fkg", "nowhere.csv"), 2, "table nowhere.csv does not exist"),
    "a damaged pack": (("inspect", "table.csv"), 1, "not a complete constraint pack"),
    "a pack among rules": (
        ("eval", "rules.fkg", "x.fkgpack", "table.csv"),
        2,
        "cannot be combined with rule files",
    ),
    "an allowance without a baseline": (
        ("eval", "rules.fkg", "table.csv", "--allow", "1%"),
        2,
        "--allow requires --baseline",
    ),
    "a wrong allowance": (
        ("eval", "rules.fkg", "table.csv", "--allow", "much"),
        2,
        "--allow must be a share from 0 to 1",
    ),
    "no baseline": (("eval", "rules.fkg", "table.csv", "--baseline", "old.json"), 2, "old.json"),
    "no place to write": (
        ("compile", "rules.fkg", "-o", "no/where.fkgpack"),
        2,
        "the folder no for where.fkgpack does not exist",
    ),
    "too many files": (("new", "a.csv", "b.csv", "c.csv", "-o", "x.fkg"), 2, "too many files"),
    "no job": (("run",), 2, "give either a job file"),
    "no such job": (("run", "nowhere.yaml"), 2, "job file nowhere.yaml does not exist"),
    "job and resume": (("run", "job.yaml", "--resume", "runs"), 2, "give either a job file"),
    "resume with changes": (
        ("run", "--resume", "runs", "--set", "a=1"),
        2,
        "--resume cannot be combined with",
    ),
    "resume nothing": (("run", "--resume", "runs"), 2, "not a run folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_end_with_one_message(case: str, fedkg: Command) -> None:
    arguments, code, message = WRONG[case]
    done = fedkg(*arguments)
    assert done.code == code
    assert message in " ".join(done.err.replace("│", " ").split())
    assert not done.out
    assert "Traceback" not in done.err


def test_a_missing_column_is_named(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "short.csv").write_text("Torque [Nm],Machine failure\n1,0\n")
    done = fedkg("eval", "rules.fkg", "short.csv")
    assert done.code == 1
    assert "short.csv" in done.err
    assert "Tool wear [min]" in done.err
    assert fedkg("eval", "rules.fkg", "short.csv", "--skip-missing").code == 0


def test_a_fault_of_our_own_is_one_line(tmp_path: Path) -> None:
    code = (
        "from fedkg.cli import main; from fedkg import authoring\nauthoring.list_codes = lambda: "
        "1 / 0\nmain.run(['explain', '--list'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: internal error in fedkg: ZeroDivisionError: division by zero at "
    )
    assert "Traceback" not in done.stderr


def test_version_and_module(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fedkg", "--version"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stdout[:6]) == (0, "fedkg ")


@pytest.mark.parametrize("command", [*COMMANDS, *COMMAND_GROUPS])
def test_every_command_has_help_with_an_example(command: str, fedkg: Command) -> None:
    done = fedkg(command, "--help")
    assert done.code == 0
    assert "Example" in done.out or command in COMMAND_GROUPS


def test_a_file_of_two_bytes_a_letter_is_shown_as_it_reads(fedkg, tmp_path):
    (tmp_path / "wide.fkg").write_text("rule a require torqe <= 60 kgg\n", encoding="utf-16")
    said = fedkg("check", "wide.fkg").err
    assert "1 | rule a require torqe <= 60 kgg" in said
