"""Conjunctions and disjunctions with parts that are always true or false.

They are simplified in both trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.pack import And, Known, Or
from fedkg_compiler.formulas.connective_folding import joined
from fedkg_compiler.frontends.fkg.binding.signal_columns import NOWHERE
from fedkg_compiler.frontends.shacl import shape_conditions

PACK: tuple[Any, Any, Callable[[int], Any]] = (And, Or, lambda i: Known(slot=i))
SHAPES: tuple[Any, Any, Callable[[int], Any]] = (
    shape_conditions.All,
    shape_conditions.Any,
    lambda i: shape_conditions.Has(shape_conditions.Observed(property=str(i), place=NOWHERE)),
)

trees = st.recursive(
    st.booleans() | st.integers(0, 3),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, max_size=4)),
)


def folded(tree: Any, kinds: tuple[Any, Any, Callable[[int], Any]]) -> Any:
    if isinstance(tree, bool):
        return tree
    if isinstance(tree, int):
        return kinds[2](tree)
    is_and = tree[0] == "and"
    return joined(
        [folded(arg, kinds) for arg in tree[1]], kinds[0] if is_and else kinds[1], neutral=is_and
    )


def truth(tree: Any, atoms: Sequence[bool]) -> bool:
    if isinstance(tree, bool):
        return tree
    if isinstance(tree, int):
        return atoms[tree]
    return (all if tree[0] == "and" else any)(truth(arg, atoms) for arg in tree[1])


def meaning(
    found: Any, kinds: tuple[Any, Any, Callable[[int], Any]], atoms: Sequence[bool]
) -> bool:
    if isinstance(found, bool):
        return found
    if isinstance(found, kinds[0] | kinds[1]):
        assert len(found.args) > 1
        assert len(set(found.args)) == len(found.args)
        assert not any(isinstance(arg, bool | type(found)) for arg in found.args)
        return (all if isinstance(found, kinds[0]) else any)(
            meaning(arg, kinds, atoms) for arg in found.args
        )
    return atoms[[kinds[2](i) for i in range(4)].index(found)]


@pytest.mark.parametrize("kinds", [PACK, SHAPES], ids=["pack", "shapes"])
@given(tree=trees, atoms=st.tuples(*[st.booleans()] * 4))
def test_folding_keeps_the_meaning_and_leaves_no_constant_and_nothing_nested(
    tree: Any, atoms: tuple[bool, ...], kinds: Any
) -> None:
    assert meaning(folded(tree, kinds), kinds, atoms) == truth(tree, atoms)


def test_parts_keep_their_order_and_stand_once() -> None:
    a, b, c = (Known(slot=i) for i in range(3))
    assert joined([b, And(args=(a, b)), True, c], And, neutral=True) == And(args=(b, a, c))
    assert joined([Or(args=(a, b)), False, a], Or, neutral=False) == Or(args=(a, b))
    assert joined([a, a], And, neutral=True) == a
    assert [joined([], And, neutral=True), joined([], Or, neutral=False)] == [True, False]
    assert [joined([a, False], And, neutral=True), joined([a, True], Or, neutral=False)] == [
        False,
        True,
    ]
