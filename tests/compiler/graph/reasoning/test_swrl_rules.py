"""SWRL rules conclude what the same rules as SPARQL updates conclude, wherever they are written.

Rules that fedkg does not apply are reported with their place.
"""

from __future__ import annotations

from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import Catalog, load_graph
from fedkg_compiler.graph.owl_rl_closure import closure, follows
from fedkg_compiler.graph.rdf_reader import read_rdf
from fedkg_compiler.graph.reasoning.swrl_rules import COMPARISONS, compare

HEAD = """@prefix : <http://x.org/o#> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix swrl: <http://www.w3.org/2003/11/swrl#> .
@prefix swrlb: <http://www.w3.org/2003/11/swrlb#> .
:x a swrl:Variable . :y a swrl:Variable . :z a swrl:Variable .
"""
SIGNS = dict(
    zip(COMPARISONS, ("=", "!=", "<", "<=", ">", ">="), strict=True)  # as SPARQL writes them
)
Atom = tuple[str, str, str]


def rule(body: list[Atom], head: list[Atom]) -> str:
    """A rule in Turtle.

    Atoms are (name, first, second): of a class (without second), of a property, or a comparison.
    """
    return (
        f"[] a swrl:Imp ; swrl:body ( {' '.join(map(turtle, body))} ) ; "
        f"swrl:head ( {' '.join(map(turtle, head))} ) ."
    )


def turtle(atom: Atom) -> str:
    name, one, other = atom
    if name in COMPARISONS:
        return (
            f"[ a swrl:BuiltinAtom ; swrl:builtin swrlb:{name} ; swrl:arguments ( {one} {other} ) ]"
        )
    if not other:
        return f"[ a swrl:ClassAtom ; swrl:classPredicate {name} ; swrl:argument1 {one} ]"
    kind = "DatavaluedPropertyAtom" if name == ":d" else "IndividualPropertyAtom"
    return (
        f"[ a swrl:{kind} ; swrl:propertyPredicate {name} ;"
        f" swrl:argument1 {one} ; swrl:argument2 {other} ]"
    )


def sparql(atom: Atom) -> str:
    name, one, other = (part.replace(":", "?") if part in VARIABLES else part for part in atom)
    if name in COMPARISONS:
        return f"FILTER({one} {SIGNS[name]} {other})"
    return f"{one} a {name} ." if not other else f"{one} {name} {other} ."


def statements(turtle_text: str) -> list[ox.Quad]:
    return [*ox.parse(HEAD + turtle_text, format=ox.RdfFormat.TURTLE)]


def concluded(text: str) -> set[str]:
    """What the closure adds, without what it says about the vocabulary of rules."""
    return {str(quad.triple) for quad in follows(statements(text))}


VARIABLES = (":x", ":y", ":z")
things = st.sampled_from([":x", ":y", ":z", ":a", ":b"])
numbers = st.sampled_from(["1", "2.0", "3e0"])
class_atoms = st.tuples(st.sampled_from([":A", ":B", ":C"]), things, st.just(""))
object_atoms = st.tuples(st.sampled_from([":p", ":q"]), things, things)
data_atoms = st.tuples(st.just(":d"), things, st.just(":v"))
comparisons = st.tuples(st.sampled_from([*COMPARISONS]), st.just(":v"), numbers)
individuals = st.sampled_from([":a", ":b", ":c"])
facts = st.one_of(
    st.builds("{} a {} .".format, individuals, st.sampled_from([":A", ":B"])),
    st.builds("{} {} {} .".format, individuals, st.sampled_from([":p", ":q"]), individuals),
    st.builds("{} :d {} .".format, individuals, numbers),
)


@st.composite
def rules(draw: st.DrawFn) -> tuple[list[Atom], list[Atom]]:
    body = draw(st.lists(st.one_of(class_atoms, object_atoms), min_size=1, max_size=3))
    if draw(st.booleans()):
        body += [draw(data_atoms), draw(comparisons)]
    known = {end for _, *ends in body for end in ends} | {":a", ":b"}
    ends = st.sampled_from(sorted(known & {*VARIABLES, ":a", ":b"}))
    head = draw(
        st.one_of(
            st.tuples(st.sampled_from([":A", ":B", ":C"]), ends, st.just("")),
            st.tuples(st.sampled_from([":p", ":q"]), ends, ends),
        )
    )
    return body, [head]


