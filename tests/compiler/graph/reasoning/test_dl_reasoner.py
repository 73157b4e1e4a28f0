"""HermiT on demand: profiles that need a description logic reasoner, its time limit, no Java."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyoxigraph as ox
import pytest

from fedkg_compiler.graph.ontology_consequences import reason
from fedkg_compiler.graph.owl_rl_closure import follows
from fedkg_compiler.graph.reasoning.hermit_reasoner import describe

TEXT = """@prefix : <http://example.org/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:hasPart a owl:ObjectProperty .
:Device a owl:Class . :Motor a owl:Class . :ElectricMotor a owl:Class ; rdfs:subClassOf :Motor .
:Pump a owl:Class ; owl:equivalentClass [ a owl:Class ; owl:intersectionOf ( :Device
    [ a owl:Restriction ; owl:onProperty :hasPart ; owl:someValuesFrom :Motor ] ) ] .
:ElectricPump a owl:Class ;
    rdfs:subClassOf :Device ,
        [ a owl:Restriction ; owl:onProperty :hasPart ; owl:someValuesFrom :ElectricMotor ] .
:Nonsense a owl:Class ; rdfs:subClassOf :Device , :Motor . :Device owl:disjointWith :Motor .
:p1 a :ElectricPump .
"""
QUADS = list(ox.parse(TEXT, format=ox.RdfFormat.TURTLE))
E = "http://example.org/"
needs_java = pytest.mark.skipif(
    shutil.which("java") is None, reason="no Java here: the DL reasoner cannot run"
)


@needs_java
@pytest.mark.slow
def test_it_finds_what_rules_do_not() -> None:
    found, problems = describe(QUADS, "pumps.ttl", 120)
    assert problems == ()
    assert found is not None
    assert (E + "ElectricPump", E + "Pump") in found.below
    assert found.unsatisfiable == (E + "Nonsense",)
    by_rules = {(str(quad.subject), str(quad.object)) for quad in follows(QUADS)}
    assert (f"<{E}ElectricPump>", f"<{E}Pump>") not in by_rules


@needs_java
@pytest.mark.slow
def test_the_command_adds_it_to_what_the_rules_find(tmp_path: Path) -> None:
    (tmp_path / "pumps.ttl").write_text(TEXT + ":n a :Nonsense .\n")
    found, problems = reason([str(tmp_path / "pumps.ttl")], dl=True, limit=120, home=tmp_path)
    assert found.reasoner == "OWL 2 RL and HermiT"
    assert found.unsatisfiable == (":Nonsense",)
    assert (":p1", "a", ":Pump") in found.types
    assert [problem.code for problem in problems] == ["FKG125"]


@needs_java
def test_it_is_stopped_when_its_time_is_over() -> None:
    found, (problem,) = describe(QUADS, "pumps.ttl", 0.2)
    assert found is None
    assert problem.code == "FKG127", problem.message
    assert problem.message == "the DL reasoner was stopped after 0.2 s"


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    found, (problem,) = describe(QUADS, "pumps.ttl", 60)
    assert found is None
    assert problem.code == "FKG126"
    assert "there is no `java` on the PATH" in problem.message
    (tmp_path / "pumps.ttl").write_text(TEXT)
    reasoned, problems = reason([str(tmp_path / "pumps.ttl")], dl=True, home=tmp_path)
    assert [one.code for one in problems] == ["FKG126"]
    assert (":ElectricMotor", "rdfs:subClassOf", ":Motor") not in reasoned.below
    assert reasoned.unsatisfiable == (":Nonsense",)


def test_a_crash_of_the_reasoner_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'Error: no such class' >&2\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found, (problem,) = describe(QUADS, "pumps.ttl", 60)
    assert found is None
    assert problem.code == "FKG126"
    assert "the DL reasoner failed: " in problem.message
    assert "\n" not in problem.message


ONTOLOGIES = Path(__file__).resolve().parents[4] / "ontologies"


@needs_java
@pytest.mark.slow
def test_it_takes_all_bundled_modules_together(tmp_path: Path) -> None:
    files = [str(path) for path in sorted(ONTOLOGIES.glob("*.ttl"))]
    found, problems = reason(files, dl=True, limit=240, home=tmp_path)
    assert [one for one in problems if one.severity != "info"] == []
    assert found.reasoner == "OWL 2 RL and HermiT"
    assert found.unsatisfiable == ()


def test_no_bundled_property_leaves_owl_2_dl() -> None:
    """OWL 2 DL allows only simple properties to be asymmetric or irreflexive: no transitive
    ones.
    """
    owl = "http://www.w3.org/2002/07/owl#"
    kinds: dict[str, set[str]] = {}
    for path in ONTOLOGIES.glob("*.ttl"):
        for quad in ox.parse(path=str(path), format=ox.RdfFormat.TURTLE):
            if quad.predicate.value.endswith("#type"):
                kinds.setdefault(str(quad.subject), set()).add(str(quad.object))
    transitive = {name for name, own in kinds.items() if f"<{owl}TransitiveProperty>" in own}
    assert transitive
    strict = {f"<{owl}AsymmetricProperty>", f"<{owl}IrreflexiveProperty>"}
    assert [name for name in sorted(transitive) if kinds[name] & strict] == []


def test_the_heading_names_the_reasoner_that_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pumps.ttl").write_text(TEXT)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Java
    found, problems = reason([str(tmp_path / "pumps.ttl")], dl=True, limit=10, home=tmp_path)
    assert "FKG126" in [one.code for one in problems]
    assert found.reasoner == "OWL 2 RL"
