"""The closure: the rules of the table applied to what is new until nothing is (semi-naive
evaluation).

Facts about classes and properties are closed first, so that the many facts about things are visited
few times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from fedkg_compiler.graph import binary_relations as relation
from fedkg_compiler.graph.binary_relations import Pairs, TooManyPairs
from fedkg_compiler.graph.reasoning import rule_table
from fedkg_compiler.graph.reasoning.facts import SPAN, Facts, Relations, split
from fedkg_compiler.graph.reasoning.matching import Table, concluded, is_ground, matches, possible
from fedkg_compiler.graph.reasoning.owl_vocabulary import TYPE
from fedkg_compiler.graph.reasoning.rule_table import Rule
from fedkg_compiler.graph.reasoning.swrl_rules import swrl_rules


def close(facts: Facts, new: Mapping[int, Pairs], *, all_rules: bool = False) -> None:
    """Take up pairs with all that follows from them.

    In proportion to them where the facts are closed.

    Args:
        all_rules: also those that only restate definitions of terms (`table.TERMINOLOGY`).

    Raises:
        TooLarge: that is more than fits in memory.
    """
    schema = rule_table.rules(rule_table.SCHEMA) + (
        rule_table.rules(rule_table.TERMINOLOGY) if all_rules else ()
    )
    if facts.concluded > relation.most():
        raise facts.too_large(TYPE)
    first = not facts.pairs
    fresh = facts.absorb(new, told=True)
    while fresh:
        pending = fresh
        while fresh:
            fresh = facts.absorb(_step(schema, facts, fresh, first=first))
            pending = _both(pending, fresh, facts)
        concluded = _step(rule_table.rules(rule_table.FACTS), facts, pending, first=first)
        if further := _swrl_step(facts, pending, first=first):
            concluded = _both(concluded, further, facts)
        fresh = facts.absorb(concluded)
        first = False


def _swrl_step(facts: Facts, fresh: Relations, *, first: bool) -> Relations:
    """The conclusions of the SWRL rules among the facts.

    They are read again each time: the fresh facts may state a rule, or make its terms equal to
    others. A rule that is new is matched with all facts.
    """
    rules, _ = swrl_rules(facts)
    known = set() if first else {*facts.rules}
    facts.rules = tuple(rules)
    new = [rule for rule in rules if rule not in known]
    old = [rule for rule in rules if rule in known]
    return _both(_step(new, facts, fresh, first=True), _step(old, facts, fresh, first=False), facts)


def _both(some: Relations, more: Relations, facts: Facts) -> Relations:
    found: dict[int, list[Pairs]] = defaultdict(list)
    for predicate, pairs in (*some.items(), *more.items()):
        left, right = split(pairs)
        found[int(facts.one[predicate])].append(
            facts.one[left] * SPAN + facts.one[right] if facts.merged else pairs
        )
    return {predicate: relation.joined(*parts) for predicate, parts in found.items()}


def _step(rules: Sequence[Rule], facts: Facts, fresh: Relations, *, first: bool) -> Relations:
    """The conclusions of the rules from pairs, at least one of them fresh."""
    found: dict[int, list[Pairs]] = defaultdict(list)
    for rule in rules:
        if not possible(rule, facts):
            continue
        try:
            for matched in _fresh_matches(rule, facts, fresh, first=first):
                for predicate, pairs in concluded(matched, rule.heads, facts):
                    found[predicate].append(pairs)
        except TooManyPairs:
            head = rule.heads[0][1]
            raise facts.too_large(head if head >= 0 else TYPE) from None
    return {predicate: relation.joined(*parts) for predicate, parts in found.items()}


def _fresh_matches(rule: Rule, facts: Facts, fresh: Relations, *, first: bool) -> list[Table]:
    if first:  # everything is fresh
        starts: list[int | None] = [None]
    else:
        starts = [
            i
            for i, atom in enumerate(rule.body)
            if (atom[1] < 0 or atom[1] in fresh) and not is_ground(atom)
        ]
    found = (
        matches(rule, facts, start=start, source=None if start is None else fresh)
        for start in starts
    )
    return [matched for matched in found if matched is not None]
