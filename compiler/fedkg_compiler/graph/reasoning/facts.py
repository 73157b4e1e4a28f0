"""Everything that is known, in numbers: for each property the relation of the nodes that it joins,
with equal nodes under one number.

Letters: P pairs, n nodes. The pairs of a relation are ``left * SPAN + right``, ascending, each only
once: nodes that come later change no number, and a closure can be taken up where another one ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.reasoning.owl_vocabulary import (
    CELL,
    FIRST,
    IS,
    LISTED,
    NIL,
    ONE,
    REST,
    SAME,
    SUB_CLASS,
    SUB_PROPERTY,
    TRANSITIVE,
    TYPE,
    UNLIKE,
    WITH_COUNTS,
    WITH_LISTS,
    WORDS,
    ZERO,
    Node,
)
from fedkg_compiler.graph.reasoning.rule_table import Rule
from fedkg_compiler.graph.standard_vocabularies import UNIT

Pairs = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.int64]

NONE: Pairs = np.empty(0, dtype=np.int64)

SPAN = 1 << 31
"""More than there can be nodes."""

MOST_PAIRS = 5_000_000
"""The most pairs that are concluded: as triples in memory they take about 4 GB."""

_most: ContextVar[int] = ContextVar("_most", default=MOST_PAIRS)


class TooManyPairs(Exception):
    """A relation would have more than `most_pairs()` pairs."""


@contextmanager
def at_most_pairs(count: int) -> Iterator[None]:
    """Inside, at most `count` pairs are concluded, and never more than `MOST_PAIRS`."""
    token = _most.set(count)
    try:
        yield
    finally:
        _most.reset(token)


def most_pairs() -> int:
    """The most pairs that are concluded here."""
    return min(MOST_PAIRS, _most.get())


def make_pairs(left: Nodes, right: Nodes) -> Pairs:
    """The relation of these pairs. left, right: [P], or of shapes that go together."""
    return _each_once(left * SPAN + right)


def _each_once(pairs: Pairs) -> Pairs:
    """Sorted, without repetition.

    `np.unique` goes through a table of hashes first, which takes several times as long.
    """
    pairs = np.sort(pairs, axis=None)
    new = np.ones(pairs.size, dtype=np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=new[1:])  # `np.diff` takes five times as long for few
    return pairs[new]


def split(pairs: Pairs) -> tuple[Nodes, Nodes]:
    """The nodes on the left and on the right, [P] each."""
    return pairs >> 31, pairs & (SPAN - 1)


def joined(*relations: Pairs) -> Pairs:
    """The pairs of all."""
    return _each_once(np.concatenate([NONE, *relations]))


def without_self(pairs: Pairs) -> Pairs:
    """The pairs of two different nodes."""
    left, right = split(pairs)
    return np.compress(left != right, pairs)


def composed(first: Pairs, second: Pairs) -> Pairs:
    """The pairs (a, c) for which (a, b) is in the first relation and (b, c) in the second.

    Raises:
        TooManyPairs: there are too many (a, b, c) to be written down.
    """
    left, middle = split(first)
    begin, end = (
        np.searchsorted(second, middle * SPAN),
        np.searchsorted(second, (middle + 1) * SPAN),
    )
    counts = end - begin
    if (
        counts.sum() > 8 * most_pairs()
    ):  # as numbers they are small, and the same pair may come about in several ways
        raise TooManyPairs
    places = np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    return make_pairs(np.repeat(left, counts), second[places] & (SPAN - 1))


def transitive_closure(pairs: Pairs) -> Pairs:
    """The transitive closure: every node with all that it leads to, itself where it is on a circle.

    Raises:
        TooManyPairs: it has more than `most_pairs()` pairs.
    """
    steps: dict[int, list[int]] = defaultdict(list)
    for left, right in zip(*(side.tolist() for side in split(pairs)), strict=True):
        steps[left].append(right)
    reached: dict[int, set[int]] = {}
    count = 0
    for start, nexts in steps.items():
        found: set[int] = set()
        waiting = [*nexts]
        while waiting:
            node = waiting.pop()
            if node in found:
                continue
            found.add(node)
            if node in reached:
                found |= reached[node]
            else:
                waiting += steps.get(node, ())
        reached[start] = found
        count += len(found)
        if count > most_pairs():
            raise TooManyPairs
    return np.sort(
        np.fromiter(
            (start * SPAN + node for start, found in reached.items() for node in found),
            dtype=np.int64,
        )
    )


def grouped(pairs: Pairs) -> dict[int, list[int]]:
    """The right-hand nodes of each left-hand node."""
    found: dict[int, list[int]] = defaultdict(list)
    for left, right in zip(*(side.tolist() for side in split(pairs)), strict=True):
        found[left].append(right)
    return dict(found)


# The facts of a closure: relations between the nodes of a graph.

_IRI, _BLANK, _OTHER = 0, 1, 2
Relations = dict[int, Pairs]


class TooLarge(Exception):
    """More than `most_pairs()` triples follow.

    Attributes:
        property: the property with too many pairs.
        most: the number of triples that may follow.
    """

    def __init__(self, property: ox.NamedNode) -> None:
        super().__init__(property.value)
        self.property = property
        self.most = most_pairs()


def among(pairs: Pairs, known: Pairs) -> npt.NDArray[np.bool_]:
    """[P] which of the pairs are known; in proportion to the pairs, not to what is known."""
    if not known.size:
        return np.zeros(pairs.shape, dtype=np.bool_)
    places = np.searchsorted(known, pairs)
    found: npt.NDArray[np.bool_] = known[np.minimum(places, known.size - 1)] == pairs
    return found


@dataclass(slots=True)
class Facts:
    """All that is known so far.

    Attributes:
        nodes: the node of each number.
        numbers: the number of each node.
        kinds: int8 [n], whether each node is an IRI, a blank node, or neither.
        pairs: the pairs of each property, by its number; equal nodes share one number in them.
        one: int64 [n], for each node its number in `pairs`: its own, or that of the first node that
            is equal to it.
        merged: whether any nodes were found to be equal.
        concluded: the number of inferred pairs that were added.
        rules: the SWRL rules among the facts, with all their conclusions drawn.
    """

    nodes: list[Node] = field(default_factory=lambda: [*WORDS])
    numbers: dict[Node, int] = field(
        default_factory=lambda: {node: i for i, node in enumerate(WORDS)}
    )
    kinds: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(len(WORDS), dtype=np.int8))
    pairs: Relations = field(default_factory=dict)
    one: Nodes = field(default_factory=lambda: np.arange(len(WORDS)))
    merged: bool = False
    concluded: int = 0
    rules: tuple[Rule, ...] = ()
    _turned: Relations = field(default_factory=dict)

    def number(self, triples: Iterable[ox.Quad]) -> Relations:
        """The pairs of the triples by their properties; their nodes get numbers."""
        numbers = self.numbers
        columns: dict[Node, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for quad in triples:
            left, right = columns[quad.predicate]
            left.append(numbers.setdefault(quad.subject, len(numbers)))
            right.append(numbers.setdefault(quad.object, len(numbers)))
        for predicate in columns:
            numbers.setdefault(predicate, len(numbers))
        self.grow([*numbers][len(self.nodes) :])
        return {
            numbers[node]: make_pairs(
                np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)
            )
            for node, (left, right) in columns.items()
        }

    def grow(self, nodes: list[Node]) -> None:
        """Take up further nodes, which have their numbers."""
        kinds = (
            _IRI
            if isinstance(node, ox.NamedNode)
            else _BLANK
            if isinstance(node, ox.BlankNode)
            else _OTHER
            for node in nodes
        )
        self.one = np.concatenate(
            [self.one, np.arange(len(self.nodes), len(self.nodes) + len(nodes))]
        )
        self.kinds = np.concatenate(
            [self.kinds, np.fromiter(kinds, dtype=np.int8, count=len(nodes))]
        )
        self.nodes += nodes

    def copy(self) -> Facts:
        """The same, to go on with; arrays are shared, for none is ever changed."""
        return Facts(
            nodes=[*self.nodes],
            numbers=dict(self.numbers),
            kinds=self.kinds,
            pairs=dict(self.pairs),
            one=self.one,
            merged=self.merged,
            concluded=self.concluded,
            rules=self.rules,
            _turned=dict(self._turned),
        )

    def pairs_of(self, predicate: int) -> Pairs:
        """The pairs of a property."""
        return self.pairs.get(predicate, NONE)

    def turned(self, predicate: int) -> Pairs:
        """The pairs of a property the other way round; kept until there are more."""
        if predicate not in self._turned:
            left, right = split(self.pairs_of(predicate))
            self._turned[predicate] = np.sort(right * SPAN + left)
        return self._turned[predicate]

    def typed(self, kind: int) -> Nodes:
        """The nodes of a type, ascending."""
        types = self.turned(TYPE)
        return types[
            np.searchsorted(types, kind * SPAN) : np.searchsorted(types, (kind + 1) * SPAN)
        ] & (SPAN - 1)

    def absorb(self, new: Mapping[int, Pairs], *, told: bool = False) -> Relations:
        """Take up pairs, with what equality, transitivity, lists and counts make of them.

        Return what was not known before.

        Raises:
            TooLarge: there are too many.
        """
        waiting = self._canonical(new)
        fresh: dict[int, list[Pairs]] = defaultdict(list)
        while waiting:
            if SAME in waiting:
                waiting = self._join_equal(waiting.pop(SAME), waiting, fresh)
            walked = self._transitive(waiting)
            added = {}
            for predicate, pairs in waiting.items():
                added[predicate] = self._add(
                    predicate, pairs, walked=predicate in walked, told=told
                )
                if added[predicate].size:
                    fresh[predicate].append(added[predicate])
            waiting = self._list_and_count_facts(
                {predicate: pairs for predicate, pairs in added.items() if pairs.size}
            )
        return {
            predicate: joined(*self._canonical_parts(parts)) for predicate, parts in fresh.items()
        }

    def _add(self, predicate: int, pairs: Pairs, *, walked: bool, told: bool) -> Pairs:
        """Take up pairs of one property; return those that were not known.

        That a class or property is below itself is added only if it is asserted: it may concern a
        superproperty of `subClassOf`.
        """
        known, below = self.pairs_of(predicate), predicate in (SUB_CLASS, SUB_PROPERTY)
        pairs = pairs[~among(pairs, known)]
        count, itself = pairs.size, NONE
        if below:
            itself, pairs = _of_itself(pairs) if told else NONE, without_self(pairs)
        if walked and pairs.size:
            try:
                pairs = reached(known, pairs)
            except TooManyPairs:
                raise self.too_large(predicate) from None
            if below:
                pairs = without_self(pairs)
            pairs = pairs[~among(pairs, known)]
        pairs = joined(pairs, itself) if itself.size else pairs
        if not pairs.size:
            return NONE
        self.pairs[predicate] = np.sort(np.concatenate([known, pairs]), kind="stable")
        self._turned.pop(predicate, None)
        self.concluded += pairs.size - (count if told else 0)
        if self.concluded > most_pairs():
            raise self.too_large(predicate)
        return pairs

    def _transitive(self, waiting: Relations) -> set[int]:
        """The transitive properties, those that become so now among them.

        The pairs they have already are then looked at again.
        """
        known = {SUB_CLASS, SUB_PROPERTY, *self.typed(TRANSITIVE).tolist()}
        left, right = split(waiting.get(TYPE, NONE))
        for predicate in set(left[right == TRANSITIVE].tolist()) - known:
            known.add(predicate)
            told = self.pairs.pop(predicate, NONE)
            self._turned.pop(predicate, None)
            if told.size:
                waiting[predicate] = joined(waiting.get(predicate, NONE), told)
                self.concluded -= told.size
        return known

    def _list_and_count_facts(self, added: Relations) -> Relations:
        """Facts about lists and counts that follow from the added pairs."""
        further: Relations = {}
        if not WITH_LISTS.isdisjoint(added):
            further[CELL], further[LISTED] = self._lists()
        for predicate in WITH_COUNTS.intersection(added):
            counts = set((added[predicate] & (SPAN - 1)).tolist())
            said = [(node, word) for node in counts for word in counted(self.nodes[node])]
            pairs = np.array([node * SPAN + word for node, word in said], dtype=np.int64)
            further[IS] = joined(further.get(IS, NONE), pairs)
        return {predicate: pairs for predicate, pairs in further.items() if pairs.size}

    def _lists(self) -> tuple[Pairs, Pairs]:
        """The cells and the members of every list that something has.

        One that runs in a circle ends where it began.
        """
        firsts, rests = grouped(self.pairs_of(FIRST)), grouped(self.pairs_of(REST))
        cells: list[int] = []
        members: list[int] = []
        heads = {
            head
            for word in WITH_LISTS - {FIRST, REST}
            for head in (self.pairs_of(word) & (SPAN - 1)).tolist()
        }
        for head in heads:
            seen: set[int] = set()
            cell = head
            while cell != NIL and cell not in seen:
                seen.add(cell)
                cells.append(head * SPAN + cell)
                members += [head * SPAN + member for member in firsts.get(cell, ())]
                cell = next(iter(rests.get(cell, ())), NIL)
        return joined(np.array(cells, dtype=np.int64)), joined(np.array(members, dtype=np.int64))

    def _canonical(self, new: Mapping[int, Pairs]) -> Relations:
        """The pairs with each node under the number of the first that is equal to it."""
        if not self.merged:
            return {predicate: pairs for predicate, pairs in new.items() if pairs.size}
        found: dict[int, list[Pairs]] = defaultdict(list)
        for predicate, pairs in new.items():
            found[int(self.one[predicate])].append(pairs)
        return {
            predicate: joined(*self._canonical_parts(parts)) for predicate, parts in found.items()
        }

    def _canonical_parts(self, parts: list[Pairs]) -> list[Pairs]:
        if not self.merged:
            return parts
        return [self.one[left] * SPAN + self.one[right] for left, right in map(split, parts)]

    def _join_equal(
        self, same: Pairs, waiting: Relations, fresh: dict[int, list[Pairs]]
    ) -> Relations:
        """Give nodes that are equal one number; what was known of the others is looked at again.

        Returns what waits then.
        """
        before = self.one
        self.one = before.copy()
        unlike = []
        for left, right in zip(*(side.tolist() for side in split(same)), strict=True):
            if _OTHER in (self.kinds[left], self.kinds[right]):
                if self.kinds[left] == self.kinds[right] and literal_value(
                    self.nodes[left]
                ) != literal_value(self.nodes[right]):
                    unlike.append(min(left, right) * SPAN + max(left, right))
                continue
            if are_different_literals(self.nodes[left]) or are_different_literals(
                self.nodes[right]
            ):
                continue
            first, second = sorted((self._representative(left), self._representative(right)))
            self.one[second] = first
        if unlike:
            waiting[UNLIKE] = joined(waiting.get(UNLIKE, NONE), np.array(unlike, dtype=np.int64))
        while not np.array_equal(further := self.one[self.one], self.one):
            self.one = further
        moved = self.one != before
        if not moved.any():
            return waiting
        self.merged = True
        for predicate, pairs in [*self.pairs.items()]:
            left, right = split(pairs)
            touched = (
                np.ones(pairs.shape, dtype=np.bool_)
                if moved[predicate]
                else moved[left] | moved[right]
            )
            if touched.any():
                waiting[predicate] = joined(waiting.get(predicate, NONE), pairs[touched])
                self.pairs[predicate] = pairs[~touched]
                self.concluded -= int(touched.sum())
                self._turned.pop(predicate, None)
                if not self.pairs[predicate].size:
                    del self.pairs[predicate]
        for predicate in [*fresh]:
            if moved[predicate]:
                fresh[int(self.one[predicate])] += fresh.pop(predicate)
        return self._canonical(waiting)

    def _representative(self, node: int) -> int:
        while self.one[node] != node:
            node = int(self.one[node])
        return node

    def too_large(self, predicate: int) -> TooLarge:
        """The exception for a property with too many pairs."""
        node = self.nodes[predicate]
        return TooLarge(node if isinstance(node, ox.NamedNode) else WORDS[TYPE])


def reached(closed: Pairs, new: Pairs) -> Pairs:
    """The pairs that a transitive relation gets by new ones, these among them.

    In proportion to them where the relation is closed.

    Raises:
        TooManyPairs: there are too many.
    """
    if not closed.size:
        return transitive_closure(new)
    begins, ends = np.unique(new >> 31), np.unique(new & (SPAN - 1))
    between = composed(ends * SPAN + ends, closed)
    back = between[np.isin(between & (SPAN - 1), begins)]
    inner = transitive_closure(joined(new, back))
    inner = inner[np.isin(inner >> 31, begins)]
    onward = joined(inner, composed(inner, closed))
    left, right = split(closed[np.isin(closed & (SPAN - 1), begins)])
    return joined(onward, composed(left * SPAN + right, onward))


def partners(pairs: Pairs, node: int) -> list[int]:
    """The nodes on the right of the pairs with this node on the left."""
    found: list[int] = (
        pairs[np.searchsorted(pairs, node * SPAN) : np.searchsorted(pairs, (node + 1) * SPAN)]
        & (SPAN - 1)
    ).tolist()
    return found


def _of_itself(pairs: Pairs) -> Pairs:
    """The pairs of a node with itself."""
    left, right = split(pairs)
    return np.compress(left == right, pairs)


def are_different_literals(node: Node) -> bool:
    """Whether a node is never made one with another: a unit."""
    return isinstance(node, ox.NamedNode) and node.value.startswith(UNIT)


def counted(node: Node) -> list[int]:
    """The word for the number that a literal is, zero or one."""
    found = {"0": [ZERO], "1": [ONE]}
    return (
        found.get(node.value.strip().removeprefix("+"), []) if isinstance(node, ox.Literal) else []
    )


def literal_value(node: Node) -> object:
    """The value of a literal: its number if it has one, else its text with its language or
    datatype.
    """
    if not isinstance(node, ox.Literal):
        return node
    if node.datatype.value.rsplit("#", 1)[-1] in _NUMERIC:
        try:
            return float(node.value)
        except ValueError:
            return node
    return node


_NUMERIC = frozenset(
    f"{sign}{kind}"
    for sign, kinds in (
        ("", ("decimal", "integer", "double", "float", "byte", "short", "int", "long")),
        ("unsigned", ("Byte", "Short", "Int", "Long")),
        ("positive", ("Integer",)),
        ("negative", ("Integer",)),
        ("nonPositive", ("Integer",)),
        ("nonNegative", ("Integer",)),
    )
    for kind in kinds
)
