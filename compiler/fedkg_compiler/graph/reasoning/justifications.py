"""Why a triple holds: the told triples and the rules from which it follows, found by going
backwards through the closure.

Nothing is kept while a graph is closed. A question closes the triples again, in numbers, once; goes
back from the fact to what each rule would need for it, nearest first. As soon as the asserted
triples on the way prove the fact (`proofs.py`), it removes every triple that the proof does not
need. The remaining triples are a justification: the fact does not follow from a proper subset of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.owl_rl_closure import bound, close, satisfies
from fedkg_compiler.graph.reasoning import rule_table
from fedkg_compiler.graph.reasoning.facts import (
    NONE,
    SPAN,
    Facts,
    Pairs,
    Relations,
    are_different_literals,
    counted,
    literal_value,
    partners,
    split,
)
from fedkg_compiler.graph.reasoning.owl_vocabulary import (
    CELL,
    FIRST,
    HIDDEN,
    IS,
    LISTED,
    REST,
    SAME,
    UNLIKE,
    WITH_LISTS,
    Node,
)
from fedkg_compiler.graph.reasoning.proofs import (
    ANY,
    Fact,
    Proofs,
    Reason,
    Terms,
    TooMany,
    filled,
    prove,
)
from fedkg_compiler.graph.reasoning.rule_table import Rule

DEEPEST = 24
"""Steps back after which a reason is given up."""
_MOST_WAYS = 16
_MOST_TOLD = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A triple with what it follows from.

    Attributes:
        triple: subject, property, object.
        rule: the name that the W3C gives the rule; "" if the triple is asserted.
        premises: the facts that the triple follows from.
    """

    triple: tuple[Node, Node, Node]
    rule: str = ""
    premises: tuple[Step, ...] = ()

    def asserted(self) -> Iterator[tuple[Node, Node, Node]]:
        """The told triples at the ends of its branches, each once."""
        seen: set[tuple[Node, Node, Node]] = set()
        waiting = [self]
        while waiting:
            step = waiting.pop(0)
            waiting += step.premises
            if not step.rule and step.triple not in seen:
                seen.add(step.triple)
                yield step.triple


@dataclass(slots=True)
class _Search:
    """The facts that a backward search has visited."""

    told: dict[Fact, None] = field(default_factory=dict)
    seen: set[Fact] = field(default_factory=set)


