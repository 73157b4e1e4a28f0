"""The known name, or table header, that is most similar to a misspelt one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from typing_extensions import override

from fedkg.limits import spend_comparisons

MOST_LETTERS = 100
"""Longer words are not compared: the time grows with the square of the length."""


def _comparable(word: str, candidates: Iterable[str]) -> list[str]:
    """The candidates that `word` is to be compared with, sorted; none where the budget is spent."""
    found = sorted(one for one in set(candidates) if one != word and len(one) <= MOST_LETTERS)
    return found if len(word) <= MOST_LETTERS and spend_comparisons(len(found)) else []


def distance(left: str, right: str, limit: int) -> int:
    """Count the edits between two words, up to `limit`; limit + 1 if there are more.

    An edit changes, adds or drops a letter, or swaps two neighbours (restricted Damerau-Levenshtein
    distance).
    """
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    # what both begin and end with costs nothing
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
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


def nearest_name(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that the user most probably meant, or None.

    Words that differ only in case always match. Otherwise at most a third of the letters may
    differ, and a word of one or two letters matches nothing. The first in alphabetical order wins a
    tie.
    """
    folded = word.casefold()
    limit = min((len(word) + 1) // 3, 4) if len(word) > 2 else 0
    best: tuple[int, str] | None = None
    for candidate in _comparable(word, candidates):
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


class Suggestion(str):
    """A help line with a certain correction: replace `wrong` by `right`. It is a string
    otherwise."""

    __slots__ = ("right", "wrong")
    wrong: str
    right: str

    def __new__(cls, text: str, wrong: str, right: str) -> Suggestion:
        """The help line with its two words."""
        line = super().__new__(cls, text)
        line.wrong, line.right = wrong, right
        return line

    @override
    def __getnewargs__(self) -> tuple[str, str, str]:  # type: ignore[override]
        """The arguments that copying and unpickling pass to `__new__`."""
        return str(self), self.wrong, self.right


def certain_match(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that the user certainly meant, or None.

    It differs only in case, or in one letter (of four or more, not the first), and no other
    candidate does. A different digit, or a different short piece of a name (``flow_a``,
    ``flow_in``), makes another name, not a typo.
    """
    known = _comparable(word, candidates)
    folded = [candidate for candidate in known if candidate.casefold() == word.casefold()]
    if folded:
        return folded[0] if len(folded) == 1 else None
    near = [candidate for candidate in known if distance(word, candidate, 1) <= 1]
    return near[0] if len(near) == 1 and _is_typo(word, near[0]) else None


def _is_typo(word: str, meant: str) -> bool:
    if (
        min(len(word), len(meant)) < _TOO_SHORT
        or word[0] != meant[0]
        or [*filter(str.isnumeric, word)] != [*filter(str.isnumeric, meant)]
    ):
        return False
    pieces, others = re.split(r"[\W_]+", word), re.split(r"[\W_]+", meant)
    if len(pieces) != len(others):
        return True
    return all(
        min(len(a), len(b)) >= _TOO_SHORT for a, b in zip(pieces, others, strict=True) if a != b
    )


_TOO_SHORT = 4


def did_you_mean(word: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """Return ``did you mean `x`?`` for a help line, or `otherwise` if no candidate is similar.

    The result is a `Suggestion` if the match is certain.
    """
    known = list(candidates)
    near = nearest_name(word, known)
    if near is None:
        return otherwise
    said = f"did you mean `{near}`?"
    return Suggestion(said, word, near) if certain_match(word, known) == near else said


_UNIT = re.compile(r"\s*[\[(][^\])]*[\])]\s*$")


def normalise_header(header: str) -> str:
    """A header without case, blanks and punctuation, which people write differently."""
    return re.sub(r"[\W_]+", "", header).casefold()


def nearest_header(header: str, candidates: Iterable[str]) -> str | None:
    """Return the header that the user most probably meant, or None.

    Headers match if they are equal except for blanks, punctuation and a unit in brackets; then if
    their letters are similar; then if one contains the other.
    """
    folded: dict[str, str] = {}
    for candidate in candidates:
        folded.setdefault(normalise_header(candidate), candidate)
        folded.setdefault(normalise_header(_UNIT.sub("", candidate)), candidate)
    wanted = normalise_header(header)
    if wanted in folded:
        return folded[wanted]
    near = nearest_name(wanted, folded)
    if near is not None:
        return folded[near]
    inside = [
        key
        for key in folded
        if min(len(key), len(wanted)) >= 3 and (key in wanted or wanted in key)
    ]
    return folded[min(inside, key=lambda key: abs(len(key) - len(wanted)))] if inside else None
