"""The known name, or table header, nearest to a mistyped one."""

from __future__ import annotations

import re
from collections.abc import Iterable


def distance(left: str, right: str, limit: int) -> int:
    """How many letters must be changed, added, dropped or swapped with their neighbour (Damerau's count, restricted); limit + 1 if more."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    before: list[int] = []
    last = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row = [i]
        for j, b in enumerate(right, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
        before, last = last, row
    return min(last[-1], limit + 1)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is most probably meant, or None.

    A difference of case alone always counts as near; otherwise at most a third of the letters may differ, and a word of
    one or two letters has no neighbours. Of equally near ones the first in alphabetical order is taken.
    """
    folded = word.casefold()
    limit = min((len(word) + 1) // 3, 4) if len(word) > 2 else 0
    best: tuple[int, str] | None = None
    for candidate in sorted(set(candidates)):
        if candidate == word:
            continue
        near = candidate.casefold()
        if near == folded:
            return candidate
        allowed = limit if best is None else min(limit, best[0] - 1)
        if allowed < 1:
            continue
        count = distance(folded, near, allowed)
        if count <= allowed and count < len(candidate):
            best = count, candidate
    return best[1] if best else None


def did_you_mean(word: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """``did you mean `x`?`` for a help line, or `otherwise` where nothing is near."""
    near = nearest(word, candidates)
    return f"did you mean `{near}`?" if near else otherwise


_UNIT = re.compile(r"\s*[\[(][^\])]*[\])]\s*$")


def plain(header: str) -> str:
    """A header without what people write differently: case, blanks, punctuation."""
    return re.sub(r"[\W_]+", "", header).casefold()


def nearest_header(header: str, candidates: Iterable[str]) -> str | None:
    """The header that is probably meant: the same but for blanks, punctuation and a unit in brackets, else near in letters, else one that
    holds the other."""
    folded: dict[str, str] = {}
    for candidate in candidates:
        folded.setdefault(plain(candidate), candidate)
        folded.setdefault(plain(_UNIT.sub("", candidate)), candidate)
    wanted = plain(header)
    if wanted in folded:
        return folded[wanted]
    near = nearest(wanted, folded)
    if near is not None:
        return folded[near]
    inside = [key for key in folded if min(len(key), len(wanted)) >= 3 and (key in wanted or wanted in key)]
    return folded[min(inside, key=lambda key: abs(len(key) - len(wanted)))] if inside else None