class Reasons:
    """Answers why something holds.

    Args:
        triples: all asserted triples.
        closed: the closure with the asserted pairs; None if it has not been computed yet.
    """

    def __init__(
        self, triples: Iterable[ox.Quad], closed: tuple[Facts, Relations] | None = None
    ) -> None:
        self._triples = triples
        self._given = closed

    @cached_property
    def _closed(self) -> tuple[Facts, Relations]:
        if self._given is not None:
            return self._given
        facts = Facts()
        told = facts.number(self._triples)
        close(facts, told, all_rules=True)
        return facts, told

    def why(self, subject: Node, predicate: Node, value: Node) -> Step | None:
        """Return how a triple follows from asserted triples.

        None if it does not, or if no proof has at most `DEEPEST` steps.

        Raises:
            TooLarge: more follows than fits in memory.
        """
        facts, told = self._closed
        s, p = facts.numbers.get(subject), facts.numbers.get(predicate)
        if s is None or p is None:
            return None
        o = facts.numbers.get(value, self._alike(s, p, value))
        if o is None:
            return None
        fact = s, p, o
        if _has(told, fact):
            return Step(triple=(facts.nodes[s], facts.nodes[p], facts.nodes[o]))
        if not self._holds(fact):
            return None
        found = self._proved([fact], lambda proofs: proofs.reasons.get(fact))
        return None if found is None else self._step(fact, found[1])

    def why_not(self, rule: Rule, values: Mapping[int, int]) -> tuple[Step, dict[int, int]] | None:
        """Return how a contradiction follows from asserted triples, and the bindings of the rule's
        variables; None without a proof.

        Args:
            rule: a rule without a conclusion.
            values: the number of the node that each variable of the rule stands for; equal nodes
                share one number.
        """

        def clash(proofs: Proofs) -> Reason | None:
            return next((reason for reason in proofs.clashes if reason[0] == rule.name), None)

        found = self._proved([filled(atom, dict(values)) for atom in rule.body], clash)
        if found is None:
            return None
        reason, proofs = found
        nodes = self._closed[0].nodes
        first = reason[1][0]
        named = {
            end: node
            for atom, fact in zip(rule.body, reason[1], strict=True)
            for end, node in zip(atom, fact, strict=True)
            if end < 0
        }
        premises = tuple(self._step(premise, proofs) for premise in _shown(reason[1], proofs))
        return Step(
            triple=(nodes[first[0]], nodes[first[1]], nodes[first[2]]),
            rule=rule.name,
            premises=premises,
        ), named

    def _alike(self, s: int, p: int, value: Node) -> int | None:
        """The number of a literal with a different spelling than in its source: stores write 1.0
        for 1.00.
        """
        facts, _ = self._closed
        wanted = literal_value(value)
        known = partners(facts.pairs_of(int(facts.one[p])), int(facts.one[s]))
        return next((node for node in known if literal_value(facts.nodes[node]) == wanted), None)

    def _proved(
        self, targets: Sequence[Fact], reached: Callable[[Proofs], Reason | None]
    ) -> tuple[Reason, Proofs] | None:
        """The proof from as few told facts as possible."""
        terms, search, rules = self._terms(), _Search(), self._closed[0].rules
        frontier = [self._one(fact) for fact in targets]
        for _ in range(DEEPEST):
            count = len(search.told)
            frontier = self._back(frontier, search)
            if len(search.told) > count:
                try:
                    proofs = prove(search.told, terms, rules)
                except TooMany:
                    return None
                if reached(proofs) is not None:
                    return _least(proofs, reached, terms, rules)
            if not frontier or len(search.told) > _MOST_TOLD:
                break
        return None

    def _back(self, frontier: Sequence[Fact], search: _Search) -> list[Fact]:
        """Collect the asserted ones of these facts, and return the facts that the others need."""
        further: list[Fact] = []
        for fact in frontier:
            if fact in search.seen:
                continue
            search.seen.add(fact)
            told = self._asserted(fact)
            search.told |= dict.fromkeys(told)
            ways = [*self._equalities(fact, search)]
            if fact[1] == UNLIKE:
                ways += self._ways((fact[0], SAME, fact[2])) + self._ways((fact[2], SAME, fact[0]))
            elif not told and fact[1] not in (CELL, LISTED, IS):
                ways += self._ways(fact)
            for premises in ways:
                further += [premise for premise in premises if premise not in search.seen]
            if fact[1] in (CELL, LISTED):
                further += self._cells(fact[0])
        return further

    def _ways(self, fact: Fact) -> list[tuple[Fact, ...]]:
        """The premises from which a rule concludes a fact.

        Those with the most asserted facts first.
        """
        facts, _ = self._closed
        found: list[tuple[Fact, ...]] = []
        for rule in (*_with_heads(), *facts.rules):
            for head in rule.heads:
                values = _head_values(head, fact)
                if values is None:
                    continue
                matched = bound(
                    _without_differences(rule) if facts.merged or fact[1] == SAME else rule,
                    facts,
                    values,
                )
                if matched is None:
                    continue
                count = min(next(iter(matched.values())).size, 4 * _MOST_WAYS)
                for row in range(count):
                    premises = tuple(
                        filled(atom, {key: int(column[row]) for key, column in matched.items()})
                        for atom in rule.body
                    )
                    if fact not in premises:
                        found.append(premises)
        found.sort(key=lambda premises: sum(not self._asserted(premise) for premise in premises))
        return found[:_MOST_WAYS]

    def _equalities(self, fact: Fact, search: _Search) -> Iterator[tuple[Fact, ...]]:
        """The facts that make the nodes of a fact equal to others, if any."""
        facts, told = self._closed
        if not facts.merged:
            return
        for node in set(fact):
            equal = np.flatnonzero(facts.one == node)
            same = (node, SAME, node)
            if equal.size < 2 or same in search.seen:
                continue
            search.seen.add(same)
            left, right = split(told.get(SAME, NONE))
            among = np.isin(left, equal) & np.isin(right, equal)
            search.told |= {
                (a, SAME, b): None
                for a, b in zip(left[among].tolist(), right[among].tolist(), strict=True)
            }
            yield from self._ways(same)

    def _cells(self, head: int) -> list[Fact]:
        """The facts of the cells of a list, and of its owner."""
        facts, _ = self._closed
        found = [
            (owner, word, head)
            for word in WITH_LISTS - {FIRST, REST}
            for owner in partners(facts.turned(word), head)
        ]
        for cell in partners(facts.pairs_of(CELL), head):
            found += [
                (cell, word, other)
                for word in (FIRST, REST)
                for other in partners(facts.pairs_of(word), cell)
            ]
        return found

    def _one(self, fact: Fact) -> Fact:
        one = self._closed[0].one
        return int(one[fact[0]]), int(one[fact[1]]), int(one[fact[2]])

    def _holds(self, fact: Fact) -> bool:
        s, p, o = self._one(fact)
        if p == SAME:
            return s == o
        return _has(self._closed[0].pairs, (s, p, o))

    def _asserted(self, fact: Fact) -> list[Fact]:
        """The told facts that are this one, by whatever names of its nodes."""
        facts, told = self._closed
        if not facts.merged:
            return [fact] if _has(told, fact) else []
        names = [
            [fact[i]]
            if facts.one[fact[i]] != fact[i]
            else np.flatnonzero(facts.one == fact[i]).tolist()
            for i in range(3)
        ]
        return [
            (s, p, o)
            for p in names[1]
            if p in told
            for s in names[0]
            for o in names[2]
            if _has(told, (s, p, o))
        ][:_MOST_WAYS]

    def _terms(self) -> Terms:
        nodes = self._closed[0].nodes
        return Terms(
            literal=lambda node: not isinstance(nodes[node], ox.NamedNode | ox.BlankNode),
            apart=lambda node: are_different_literals(nodes[node]),
            unlike=lambda one, other: literal_value(nodes[one]) != literal_value(nodes[other]),
            counts=lambda node: counted(nodes[node]),
            compare=lambda name, one, other: satisfies(name, one, other, self._closed[0]),
        )

    def _step(self, fact: Fact, proofs: Proofs) -> Step:
        nodes = self._closed[0].nodes
        rule, premises = proofs.reasons[fact]
        triple = (nodes[fact[0]], nodes[fact[1]], nodes[fact[2]])
        return Step(
            triple=triple,
            rule=rule,
            premises=tuple(self._step(premise, proofs) for premise in _shown(premises, proofs)),
        )


