"""Conjunctions and disjunctions with parts that are always true or false.

They are simplified in both trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.pack import And, Known, Not, Or
from fedkg_compiler.formulas.formula_algebra import Connectives
from fedkg_compiler.frontends.fkg.binding.scope import NOWHERE
from fedkg_compiler.frontends.shacl import shape_conditions

Kinds = tuple[Connectives[Any], Callable[[int], Any]]
PACK: Kinds = Connectives(And, Or, Not), lambda i: Known(slot=i)
SHAPES: Kinds = (
    Connectives(shape_conditions.All, shape_conditions.Any, shape_conditions.Neg),
    lambda i: shape_conditions.Has(shape_conditions.Observed(property=str(i), place=NOWHERE)),
)

trees = st.recursive(
    st.booleans() | st.integers(0, 3),
    lambda inner: (
        st.tuples(st.sampled_from(["and", "or", "one"]), st.lists(inner, max_size=4))
        | st.tuples(st.just("not"), st.lists(inner, min_size=1, max_size=1))
        | st.tuples(st.just("if"), st.lists(inner, min_size=2, max_size=2))
    ),
)


def folded(tree: Any, kinds: Kinds) -> Any:
    algebra, atom = kinds
    if isinstance(tree, bool):
        return tree
    if isinstance(tree, int):
        return atom(tree)
    args = [folded(arg, kinds) for arg in tree[1]]
    match tree[0]:
        case "and":
            return algebra.all_of(args)
        case "or":
            return algebra.any_of(args)
        case "one":
            return algebra.exactly_one(args)
        case "if":
            return algebra.implies(*args)
        case _:
            return algebra.negate(*args)


def truth(tree: Any, atoms: Sequence[bool]) -> bool:
    if isinstance(tree, bool):
        return tree
    if isinstance(tree, int):
        return atoms[tree]
    args = [truth(arg, atoms) for arg in tree[1]]
    match tree[0]:
        case "and":
            return all(args)
        case "or":
            return any(args)
        case "one":
            return sum(args) == 1
        case "if":
            return not args[0] or args[1]
        case _:
            return not args[0]


def meaning(found: Any, kinds: Kinds, atoms: Sequence[bool]) -> bool:
    algebra, atom = kinds
    if isinstance(found, bool):
        return found
    if isinstance(found, algebra.negation):
        assert not isinstance(found.arg, bool | algebra.negation)
        return not meaning(found.arg, kinds, atoms)
    if isinstance(found, algebra.conjunction | algebra.disjunction):
        assert len(found.args) > 1
        assert len(set(found.args)) == len(found.args)
        assert not any(isinstance(arg, bool | type(found)) for arg in found.args)
        return (all if isinstance(found, algebra.conjunction) else any)(
            meaning(arg, kinds, atoms) for arg in found.args
        )
    return atoms[[atom(i) for i in range(4)].index(found)]


@pytest.mark.parametrize("kinds", [PACK, SHAPES], ids=["pack", "shapes"])
@given(tree=trees, atoms=st.tuples(*[st.booleans()] * 4))
def test_folding_keeps_the_meaning_and_leaves_no_constant_and_nothing_nested(
    tree: Any, atoms: tuple[bool, ...], kinds: Kinds
) -> None:
    assert meaning(folded(tree, kinds), kinds, atoms) == truth(tree, atoms)


def test_parts_keep_their_order_and_stand_once() -> None:
    a, b, c = (Known(slot=i) for i in range(3))
    algebra = PACK[0]
    assert algebra.all_of([b, And(args=(a, b)), True, c]) == And(args=(b, a, c))
    assert algebra.any_of([Or(args=(a, b)), False, a]) == Or(args=(a, b))
    assert algebra.all_of([a, a]) == a
    assert [algebra.all_of([]), algebra.any_of([])] == [True, False]
