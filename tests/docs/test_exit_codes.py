"""Every row of the table of exit codes is provoked."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from blocks import ROOT
from command import Command, call

from fedkg.cli.main import COMMAND_GROUPS, COMMANDS
from fedkg.errors import FedkgError

PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")

RULES = """\
signal torque in N.m span 0 .. 100
output failure in probability span 0 .. 1
rule strong require if torque > 90 N.m then failure >= 0.5
"""

DATA = """\
@prefix ex: <https://example.org/> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
ex:p ex:pressure 12 .
ex:S a sh:NodeShape ; sh:targetNode ex:p ; sh:property [ sh:path ex:pressure ; sh:maxInclusive 9 ] .
"""

FAILING = """\
signal torque in N.m
rule strong require torque <= 70 N.m
example of strong holds for torque = 80 N.m
"""

JOB: dict[str, Any] = {
    "name": "small",
    "rules": ["rules.fkg"],
    "sites": ["north", "south"],
    "data": {"path": "table.csv", "label": "failure", "min_samples": 2},
    "model": {"hidden": [8]},
    "training": {"rounds": 1, "local_steps": 9, "executor": "sequential"},
    "evaluation": {"local_baseline": False},
    "algorithm": "fedavg",
}


@pytest.fixture
def fedkg(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    """The command in a folder with rules, a table, shapes and a job."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{step % 100},{step % 2}\n" for step in range(80))
    Path("table.csv").write_text("torque,failure\n" + rows)
    Path("rules.fkg").write_text(RULES)
    Path("wrong.fkg").write_text("rule a require nothing_known(\n")
    Path("data.ttl").write_text(DATA)
    Path("job.yaml").write_text(yaml.safe_dump(JOB))
    return partial(call, capsys)


def documented() -> dict[tuple[str, str], str]:
    """The rows of the table: code and command, and the meaning."""
    _, _, rest = PAGE.partition("| exit code | command | meaning |\n|---|---|---|\n")
    rows = [line.strip("| ").split(" | ") for line in rest.partition("\n\n")[0].split("\n")]
    return {
        (code, name): meaning
        for code, names, meaning in rows
        for name in re.findall(r"`([^`]*)`", names) or ["all"]
    }


def _damage(fedkg: Command) -> None:
    assert fedkg("run", "job.yaml", "--out", "run").code == 0
    Path("run/rounds.csv").write_text("damaged")


def _check(fedkg: Command) -> int:
    return int(fedkg("check", "wrong.fkg").code)


def _fmt(fedkg: Command, option: str) -> int:
    Path("loose.fkg").write_text(RULES.replace("rule strong require", "rule   strong  require"))
    return int(fedkg("fmt", "loose.fkg", option).code)


def _test(fedkg: Command) -> int:
    Path("failing.fkg").write_text(FAILING)
    return int(fedkg("test", "failing.fkg").code)


def _baseline(fedkg: Command, command: str) -> int:
    """The baseline has no violation, the table of today has."""
    Path("limit.fkg").write_text("signal torque in N.m\nrule low require torque <= 50 N.m\n")
    Path("good.csv").write_text("torque\n" + "10\n20\n" * 20)
    good = fedkg("eval", "limit.fkg", "good.csv", "--json")
    assert good.code == 0
    Path("good.json").write_text(good.out)
    return int(fedkg(command, "limit.fkg", "table.csv", "--baseline", "good.json").code)


def _diff(fedkg: Command) -> int:
    Path("other.fkg").write_text(RULES.replace("90 N.m", "80 N.m"))
    return int(fedkg("diff", "rules.fkg", "other.fkg").code)


def _run(fedkg: Command) -> int:
    """The updates of one run of the grid are not finite."""
    done = fedkg("run", "job.yaml", "--out", "grid", "--grid", "training.learning_rate=0.1,1e38")
    assert len(json.loads(Path("grid/failed.json").read_text())) == 1
    return int(done.code)


def _paper(fedkg: Command) -> int:
    def fail(*_: object) -> None:
        raise FedkgError("the data are damaged")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedkg.papers.study.run_study", fail)
        return int(fedkg("paper", "scfa", "--table", "3", "--smoke").code)


def _status(fedkg: Command) -> int:
    _damage(fedkg)
    return int(fedkg("status", "run").code)


def _verify(fedkg: Command) -> int:
    _damage(fedkg)
    return int(fedkg("verify", "run").code)


def _watch(fedkg: Command) -> int:
    _damage(fedkg)
    return int(fedkg("watch", "run").code)


def _reproduce(fedkg: Command) -> int:
    """The figures differ if the first ones were computed otherwise, here by hand."""
    from fedkg.jobs.folder import RunFolder

    assert fedkg("run", "job.yaml", "--out", "run").code == 0
    folder = RunFolder(Path("run"))
    rows = folder.rows("rounds.csv")
    folder.rewrite("rounds.csv", [{**row, "train_loss": 0.125} for row in rows])
    return int(fedkg("reproduce", "run").code)


def _too_few(fedkg: Command) -> int:
    return int(fedkg("run", "job.yaml", "--set", "training.learning_rate=1e38").code)