@tries(80)
@given(st.lists(rules(), min_size=1, max_size=3), st.lists(facts, max_size=8))
def test_rules_conclude_what_sparql_updates_do(
    drawn: list[tuple[list[Atom], list[Atom]]], told: list[str]
) -> None:
    text = ":v a swrl:Variable . " + " ".join(told)
    store = ox.Store()
    store.extend(statements(" ".join(told)))
    stated = {str(quad.triple) for quad in store}
    size = -1
    while size != len(store):  # an independent fixpoint: each rule as one update
        size = len(store)
        for body, head in drawn:
            where = " ".join(sparql(atom) for atom in body).replace(":v", "?v")
            store.update(
                "PREFIX : <http://x.org/o#> INSERT { "
                + " ".join(sparql(atom) for atom in head)
                + f" }} WHERE {{ {where} }}"
            )
    expected = {str(quad.triple) for quad in store} - stated
    assert concluded(text + " ".join(rule(*one) for one in drawn)) == expected


@pytest.mark.parametrize(
    ("text", "added"),
    [
        pytest.param(
            rule([(":A", ":x", "")], [(":B", ":x", "")])
            + ":A0 rdfs:subClassOf :A . :B rdfs:subClassOf :C . :a a :A0 .",
            {":a a :A", ":a a :B", ":a a :C"},
            id="between inferences of OWL",
        ),
        pytest.param(
            rule([(":p", ":x", ":y")], [("owl:sameAs", ":x", ":y")]).replace(
                "IndividualPropertyAtom ; swrl:propertyPredicate owl:sameAs", "SameIndividualAtom"
            )
            + ":a :p :b . :b a :A .",
            {":a a :A", ":a owl:sameAs :b", ":b owl:sameAs :a", ":a :p :a", ":b :p :a", ":b :p :b"},
            id="individuals become the same",
        ),
        pytest.param(
            rule([(":A", ":x", "")], [(":B", ":x", "")]) + ":a a :A . :a owl:sameAs :b .",
            {":b a :A", ":b a :B", ":a a :B", ":b owl:sameAs :a"},
            id="the same individual under both names",
        ),
        pytest.param(
            rule([("[ owl:inverseOf :p ]", ":x", ":y")], [(":A", ":x", "")]) + ":a :p :b .",
            {":b a :A"},
            id="an inverse property",
        ),
        pytest.param(
            rule([("owl:Thing", ":x", ""), (":p", ":x", ":y")], [(":A", ":y", "")]) + ":a :p :b .",
            {":b a :A"},
            id="everything is a thing",
        ),
        pytest.param(
            rule([(":A", ":x", "")], [(":B", ":x", "")]).replace(
                "swrl:Imp",
                "swrl:Imp ; <http://swrl.stanford.edu/ontologies/3.3/swrla.owl#isRuleEnabled>"
                ' "false"',
            )
            + ":a a :A .",
            set(),
            id="switched off in the editor",
        ),
        pytest.param(
            rule([(":d", ":x", "5")], [(":A", ":x", "")]) + ":a :d 5.0 . :b :d 6 .",
            {":a a :A"},
            id="a literal in an atom means its value",
        ),
    ],
)
def test_rules_and_owl_feed_each_other(text: str, added: set[str]) -> None:
    prefixed = (
        {str(quad.triple) for quad in statements(" . ".join(sorted(added)) + " .")}
        if added
        else set()
    )
    variables = {str(quad.triple) for quad in statements("")}
    assert concluded(text) == prefixed - variables


def literal(text: str, kind: str) -> ox.Literal:
    return ox.Literal(text, datatype=ox.NamedNode(f"http://www.w3.org/2001/XMLSchema#{kind}"))


