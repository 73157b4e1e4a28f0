"""Information about a term, in whichever way it is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.errors import UsageError
from fedkg_compiler.graph import add_entry
from fedkg_compiler.graph.term_description import About, describe_term

OURS = """Prefix(:=<https://acme.example/o#>)
Prefix(rdfs:=<http://www.w3.org/2000/01/rdf-schema#>)
Prefix(mason:=<http://www.owl-ontologies.com/mason.owl#>)
Ontology(<https://acme.example/o>
Declaration(Class(:Mill))
AnnotationAssertion(rdfs:label :Mill "big mill")
AnnotationAssertion(rdfs:comment :Mill "Turns its tool.")
SubClassOf(:Mill :Machine)
SubClassOf(:SmallMill :Mill)
SubClassOf(:TinyMill :SmallMill)
Declaration(ObjectProperty(:cuts))
ObjectPropertyDomain(:cuts :Mill)
ObjectPropertyRange(:cuts :Part)
Declaration(Class(:Part))
Declaration(Class(:Machine))
EquivalentClasses(:Mill mason:MillingMachine)
ClassAssertion(:SmallMill :m1))
"""


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("acme")
    (folder / "acme.ofn").write_text(OURS, encoding="utf-8")
    assert add_entry("acme", str(folder / "acme.ofn"), home=folder)[0] is not None
    return folder


def one(text: str, home: Path) -> About:
    (found,), problems = describe_term(text, home=home)
    assert problems == ()
    return found


@pytest.mark.slow
def test_every_spelling_finds_the_term(acme: Path) -> None:
    mill = one("acme:Mill", acme)
    assert (
        mill
        == one("https://acme.example/o#Mill", acme)
        == one("<https://acme.example/o#Mill>", acme)
        == one("BIG  Mill", acme)
    )
    assert (mill.kind, mill.label, mill.comment, mill.ontology) == (
        "class",
        "big mill",
        "Turns its tool.",
        "acme",
    )
    assert mill.defined_in.endswith("acme.ofn, line 5")
    assert mill.parents == ("acme:Machine", "mason:Shearing_machine-tool")
    assert mill.children == ("acme:SmallMill",)
    assert mill.members == 1
    assert mill.properties == ("acme:cuts",)
    assert [(one.name, one.by) for one in mill.mapped] == [
        ("mason:MillingMachine", "owl:equivalentClass")
    ]


def test_properties_have_domain_and_range_and_individuals_types(acme: Path) -> None:
    cuts = one("cuts", acme)
    assert (cuts.kind, cuts.domain, cuts.range) == ("property", ("acme:Mill",), ("acme:Part",))
    member = one("acme:m1", acme)
    assert member.kind == "individual"
    assert {"acme:Machine", "acme:Mill", "acme:SmallMill"} <= set(member.types)


@pytest.mark.parametrize(
    ("text", "meant"),
    [("acme:Mil", "`acme:Mill`"), ("masn", "`mason`"), ("zzzzzzzz", "`fedkg ontology list`")],
)
def test_what_no_ontology_has_is_an_error_with_a_suggestion(
    acme: Path, text: str, meant: str
) -> None:
    with pytest.raises(UsageError, match="none has such a term") as error:
        describe_term(text, home=acme)
    assert meant in (error.value.help or "")
