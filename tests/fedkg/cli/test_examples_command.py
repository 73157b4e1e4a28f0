"""`fedkg test`, and `fedkg compile --client`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Command = Callable[..., Any]

RULES = """signal pressure in bar
rule low require pressure <= 8 bar
example of low holds for pressure = 3 8 bar
"""


def test_examples_as_expected(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "e.fkg").write_text(RULES, encoding="utf-8")
    done = fedkg("test", "e.fkg")
    assert (done.code, done.out) == (0, "ok    low holds  e.fkg:3\n1 example, all as expected\n")


def test_an_example_that_is_not(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "e.fkg").write_text(
        f"{RULES}example of low fails for pressure = 5 bar\nexample of low holds for "
        "pressure = 1 9",
        encoding="utf-8",
    )
    done = fedkg("test", "e.fkg")
    assert done.code == 1
    assert (
        "WRONG low  e.fkg:4: expected that it fails, but it holds at every step, least "
        "at step 1 (by 3 bar)"
    ) in done.out
    assert (
        "WRONG low  e.fkg:5: expected that it holds, but step 2 violates it (by 1 bar)" in done.out
    )
    done = fedkg("test", "e.fkg", "--json")
    assert done.code == 1
    assert [(one["line"], one["passed"], one["robustness"]) for one in done.json["examples"]] == [
        (3, True, 0),
        (4, False, 3),
        (5, False, -1),
    ]


def test_errors_of_the_rules_come_first(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "e.fkg").write_text(RULES.replace("of low", "of lwo"), encoding="utf-8")
    done = fedkg("test", "e.fkg")
    assert done.code == 1
    assert "FKG293" in done.err
    assert done.out == ""


def test_rules_without_examples(fedkg: Command) -> None:
    done = fedkg("test", "rules.fkg")
    assert done.code == 0
    assert "the rules contain no examples" in done.err


def test_a_private_pack(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text(
        '<https://x.org/#m> <https://w3id.org/fedkg/ns#client> "linz" .\n', encoding="utf-8"
    )
    (tmp_path / "e.fkg").write_text(
        f"{RULES}rule own scope client require pressure <= 7 bar\n", encoding="utf-8"
    )
    done = fedkg("compile", "e.fkg", "g.ttl", "--client", "linz", "-o", "linz.fkgpack", "--json")
    assert (done.code, done.json["rules"]) == (0, 1)
    done = fedkg("compile", "e.fkg", "g.ttl", "-o", "public.fkgpack")
    assert done.code == 0
    assert "FKG287" in done.err
    done = fedkg("compile", "e.fkg", "g.ttl", "--client", "lintz", "-o", "no.fkgpack")
    assert done.code == 1
    assert "nothing in the graph belongs to the client `lintz`" in done.err
    assert "did you mean" not in done.err  # a suggestion would reveal other clients' names


def test_it_says_why_a_verdict_is_unknown(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "e.fkg").write_text(
        "signal pressure in bar span 0 .. 20\nsignal temp in degC\noutput power in kW\n"
        "rule low require pressure <= 8 bar and temp <= 20 degC\nrule rises require "
        "power never falls as pressure rises\nrule steady require pressure never falls\n"
        "example of low holds for pressure = 3 8 bar\nexample of low holds for pressure "
        "= 3 unknown bar and temp = 10 10 degC\nexample of rises holds for pressure = 3 "
        "4 bar and power = 3 4 kW\nexample of steady holds for pressure = 3\n"
    )
    done = fedkg("test", "e.fkg", "--json")
    assert [one["reason"] for one in done.json["examples"]] == [
        "the example gives no values of `temp`",
        "`pressure` has no value there",
        "the rule compares what a model says of changed inputs, which no example can give",
        "the first step has none before it: give more values",
    ]
    assert (
        "e.fkg:7: expected that it holds, but step 1 is unknown: the example gives no "
        "values of `temp`\n"
    ) in fedkg("test", "e.fkg").out
