"""Rules bind the same rows of a store, of which only the triples that they touch are read, as of a
file, which is read and closed whole.
"""

from __future__ import annotations

import gc
import random
from dataclasses import fields
from pathlib import Path

import pytest

from fedkg_compiler.frontends.sparql.triple_filter_terms import rule_terms
from fedkg_compiler.graph.rdf_terms import ColumnFact, Iri, Literal, Quantity
from fedkg_compiler.graph.recorded_answers import RecordedAnswers
from fedkg_compiler.graph.stores import rule_relevant_triples
from fedkg_compiler.graph.stores.store_writing import load_files
from fedkg_compiler.pipeline import compile_rules

HEAD = """\
@prefix p: <https://example.org/p#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
p:torque a sosa:ObservableProperty ; fkg:column "torque" .
p:C0 fkg:keyColumn "machine" .
"""
AXIOMS = (
    "p:C{a} rdfs:subClassOf p:C{b} .",
    "p:r{a} rdfs:subPropertyOf p:r{b} .",
    "p:r{a} owl:inverseOf p:r{b} .",
    "p:r{a} a owl:TransitiveProperty .",
    "p:r{a} rdfs:domain p:C{b} .",
    "p:r{a} rdfs:range p:C{b} .",
    "p:r{a} a owl:SymmetricProperty .",
    "p:E{a} owl:sameAs p:E{b} .",
)
FACTS = (
    "p:E{a} a p:C{b} .",
    "p:E{a} p:r{c} p:E{b} .",
    "p:E{a} p:limit {n} .",
    'p:E{a} rdfs:label "entity {b}" .',
    "p:E{a} p:r{c} [ a p:C{b} ; p:limit {n} ] .",
    'p:S{a} a sosa:Sensor ; sosa:observes p:torque ; sosa:isHostedBy p:E{b} ; fkg:column "t{a}" .',
)
PATTERNS = (
    "?m a p:C{a} ; p:limit ?x",
    "?m p:r{a} ?o . ?o p:limit ?x . ?m a p:C{b}",
    "?m p:limit ?x . FILTER NOT EXISTS {{ ?m p:r{a} ?o }}",
    "?m p:limit ?x . OPTIONAL {{ ?m p:r{a} ?y }} FILTER(!BOUND(?y))",
    "?m a ?c ; p:limit ?x . ?c rdfs:subClassOf p:C{a}",
    "?m p:r{a}*/p:limit ?x",
    "?m p:limit ?x . ?m p:r{a}* ?o . ?o a p:C{b}",
    "?m ?p ?o ; p:limit ?x",
    "?m <https://example.org/p#r{a}> ?o ; p:limit ?x",
)
RULE = """\
prefix p: <https://example.org/p#>
prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#>
prefix odd: <https://example.org/p#lim>
signal torque(?m) is p:torque
rule r for ?m, ?x where {{ {pattern} }}
  require torque(?m) <= ?x
rule always require `pressure` <= 5
"""


def drawn(forms: tuple[str, ...], draw: random.Random) -> str:
    return draw.choice(forms).format(
        a=draw.randrange(5), b=draw.randrange(5), c=draw.randrange(5), n=draw.randrange(9)
    )


