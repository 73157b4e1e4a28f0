"""The remaining condition where values are missing."""

from __future__ import annotations

import pytest

from fedkg_compiler.frontends.fkg.binding.missing_value_pruning import prune
from fedkg_compiler.frontends.fkg.syntax import parse
from fedkg_compiler.frontends.fkg.syntax.tree import Condition, Rule


def formula(text: str) -> Condition:
    tree, problems = parse(f"rule r for ?a, ?b in class p:Q require {text}\n", "r.fkg")
    assert problems == ()
    (rule,) = tree.statements
    assert isinstance(rule, Rule)
    return rule.formula


def bare(node: object) -> object:
    """A tree without positions."""
    if isinstance(node, tuple):
        return tuple(bare(item) for item in node)
    names = getattr(node, "__dataclass_fields__", None)
    return (
        node
        if names is None
        else (type(node).__name__, *(bare(getattr(node, name)) for name in names if name != "span"))
    )


@pytest.mark.parametrize(
    ("whole", "left"),
    [
        ("?a <= x <= ?b", "?a <= x"),
        ("?b <= x <= ?a", "x <= ?a"),
        ("x <= ?b", None),
        ("x <= y", "x <= y"),
        ("?a <= x and y <= ?b", "?a <= x"),
        ("?a <= x and y <= ?b and z <= 1", "?a <= x and z <= 1"),
        ("?a <= x or y <= ?b", None),
        ("not x <= ?b", None),
        ("not (x <= ?b and c <= 1)", None),
        ("not (x <= ?b or c <= 1)", "not c <= 1"),
        ("not (not x <= ?b or c <= 1)", "not c <= 1"),
        ("not (not (x <= ?b and c <= 1))", "not (not c <= 1)"),
        ("(x <= ?b and y <= 1) or c <= 1", "y <= 1 or c <= 1"),
        ("if x <= ?b or c <= 1 then y <= 1", "if c <= 1 then y <= 1"),
        ("if x <= ?b and c <= 1 then y <= 1", None),
        ("if not x <= ?b then y <= 1", None),
        ("not (if c <= 1 then x <= ?b)", "not (not c <= 1)"),
        ("not (if x <= ?b then c <= 1)", "not c <= 1"),
        ("not (?a <= x <= ?b)", None),
        ("always [0, 5] (?a <= x and x <= ?b)", "always [0, 5] ?a <= x"),
        ("eventually [0, ?b] x <= ?a", None),
        ("x <= ?a until y <= ?b", None),
        ("sum of t(?p) over ?p where { ?p p:in ?b } <= 3 and x <= ?a", "x <= ?a"),
        ("all of (t(?p) <= ?b) over ?p in class p:T", None),
        ("if x <= ?a then y <= ?b", None),
        ("if x <= ?b then y <= ?a", None),
        ("if x <= ?a then z <= 1 and y <= ?b", "if x <= ?a then z <= 1"),
        ("x == ?a +/- ?b", None),
        ("t(?b) <= 3 and t(?a) <= 3", "t(?a) <= 3"),
        ("v is ?b and t(?a) <= 3", "t(?a) <= 3"),
        ("x never falls as t(?b) rises", None),
        ("x <= y + ?b", None),
    ],
)
def test_pruning_leaves_the_remaining_formula(whole: str, left: str | None) -> None:
    pruned = prune(formula(whole), frozenset({"b"}))
    assert (None if pruned is None else bare(pruned)) == (
        None if left is None else bare(formula(left))
    )


def test_a_chain_falls_into_its_runs() -> None:
    assert bare(prune(formula("x <= y <= ?b <= z <= w"), frozenset({"b"}))) == bare(
        formula("x <= y and z <= w")
    )