def _stopped(fedkg: Command) -> int:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedkg.jobs.runner.create_experiment", stop)
        return int(fedkg("run", "job.yaml").code)


def _stopped_stream(fedkg: Command) -> int:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedkg.tables.row_stream.RowStream.feed", stop)
        return int(fedkg("monitor", "rules.fkg", "table.csv").code)


def _stopped_review(fedkg: Command) -> int:
    """The input ends before the first answer."""
    from fedkg.jobs.folder import JOB, RunFolder
    from fedkg.learned_knowledge_records import LearnedKnowledge, MinedNumber, MinedProperty

    number = MinedNumber(name="low", value=2.0, direction="down")
    one = MinedProperty(
        inference="a", template="t", text="t(torque, ?low)", numbers=(number,), traces=3
    )
    found = LearnedKnowledge(run="", title="", software="", began="", properties=(one,))
    Path("reviewed").mkdir()
    RunFolder(Path("reviewed")).write_text(JOB, "name: small\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedkg.cli.suggest.read_findings", lambda folder: found)
        patched.setattr("sys.stdin", io.StringIO(""))
        return int(fedkg("suggest", "reviewed", "--review").code)


def _contradiction(fedkg: Command) -> int:
    Path("both.ttl").write_text(
        "@prefix ex: <https://example.org/> .\n"
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
        "ex:A owl:disjointWith ex:B . ex:x a ex:A , ex:B .\n"
    )
    return int(fedkg("ontology", "reason", "both.ttl").code)


def _no_site(fedkg: Command) -> int:
    """The invitation is missing."""
    Path("graz").mkdir()
    Path("graz/site.json").write_text('{"name": "graz", "sites_file": "own.yaml"}')
    found = fedkg("site", "doctor", "graz")
    assert found.out.startswith("problem  invitation: ")
    return int(found.code)


def _damaged_shapes(fedkg: Command) -> int:
    Path("broken.ttl").write_text("<a> <b>")
    return int(fedkg("validate", "data.ttl", "broken.ttl").code)


PROVOKE: dict[tuple[str, str], Callable[[Command], int]] = {
    ("1", "check"): _check,
    ("1", "fmt --check"): lambda fedkg: _fmt(fedkg, "--check"),
    ("1", "fmt --diff"): lambda fedkg: _fmt(fedkg, "--diff"),
    ("1", "test"): _test,
    ("1", "eval --baseline"): lambda fedkg: _baseline(fedkg, "eval"),
    ("1", "monitor --baseline"): lambda fedkg: _baseline(fedkg, "monitor"),
    ("1", "validate"): lambda fedkg: int(fedkg("validate", "data.ttl").code),
    ("1", "diff"): _diff,
    ("1", "run"): _run,
    ("1", "paper"): _paper,
    ("1", "status"): _status,
    ("1", "verify"): _verify,
    ("1", "watch"): _watch,
    ("1", "reproduce"): _reproduce,
    ("1", "ontology reason"): _contradiction,
    ("1", "site doctor"): _no_site,
    ("2", "validate"): _damaged_shapes,
    ("5", "run"): _too_few,
    ("130", "run"): _stopped,
    ("130", "monitor"): _stopped_stream,
    ("130", "suggest --review"): _stopped_review,
}
"""How to provoke each row that names a command."""


def test_every_row_is_provoked() -> None:
    rows = {(code, name) for code, name in documented() if name != "all"}
    assert rows == PROVOKE.keys()
    assert {code for code, name in documented() if name == "all"} == {"0", "1", "2"}


@pytest.mark.slow
@pytest.mark.parametrize(("code", "name"), PROVOKE)
def test_a_row_that_names_a_command(code: str, name: str, fedkg: Command) -> None:
    assert PROVOKE[code, name](fedkg) == int(code)


@pytest.mark.parametrize("name", [*COMMANDS, *COMMAND_GROUPS])
def test_help_and_wrong_options_of_every_command(name: str, fedkg: Command) -> None:
    assert fedkg(name, "--help").code == 0
    assert fedkg(name, "--no-such-option").code == 2


WRONG_FILES = {
    "new": ("new", "--from", "fret", "wrong.ttl", "-o", "made.fkg"),
    "check": ("check", "wrong.fkg"),
    "fmt": ("fmt", "wrong.fkg"),
    "test": ("test", "wrong.fkg"),
    "eval": ("eval", "wrong.fkg", "table.csv"),
    "monitor": ("monitor", "wrong.fkg", "table.csv"),
    "compile": ("compile", "wrong.fkg", "-o", "rules.fkgpack"),
    "inspect": ("inspect", "wrong.fkg"),
    "run": ("run", "wrong.fkg"),
    "explain": ("explain", "strong", "wrong.fkg"),
    "diff": ("diff", "rules.fkg", "wrong.fkg"),
    "suggest": ("suggest", "wrong.ttl"),
    "graph": ("graph", "load", "made.store", "wrong.ttl"),
    "ontology": ("ontology", "reason", "wrong.ttl"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_wrong_file(name: str, fedkg: Command) -> None:
    Path("wrong.ttl").write_text("<a> <b>")
    assert fedkg(*WRONG_FILES[name]).code == 1
