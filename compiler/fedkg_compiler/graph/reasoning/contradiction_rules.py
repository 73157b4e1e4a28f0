"""Finds contradictions: statements that cannot all be true."""

from __future__ import annotations

from dataclasses import dataclass

from fedkg_compiler.graph.binary_relations import TooManyPairs
from fedkg_compiler.graph.reasoning import rule_table
from fedkg_compiler.graph.reasoning.facts import Facts
from fedkg_compiler.graph.reasoning.matching import matches, possible
from fedkg_compiler.graph.reasoning.owl_vocabulary import SAME
from fedkg_compiler.graph.reasoning.rule_table import Rule

MOST = 20
"""Contradictions that are reported at most; more would have the same causes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """One contradiction.

    Attributes:
        rule: the rule that finds the contradiction.
        values: the number of the node that each variable of the rule stands for.
        more: the number of further contradictions that the same statements about terms cause.
    """

    rule: Rule
    values: dict[int, int]
    more: int = 0


def clashes(facts: Facts) -> list[Clash]:
    """Return the contradictions in a closure, one for each group that the same statements about
    terms bring about; at most `MOST`.
    """
    found: list[Clash] = []
    for rule in rule_table.rules(rule_table.CLASHES):
        plain, equal = _without_equality(rule)
        if not possible(plain, facts):
            continue
        try:
            matched = matches(plain, facts)
        except TooManyPairs:
            continue
        if matched is None:
            continue
        columns = {variable: column.tolist() for variable, column in matched.items()}
        groups: dict[tuple[frozenset[int], ...], list[dict[int, int]]] = {}
        for row in range(len(next(iter(columns.values())))):
            values = {variable: column[row] for variable, column in columns.items()}
            values |= {one: values[other] for one, other in equal.items()}
            groups.setdefault(_subjects(rule, values), []).append(values)
        found += [
            Clash(rule=rule, values=group[0], more=len(group) - 1) for group in groups.values()
        ]
    return found[:MOST]


def _subjects(rule: Rule, values: dict[int, int]) -> tuple[frozenset[int], ...]:
    """The terms in the premises about terms, in any order.

    For a rule without such premises, all terms in its premises.
    """
    terms = [
        frozenset(values[end] for end in (s, o) if end < 0)
        for s, p, o in rule.body
        if p > 0 and p != SAME
    ]
    return (frozenset().union(*terms),) if terms else (frozenset(values.values()),)


def _without_equality(rule: Rule) -> tuple[Rule, dict[int, int]]:
    """The rule for facts with merged equal nodes, and the variable that replaces each of its
    variables.
    """
    equal = {o: s for s, p, o in rule.body if p == SAME}
    body = tuple((equal.get(s, s), p, equal.get(o, o)) for s, p, o in rule.body if p != SAME)
    return Rule(name=rule.name, body=body, unequal=rule.unequal), equal
