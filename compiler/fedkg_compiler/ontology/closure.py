"""Forward closure of a store under RDFS and the parts of OWL that hierarchies live by, written back into the store.

Rules (W3C RDF 1.1 Semantics 2014, section 9.2, and OWL 2 Profiles 2012, section 4.3, named as there):

- rdfs5, rdfs11 (transitive subPropertyOf, subClassOf), rdfs7 and rdfs9 (a triple and a type are inherited), rdfs2 and rdfs3 (domain,
  range);
- scm-eqc1, scm-eqp1 (equivalentClass, equivalentProperty are both directions), scm-int and scm-uni (intersectionOf, unionOf);
- prp-inv1, prp-inv2 (inverseOf), prp-symp (SymmetricProperty), prp-trp (TransitiveProperty).

Two departures: what would be said of an anonymous class (its members, its place below another) is passed on but not written,
and no class or property is written below itself. Schema triples that follow from data are taken up by a further turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import pyoxigraph as ox

from fedkg_compiler.ontology.standard import OWL, RDF, RDFS

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
Pairs = set[tuple[Node, Node]]

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

_SCHEMA = {SUB_CLASS, SUB_PROPERTY, DOMAIN, RANGE, INVERSE, SAME_CLASS, SAME_PROPERTY, INTERSECTION, UNION, FIRST, REST}
_SCHEMA_TYPES = {TRANSITIVE, SYMMETRIC}


@dataclass(slots=True)
class Schema:
    """What the store says about its classes and properties; `above` maps are closed, and hold no node above itself."""

    classes_above: dict[Node, set[Node]] = field(default_factory=dict)
    properties_above: dict[Node, set[Node]] = field(default_factory=dict)
    domains: dict[Node, set[Node]] = field(default_factory=dict)
    ranges: dict[Node, set[Node]] = field(default_factory=dict)
    inverses: dict[Node, set[Node]] = field(default_factory=dict)
    transitive: set[Node] = field(default_factory=set)


def close(store: ox.Store) -> int:
    """Add to `store` everything that follows by the rules above; return how many triples were added."""
    before = len(store)
    while True:
        schema = read_schema(store)
        added = _property_triples(store, schema)
        store.extend(added)
        fresh = _schema_triples(store, schema) + _type_triples(store, schema)
        store.extend(fresh)
        lively = {*schema.properties_above, *schema.inverses, *schema.transitive}
        if not any(_new_to(schema, quad) for quad in (*added, *fresh)) and not any(quad.predicate in lively for quad in fresh):
            return len(store) - before


def read_schema(store: ox.Store) -> Schema:
    """Return the hierarchy and the properties' characters as the store has them now."""
    below_class = _pairs(store, SUB_CLASS) | _both_ways(_pairs(store, SAME_CLASS))
    for owner, head in _pairs(store, INTERSECTION):
        below_class |= {(owner, member) for member in _members(store, head)}
    for owner, head in _pairs(store, UNION):
        below_class |= {(member, owner) for member in _members(store, head)}
    below_property = _pairs(store, SUB_PROPERTY) | _both_ways(_pairs(store, SAME_PROPERTY))
    inverses = _both_ways(_pairs(store, INVERSE)) | {(node, node) for node in _typed(store, SYMMETRIC)}
    return Schema(
        classes_above=_reach(below_class),
        properties_above=_reach(below_property),
        domains=_grouped(_pairs(store, DOMAIN)),
        ranges=_grouped(_pairs(store, RANGE)),
        inverses=_grouped(inverses),
        transitive=_typed(store, TRANSITIVE),
    )


def _pairs(store: ox.Store, predicate: ox.NamedNode) -> Pairs:
    return {(quad.subject, quad.object) for quad in store.quads_for_pattern(None, predicate, None)}


def _typed(store: ox.Store, kind: ox.NamedNode) -> set[Node]:
    return {quad.subject for quad in store.quads_for_pattern(None, TYPE, kind)}


def _both_ways(pairs: Pairs) -> Pairs:
    return pairs | {(right, left) for left, right in pairs}


def _members(store: ox.Store, head: Node) -> list[Node]:
    """Return the members of an RDF list; a list that runs in a circle ends where it began."""
    members: list[Node] = []
    seen: set[Node] = set()
    while head != NIL and head not in seen and not isinstance(head, ox.Literal):
        seen.add(head)
        members += [quad.object for quad in store.quads_for_pattern(head, FIRST, None)]
        rest = [quad.object for quad in store.quads_for_pattern(head, REST, None)]
        if not rest:
            break
        head = rest[0]
    return members


def _grouped(pairs: Iterable[tuple[Node, Node]]) -> dict[Node, set[Node]]:
    grouped: dict[Node, set[Node]] = defaultdict(set)
    for left, right in pairs:
        grouped[left].add(right)
    return dict(grouped)


def _reach(pairs: Iterable[tuple[Node, Node]]) -> dict[Node, set[Node]]:
    """Return for every node all others that it reaches; circles reach each other, but no node itself."""
    steps = _grouped(pairs)
    reached: dict[Node, set[Node]] = {}
    for start in steps:
        found: set[Node] = set()
        waiting = list(steps[start])
        while waiting:
            node = waiting.pop()
            if node not in found:
                found.add(node)
                waiting += steps.get(node, ())
        found.discard(start)
        reached[start] = found
    return reached


