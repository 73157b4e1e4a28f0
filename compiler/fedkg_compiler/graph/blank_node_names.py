"""Names for blank nodes that depend on their triples alone: not on the file, the order of its
triples, or the store.

Connected blank nodes are named together. A single node is named by a digest of its triples. In a
tree, the digest of each node includes the digests of its children, and then the name of its parent.
If nodes form cycles or share others, the digests of the neighbours refine each digest until no more
nodes become distinct (colour refinement); then one of the remaining equal nodes is marked, and
refinement continues. Nodes that nothing distinguishes (`[ :v 3 ]` twice of one subject) are
numbered in any order, because they can be exchanged.

Two graphs that differ in the labels of blank nodes alone get the same names, but for circles that
are alike without being exchangeable (strongly regular graphs), and circles beyond `_MOST_STEPS`:
their names follow the order of the triples.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

import pyoxigraph as ox

from fedkg_compiler.graph.standard_vocabularies import RDF, XSD

_MOST_STEPS = 500_000
"""Triples between nodes in circles that are looked at, again and again, for all of one graph;
beyond, the order of the triples decides."""

_TEXTS = frozenset({ox.NamedNode(XSD + "string"), ox.NamedNode(RDF + "langString")})
_ANY = ox.NamedNode("n:p")
_DEFAULT = ox.DefaultGraph()

Arc = tuple[str, str]
"""An edge of a blank node: its direction and property, and its other end (a term as text, or a
blank node's label)."""


class _Arcs:
    """The edges of each blank node.

    Attributes:
        plain: for each blank node, the edges that join it to named nodes and literals, as text.
        below: for each blank node, the blank nodes that are objects of its triples.
        above: for each blank node, the blank nodes that have it as an object.
    """

    def __init__(self, quads: Iterable[ox.Quad]) -> None:
        self.plain: dict[str, list[str]] = {}
        self.below: dict[str, list[Arc]] = defaultdict(list)
        self.above: dict[str, list[Arc]] = defaultdict(list)
        for quad in dict.fromkeys(quads):
            predicate = quad.predicate.value
            match quad.subject, quad.object:
                case ox.BlankNode() as subject, ox.BlankNode() as value:
                    self.below[subject.value].append((predicate, value.value))
                    self.above[value.value].append((predicate, subject.value))
                    self.plain.setdefault(subject.value, [])
                    self.plain.setdefault(value.value, [])
                case ox.BlankNode() as subject, value:
                    self.plain.setdefault(subject.value, []).append(f">{predicate} {value}")
                case subject, ox.BlankNode() as value:
                    self.plain.setdefault(value.value, []).append(f"<{predicate} {subject}")
        self.digests = {label: _digest(sorted(set(said))) for label, said in self.plain.items()}


def names_by_content(quads: Iterable[ox.Quad]) -> dict[str, str]:
    """Return the name of each blank node of these triples, by its label.

    Names are ``b`` and hexadecimal digits, twins' with a number.
    """
    arcs = _Arcs(quads)
    names, steps = _Names(), _MOST_STEPS
    for members in sorted(
        _connected_groups(arcs), key=lambda found: sorted(arcs.digests[label] for label in found)
    ):
        if len(members) == 1 and not arcs.below.get(members[0]):
            names.give(members[0], arcs.digests[members[0]])
        elif (
            all(len(arcs.above.get(label, ())) <= 1 for label in members)
            and sum(label not in arcs.above for label in members) == 1
        ):
            _name_tree(members, arcs, names)
        else:
            steps = _name_circles(members, arcs, names, steps)
    return names.given


def renamed(quads: Iterable[ox.Quad], names: dict[str, str]) -> list[ox.Quad]:
    """Return the triples with these names of blank nodes, in the default graph."""
    nodes = {label: ox.BlankNode(name) for label, name in names.items()}
    found: list[ox.Quad] = []
    for quad in quads:
        subject, value = quad.subject, quad.object
        blank = False
        if isinstance(subject, ox.BlankNode):
            blank, subject = True, nodes[subject.value]
        if isinstance(value, ox.BlankNode):
            blank, value = True, nodes[value.value]
        found.append(
            ox.Quad(subject, quad.predicate, value)
            if blank or quad.graph_name != _DEFAULT
            else quad
        )
    return found


def as_kept(quads: Sequence[ox.Quad]) -> Sequence[ox.Quad]:
    """Return the triples with their literals as a store keeps them: ``4.50`` and ``04.5`` are
    ``4.5``, as in every answer of a query.
    """
    objects = {quad.object for quad in quads}
    literals = [
        node for node in objects if isinstance(node, ox.Literal) and node.datatype not in _TEXTS
    ]
    store = ox.Store()
    store.extend(
        ox.Quad(ox.NamedNode(f"n:{number}"), _ANY, literal)
        for number, literal in enumerate(literals)
    )
    kept = {
        literals[int(quad.subject.value[2:])]: quad.object
        for quad in store
        if isinstance(quad.subject, ox.NamedNode)
    }
    changed: dict[object, ox.Literal] = {
        one: other for one, other in kept.items() if isinstance(other, ox.Literal) and one != other
    }
    if not changed:
        return quads
    return [
        ox.Quad(quad.subject, quad.predicate, changed[quad.object])
        if quad.object in changed
        else quad
        for quad in quads
    ]


class _Names:
    """The names that were given, and how often each digest was."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}
        self._twins: dict[str, int] = defaultdict(int)

    def give(self, label: str, digest: str) -> str:
        number = self._twins[digest]
        self._twins[digest] += 1
        name = self.given[label] = f"b{digest}n{number}" if number else f"b{digest}"
        return name


def _digest(parts: Sequence[str]) -> str:
    return hashlib.blake2b(
        "\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=8
    ).hexdigest()


def _connected_groups(arcs: _Arcs) -> list[list[str]]:
    """The blank nodes in groups that hang together."""
    groups: list[list[str]] = []
    seen: set[str] = set()
    for start in arcs.plain:
        if start in seen:
            continue
        seen.add(start)
        group = [start]
        for label in group:  # grows while it is read
            for _, other in (*arcs.below.get(label, ()), *arcs.above.get(label, ())):
                if other not in seen:
                    seen.add(other)
                    group.append(other)
        groups.append(group)
    return groups


def _name_tree(members: Sequence[str], arcs: _Arcs, names: _Names) -> None:
    """Name the nodes of a tree: digests from the leaves upwards, then names from the root
    downwards.
    """
    order = [label for label in members if label not in arcs.above]
    for label in order:  # grows while it is read
        order += [other for _, other in arcs.below.get(label, ())]
    whole: dict[str, str] = {}
    for label in reversed(order):
        whole[label] = _digest(
            [
                arcs.digests[label],
                *sorted(f"{step} {whole[other]}" for step, other in arcs.below.get(label, ())),
            ]
        )
    names.give(order[0], whole[order[0]])
    for label in order:
        name = names.given[label]
        for step, other in sorted(
            arcs.below.get(label, ()), key=lambda arc: (arc[0], whole[arc[1]])
        ):
            names.give(other, _digest([name, step, whole[other]]))


def _name_circles(members: Sequence[str], arcs: _Arcs, names: _Names, steps: int) -> int:
    """Name nodes that form circles or share others; return how many steps may still be made."""
    colours = {label: arcs.digests[label] for label in members}
    cost = sum(2 * len(arcs.below.get(label, ())) for label in members)
    while True:
        kinds = len(set(colours.values()))
        while steps > 0:
            steps -= cost
            colours = {label: _refined(label, colours, arcs) for label in members}
            if kinds == (kinds := len(set(colours.values()))):
                break
        if kinds == len(members) or steps <= 0:
            break
        alike: dict[str, list[str]] = defaultdict(list)
        for label in members:
            alike[colours[label]].append(label)
        first = alike[min(colour for colour, found in alike.items() if len(found) > 1)][0]
        colours[first] = _digest([colours[first], "marked"])
    whole = _digest(sorted(colours.values()))
    # equal copies of the whole are distinguished as wholes
    stamp = names.give(f"\n{members[0]}", whole)
    del names.given[f"\n{members[0]}"]
    for label in sorted(members, key=lambda one: colours[one]):
        names.give(label, _digest([stamp, colours[label]]))
    return steps


def _refined(label: str, colours: dict[str, str], arcs: _Arcs) -> str:
    below = sorted(f">{step} {colours[other]}" for step, other in arcs.below.get(label, ()))
    above = sorted(f"<{step} {colours[other]}" for step, other in arcs.above.get(label, ()))
    return _digest([colours[label], *below, *above])
