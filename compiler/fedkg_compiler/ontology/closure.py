"""Forward closure of triples under RDFS and the parts of OWL that hierarchies live by.

Rules (W3C RDF 1.1 Semantics 2014, section 9.2, and OWL 2 Profiles 2012, section 4.3, named as there):

- rdfs5, rdfs11 (transitive subPropertyOf, subClassOf), rdfs7 and rdfs9 (a triple and a type are inherited), rdfs2 and rdfs3 (domain,
  range);
- scm-eqc1, scm-eqp1 (equivalentClass, equivalentProperty are both directions), scm-int and scm-uni (intersectionOf, unionOf);
- prp-inv1, prp-inv2 (inverseOf), prp-symp (SymmetricProperty), prp-trp (TransitiveProperty).

Two departures: what would be said of an anonymous class (its members, its place below another) is passed on but not written,
and no class or property is written below itself. Schema triples that follow from data are taken up by a further turn.

No rule makes a new node, so that nodes are numbered once, and the pairs that a property joins are an array of numbers (`pairs.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyoxigraph as ox

from fedkg_compiler.ontology import pairs as relation
from fedkg_compiler.ontology.pairs import NONE, Nodes, Pairs, TooManyPairs, ends, grouped, joined, of, turned, without, without_self
from fedkg_compiler.ontology.standard import OWL, RDF, RDFS

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple

TYPE = ox.NamedNode(RDF + "type")
SUB_CLASS = ox.NamedNode(RDFS + "subClassOf")
SUB_PROPERTY = ox.NamedNode(RDFS + "subPropertyOf")
DOMAIN = ox.NamedNode(RDFS + "domain")
RANGE = ox.NamedNode(RDFS + "range")
INVERSE = ox.NamedNode(OWL + "inverseOf")
SAME_CLASS = ox.NamedNode(OWL + "equivalentClass")
SAME_PROPERTY = ox.NamedNode(OWL + "equivalentProperty")
INTERSECTION = ox.NamedNode(OWL + "intersectionOf")
UNION = ox.NamedNode(OWL + "unionOf")
FIRST = ox.NamedNode(RDF + "first")
REST = ox.NamedNode(RDF + "rest")
NIL = ox.NamedNode(RDF + "nil")
TRANSITIVE = ox.NamedNode(OWL + "TransitiveProperty")
SYMMETRIC = ox.NamedNode(OWL + "SymmetricProperty")
_CLASS_WORDS = (TYPE, SUB_CLASS, SAME_CLASS, INTERSECTION, UNION, FIRST, REST, NIL)
_PROPERTY_WORDS = (SUB_PROPERTY, SAME_PROPERTY, DOMAIN, RANGE, INVERSE, TRANSITIVE, SYMMETRIC)
_NUMBER: dict[Node, int] = {node: i for i, node in enumerate((*_CLASS_WORDS, *_PROPERTY_WORDS))}


class TooLarge(Exception):
    """More than `fedkg_compiler.ontology.pairs.LIMIT` triples follow.

    Attributes:
        property: the one of which there are too many.
    """

    def __init__(self, property: ox.NamedNode) -> None:
        super().__init__(property.value)
        self.property = property


@dataclass(slots=True)
class _Facts:
    """Everything that is known, in numbers.

    Attributes:
        nodes: by number; those of `_NUMBER` first. pairs: by the number of the property.
        named, sayable: [n], which nodes are IRIs, and which can be subjects. told: how many triples there were.
    """

    nodes: list[Node]
    pairs: dict[int, Pairs]
    named: npt.NDArray[np.bool_]
    sayable: npt.NDArray[np.bool_]
    told: int

    def of(self, word: ox.NamedNode) -> Pairs:
        """The pairs that one of the words of RDFS and OWL joins."""
        return self.pairs.get(_NUMBER[word], NONE)

    def typed(self, word: ox.NamedNode) -> Nodes:
        """The nodes of one of the types of OWL."""
        members, types = ends(self.of(TYPE), len(self.nodes))
        return np.compress(types == _NUMBER[word], members)

    def add(self, predicate: int, pairs: Pairs) -> None:
        """Take up further pairs of a property. Raises TooLarge."""
        self.pairs[predicate] = joined(self.pairs.get(predicate, NONE), pairs)
        if sum(known.size for known in self.pairs.values()) > self.told + relation.LIMIT:
            raise self.too_large(predicate)

    def reach(self, pairs: Pairs, predicate: int) -> Pairs:
        """The transitive closure of pairs of a property. Raises TooLarge."""
        try:
            return relation.reach(pairs, len(self.nodes))
        except TooManyPairs:
            raise self.too_large(predicate) from None

    def composed(self, first: Pairs, second: Pairs, predicate: int) -> Pairs:
        """The pairs of a property that come about by two steps. Raises TooLarge."""
        try:
            return relation.composed(first, second, len(self.nodes))
        except TooManyPairs:
            raise self.too_large(predicate) from None

    def too_large(self, predicate: int) -> TooLarge:
        """What is raised for a property with too many pairs."""
        node = self.nodes[predicate]
        assert isinstance(node, ox.NamedNode)
        return TooLarge(node)


@dataclass(frozen=True, slots=True)
class _Schema:
    """What the facts say about classes and properties; the pairs below/above are closed, and hold no node above itself."""

    classes: Pairs
    properties: Pairs
    inverses: Pairs
    transitive: frozenset[int]


def follows(triples: Sequence[ox.Quad]) -> list[ox.Quad]:
    """Return everything that follows from these triples by the rules above, without themselves; each once, in no order of note.

    Raises:
        TooLarge: that is more than fits in memory.
    """
    facts = _numbered(triples)
    known = dict(facts.pairs)
    count = -1
    while count != (count := sum(pairs.size for pairs in facts.pairs.values())):
        _turn(facts)
    return [
        quad for predicate, pairs in facts.pairs.items() for quad in _quads(facts, predicate, without(pairs, known.get(predicate, NONE)))
    ]


def _numbered(triples: Sequence[ox.Quad]) -> _Facts:
    numbers: dict[Node, int] = dict(_NUMBER)
    columns: dict[Node, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for quad in triples:
        left, right = columns[quad.predicate]
        left.append(numbers.setdefault(quad.subject, len(numbers)))
        right.append(numbers.setdefault(quad.object, len(numbers)))
    for predicate in columns:
        numbers.setdefault(predicate, len(numbers))
    nodes, n = list(numbers), len(numbers)
    return _Facts(
        nodes,
        {numbers[node]: of(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64), n) for node, (left, right) in columns.items()},
        np.fromiter((isinstance(node, ox.NamedNode) for node in nodes), dtype=np.bool_, count=n),
        np.fromiter((isinstance(node, ox.NamedNode | ox.BlankNode) for node in nodes), dtype=np.bool_, count=n),
        told=len(triples),
    )


def _turn(facts: _Facts) -> None:
    """Apply every rule once: first those about properties, to their fixpoint, then those about classes."""
    schema = _schema(facts)
    _inherit_triples(facts, schema)
    for word, pairs in ((SUB_CLASS, schema.classes), (SUB_PROPERTY, schema.properties)):
        left, right = ends(pairs, len(facts.nodes))
        facts.add(_NUMBER[word], pairs[facts.named[left] & facts.named[right]])
    _inherit_types(facts, schema)


def _schema(facts: _Facts) -> _Schema:
    """The hierarchies and the properties' characters as they are known now."""
    n = len(facts.nodes)
    same_class, same_property, inverse = facts.of(SAME_CLASS), facts.of(SAME_PROPERTY), facts.of(INVERSE)
    parts, whole = _members(facts, facts.of(INTERSECTION)), _members(facts, facts.of(UNION))
    symmetric = facts.typed(SYMMETRIC)
    classes = joined(facts.of(SUB_CLASS), same_class, turned(same_class, n), parts, turned(whole, n))
    properties = joined(facts.of(SUB_PROPERTY), same_property, turned(same_property, n))
    return _Schema(
        classes=without_self(facts.reach(classes, _NUMBER[SUB_CLASS]), n),
        properties=without_self(facts.reach(properties, _NUMBER[SUB_PROPERTY]), n),
        inverses=joined(inverse, turned(inverse, n), of(symmetric, symmetric, n)),
        transitive=frozenset(facts.typed(TRANSITIVE).tolist()),
    )


