"""The words of RDF, RDFS, OWL and SWRL that the rules are about, each with its number.

They are the first nodes of every closure.
"""

from __future__ import annotations

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.standard_vocabularies import OWL, RDF, RDFS, SWRL

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple

_SPACES = (
    (RDF, "type first rest nil"),
    (RDFS, "subClassOf subPropertyOf domain range"),
    (
        OWL,
        (
            "sameAs differentFrom equivalentClass equivalentProperty inverseOf "
            "intersectionOf unionOf oneOf complementOf disjointWith "
            "propertyDisjointWith propertyChainAxiom hasKey onProperty someValuesFrom "
            "allValuesFrom hasValue maxCardinality "
            "maxQualifiedCardinality onClass members distinctMembers sourceIndividual "
            "assertionProperty targetIndividual targetValue "
            "FunctionalProperty InverseFunctionalProperty TransitiveProperty "
            "SymmetricProperty AsymmetricProperty IrreflexiveProperty "
            "AllDifferent AllDisjointClasses AllDisjointProperties Thing Nothing"
        ),
    ),
    (
        SWRL,
        (
            "Imp Variable body head ClassAtom IndividualPropertyAtom DatavaluedPropertyAtom "
            "BuiltinAtom SameIndividualAtom DifferentIndividualsAtom DataRangeAtom "
            "classPredicate propertyPredicate builtin argument1 argument2 arguments"
        ),
    ),
)
_OURS = "urn:fedkg:reasoning:"
_HIDDEN = "cell listed allOf is zero one unlike"
"""Words of our own, which never leave a closure: ``l cell c`` (c is a cell of the list l), ``l
listed m`` (m is a member), ``y allOf c`` (y is of every class in the list from cell c on), ``n is
zero``, ``n is one`` (a literal's value), ``a unlike b`` (literals with two values that would have
to be one). A list's cell serves as a property too: ``u c v`` joins the ends of a path along a chain
from that cell on."""

NAMES: dict[str, int] = {}
WORDS: list[ox.NamedNode] = []
for _space, _names in (*_SPACES, (_OURS, _HIDDEN)):
    for _name in _names.split():
        NAMES[_name] = len(WORDS)
        WORDS.append(ox.NamedNode(_space + _name))
HIDDEN = frozenset(NAMES[name] for name in _HIDDEN.split())

TYPE, FIRST, REST, NIL = (NAMES[name] for name in ("type", "first", "rest", "nil"))
SUB_CLASS, SUB_PROPERTY, SAME = (NAMES[name] for name in ("subClassOf", "subPropertyOf", "sameAs"))
TRANSITIVE = NAMES["TransitiveProperty"]
CELL, LISTED, IS, ZERO, ONE, UNLIKE = (
    NAMES[name] for name in ("cell", "listed", "is", "zero", "one", "unlike")
)
WITH_LISTS = frozenset(
    NAMES[name]
    for name in (
        "intersectionOf",
        "unionOf",
        "oneOf",
        "propertyChainAxiom",
        "hasKey",
        "members",
        "distinctMembers",
        "first",
        "rest",
    )
)
"""Properties with lists as objects, and the properties of list cells."""
WITH_COUNTS = frozenset(NAMES[name] for name in ("maxCardinality", "maxQualifiedCardinality"))
