"""`fedkg check` imports only what a plain rule file needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PLAIN = """
timeline step 5 min
signal inlet in bar span 0 .. 16 column "PI-101 [bar]"
signal outlet in bar span 0 .. 16
output failure in probability span 0 .. 1
rule limit "Within the vessel's rating." kind capacity weight 2 require 1 bar <= inlet <= 12 bar
rule order require inlet - outlet >= 100 mbar
rule alarm require if inlet > 10 bar and outlet < 2 bar then failure >= 0.5
rule rising require failure never falls as inlet rises
"""

HEAVY = (
    "torch",
    "pandas",
    "scipy",
    "pyarrow",
    "openpyxl",
    "plotly",
    "onnx",
    "rich",
    "numpy.ma",
    "numpy.testing",
)
GRAPHS = ("rdflib", "oxrdflib", "pyoxigraph", "owlready2", "pyshacl", "pint", "sympy")
OURS = (
    "fedkg.constraints.module",
    "fedkg.evaluation",
    "fedkg.federated",
    "fedkg.jobs",
    "fedkg.report",
    "fedkg.tables.reader",
    "fedkg.tables.times",
    "fedkg_compiler.frontends.fkg.binding.causes",
    "fedkg_compiler.frontends.fkg.binding.rule_examples",
    "fedkg_compiler.frontends.fkg.binding.parameter_inference_statement",
    "fedkg_compiler.frontends.fkg.binding.feasible_set_statement",
    "fedkg_compiler.frontends.sheets.sheet_quantifiers",
    "fedkg_compiler.frontends.knowledge",
    "fedkg_compiler.graph.graph",
    "fedkg_compiler.graph.load",
    "fedkg_compiler.frontends.shacl",
    "fedkg_compiler.frontends.sparql",
    "fedkg_compiler.frontends.fkg.syntax.explain",
    "fedkg_compiler.frontends.fkg.syntax.printing",
)

CHECK = """
import sys
from fedkg.cli.main import run
try:
    run(["check", sys.argv[1]])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of a process that has checked a plain rule file, cold."""
    folder = tmp_path_factory.mktemp("plain")
    path = folder / "plain.fkg"
    path.write_text(PLAIN, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(path)],
        capture_output=True,
        text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")},
    )
    assert "4 rules" in done.stdout, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("name", [*HEAVY, *GRAPHS, *OURS])
def test_a_plain_check_does_not_load(loaded: set[str], name: str) -> None:
    assert name not in loaded


def test_what_it_needs_is_loaded(loaded: set[str]) -> None:
    assert {
        "numpy",
        "pydantic",
        "fedkg.pack",
        "fedkg_compiler.pipeline",
        "fedkg_compiler.analysis.run",
    } <= loaded


def test_only_the_command_that_is_asked_for_is_made() -> None:
    from fedkg.cli import main

    assert [
        command.name for command in main._select_commands(["check", "a.fkg"]).registered_commands
    ] == ["check"]
    for other in ([], ["--help"], ["chekc"], ["ontology", "list"]):
        assert main._select_commands(other) is main.app
