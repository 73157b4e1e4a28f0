"""Which character separates the cells of a text table."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import _csv

SEPARATORS = ("\t", ";", "|", ",")
"""The candidates; where two fit alike, the earlier one is meant (a comma is more often a decimal
comma)."""

NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
SAMPLE_ROWS = 300
SAMPLE_CHARACTERS = 1 << 18


def text_lines(text: str) -> Iterator[str]:
    """The lines of a text with their ends. (`io.StringIO` takes four bytes for each character.)"""
    return (found.group() for found in LINE.finditer(text))


def records(lines: Iterable[str], separator: str, quote: str = '"') -> _csv.Reader:
    """A reader of the records in these lines.

    Quoted cells may hold separators, quotes (doubled) and line breaks. `quote` is "" if no cell is
    quoted.
    """
    if not quote:
        return csv.reader(lines, delimiter=separator, skipinitialspace=True, quoting=csv.QUOTE_NONE)
    if quote != '"':
        return csv.reader(lines, delimiter=separator, skipinitialspace=True, quotechar=quote)
    return csv.reader(lines, delimiter=separator, skipinitialspace=True)


def announced(text: str) -> str | None:
    """The separator of a first line like ``sep=;``, as spreadsheets write it."""
    match = re.match(r'"?sep=([;,|\t])"?\s*\r?\n', text, re.IGNORECASE)
    return match.group(1) if match else None


def find_separator(text: str) -> str:
    """The separator under which most rows have one and the same number of cells, more than one.

    A comma for a single column.
    """
    sample = text[:SAMPLE_CHARACTERS]
    if len(sample) < len(text) and "\n" in sample:
        sample = sample[: sample.rindex("\n") + 1]
    best, best_score = ",", 0.0
    for separator in SEPARATORS:
        if separator in sample:
            score = _score(_sample(sample, separator))
            if score > best_score + 1e-9:
                best, best_score = separator, score
    if best == "," and _is_one_column_of_decimal_commas(sample):
        return ";"
    return best


def _sample(text: str, separator: str) -> list[list[str]]:
    try:
        return list(
            islice(
                (
                    row
                    for row in records(text_lines(text), separator)
                    if any(cell.strip() for cell in row)
                ),
                SAMPLE_ROWS,
            )
        )
    except csv.Error:
        return []


def _score(rows: Sequence[Sequence[str]]) -> float:
    """The share of rows with the most frequent width, more if the first row has it too; 0 when that
    width is one.
    """
    if not rows:
        return 0.0
    width, count = Counter(len(row) for row in rows).most_common(1)[0]
    if width < 2:
        return 0.0
    return count / len(rows) + (0.5 if len(rows[0]) == width else 0.0)


def _is_one_column_of_decimal_commas(sample: str) -> bool:
    lines = [line.strip() for line in sample.splitlines()[: SAMPLE_ROWS + 1] if line.strip()]
    body = lines[1:]
    return (
        bool(body)
        and "," not in lines[0]
        and all(re.fullmatch(r"[+-]?\d*(,\d+)?", line) for line in body)
    )
