"""Rules bind the same rows of a store, of which only the triples that they touch are read, as of a
file, which is read and closed whole.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fedkg_compiler.frontends.sparql.mentioned_iris import rule_terms
from fedkg_compiler.graph.stores import rule_relevant_triples
from fedkg_compiler.graph.stores.store_loading import load_files
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
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]
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


def test_patterns_over_any_node_touch_everything() -> None:
    def terms(pattern: str) -> object:
        return rule_terms([pattern], [f"SELECT * WHERE {{ {pattern} }}"])

    for pattern in ("?x p:a* ?y", "?x p:a? ?y", "?x (p:a*/p:b?) ?y", r"?x p:\u0061 ?y"):
        assert terms(pattern) is None, pattern
    for pattern in ("?x p:a* ?y . ?y p:b ?z", "?x p:a*/p:b ?y", "p:x p:a* ?y", "?x p:a+ ?y"):
        assert terms(pattern) is not None, pattern