def _shown(premises: Iterable[Fact], proofs: Proofs) -> dict[Fact, None]:
    """The premises that people can read: expands auxiliary properties and chains, and omits cells
    of lists.
    """
    found: dict[Fact, None] = {}
    for premise in premises:
        s, p, o = premise
        if s == o and p == SAME:
            continue
        if p in HIDDEN or proofs.like(ANY, CELL, p):
            found |= _shown(proofs.reasons[premise][1], proofs)
        elif p not in (FIRST, REST):
            found[premise] = None
    return found


def _without_differences(rule: Rule) -> Rule:
    """The rule without its demands that nodes be different, which those that it made one are no
    longer.
    """
    return replace(rule, unequal=())


def _with_heads() -> tuple[Rule, ...]:
    tables = (rule_table.SCHEMA, rule_table.TERMINOLOGY, rule_table.FACTS, rule_table.TRANSITIVE)
    return tuple(rule for text in tables for rule in rule_table.rules(text))


def _head_values(head: Fact, fact: Fact) -> dict[int, int] | None:
    values: dict[int, int] = {}
    for end, node in zip(head, fact, strict=True):
        if (end >= 0 and end != node) or (end < 0 and values.setdefault(end, node) != node):
            return None
    return values


def _least(
    proofs: Proofs, reached: Callable[[Proofs], Reason | None], terms: Terms, rules: Sequence[Rule]
) -> tuple[Reason, Proofs]:
    """The proof without all told facts that it does not need."""
    reason = reached(proofs)
    assert reason is not None
    kept = _leaves(reason, proofs)
    best = prove(kept, terms, rules)
    for fact in [*kept]:
        fewer = [one for one in kept if one != fact]
        without = prove(fewer, terms, rules)
        if reached(without) is not None:
            kept, best = fewer, without
    found = reached(best)
    assert found is not None
    return found, best


def _leaves(reason: Reason, proofs: Proofs) -> list[Fact]:
    """The told facts of a proof."""
    found: dict[Fact, None] = {}
    seen: set[Fact] = set()
    waiting = [*reason[1]]
    while waiting:
        fact = waiting.pop(0)
        if fact in seen:
            continue
        seen.add(fact)
        rule, premises = proofs.reasons[fact]
        waiting += premises
        if not rule:
            found[fact] = None
    return [*found]


def _has(relations: Mapping[int, Pairs], fact: Fact) -> bool:
    pairs = relations.get(fact[1], NONE)
    place = int(np.searchsorted(pairs, fact[0] * SPAN + fact[2]))
    return place < pairs.size and int(pairs[place]) == fact[0] * SPAN + fact[2]