def _members(facts: _Facts, heads: Pairs) -> Pairs:
    """The members of the lists of which these nodes have the heads; a list that runs in a circle ends where it began."""
    n = len(facts.nodes)
    firsts, rests = grouped(facts.of(FIRST), n), grouped(facts.of(REST), n)
    found: list[tuple[int, int]] = []
    for owner, head in zip(*(side.tolist() for side in ends(heads, n)), strict=True):
        seen: set[int] = set()
        while head != _NUMBER[NIL] and head not in seen:
            seen.add(head)
            found += [(owner, member) for member in firsts.get(head, ())]
            head = next(iter(rests.get(head, ())), _NUMBER[NIL])
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    return of(pairs[:, 0], pairs[:, 1], n)


def _inherit_triples(facts: _Facts, schema: _Schema) -> None:
    """Take up the triples by rdfs7, inverse, symmetric and transitive properties, to their fixpoint."""
    n = len(facts.nodes)
    above, inverses = grouped(schema.properties, n), grouped(schema.inverses, n)
    fresh = {node: facts.pairs[node] for node in {*above, *inverses, *schema.transitive} if node in facts.pairs}
    while fresh:
        node, pairs = fresh.popitem()
        if node in schema.transitive:
            new = _sayable(without(facts.reach(facts.pairs[node], node), facts.pairs[node]), node, n)
            facts.add(node, new)
            pairs = joined(_sayable(pairs, node, n), new)
        back = turned(pairs[facts.sayable[pairs % n]], n)
        for others, told in ((above, pairs), (inverses, back)):
            for other in others.get(node, ()):
                new = without(_sayable(told, other, n), facts.pairs.get(other, NONE))
                if new.size and facts.named[other]:
                    facts.add(other, new)
                    fresh[other] = joined(fresh.get(other, NONE), new)