def _property_triples(store: ox.Store, schema: Schema) -> list[ox.Quad]:
    """Return the new triples by rdfs7, inverse, symmetric and transitive properties, to their fixpoint."""
    targets = {node for above in schema.properties_above.values() for node in above} | {
        n for found in schema.inverses.values() for n in found
    }
    active = {node for node in {*schema.properties_above, *schema.inverses, *schema.transitive, *targets} if isinstance(node, ox.NamedNode)}
    known: dict[Node, Pairs] = {node: _pairs(store, node) for node in active}
    original = {node: set(pairs) for node, pairs in known.items()}
    fresh: dict[Node, Pairs] = {node: set(pairs) for node, pairs in known.items() if pairs}
    while fresh:
        node, pairs = fresh.popitem()
        if node in schema.transitive:
            pairs = _sayable(node, pairs | _extended(known[node], pairs))
            known[node] |= pairs
        for above in schema.properties_above.get(node, ()):
            _push(above, pairs, known, fresh)
        turned: Pairs = {(right, left) for left, right in pairs if not isinstance(right, ox.Literal)}
        for other in schema.inverses.get(node, ()):
            _push(other, turned, known, fresh)
    return [quad for node, pairs in known.items() for quad in _quads(pairs - original[node], node)]


def _push(node: Node, pairs: Pairs, known: dict[Node, Pairs], fresh: dict[Node, Pairs]) -> None:
    if node in known:
        new = _sayable(node, pairs) - known[node]
        if new:
            known[node] |= new
            fresh.setdefault(node, set()).update(new)


def _sayable(node: Node, pairs: Pairs) -> Pairs:
    """Return the pairs without those that would put a class or property below itself."""
    return {(left, right) for left, right in pairs if left != right} if node in (SUB_CLASS, SUB_PROPERTY) else pairs


def _extended(pairs: Pairs, fresh: Pairs) -> Pairs:
    """Return the pairs that transitivity adds to `pairs`, of which `fresh` are those not yet joined with the others."""
    right_of, left_of = _grouped(pairs), _grouped((right, left) for left, right in pairs)
    known, added, waiting = set(pairs), set[tuple[Node, Node]](), list(fresh)
    while waiting:
        left, right = waiting.pop()
        joined = [(left, further) for further in right_of.get(right, ())] + [(nearer, right) for nearer in left_of.get(left, ())]
        for pair in joined:
            if pair not in known:
                known.add(pair)
                added.add(pair)
                waiting.append(pair)
                right_of.setdefault(pair[0], set()).add(pair[1])
                left_of.setdefault(pair[1], set()).add(pair[0])
    return added


def _quads(pairs: Iterable[tuple[Node, Node]], predicate: Node) -> list[ox.Quad]:
    """Return the pairs as triples, leaving out those that RDF cannot say: with a literal as subject."""
    assert isinstance(predicate, ox.NamedNode)
    return [ox.Quad(left, predicate, right) for left, right in pairs if not isinstance(left, ox.Literal)]


def _schema_triples(store: ox.Store, schema: Schema) -> list[ox.Quad]:
    """Return the new subClassOf and subPropertyOf triples between named nodes."""
    added: list[ox.Quad] = []
    for predicate, table in ((SUB_CLASS, schema.classes_above), (SUB_PROPERTY, schema.properties_above)):
        named = {
            (below, above)
            for below, found in table.items()
            if isinstance(below, ox.NamedNode)
            for above in found
            if isinstance(above, ox.NamedNode)
        }
        added += _quads(named - _pairs(store, predicate), predicate)
    return added


def _type_triples(store: ox.Store, schema: Schema) -> list[ox.Quad]:
    """Return the new types by domain, range and rdfs9."""
    asserted = _pairs(store, TYPE)
    types = {pair for pair in asserted if pair[1] in schema.classes_above}
    for table, end in ((schema.domains, 0), (schema.ranges, 1)):
        for node, classes in table.items():
            if isinstance(node, ox.NamedNode):
                ends = {pair[end] for pair in _pairs(store, node)}
                types |= {(member, kind) for member in ends if not isinstance(member, ox.Literal) for kind in classes}
    types |= {(member, above) for member, kind in types for above in schema.classes_above.get(kind, ())}
    return _quads({pair for pair in types - asserted if isinstance(pair[1], ox.NamedNode)}, TYPE)


def _new_to(schema: Schema, quad: ox.Quad) -> bool:
    """Tell whether a schema triple says something that `schema` does not already hold."""
    subject, value = quad.subject, quad.object
    match quad.predicate:
        case p if p == SUB_CLASS:
            return value not in schema.classes_above.get(subject, ()) and subject != value
        case p if p == SUB_PROPERTY:
            return value not in schema.properties_above.get(subject, ()) and subject != value
        case p if p == TYPE:
            return value in _SCHEMA_TYPES
        case p:
            return p in _SCHEMA
