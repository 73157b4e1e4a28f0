"""The header somebody probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def plain(header: str) -> str:
    """A header without what people write differently: case, blanks, punctuation."""
    return re.sub(r"[\W_]+", "", header).casefold()


def nearest(header: str, candidates: Iterable[str]) -> str | None:
    """The candidate that looks most like `header`, or None when none looks like it."""
    folded: dict[str, str] = {}
    for candidate in candidates:
        folded.setdefault(plain(candidate), candidate)
    wanted = plain(header)
    if wanted in folded:
        return folded[wanted]
    close = difflib.get_close_matches(wanted, list(folded), n=1, cutoff=0.6)
    if close:
        return folded[close[0]]
    inside = [key for key in folded if min(len(key), len(wanted)) >= 3 and (key in wanted or wanted in key)]
    return folded[min(inside, key=lambda key: abs(len(key) - len(wanted)))] if inside else None
