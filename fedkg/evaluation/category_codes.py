"""Texts of a table as the numbers that formulas compare: codes of categories, scores of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import nearest_header
from fedkg.tables import Table, is_unknown

OTHER = -2.0
"""The code of a text that the vocabulary does not have: equal to no code that a rule asks for."""


def list_some(names: Sequence[str], most: int = 4) -> str:
    """Names in backticks, the first few of them: ```a`, `b` and 3 more``."""
    if len(names) <= most:
        return (
            " and ".join(
                filter(None, (", ".join(f"`{name}`" for name in names[:-1]), f"`{names[-1]}`"))
            )
            if names
            else "none"
        )
    return ", ".join(f"`{name}`" for name in names[:most]) + f" and {len(names) - most} more"


def codes(
    texts: Sequence[str], vocabulary: Sequence[str], header: str
) -> tuple[NDArray[np.float64], list[str]]:
    """The codes of a category column and the notes about it.

    Returns:
        float64 [rows]: the position in the vocabulary, NaN where unknown, `OTHER` for any other
            text; and notes.
    """
    positions = {word: float(i) for i, word in enumerate(vocabulary)}
    known = {text: _code(text, positions) for text in dict.fromkeys(texts)}
    out = np.array([known[text] for text in texts], dtype=np.float64)
    foreign = [text for text, code in known.items() if code == OTHER]
    if texts and bool(np.isnan(out).all()):
        return out, [f"column `{header}` has no known value in any row"]
    if foreign and vocabulary and not bool((out >= 0).any()):
        close = nearest_header(foreign[0], vocabulary)
        hint = f"; did you mean `{close}` by `{foreign[0]}`?" if close else ""
        return out, [
            (
                f"no text in column `{header}` ({list_some(foreign)}) is one that the rules know "
                f"({list_some(vocabulary)}){hint}"
            )
        ]
    return out, []


def one_hot(texts: Sequence[str], category: str, classes: Sequence[str]) -> NDArray[np.float64]:
    """The score of one class where cells hold a class each: 1 for it, 0 for the others, NaN where
    unknown or no class of the label.
    """
    places = class_places(texts, classes)
    return np.where(np.isnan(places), np.nan, places == list(classes).index(category))


def class_places(texts: Sequence[str], classes: Sequence[str]) -> NDArray[np.float64]:
    """The position among the classes that each cell names, NaN where it names none."""
    positions = {word: float(i) for i, word in enumerate(classes)}
    known = {text: _code(text, positions) for text in dict.fromkeys(texts)}
    found = np.array([known[text] for text in texts], dtype=np.float64)
    return np.where(found == OTHER, np.nan, found)


def foreign_classes(table: Table, header: str, classes: Sequence[str]) -> list[str]:
    """Notes about cells of a class column that name none of the classes: texts, row count, first
    row.
    """
    texts = table.texts(header)
    positions = {word: float(i) for i, word in enumerate(classes)}
    known = {text: _code(text, positions) for text in dict.fromkeys(texts)}
    rows = [i for i, text in enumerate(texts) if known[text] == OTHER]
    if not rows:
        return []
    foreign = list(dict.fromkeys(texts[i] for i in rows))
    close = nearest_header(foreign[0], classes)
    first = f"first in {table.where(rows[0])}" if len(rows) > 1 else f"in {table.where(rows[0])}"
    hint = f"; did you mean `{close}` by `{foreign[0]}`?" if close else ""
    kind = "is not a class" if len(foreign) == 1 else "are not classes"
    what = f"which {kind} of its label ({list_some(classes)})"
    count = f"taken as unknown in {len(rows):,} row{'s' * (len(rows) > 1)}"
    return [f"column `{header}` holds {list_some(foreign)}, {first}, {what}: {count}{hint}"]


def truths(values: NDArray[np.float64], header: str) -> tuple[NDArray[np.float64], list[str]]:
    """The numbers of a Boolean column, NaN for anything but 1 and 0, and the notes about them."""
    strange = values[~np.isnan(values) & (values != 0) & (values != 1)]
    if not strange.size:
        return values, []
    note = (
        f"column `{header}` is true or false, and holds {strange[0]:g} in "
        f"{strange.size} of its rows: taken as unknown there"
    )
    return np.where((values == 0) | (values == 1), values, np.nan), [note]


def _code(text: str, positions: dict[str, float]) -> float:
    if text in positions:
        return positions[text]
    if is_unknown(text):
        return np.nan
    whole, point, rest = text.partition(".")
    return positions.get(whole, OTHER) if point and not rest.strip("0") else OTHER
