"""The closure against the same rules applied one fact at a time, and against owlrl."""

from __future__ import annotations

import warnings

import axioms as ax
import owlrl
import pyoxigraph as ox
import rdflib
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg_compiler.graph.owl_rl_closure import clashes, close, closure, follows
from fedkg_compiler.graph.reasoning.facts import (
    Facts,
    are_different_literals,
    counted,
    literal_value,
)
from fedkg_compiler.graph.reasoning.owl_vocabulary import (
    HIDDEN,
    SAME,
    SUB_CLASS,
    SUB_PROPERTY,
    TYPE,
)
from fedkg_compiler.graph.reasoning.proofs import Terms, all_rules, prove
from fedkg_compiler.graph.standard_vocabularies import OWL

anything = st.lists(
    st.one_of(
        ax.schema, ax.schema, ax.keys, ax.facts, ax.facts, ax.facts, ax.literals, ax.prohibitions
    ),
    max_size=12,
)
Spoken = tuple[str, str, str]


def slowly(facts: Facts, quads: list[ox.Quad]) -> tuple[set[Spoken], set[str]]:
    """The triples that follow by proving each fact, and the contradictions by rule.

    Asserted triples and those that the closure omits are left out.
    """
    nodes = facts.nodes
    terms = Terms(
        literal=lambda n: isinstance(nodes[n], ox.Literal),
        apart=lambda n: are_different_literals(nodes[n]),
        unlike=lambda a, b: literal_value(nodes[a]) != literal_value(nodes[b]),
        counts=lambda n: counted(nodes[n]),
    )
    numbers = facts.numbers
    told = {(numbers[q.subject], numbers[q.predicate], numbers[q.object]) for q in quads}
    proofs = prove(sorted(told), terms)
    blank = {i for i, node in enumerate(nodes) if isinstance(node, ox.BlankNode)}
    found = set()
    for s, p, o in set(proofs.reasons) - told:
        hidden = p in HIDDEN or p in blank or (p == SAME and s == o)
        anonymous = (p == TYPE and o in blank) or (
            p in (SUB_CLASS, SUB_PROPERTY) and {s, o} & blank
        )
        if not hidden and not anonymous:
            found.add((str(nodes[s]), str(nodes[p]), str(nodes[o])))
    return found, {name for name, _ in proofs.clashes}


@tries(60)
@given(anything)
def test_the_closure_is_what_the_rules_prove_one_by_one(axioms: list[ax.Axiom]) -> None:
    quads = ax.quads_of(axioms)
    closed = closure(quads, all_rules=True)
    added = closed.added()
    found, contradictions = slowly(closed.facts, quads)
    assert {(str(q.subject), str(q.predicate), str(q.object)) for q in added} == found
    assert len({*added}) == len(added)
    assert {clash.rule.name for clash in clashes(closed.facts)} == contradictions


@tries(40)
@given(anything, st.integers(min_value=0, max_value=12), st.booleans())
def test_what_is_added_later_gives_the_same_closure(
    axioms: list[ax.Axiom], first: int, every: bool
) -> None:
    quads = ax.quads_of(axioms)
    once = closure(quads, all_rules=every)
    facts = Facts()
    told = facts.number(quads[:first])
    close(facts, told, all_rules=every)
    copied = facts.copy()
    later = copied.number(quads[first:])
    close(copied, later, all_rules=every)
    in_two = type(once)(facts=copied, told=(told, later), base=facts)
    assert {*map(str, in_two.added())} == {*map(str, once.added())}
    assert {clash.rule.name for clash in clashes(copied)} == {
        clash.rule.name for clash in clashes(once.facts)
    }
    assert follows([*quads, *once.added()], all_rules=every) == []


