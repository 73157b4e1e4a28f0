"""The rules of OWL 2 RL as W3C writes them (OWL 2 Profiles 2012, section 4.3, tables 4 to 9), one a
line, under their names there.

A line is ``name  premise . premise . ?a != ?b => conclusion . conclusion``; ``false`` is a
contradiction. Words without ``?`` are those of `owl_vocabulary.py`. Rules over lists are written
with their cells, so that every rule has a fixed number of premises.

Departures:

- left out, because they say the same of everything: eq-ref, prp-ap, cls-thing, cls-nothing1,
  scm-cls, scm-op, scm-dp, dt-type1;
- covered by others: prp-eqp1, prp-eqp2 and cax-eqc1, cax-eqc2 (scm-eqp1, scm-eqc1 with prp-spo1,
  cax-sco), cls-int2 (scm-int), cls-uni
  (scm-uni);
- literals are never subjects: no type is written of them (dt-type2), and equal ones are not written
  as such (dt-eq). Two that would have
  to be one and have different values are a contradiction (dt-diff); dt-not-type is left to who
      reads literals;
- no class or property is written below itself;
- units of QUDT are never made one: it says owl:sameAs of units of one magnitude (N.m and J), which
  are two to rules about quantities.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from fedkg_compiler.graph.reasoning.owl_vocabulary import NAMES

Atom = tuple[int, int, int]
"""Subject, property, object: a word's number, or a variable, which is below 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule; without a conclusion it is a contradiction.

    Attributes:
        name: the name that the W3C gives the rule.
        body: the premises.
        heads: the conclusions; empty for a contradiction.
        unequal: pairs of variables that must stand for different nodes.
        comparisons: operators of `literal_comparison` with their two sides, each a variable or a
            node; a match must satisfy all of them.
    """

    name: str
    body: tuple[Atom, ...]
    heads: tuple[Atom, ...] = ()
    unequal: tuple[tuple[int, int], ...] = ()
    comparisons: tuple[tuple[str, int, int], ...] = ()


SCHEMA = """
scm-eqc1  ?a equivalentClass ?b => ?a subClassOf ?b . ?b subClassOf ?a
scm-eqp1  ?p equivalentProperty ?q => ?p subPropertyOf ?q . ?q subPropertyOf ?p
scm-int   ?c intersectionOf ?l . ?l listed ?m => ?c subClassOf ?m
scm-uni   ?c unionOf ?l . ?l listed ?m => ?m subClassOf ?c
scm-hv    ?c hasValue ?i . ?c onProperty ?p . ?d hasValue ?i . ?d onProperty ?q . \
          ?p subPropertyOf ?q => ?c subClassOf ?d
scm-hv    ?c hasValue ?i . ?c onProperty ?p . ?d hasValue ?i . ?d onProperty ?p . ?c != ?d \
          => ?c subClassOf ?d
scm-svf1  ?c someValuesFrom ?y . ?c onProperty ?p . ?d someValuesFrom ?z . ?d onProperty ?p . \
          ?y subClassOf ?z => ?c subClassOf ?d
scm-svf1  ?c someValuesFrom ?y . ?c onProperty ?p . ?d someValuesFrom ?y . ?d onProperty ?p . \
          ?c != ?d => ?c subClassOf ?d
scm-svf2  ?c someValuesFrom ?y . ?c onProperty ?p . ?d someValuesFrom ?y . ?d onProperty ?q . \
          ?p subPropertyOf ?q => ?c subClassOf ?d
scm-avf1  ?c allValuesFrom ?y . ?c onProperty ?p . ?d allValuesFrom ?z . ?d onProperty ?p . \
          ?y subClassOf ?z => ?c subClassOf ?d
scm-avf1  ?c allValuesFrom ?y . ?c onProperty ?p . ?d allValuesFrom ?y . ?d onProperty ?p . \
          ?c != ?d => ?c subClassOf ?d
scm-avf2  ?c allValuesFrom ?y . ?c onProperty ?p . ?d allValuesFrom ?y . ?d onProperty ?q . \
          ?p subPropertyOf ?q => ?d subClassOf ?c
