"""Sets of masks without a common class, against every subset."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fedkg_compiler.frontends.knowledge.clauses_without_common_class import contradictions

masks = st.lists(st.frozensets(st.integers(0, 4), max_size=5), max_size=7)


@given(given_masks=masks)
def test_the_smallest_sets_are_those_of_every_subset(given_masks: list[frozenset[int]]) -> None:
    places = range(len(given_masks))
    smallest: list[frozenset[int]] = []
    for size in places:
        for chosen in combinations(places, size + 1):
            if not frozenset.intersection(*(given_masks[i] for i in chosen)) and not any(
                one <= set(chosen) for one in smallest
            ):
                smallest.append(frozenset(chosen))
    found, more = contradictions(given_masks)
    assert {frozenset(one) for one in found} == {one for one in smallest if len(one) <= 3}
    assert len(found) == len({frozenset(one) for one in found})
    assert more == any(len(one) > 3 for one in smallest)