@pytest.mark.parametrize(
    ("name", "one", "other", "holds"),
    [
        ("equal", literal("5", "integer"), literal("5.0", "double"), True),
        (
            "lessThan",
            literal("9007199254740993", "integer"),
            literal("9007199254740992", "integer"),
            False,
        ),
        ("lessThan", literal("-INF", "double"), literal("0", "integer"), True),
        ("equal", literal("NaN", "double"), literal("NaN", "double"), False),
        ("notEqual", literal("5", "integer"), ox.Literal("5"), False),
        ("lessThan", ox.Literal("a"), ox.Literal("b"), True),
        ("equal", ox.Literal("a", language="en"), ox.Literal("a"), False),
        (
            "lessThan",
            literal("2024-01-01T00:00:00Z", "dateTime"),
            literal("2024-01-01T00:00:00-01:00", "dateTime"),
            True,
        ),
        (
            "notEqual",
            literal("2024-01-01T00:00:00Z", "dateTime"),
            literal("2024-01-01T00:00:00", "dateTime"),
            False,
        ),
        ("greaterThan", literal("2024-03-01", "date"), literal("2024-02-29", "date"), True),
        ("equal", literal("1", "boolean"), literal("true", "boolean"), True),
        ("equal", literal("abc", "integer"), literal("abc", "integer"), False),
        ("equal", ox.NamedNode("http://x"), ox.NamedNode("http://x"), False),
    ],
)
def test_literals_compare_by_value(
    name: str, one: ox.Literal, other: ox.Literal, holds: bool
) -> None:
    assert compare(name, one, other) is holds


FUNCTIONAL = """Prefix(:=<http://x.org/o#>) Prefix(swrlb:=<http://www.w3.org/2003/11/swrlb#>)
Prefix(xsd:=<http://www.w3.org/2001/XMLSchema#>)
Ontology(
DLSafeRule(Body(ClassAtom(:A Variable(:x)) ObjectPropertyAtom(:p Variable(:x) :a)
  DataPropertyAtom(:d Variable(:x) Variable(:y))
  BuiltInAtom(swrlb:lessThan Variable(:y) "5"^^xsd:integer))
 Head(ClassAtom(:B Variable(:x)) DifferentIndividualsAtom(Variable(:x) :a)))
)"""
XML = """<Ontology xmlns="http://www.w3.org/2002/07/owl#" xml:base="http://x.org/o">
<DLSafeRule><Body>
<ClassAtom><Class IRI="#A"/><Variable IRI="#x"/></ClassAtom>
<ObjectPropertyAtom><ObjectProperty IRI="#p"/><Variable IRI="#x"/><NamedIndividual IRI="#a"/>
</ObjectPropertyAtom>
<DataPropertyAtom><DataProperty IRI="#d"/><Variable IRI="#x"/><Variable IRI="#y"/>
</DataPropertyAtom>
<BuiltInAtom IRI="http://www.w3.org/2003/11/swrlb#lessThan"><Variable IRI="#y"/>
<Literal datatypeIRI="http://www.w3.org/2001/XMLSchema#integer">5</Literal></BuiltInAtom></Body>
<Head><ClassAtom><Class IRI="#B"/><Variable IRI="#x"/></ClassAtom>
<DifferentIndividualsAtom><Variable IRI="#x"/><NamedIndividual IRI="#a"/>
</DifferentIndividualsAtom></Head></DLSafeRule>
</Ontology>"""


def test_every_syntax_says_the_same() -> None:
    different = "[ a swrl:DifferentIndividualsAtom ; swrl:argument1 :x ; swrl:argument2 :a ]"
    text = rule(
        [(":A", ":x", ""), (":p", ":x", ":a"), (":d", ":x", ":y"), ("lessThan", ":y", "5")],
        [(":B", ":x", "")],
    ).replace("swrl:argument1 :x ] ) .", f"swrl:argument1 :x ] {different} ) .")
    expected = statements(f"{text} [] a owl:Ontology .")
    assert canonical(expected, ":z") == canonical(read(FUNCTIONAL, "o.ofn"))
    assert canonical(expected, ":z") == canonical(read(XML, "o.owx"))