def compiled(rules: str, graph: Path) -> tuple[bytes, list[str]]:
    """The bytes of the pack, and what is said without places in files."""
    found = compile_rules([], text=rules, graphs=[graph])
    body = b"" if found.packed is None else found.packed.body
    return body, sorted(f"{item.code} {item.message}" for item in found.diagnostics)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))]
)
def test_rows_of_a_store_are_those_of_its_file(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    lines = [drawn(AXIOMS, draw) for _ in range(4)] + [drawn(FACTS, draw) for _ in range(25)]
    file, store = tmp_path / "graph.ttl", tmp_path / "graph.store"
    file.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    assert load_files(store, [file])[0] is not None
    for pattern in (*PATTERNS, "?m odd:it ?x"):
        rules = RULE.format(pattern=drawn((pattern,), draw))
        expected = compiled(rules, file)
        assert compiled(rules, store) == expected, rules  # closes the store, or reads the closure
        assert compiled(rules, store) == expected, rules  # reads the part that it kept


def test_a_part_holds_what_rules_name_and_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, store = tmp_path / "graph.ttl", tmp_path / "graph.store"
    facts = "p:E1 a p:C0 ; p:limit 4 ; p:colour p:Red . p:E2 a p:C1 ; p:seen p:E1 .\n"
    file.write_text(HEAD + facts, encoding="utf-8")
    assert load_files(store, [file])[0] is not None
    rules = RULE.format(pattern="?m a p:C0 ; p:limit ?x")
    compiled(rules, store)
    (part,) = store.glob("closed/*/touched/*.nt")
    text = part.read_text(encoding="utf-8")
    assert "p#limit>" in text
    assert "p#C0>" in text
    for name in ("colour", "Red", "seen", "C1"):
        assert f"p#{name}>" not in text, name
    monkeypatch.setattr(
        rule_relevant_triples, "_triples", lambda *_: pytest.fail("the closure is read again")
    )
    assert compiled(rules.replace("<= ?x", "<= ?x + 1"), store) != compiled(rules, store)
    monkeypatch.setattr(rule_relevant_triples, "LARGEST", 1)  # more than fits: the closure is asked
    compiled(rules, store)


@pytest.mark.slow
def test_compilations_release_their_stores(tmp_path: Path) -> None:
    handles = Path("/proc/self/fd")
    if not handles.is_dir():
        pytest.skip("the system does not list the open files of a process")
    file, store = tmp_path / "graph.ttl", tmp_path / "graph.store"
    file.write_text(HEAD + "p:E1 a p:C0 ; p:limit 4 .\n", encoding="utf-8")
    assert load_files(store, [file])[0] is not None
    counts, threshold = [], gc.get_threshold()
    gc.set_threshold(200_000)  # as the command line does: no search begins by itself
    try:
        for limit in range(8):
            rules = RULE.format(pattern=f"?m a p:C0 ; p:limit ?x FILTER(?x > {limit})")
            compiled(rules, store)
            counts.append(len(list(handles.iterdir())))
    finally:
        gc.set_threshold(*threshold)
    assert counts[-1] <= max(counts[:3])


PLANT = """\
@prefix unit: <http://qudt.org/vocab/unit/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
p:C1 fkg:keyColumn "machine" .
p:E1 a p:C0 ; p:limit 4 ; rdfs:label "one"@de , "first"@en .
p:E2 a p:C0 ; p:limit [ qudt:numericValue 2.5 ; qudt:unit unit:BAR ] .
p:E3 a p:C1 ; p:limit 7 ; fkg:client "linz" .
p:S1 a sosa:Sensor ; sosa:observes p:heat ; sosa:isHostedBy p:E1 ; fkg:column "h1" ;
  fkg:alternativeColumn "old h1" .
p:S2 a sosa:Sensor ; sosa:observes p:heat ; sosa:isHostedBy p:E2 ; fkg:column "h2" .
"""
"""Entities with keys, labels, quantities, owners, columns and further headers."""
EDITED = (
    "prefix p: <https://example.org/p#>\nprefix sosa: <http://www.w3.org/ns/sosa/>\n"
    "rule hot for ?s where { ?s a sosa:Sensor ; sosa:observes p:heat } require value(?s) <= LIMIT\n"
    "signal torque(?m) is p:torque\n"
    "rule weak for ?m in class p:C0 require torque(?m) <= LIMIT\n"
    "rule strong for ?m, ?x where { ?m a p:C1 ; p:limit ?x } require torque(?m) <= ?x + LIMIT\n"
)


def stored_plant(folder: Path) -> tuple[Path, Path]:
    """A graph file, and a store with its triples."""
    file, store = folder / "graph.ttl", folder / "graph.store"
    file.write_text(HEAD + PLANT, encoding="utf-8")
    assert load_files(store, [file])[0] is not None
    return file, store


def test_an_edited_rule_is_compiled_from_recorded_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, store = stored_plant(tmp_path)
    assert compiled(EDITED.replace("LIMIT", "5"), store)[0]
    edited = EDITED.replace("LIMIT", "6")
    expected = compiled(edited, file)
    assert expected[0]
    monkeypatch.setattr(
        rule_relevant_triples, "_read", lambda *_: pytest.fail("triples are read again")
    )
    assert compiled(edited, store) == expected
    with pytest.raises(pytest.fail.Exception):  # another pattern needs the triples
        compiled(edited.replace("p:C1 ; p:limit ?x", "p:C0 ; p:limit ?x"), store)


def test_recorded_answers_end_with_their_triples(tmp_path: Path) -> None:
    file, store = stored_plant(tmp_path)
    rules = EDITED.replace("LIMIT", "5")
    before = compiled(rules, store)
    file.write_text(HEAD + PLANT.replace('"h2"', '"h3"').replace("p:E3 a p:C1", "p:E3 a p:C0"))
    assert load_files(store, [file])[0] is not None
    assert compiled(rules, store) == compiled(rules, file) != before


@pytest.mark.slow
def test_damaged_answers_are_computed_again(tmp_path: Path) -> None:
    file, store = stored_plant(tmp_path)
    rules = EDITED.replace("LIMIT", "5")
    expected = compiled(rules, file)
    compiled(rules, store)
    (answers,) = store.glob("closed/*/touched/*.json")
    whole = answers.read_text(encoding="utf-8")
    for damage in ("", "{}", '{"names": [1]}', whole[: len(whole) // 2]):
        answers.write_text(damage, encoding="utf-8")
        assert compiled(rules, store) == expected, damage
        assert answers.read_text(encoding="utf-8") == whole


def test_answers_with_blank_nodes_are_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    blank, known = Iri("_:b0"), Iri("https://example.org/p#E1")
    terms = (known, None, Literal(True, "true", "x"), Literal(1.5, "1.5", "y"), Quantity(2.0, "K"))
    answers = RecordedAnswers(path=path, keyed=True, shared=frozenset({"a"}), alternatives={})
    answers.solutions |= {"blank": [(blank,)], "kept": [terms, terms[::-1]], "none": []}
    answers.labels |= {blank.value: "b", known.value: "one"}
    answers.keys |= {known.value: ("machine", "E1"), "https://example.org/p#E2": None}
    answers.columns |= {
        known.value: [ColumnFact("h", "K", "https://example.org/p#E2", known.value)] * 2,
        "https://example.org/p#E2": [],
    }
    fact = ColumnFact("h", None, "https://example.org/p#E2", known.value, is_stored=True)
    answers.observations |= {"p e": [fact], "p ": [fact._replace(sensor="b0")]}
    answers.keep()
    found = RecordedAnswers.from_file(path)
    del answers.solutions["blank"], answers.labels[blank.value], answers.observations["p "]
    for name in (
        field.name for field in fields(answers) if field.name[0] != "_" and field.name != "asked"
    ):
        assert getattr(found, name) == getattr(answers, name), name


def test_solutions_of_patterns_that_are_no_longer_asked_go(tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    answers = RecordedAnswers(path=path, solutions={f"old{i}": [] for i in range(30)})
    answers.solutions["new"] = [(Iri("https://example.org/p#E1"),)]
    answers.asked.add("new")
    answers.keep()
    kept = RecordedAnswers.from_file(path).solutions
    assert list(kept) == [*(f"old{i}" for i in range(10, 30)), "new"]


def test_patterns_over_any_node_touch_everything() -> None:
    def terms(pattern: str) -> object:
        return rule_terms([pattern], [f"SELECT * WHERE {{ {pattern} }}"])

    for pattern in ("?x p:a* ?y", "?x p:a? ?y", "?x (p:a*/p:b?) ?y", r"?x p:\u0061 ?y"):
        assert terms(pattern) is None, pattern
    for pattern in ("?x p:a* ?y . ?y p:b ?z", "?x p:a*/p:b ?y", "p:x p:a* ?y", "?x p:a+ ?y"):
        assert terms(pattern) is not None, pattern
