"""`fedkg check` and `fedkg validate` import only what a plain rule file and a graph need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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

SHAPES = """
@prefix ex: <https://example.org/plant#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
ex: a owl:Ontology ; sh:declare [ sh:prefix "ex" ; sh:namespace "https://example.org/plant#" ] .
ex:PumpShape a sh:NodeShape ; sh:targetClass ex:Pump ;
  sh:property [ sh:path ex:pressure ; sh:maxInclusive 6 ] ;
  sh:sparql [ sh:select "SELECT $this WHERE { $this ex:pressure 8 }" ; sh:prefixes ex: ] ;
  sh:rule [ a sh:SPARQLRule ; sh:prefixes ex: ;
    sh:construct "CONSTRUCT { $this ex:checked true } WHERE { $this ex:pressure ?p }" ] .
"""
DATA = "@prefix ex: <https://example.org/plant#> . ex:p1 a ex:Pump ; ex:pressure 8 ."
NOT_FOR_VALIDATION = (
    *("numpy", "pydantic", "lark", "oxrdflib", "pyshacl", "pint", "sympy", *HEAVY),
    *("fedkg.pack", "fedkg.tables", "fedkg.units", "fedkg_compiler.ir", "fedkg_compiler.pipeline"),
    *(f"fedkg_compiler.graph.{name}" for name in ("graph", "load", "owl_rl_closure", "query")),
    *("fedkg_compiler.frontends.fkg", "fedkg_compiler.frontends.shacl.bind"),
)

RUN = """
import sys
from fedkg.cli.main import run
try:
    run(sys.argv[1:])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


def run_cold(folder: Path, *arguments: str) -> tuple[str, set[str]]:
    """The output and the modules of a process that has run a command without caches."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")},
    )
    return done.stdout, set(done.stderr.split())


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of a process that has checked a plain rule file, cold."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "plain.fkg").write_text(PLAIN, encoding="utf-8")
    output, modules = run_cold(folder, "check", "plain.fkg")
    assert "4 rules" in output
    return modules


@pytest.fixture(scope="module")
def loaded_for_validation(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of a process that has validated a graph, cold."""
    folder = tmp_path_factory.mktemp("validation")
    (folder / "shapes.ttl").write_text(SHAPES, encoding="utf-8")
    (folder / "data.ttl").write_text(DATA, encoding="utf-8")
    output, modules = run_cold(folder, "validate", "data.ttl", "shapes.ttl")
    assert "2 violations; 1 focus node; rules added 1 triple" in output
    return modules


@pytest.mark.parametrize("name", [*HEAVY, *GRAPHS, *OURS])
def test_a_plain_check_does_not_load(loaded: set[str], name: str) -> None:
    assert name not in loaded


@pytest.mark.parametrize("name", NOT_FOR_VALIDATION)
def test_a_validation_does_not_load(loaded_for_validation: set[str], name: str) -> None:
    assert name not in loaded_for_validation


def test_a_validation_loads_what_it_needs(loaded_for_validation: set[str]) -> None:
    assert {
        "rdflib",
        "pyoxigraph",
        "fedkg.cli.validate",
        "fedkg_compiler.frontends.shacl.validator",
        "fedkg_compiler.graph.rdf_reader",
    } <= loaded_for_validation


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

    def names(*arguments: str) -> list[set[str | None]]:
        made = main._select_commands(arguments)
        return [
            {one.name for one in made.registered_commands},
            {one.name for one in made.registered_groups},
        ]

    assert names("check", "a.fkg") == [{"check"}, set()]
    assert names("ontology", "list") == [set(), {"ontology"}]
    for other in ((), ("--help",), ("chekc",)):
        assert names(*other) == [set(main.COMMANDS), set(main.COMMAND_GROUPS)]