def _sayable(pairs: Pairs, predicate: int, n: int) -> Pairs:
    """The pairs without those that would put a class or property below itself."""
    return without_self(pairs, n) if predicate in (_NUMBER[SUB_CLASS], _NUMBER[SUB_PROPERTY]) else pairs


def _inherit_types(facts: _Facts, schema: _Schema) -> None:
    """Take up the types by domain, range and rdfs9."""
    n = len(facts.nodes)
    types = [facts.of(TYPE)]
    for word, side in ((DOMAIN, 0), (RANGE, 1)):
        classes = facts.of(word)
        used = [(node, facts.pairs[node]) for node in set((classes // n).tolist()) if node in facts.pairs]
        members = np.concatenate([NONE, *(ends(pairs, n)[side] for _, pairs in used)])
        properties = np.repeat(np.array([node for node, _ in used], dtype=np.int64), [pairs.size for _, pairs in used])
        can = facts.sayable[members]
        types.append(facts.composed(of(members[can], properties[can], n), classes, _NUMBER[TYPE]))
    told = joined(*types)
    told = joined(told, facts.composed(told, schema.classes, _NUMBER[TYPE]))
    facts.add(_NUMBER[TYPE], told[facts.named[told % n]])


def _quads(facts: _Facts, predicate: int, pairs: Pairs) -> list[ox.Quad]:
    node, nodes = facts.nodes[predicate], facts.nodes
    assert isinstance(node, ox.NamedNode)
    left, right = ends(pairs, len(nodes))
    return [ox.Quad(nodes[i], node, nodes[j]) for i, j in zip(left.tolist(), right.tolist(), strict=True)]
