"""Sets of clauses that have no class in common: what would contradict itself if all of a set held
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

MOST_SETS = 20_000
"""Sets of more than three clauses that are examined at most; the search gives up after them."""
Masks = Sequence[frozenset[int]]


def contradictions(masks: Masks) -> tuple[list[tuple[int, ...]], bool]:
    """The smallest sets of up to three masks that have nothing in common, by position, and whether
    there may be larger ones.

    Of a set that is listed no part is listed as well, and a larger one that contains a listed one
    does not count.
    """
    some = [i for i, mask in enumerate(masks) if mask]
    meeting = {i: {j for j in some if j > i and masks[i] & masks[j]} for i in some}
    pairs = [(i, j) for i, j in combinations(some, 2) if j not in meeting[i]]
    triples = [
        (i, j, k)
        for i in some
        for j in sorted(meeting[i])
        for k in sorted(meeting[i] & meeting[j])
        if not masks[i] & masks[j] & masks[k]
    ]
    alone = [(i,) for i, mask in enumerate(masks) if not mask]
    return [*alone, *pairs, *triples], _larger(
        masks, meeting, [frozenset(three) for three in triples]
    )


def _larger(masks: Masks, meeting: dict[int, set[int]], triples: Sequence[frozenset[int]]) -> bool:
    """Whether more than three masks may have nothing in common, without a pair that does not meet
    or one of the triples among them.
    """
    waiting: list[tuple[tuple[int, ...], frozenset[int], set[int]]] = [
        ((i,), masks[i], meeting[i]) for i in meeting
    ]
    seen = 0
    while waiting:
        chosen, common, rest = waiting.pop()
        for i in sorted(rest):
            seen += 1
            left, more = common & masks[i], (*chosen, i)
            if left == common or any(three.issubset(more) for three in triples):
                continue  # what does not narrow a set is in no smallest one
            if not left or seen > MOST_SETS:
                return True
            waiting.append((more, left, rest & meeting[i]))
    return False
