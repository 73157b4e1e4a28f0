"""Which texts are literals of a data type of XML Schema.

Source: W3C XML Schema Definition Language 1.1, part 2 (2012). SHACL, section 4.1.2, refers to the
data types that SPARQL 1.1 supports.
"""

from __future__ import annotations

import re
from calendar import monthrange

from rdflib import XSD
from rdflib.term import Node

_ZONE = r"(?P<zone>Z|[+-](?:(?:0\d|1[0-3]):[0-5]\d|14:00))?"
# XML Schema lets programs limit the digits of years and seconds.
_YEAR = r"(?P<year>-?(?:[1-9]\d{3,17}|0\d{3}))"
_MONTH = rf"{_YEAR}-(?P<month>0[1-9]|1[0-2])"
_DATE = rf"{_MONTH}-(?P<day>0[1-9]|[12]\d|3[01])"
_TIME = r"(?P<time>(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,99})?|24:00:00(?:\.0+)?)"
_DECIMAL = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_FLOAT = rf"{_DECIMAL}(?:[eE][+-]?\d+)?|[+-]?INF|NaN"
_FORMS = {
    XSD.boolean: "true|false|1|0",
    XSD.decimal: _DECIMAL,
    XSD.float: _FLOAT,
    XSD.double: _FLOAT,
    XSD.dateTime: f"{_DATE}T{_TIME}{_ZONE}",
    XSD.date: f"{_DATE}{_ZONE}",
    XSD.time: f"{_TIME}{_ZONE}",
    XSD.gYear: f"{_YEAR}{_ZONE}",
    XSD.gYearMonth: f"{_MONTH}{_ZONE}",
}
FORMS: dict[Node, re.Pattern[str]] = {
    kind: re.compile(form, re.ASCII) for kind, form in _FORMS.items()
}
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)

INTEGERS: dict[Node, tuple[int | None, int | None]] = {
    XSD.integer: (None, None),
    XSD.nonPositiveInteger: (None, 0),
    XSD.negativeInteger: (None, -1),
    XSD.nonNegativeInteger: (0, None),
    XSD.positiveInteger: (1, None),
    **{
        kind: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for kind, bits in ((XSD.long, 64), (XSD.int, 32), (XSD.short, 16), (XSD.byte, 8))
    },
    **{
        kind: (0, 2**bits - 1)
        for kind, bits in (
            (XSD.unsignedLong, 64),
            (XSD.unsignedInt, 32),
            (XSD.unsignedShort, 16),
            (XSD.unsignedByte, 8),
        )
    },
}
"""The least and largest number of each type of integers; None without one."""

YEARS, DAYS = 400, 146_097
"""The years after which the calendar repeats, and their days."""

LONGEST = 4000
"""Digits up to which an integer is converted, as in Python's own limit; longer ones are beyond all
bounds.
"""


def is_well_formed(text: str, kind: Node) -> bool | None:
    """Whether a text is a literal of a data type; None for types that this module does not know."""
    if kind in INTEGERS:
        if INTEGER.fullmatch(text) is None:
            return False
        least, most = INTEGERS[kind]
        digits = text.lstrip("+-").lstrip("0")
        sign = "-" if text.startswith("-") else ""
        number = int(sign + ("9" * 30 if len(digits) > LONGEST else digits or "0"))
        return (least is None or number >= least) and (most is None or number <= most)
    form = FORMS.get(kind)
    if form is None:
        return None
    found = form.fullmatch(text)
    if found is None or kind not in (XSD.dateTime, XSD.date):
        return found is not None
    year = 2000 + int(found["year"]) % YEARS
    return int(found["day"]) <= monthrange(year, int(found["month"]))[1]
