"""Numbers as people and machines write them: decimal point or comma, thousands apart by point,
comma, blank or apostrophe.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.tables.cell_words import is_unknown

DecimalMark = Literal[".", ","]

BLANKS = " \u00a0\u202f\u2009'’"
EXPONENT = r"(?:[eE][+-]?\d+)?"


def _evidence(mark: str, other: str) -> re.Pattern[str]:
    """A cell that can only be read with `mark` as the decimal mark."""
    d, g = re.escape(mark), re.escape(other)
    alone = rf"(?:\d*{d}(?:\d{{1,2}}|\d{{4,}})|0\d*{d}\d+|\d{{4,}}{d}\d*|{d}\d+|\d+{d}){EXPONENT}"
    scientific = rf"\d+{d}\d+[eE][+-]?\d+"
    after_groups = rf"\d{{1,3}}(?:[{g}{BLANKS}]\d{{3}})+{d}\d+"
    many_groups = rf"\d{{1,3}}(?:{g}\d{{3}}){{2,}}"
    return re.compile(
        rf"^[+\-−]?(?:{alone}|{scientific}|{after_groups}|{many_groups})$", re.MULTILINE
    )


def _number(mark: str, other: str) -> re.Pattern[str]:
    d, g = re.escape(mark), re.escape(other)
    groups = "|".join(rf"(?:{sign}\d{{3}})+" for sign in (g, *BLANKS))
    return re.compile(
        rf"[+\-−]?(?:\d{{1,3}}(?:{groups})(?:{d}\d*)?|(?:\d+(?:{d}\d*)?|{d}\d+){EXPONENT})"
    )


EVIDENCE: dict[DecimalMark, re.Pattern[str]] = {".": _evidence(".", ","), ",": _evidence(",", ".")}
NUMBER: dict[DecimalMark, re.Pattern[str]] = {".": _number(".", ","), ",": _number(",", ".")}
AMBIGUOUS: dict[DecimalMark, re.Pattern[str]] = {
    ".": re.compile(r"^[+\-−]?[1-9]\d{0,2}\.\d{3}$", re.MULTILINE),
    ",": re.compile(r"^[+\-−]?[1-9]\d{0,2},\d{3}$", re.MULTILINE),
}
CLEANED: dict[DecimalMark, dict[int, str]] = {
    ".": {ord("−"): "-"} | {ord(sign): "" for sign in "," + BLANKS},
    ",": {ord("−"): "-", ord(","): "."} | {ord(sign): "" for sign in "." + BLANKS},
}


def number(text: str, mark: DecimalMark) -> float | None:
    """The number a cell holds, NaN where it says that there is none, None where it holds anything
    else.
    """
    text = text.strip()
    if NUMBER[mark].fullmatch(text):
        value = float(text.translate(CLEANED[mark]))
        return value if math.isfinite(value) else math.nan
    return math.nan if is_unknown(text) else None


def looks_numeric(text: str) -> bool:
    """Whether a cell is a number under one of the two decimal marks."""
    return bool(NUMBER["."].fullmatch(text) or NUMBER[","].fullmatch(text))


def decimal_marks(texts: Sequence[str]) -> frozenset[DecimalMark]:
    """The decimal marks that fit a column's cells.

    Empty if it has only whole or ambiguous numbers (`1.234`).
    """
    joined = "\n".join(texts)
    if "." not in joined and "," not in joined:
        return frozenset()
    return frozenset(mark for mark, pattern in EVIDENCE.items() if pattern.search(joined))


def _evident_mark(texts: Sequence[str], usual: DecimalMark) -> DecimalMark:
    """The decimal mark that most cells show; the few other cells are the wrong ones."""
    marks = decimal_marks(texts)
    if len(marks) < 2:
        return next(iter(marks), usual)
    joined = "\n".join(texts)
    found: dict[DecimalMark, int] = {mark: len(EVIDENCE[mark].findall(joined)) for mark in marks}
    return usual if len(set(found.values())) == 1 else max(found, key=lambda mark: found[mark])


def is_ambiguous(texts: Sequence[str], mark: DecimalMark) -> bool:
    """Whether a cell could be read both ways by that mark: `1.234` is 1 and a bit, or one thousand
    and some.
    """
    return bool(AMBIGUOUS[mark].search("\n".join(texts)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Numbers:
    """A column read as numbers.

    Attributes:
        values: float64 [rows]; NaN where a cell has no value or is listed in `wrong`.
        wrong: positions of the cells that hold any other text.
        mark: the decimal mark used.
    """

    values: NDArray[np.float64]
    wrong: tuple[int, ...]
    mark: DecimalMark


def parse_numbers(texts: Sequence[str], usual: DecimalMark) -> Numbers:
    """The numbers of a column's cells.

    The column's own evidence for a decimal mark counts more than the file's `usual` one.

    Args:
        texts: the cells, stripped.
        usual: the mark for cells that could be read both ways, and where as many speak for either.
    """
    if usual == ".":
        quick = _plain(texts)
        if quick is not None:
            return Numbers(values=quick, wrong=(), mark=".")
    mark = _evident_mark(texts, usual)
    quick = _swapped(texts, mark)
    if quick is not None:
        return Numbers(values=quick, wrong=(), mark=mark)
    known: dict[str, float | None] = {}
    values = np.empty(len(texts), dtype=np.float64)
    wrong: list[int] = []
    for i, text in enumerate(texts):
        if text in known:
            value = known[text]
        else:
            value = known[text] = number(text, mark)
        if value is None:
            wrong.append(i)
            value = math.nan
        values[i] = value
    return Numbers(values=values, wrong=tuple(wrong), mark=mark)


def _plain(texts: Sequence[str]) -> NDArray[np.float64] | None:
    """The quick way for cells that Python itself reads (digits, a point, an exponent, nan) or that
    are empty.
    """
    try:
        values = np.array([float(text) if text else math.nan for text in texts], dtype=np.float64)
    except ValueError:
        return None
    if any("_" in text for text in texts):
        return None
    values[np.isinf(values)] = math.nan
    return values


def _swapped(texts: Sequence[str], mark: DecimalMark) -> NDArray[np.float64] | None:
    """The quick way for columns with a decimal comma and no thousands."""
    joined = "\n".join(texts)
    if mark != "," or "." in joined:
        return None
    cells = joined.replace(",", ".").split("\n")
    return _plain(cells) if len(cells) == len(texts) else None
