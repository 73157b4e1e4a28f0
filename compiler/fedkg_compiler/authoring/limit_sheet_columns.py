"""Sheets of limits: which column names the tag, and which hold the lower and the upper limit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fedkg.errors import TableError
from fedkg.tables import Table

TAG = (
    r"tags?(?:_?names?)?|tag_?id",
    r"(?:signal|sensor|variable|column|point|parameter|measurement|channel)(?:_?names?)?",
    (
        r"mess(?:stellen?|punkte?|größen?|groessen?|werte?)(?:n?_?namen?)?|"
        r"kan[aä]le?(?:_?namen?)?|signale?(?:bezeichnung|_?namen?)|kks|akz|spalten?"
    ),
    r"names?|namen?|bezeichnung(?:en)?|bezeichner",
    r"id|item",
)
LOW = (
    r"low(?:er)?(?:_?(?:limits?|bounds?|range))?|lo",
    r"min(?:imum|imal|_?value|_?wert|_?limit)?|mindestwert",
    (
        r"unte(?:n|re[rs]?)(?:_?(?:grenze|grenzwert|limit|schranke))?|"
        r"untergrenze|grenz(?:wert|e)_?unten|u_?gw?|utg"
    ),
    r"from|von|ab",
    r"ll|l|lsl|low_?low|lo_?lo",
)
HIGH = (
    r"high(?:er)?(?:_?(?:limits?|bounds?|range))?|hi|upper(?:_?(?:limits?|bounds?|range))?",
    r"max(?:imum|imal|_?value|_?wert|_?limit)?|h(?:ö|oe)chstwert",
    (
        r"obe(?:n|re[rs]?)(?:_?(?:grenze|grenzwert|limit|schranke))?|"
        r"obergrenze|grenz(?:wert|e)_?oben|o_?gw?|otg"
    ),
    r"to|bis",
    r"hh|h|usl|high_?high|hi_?hi",
)
UNIT = (
    r"units?|uom|eu|eng(?:ineering)?_?units?",
    r"einheit(?:en)?|dim(?:ension)?|masseinheit|maßeinheit",
)
"""What headers are called, without case, brackets and punctuation; where several fit, an earlier
pattern is meant.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitColumns:
    """The headers of a sheet of limits; at least one of `low` and `high` is there."""

    tag: str
    low: str | None
    high: str | None
    unit: str | None


def find_limit_columns(sheet: Table) -> LimitColumns:
    """Which column is which, by their headers in English or German, in any order.

    Raises:
        TableError: if the sheet has no column of tags or of limits, or a limit is not a number.
    """
    tag = _column(sheet, TAG)
    low, high = _column(sheet, LOW), _column(sheet, HIGH)
    if tag is None or (low is None and high is None):
        lacking = "names the tag" if tag is None else "holds a limit"
        raise TableError(
            f"{sheet.name} is not a sheet of limits: no header says which column {lacking}",
            expected="headers such as tag, low, high, unit (or Messstelle, Min, Max, Einheit)",
            received="headers " + ", ".join(f"`{header}`" for header in sheet.headers[:12]),
            help="rename the headers in the first row of the sheet, or check that this is the "
            "right file",
        )
    for header in (low, high):
        if header is not None:
            sheet.numbers(header)
    return LimitColumns(tag=tag, low=low, high=high, unit=_column(sheet, UNIT))


def _column(sheet: Table, patterns: tuple[str, ...]) -> str | None:
    """The header that fits the earliest of the patterns, the first such one; what is in brackets
    does not count.
    """
    for pattern in patterns:
        for header in sheet.headers:
            plain = (
                re.sub(r"\W+", "_", re.sub(r"\[.*?\]|\(.*?\)", "", header)).strip("_").casefold()
            )
            if re.fullmatch(pattern, plain):
                return header
    return None