def read(text: str, name: str) -> list[ox.Quad]:
    document, problems = read_rdf(text.encode(), file=name)
    assert document is not None
    assert problems == ()
    return [*document.triples]


def canonical(quads: list[ox.Quad], left_out: str = "") -> set[str]:
    dropped = f"<http://x.org/o#{left_out.removeprefix(':')}>"
    dataset = ox.Dataset(quad for quad in quads if str(quad.subject) != dropped)
    dataset.canonicalize(ox.CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in dataset}


def load(catalog: Catalog, path: Path, text: str) -> tuple[Diagnostic, ...]:
    path.write_text(text, encoding="utf-8")
    return load_graph([], {}, [path], catalog=catalog)[1]


@pytest.mark.parametrize(
    ("written", "line", "words"),
    [
        (
            rule([(":d", ":x", ":y"), ("equal", ":z", ":y 2")], [(":A", ":x", "")]).replace(
                "[ a swrl:BuiltinAtom ; swrl:builtin swrlb:equal",
                "\n[ a swrl:BuiltinAtom ; swrl:builtin swrlb:add",
            ),
            8,
            "does not evaluate the built-in swrlb:add",
        ),
        (
            rule([(":A", ":x", "")], [(":B", ":z", "")]),
            6,
            "the variable <http://x.org/o#z> is in no class or property atom",
        ),
        (rule([], [(":B", ":a", "")]), 7, "its body has no class or property atom"),
        (rule([(":A", ":x", "")], []), 7, "its head is empty"),
        (rule([(":d", ":x", ":y")], [("equal", ":y", "5")]), 7, "its head has a built-in"),
        (
            rule([(":d", ":x", ":y"), ("equal", ":y", "5 6")], [(":A", ":x", "")]),
            7,
            "swrlb:equal has 3 arguments",
        ),
        ("[] a swrl:Imp ; swrl:head ( ) .", 7, "0 values of <http://www.w3.org/2003/11/swrl#body>"),
    ],
)
def test_other_rules_are_reported_with_their_place(
    catalog: Catalog, tmp_path: Path, written: str, line: int, words: str
) -> None:
    problems = load(catalog, tmp_path / "o.ttl", f"{HEAD}{written}\n")
    assert [(one.code, one.severity) for one in problems] == [("FKG128", "warning")]
    assert words in problems[0].message
    assert problems[0].span.line == line
    assert problems[0].help


def test_a_rule_of_the_functional_syntax_is_reported_at_its_built_in(
    catalog: Catalog, tmp_path: Path
) -> None:
    problems = load(catalog, tmp_path / "o.ofn", FUNCTIONAL.replace("lessThan", "contains"))
    assert [(one.code, one.span.line) for one in problems] == [("FKG128", 6)]
    assert "swrlb:contains" in problems[0].message


def test_a_contradiction_names_the_rule_that_it_follows_from(
    catalog: Catalog, tmp_path: Path
) -> None:
    text = (
        HEAD
        + rule([(":A", ":x", "")], [(":B", ":x", "")])
        + "\n:a a :A .\n:A owl:disjointWith :B .\n"
    )
    (problem,) = load(catalog, tmp_path / "o.ttl", text)
    assert problem.code == "FKG125"
    places = [problem.span.line, *(one.span.line for one in problem.related)]
    assert sorted(places) == [7, 8, 9]


def test_a_rule_applies_to_the_facts_that_were_closed_before_it_was_stated() -> None:
    """The closure of the ontologies is cached, and a graph beside them states the rule."""
    base = statements(":a a :A0 . :A0 rdfs:subClassOf :A .")
    text = rule([(":A", ":x", "")], [(":B", ":x", "")])
    for _ in range(2):  # computed, then from the cache
        added = closure(statements(text), base=base, key="test_swrl_rules").added()
        (expected,) = [quad for quad in statements(":a a :B .") if "#a>" in str(quad.subject)]
        assert expected.triple in {quad.triple for quad in added}