def by_owlrl(text: str) -> set[Spoken]:
    graph = rdflib.Graph().parse(data=text, format="nt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    return {spoken for s, p, o in graph if _counts(spoken := (s.n3(), p.n3(), o.n3()))}


def _counts(spoken: Spoken) -> bool:
    """Whether both reasoners state such triples.

    Not about every node and term, and not about blank nodes, which rdflib renames.
    """
    s, p, o = spoken
    axiomatic = s == o and p in (ax.owl("sameAs"), ax.rdfs("subClassOf"), ax.rdfs("subPropertyOf"))
    axiomatic |= s == o and p in (ax.owl("equivalentClass"), ax.owl("equivalentProperty"))
    axiomatic |= (
        o == ax.owl("Thing")
        or s.startswith(f"<{OWL}")
        or "XMLSchema" in s
        or not s.startswith(f"<{ax.E}")
    )
    return not axiomatic and not o.startswith("_:")


def compared(axioms: list[ax.Axiom]) -> set[Spoken]:
    """The conclusions of ours and of owlrl.

    Classes and properties are declared, because owlrl makes only declared ones subclasses of
    themselves.
    """
    whole = {line for axiom in axioms for line in axiom}
    names = {name for line in whole for name in line}
    declared = [
        ((name, ax.TYPE, ax.owl("Class")),)
        for name in sorted(names)
        if "/C" in name or name.startswith("_:k")
    ]
    declared += [
        ((name, ax.TYPE, ax.owl("ObjectProperty")),) for name in sorted(names) if "/p" in name
    ]
    quads = ax.quads_of([*axioms, *declared])
    added = {
        (str(q.subject), str(q.predicate), str(q.object)) for q in follows(quads, all_rules=True)
    }
    ours = added | {(str(q.subject), str(q.predicate), str(q.object)) for q in quads}
    assert {spoken for spoken in ours if _counts(spoken)} == by_owlrl(
        ax.text_of([*axioms, *declared])
    )
    return added


@tries(20)
@given(st.lists(ax.schema, min_size=2, max_size=5), st.lists(ax.facts, min_size=4, max_size=8))
def test_owlrl_concludes_the_same(schema: list[ax.Axiom], facts: list[ax.Axiom]) -> None:
    """Without literals, which owlrl takes as subjects, and without keys.

    owlrl ignores the last property of a key.
    """
    compared([*schema, *facts])


EACH = {
    "eq-rep": ("x sameAs y . x p z . z q x", "y p z . z q y . y sameAs x"),
    "prp-dom, prp-rng": ("p domain C . p range D . x p y", "x type C . y type D"),
    "prp-fp": ("p type FunctionalProperty . x p y . x p z", "y sameAs z"),
    "prp-ifp": ("p type InverseFunctionalProperty . y p x . z p x", "y sameAs z"),
    "prp-symp": ("p type SymmetricProperty . x p y", "y p x"),
    "prp-trp": ("p type TransitiveProperty . x p y . y p z . z p w", "x p w"),
    "prp-spo1": ("p subPropertyOf q . q subPropertyOf r . x p y", "x r y . p subPropertyOf r"),
    "prp-spo2": ("p propertyChainAxiom q,r . x q y . y r z", "x p z"),
    "prp-spo2, of three": ("p propertyChainAxiom q,r,q . x q y . y r z . z q w", "x p w"),
    "prp-eqp": ("p equivalentProperty q . x p y . z q w", "x q y . z p w . q equivalentProperty p"),
    "prp-inv": ("p inverseOf q . x p y . z q w", "y q x . w p z"),
    "cls-int1": ("C intersectionOf D,F,G . x type D . x type F . x type G", "x type C"),
    "cls-int2": ("C intersectionOf D,F . x type C", "x type D . C subClassOf F"),
    "cls-uni": ("C unionOf D,F . x type F", "x type C . D subClassOf C"),
    "cls-svf1": ("C someValuesFrom D . C onProperty p . x p y . y type D", "x type C"),
    "cls-svf2": ("C someValuesFrom Thing . C onProperty p . x p y", "x type C"),
    "cls-avf": ("C allValuesFrom D . C onProperty p . x type C . x p y", "y type D"),
    "cls-hv": ("C hasValue y . C onProperty p . x type C . z p y", "x p y . z type C"),
    "cls-maxc2": ("C maxCardinality 1 . C onProperty p . x type C . x p y . x p z", "y sameAs z"),
    "cls-maxqc3": (
        (
            "C maxQualifiedCardinality 1 . C onProperty p . C onClass D . x type C . x p y . x "
            "p z . y type D . z type D"
        ),
        "y sameAs z",
    ),
    "cls-maxqc4": (
        "C maxQualifiedCardinality 1 . C onProperty p . C onClass Thing . x type C . x p y . x p z",
        "y sameAs z",
    ),
    "cls-oo": ("C oneOf x,y", "x type C . y type C"),
    "cax-sco, scm-sco": ("C subClassOf D . D subClassOf F . x type C", "x type F . C subClassOf F"),
    "cax-eqc, scm-eqc": (
        "C equivalentClass D . x type C . y type D",
        "x type D . y type C . D equivalentClass C",
    ),
    "scm-eqc2": ("C subClassOf D . D subClassOf C", "C equivalentClass D"),
    "scm-eqp2": ("p subPropertyOf q . q subPropertyOf p", "p equivalentProperty q"),
    "scm-dom": ("p domain C . C subClassOf D . q subPropertyOf p", "p domain D . q domain C"),
    "scm-rng": ("p range C . C subClassOf D . q subPropertyOf p", "p range D . q range C"),
    "scm-hv": (
        "C hasValue x . C onProperty p . D hasValue x . D onProperty q . p subPropertyOf q",
        "C subClassOf D",
    ),
    "scm-svf1": (
        (
            "C someValuesFrom F . C onProperty p . D someValuesFrom G . D onProperty p . F "
            "subClassOf G"
        ),
        "C subClassOf D",
    ),
    "scm-svf2": (
        (
            "C someValuesFrom F . C onProperty p . D someValuesFrom F . D onProperty q . p "
            "subPropertyOf q"
        ),
        "C subClassOf D",
    ),
    "scm-avf1": (
        "C allValuesFrom F . C onProperty p . D allValuesFrom G . D onProperty p . F subClassOf G",
        "C subClassOf D",
    ),
    "scm-avf2": (
        (
            "C allValuesFrom F . C onProperty p . D allValuesFrom F . D onProperty q . p "
            "subPropertyOf q"
        ),
        "D subClassOf C",
    ),
}
"""For each rule its premises and conclusions; one-letter names are local to the case."""


def lines_of(number: int, text: str) -> ax.Axiom:
    def term(word: str) -> str:
        if word == "1":
            return ax.ONE
        if word == "type":
            return ax.TYPE
        if len(word) > 1:
            return (
                ax.rdfs(word)
                if word in ("domain", "range", "subClassOf", "subPropertyOf")
                else ax.owl(word)
            )
        stem = "C" if word.isupper() else "p" if word in "pqr" else "x"
        return f"<{ax.E}{stem}{number}{word}>"

    found: list[ax.Line] = []
    for subject, predicate, value in (line.split() for line in text.split(" . ")):
        if "," in value or predicate == "oneOf":
            found += ax.listed(term(subject), predicate, [term(one) for one in value.split(",")])
        else:
            found.append((term(subject), term(predicate), term(value)))
    return tuple(found)


def test_each_rule_concludes_what_w3c_says_and_owlrl_does() -> None:
    added = compared([lines_of(i, premises) for i, (premises, _) in enumerate(EACH.values())])
    missing = {
        name: line
        for i, (name, (_, said)) in enumerate(EACH.items())
        for line in lines_of(i, said)
        if line not in added
    }
    assert missing == {}


def test_a_key_is_all_of_its_properties() -> None:
    told = lines_of(
        0,
        "C hasKey p,q . x type C . y type C . z type C . x p w . y p w . z p w . x q v . y "
        "q v . z q w",
    )
    added = {
        (str(q.subject), str(q.predicate), str(q.object)) for q in follows(ax.quads_of([told]))
    }
    (same,) = lines_of(0, "x sameAs y")
    (other,) = lines_of(0, "x sameAs z")
    assert same in added
    assert other not in added


def test_every_rule_has_a_name_of_w3c_and_no_premise_twice() -> None:
    for rule in all_rules():
        assert len({*rule.body}) == len(rule.body)
        used = {end for atom in rule.body for end in atom if end < 0}
        assert {end for atom in rule.heads for end in atom if end < 0} <= used
        assert {end for pair in rule.unequal for end in pair} <= used
