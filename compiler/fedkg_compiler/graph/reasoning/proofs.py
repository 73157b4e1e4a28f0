"""The rules applied to a handful of triples one at a time, with each conclusion's premises kept:
proofs, and a check of the closure.

All rules are taken as they are written, those for equality and transitivity too, so that this is
slow and shares no code with the closure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from fedkg_compiler.graph.reasoning import rule_table
from fedkg_compiler.graph.reasoning.owl_vocabulary import (
    CELL,
    FIRST,
    IS,
    LISTED,
    NIL,
    REST,
    SAME,
    SUB_CLASS,
    SUB_PROPERTY,
    UNLIKE,
    WITH_LISTS,
)
from fedkg_compiler.graph.reasoning.rule_table import Atom, Rule

MOST = 20_000
"""Conclusions after which a proof is given up."""
LISTS = "list"
"""The name of the steps from a list to its members."""
Fact = Atom
Reason = tuple[str, tuple[Fact, ...]]


class TooMany(Exception):
    """More than `MOST` conclusions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Properties of nodes that the rules need beside their numbers.

    Attributes:
        literal: whether a node is a literal.
        apart: whether a node is a unit of QUDT, which is never made equal to another node.
        unlike: whether two literals have different values.
        counts: the words (zero, one) for the number that a literal states; empty for any other
            literal.
        compare: whether two nodes satisfy a comparison of a SWRL rule.
    """

    literal: Callable[[int], bool]
    apart: Callable[[int], bool]
    unlike: Callable[[int, int], bool]
    counts: Callable[[int], Sequence[int]]
    compare: Callable[[str, int, int], bool] = lambda *_: False


@dataclass(slots=True)
class Proofs:
    """All that follows from a few facts.

    Attributes:
        reasons: the rule and the premises of each fact as it was first concluded; "" for asserted
            facts.
        clashes: contradictions: the rule, and its premises.
    """

    reasons: dict[Fact, Reason] = field(default_factory=dict)
    clashes: list[Reason] = field(default_factory=list)
    _by: dict[tuple[int, int, int], list[Fact]] = field(default_factory=lambda: defaultdict(list))

    def take(self, fact: Fact, reason: Reason) -> bool:
        """Note a fact with its reason; whether it was new."""
        if fact in self.reasons:
            return False
        if len(self.reasons) > MOST:
            raise TooMany
        self.reasons[fact] = reason
        s, p, o = fact
        for key in (
            (ANY, p, ANY),
            (s, p, ANY),
            (ANY, p, o),
            (s, ANY, ANY),
            (ANY, ANY, o),
            (s, ANY, o),
        ):
            self._by[key].append(fact)
        return True

    def like(self, s: int, p: int, o: int) -> Iterable[Fact]:
        """The facts with these numbers; `ANY` for all."""
        if s != ANY and p != ANY and o != ANY:
            return [(s, p, o)] if (s, p, o) in self.reasons else []
        if s == p == o == ANY:
            return [*self.reasons]
        return [*self._by.get((s, p, o), ())]


ANY = -1_000
"""Wildcard for any number in a search for facts."""
_LISTS = tuple(
    [
        Rule(name=LISTS, body=((-1, word, -2),), heads=((-2, CELL, -2),))
        for word in sorted(WITH_LISTS - {FIRST, REST})
    ]
    + [
        Rule(name=LISTS, body=((-1, CELL, -2), (-2, REST, -3)), heads=((-1, CELL, -3),)),
        Rule(name=LISTS, body=((-1, CELL, -2), (-2, FIRST, -3)), heads=((-1, LISTED, -3),)),
    ]
)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of the table, contradictions too, and those that go through lists."""
    tables = (
        rule_table.SCHEMA,
        rule_table.TERMINOLOGY,
        rule_table.FACTS,
        rule_table.TRANSITIVE,
        rule_table.EQUALITY,
        rule_table.CLASHES,
    )
    return tuple(rule for text in tables for rule in rule_table.rules(text)) + _LISTS


@cache
def _premises(rules: tuple[Rule, ...]) -> dict[int, list[tuple[Rule, int]]]:
    """Each premise of each rule by its property, below 0 for any: the rule, and the place of the
    premise.
    """
    found: dict[int, list[tuple[Rule, int]]] = defaultdict(list)
    for rule in rules:
        for i, (_, predicate, _) in enumerate(rule.body):
            found[max(predicate, -1)].append((rule, i))
    return dict(found)


def prove(told: Iterable[Fact], terms: Terms, rules: Sequence[Rule] = ()) -> Proofs:
    """Return all that follows from a few facts, with reasons.

    Args:
        told: the asserted facts.
        terms: what the rules need to know of the nodes.
        rules: rules besides those of the table, such as SWRL rules.

    Raises:
        TooMany: there are more than `MOST` conclusions.
    """
    proofs = Proofs()
    of_property, further = _premises(all_rules()), _premises(tuple(rules))
    waiting = [fact for fact in told if proofs.take(fact, ("", ()))]
    while waiting:
        fact = waiting.pop(0)
        for rule, i in (*of_property.get(fact[1], ()), *of_property[-1], *further.get(fact[1], ())):
            values = _unified(rule.body[i], fact, {})
            if values is None:
                continue
            for found in _matched(
                [one for j, one in enumerate(rule.body) if j != i], values, proofs
            ):
                if any(found[one] == found[other] for one, other in rule.unequal) or not all(
                    terms.compare(name, found.get(one, one), found.get(other, other))
                    for name, one, other in rule.comparisons
                ):
                    continue
                premises = tuple(filled(one, found) for one in rule.body)
                if not rule.heads:
                    proofs.clashes.append((rule.name, premises))
                for head in rule.heads:
                    waiting += _concluded(filled(head, found), (rule.name, premises), proofs, terms)
        waiting += [
            one
            for word in terms.counts(fact[2])
            if proofs.take(one := (fact[2], IS, word), (LISTS, (fact,)))
        ]
    return proofs


def _concluded(fact: Fact, reason: Reason, proofs: Proofs, terms: Terms) -> Iterator[Fact]:
    s, p, o = fact
    if p == SAME:
        literal = (terms.literal(s), terms.literal(o))
        if all(literal) and terms.unlike(s, o):
            fact = (min(s, o), UNLIKE, max(s, o))
        elif any(literal) or terms.apart(s) or terms.apart(o):
            return
    elif (
        terms.literal(s)
        or terms.literal(p)
        or (p in (SUB_CLASS, SUB_PROPERTY) and s == o)
        or (p == CELL and o == NIL)
    ):
        return
    if proofs.take(fact, reason):
        yield fact


def _matched(rest: list[Atom], values: dict[int, int], proofs: Proofs) -> Iterator[dict[int, int]]:
    if not rest:
        yield values
        return
    atom = min(rest, key=lambda one: sum(end < 0 and end not in values for end in one))
    s, p, o = (values.get(end, ANY) if end < 0 else end for end in atom)
    for fact in proofs.like(s, p, o):
        found = _unified(atom, fact, values)
        if found is not None:
            yield from _matched([one for one in rest if one is not atom], found, proofs)


def _unified(atom: Atom, fact: Fact, values: dict[int, int]) -> dict[int, int] | None:
    """The values with those that make a premise the fact; None if nothing does."""
    found = dict(values)
    for end, node in zip(atom, fact, strict=True):
        if (end >= 0 and end != node) or (end < 0 and found.setdefault(end, node) != node):
            return None
    return found


def filled(atom: Atom, values: dict[int, int]) -> Fact:
    """A premise with its variables' values."""
    s, p, o = (values[end] if end < 0 else end for end in atom)
    return s, p, o