"""
"""Rules from statements about classes and properties to facts about classes. Every class and every
property is below itself without a fact that says so (scm-cls, scm-op): therefore scm-hv, scm-svf1
and scm-avf1 have a second line."""

TERMINOLOGY = """
scm-eqc2  ?a subClassOf ?b . ?b subClassOf ?a . ?a != ?b => ?a equivalentClass ?b
scm-eqp2  ?p subPropertyOf ?q . ?q subPropertyOf ?p . ?p != ?q => ?p equivalentProperty ?q
scm-dom1  ?p domain ?c . ?c subClassOf ?d => ?p domain ?d
scm-dom2  ?q domain ?c . ?p subPropertyOf ?q => ?p domain ?c
scm-rng1  ?p range ?c . ?c subClassOf ?d => ?p range ?d
scm-rng2  ?q range ?c . ?p subPropertyOf ?q => ?p range ?c
"""
"""Rules that restate definitions of terms: nothing else follows from their conclusions, so a
compilation omits them."""

FACTS = """
prp-spo1  ?p subPropertyOf ?q . ?x ?p ?y => ?x ?q ?y
prp-inv1  ?p inverseOf ?q . ?x ?p ?y => ?y ?q ?x
prp-inv2  ?p inverseOf ?q . ?x ?q ?y => ?y ?p ?x
prp-symp  ?p type SymmetricProperty . ?x ?p ?y => ?y ?p ?x
prp-dom   ?p domain ?c . ?x ?p ?y => ?x type ?c
prp-rng   ?p range ?c . ?x ?p ?y => ?y type ?c
prp-fp    ?p type FunctionalProperty . ?x ?p ?y . ?x ?p ?z . ?y != ?z => ?y sameAs ?z
prp-ifp   ?p type InverseFunctionalProperty . ?x ?p ?y . ?z ?p ?y . ?x != ?z => ?x sameAs ?z
prp-spo2  ?p propertyChainAxiom ?l . ?l cell ?c . ?c rest nil . ?c first ?q . ?u ?q ?v => ?u ?c ?v
prp-spo2  ?p propertyChainAxiom ?l . ?l cell ?c . ?c rest ?d . ?c first ?q . ?u ?q ?w . ?w ?d ?v \
          => ?u ?c ?v
prp-spo2  ?p propertyChainAxiom ?l . ?u ?l ?v => ?u ?p ?v
prp-key   ?k hasKey ?l . ?l cell ?c . ?c rest nil . ?c first ?p . ?x type ?k . ?x ?p ?v . \
          ?y ?p ?v . ?y type ?k . ?x != ?y => ?x ?c ?y
prp-key   ?k hasKey ?l . ?l cell ?c . ?c rest ?d . ?x ?d ?y . ?c first ?p . ?x ?p ?v . \
          ?y ?p ?v . ?x != ?y => ?x ?c ?y
prp-key   ?k hasKey ?l . ?x ?l ?y . ?x != ?y => ?x sameAs ?y
cls-int1  ?k intersectionOf ?l . ?l cell ?c . ?c rest nil . ?c first ?m . ?y type ?m => ?y allOf ?c
cls-int1  ?k intersectionOf ?l . ?l cell ?c . ?c rest ?d . ?c first ?m . ?y allOf ?d . ?y type ?m \
          => ?y allOf ?c
cls-int1  ?k intersectionOf ?l . ?y allOf ?l => ?y type ?k
cls-svf1  ?r someValuesFrom ?c . ?r onProperty ?p . ?u ?p ?v . ?v type ?c => ?u type ?r
cls-svf2  ?r someValuesFrom Thing . ?r onProperty ?p . ?u ?p ?v => ?u type ?r
cls-avf   ?r allValuesFrom ?c . ?r onProperty ?p . ?u type ?r . ?u ?p ?v => ?v type ?c
cls-hv1   ?r hasValue ?y . ?r onProperty ?p . ?u type ?r => ?u ?p ?y
cls-hv2   ?r hasValue ?y . ?r onProperty ?p . ?u ?p ?y => ?u type ?r
cls-maxc2  ?r maxCardinality ?n . ?n is one . ?r onProperty ?p . ?u type ?r . ?u ?p ?y . \
           ?u ?p ?z . ?y != ?z => ?y sameAs ?z
cls-maxqc3  ?r maxQualifiedCardinality ?n . ?n is one . ?r onProperty ?p . ?r onClass ?c . \
            ?u type ?r . ?u ?p ?y . ?y type ?c . ?u ?p ?z . ?z type ?c . ?y != ?z => ?y sameAs ?z
cls-maxqc4  ?r maxQualifiedCardinality ?n . ?n is one . ?r onProperty ?p . ?r onClass Thing . \
            ?u type ?r . ?u ?p ?y . ?u ?p ?z . ?y != ?z => ?y sameAs ?z
cls-oo    ?c oneOf ?l . ?l listed ?y => ?y type ?c
cax-sco   ?c subClassOf ?d . ?x type ?c => ?x type ?d
"""
"""From what is known of things to more of it."""

TRANSITIVE = """
scm-sco   ?a subClassOf ?b . ?b subClassOf ?c => ?a subClassOf ?c
scm-spo   ?p subPropertyOf ?q . ?q subPropertyOf ?r => ?p subPropertyOf ?r
prp-trp   ?p type TransitiveProperty . ?x ?p ?y . ?y ?p ?z => ?x ?p ?z
"""
"""Those that the closure does by walking (`facts.py`)."""

EQUALITY = """
eq-ref    ?x differentFrom ?y => ?x sameAs ?x
eq-ref    ?c first ?x => ?x sameAs ?x
eq-sym    ?x sameAs ?y => ?y sameAs ?x
eq-trans  ?x sameAs ?y . ?y sameAs ?z => ?x sameAs ?z
eq-rep-s  ?x sameAs ?y . ?x ?p ?o => ?y ?p ?o
eq-rep-p  ?p sameAs ?q . ?x ?p ?y => ?x ?q ?y
eq-rep-o  ?x sameAs ?y . ?s ?p ?x => ?s ?p ?y
"""
"""Those that the closure does by giving equal nodes one number (`facts.py`)."""

CLASHES = """
eq-diff1  ?x sameAs ?y . ?x differentFrom ?y => false
eq-diff2  ?d type AllDifferent . ?d members ?l . ?l cell ?a . ?l cell ?b . ?a != ?b . \
          ?a first ?x . ?b first ?y . ?x sameAs ?y => false
eq-diff3  ?d type AllDifferent . ?d distinctMembers ?l . ?l cell ?a . ?l cell ?b . ?a != ?b . \
          ?a first ?x . ?b first ?y . ?x sameAs ?y => false
prp-irp   ?p type IrreflexiveProperty . ?x ?p ?x => false
prp-asyp  ?p type AsymmetricProperty . ?x ?p ?y . ?y ?p ?x => false
prp-pdw   ?p propertyDisjointWith ?q . ?x ?p ?y . ?x ?q ?y => false
prp-adp   ?d type AllDisjointProperties . ?d members ?l . ?l cell ?a . ?l cell ?b . ?a != ?b . \
          ?a first ?p . ?b first ?q . ?x ?p ?y . ?x ?q ?y => false
prp-npa1  ?n sourceIndividual ?x . ?n assertionProperty ?p . ?n targetIndividual ?y . ?x ?p ?y \
          => false
prp-npa2  ?n sourceIndividual ?x . ?n assertionProperty ?p . ?n targetValue ?y . ?x ?p ?y => false
cls-nothing2  ?x type Nothing => false
cls-com   ?c complementOf ?d . ?x type ?c . ?x type ?d => false
cls-maxc1  ?r maxCardinality ?n . ?n is zero . ?r onProperty ?p . ?x type ?r . ?x ?p ?y => false
cls-maxqc1  ?r maxQualifiedCardinality ?n . ?n is zero . ?r onProperty ?p . ?r onClass ?c . \
            ?x type ?r . ?x ?p ?y . ?y type ?c => false
cls-maxqc2  ?r maxQualifiedCardinality ?n . ?n is zero . ?r onProperty ?p . ?r onClass Thing . \
            ?x type ?r . ?x ?p ?y => false
cax-dw    ?c disjointWith ?d . ?x type ?c . ?x type ?d => false
cax-adc   ?e type AllDisjointClasses . ?e members ?l . ?l cell ?a . ?l cell ?b . ?a != ?b . \
          ?a first ?c . ?b first ?d . ?x type ?c . ?x type ?d => false
dt-diff   ?x unlike ?y => false
"""
"""Rules that find contradictions."""


@cache
def rules(text: str) -> tuple[Rule, ...]:
    """The rules of one of the tables above."""
    return tuple(_rule(line) for line in text.splitlines() if line)


def _rule(line: str) -> Rule:
    name, rest = line.split(None, 1)
    before, after = rest.split("=>")
    variables: dict[str, int] = {}

    def number(word: str) -> int:
        return (
            variables.setdefault(word, -1 - len(variables)) if word.startswith("?") else NAMES[word]
        )

    premises = [part.split() for part in before.split(" . ")]
    body = tuple((number(s), number(p), number(o)) for s, p, o in premises if p != "!=")
    unequal = tuple((number(a), number(b)) for a, p, b in premises if p == "!=")
    concluded = [] if after.strip() == "false" else [part.split() for part in after.split(" . ")]
    heads = tuple((number(s), number(p), number(o)) for s, p, o in concluded)
    return Rule(name=name, body=body, heads=heads, unequal=unequal)
