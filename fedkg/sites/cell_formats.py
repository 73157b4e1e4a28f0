"""Cells in the format that a sites file states: numbers, Booleans and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from fedkg.tables.cell_words import is_unknown
from fedkg.tables.times import MONTHS

MINUS = str.maketrans({"−": "-"})
ZONE_NAMES = {"Z": 0, "UTC": 0, "GMT": 0, "MEZ": 1, "CET": 1, "MESZ": 2, "CEST": 2}
OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})?")

FIELDS = {
    "yyyy": r"(?P<year>\d{4})",
    "yy": r"(?P<short>\d{2})",
    "MMMM": r"(?P<name>[^\W\d_]{3,})\.?",
    "MMM": r"(?P<name>[^\W\d_]{3,})\.?",
    "MM": r"(?P<month>\d{2})",
    "M": r"(?P<month>\d{1,2})",
    "dd": r"(?P<day>\d{2})",
    "d": r"(?P<day>\d{1,2})",
    "HH": r"(?P<hour>\d{2})",
    "H": r"(?P<hour>\d{1,2})",
    "hh": r"(?P<half>\d{2})",
    "h": r"(?P<half>\d{1,2})",
    "mm": r"(?P<minute>\d{2})",
    "m": r"(?P<minute>\d{1,2})",
    "ss": r"(?P<second>\d{2})",
    "s": r"(?P<second>\d{1,2})",
    "a": r"(?P<part>[AaPp]\.?[Mm]\.?)",
    "X": r"(?P<zone>Z|[+-]\d{2}(?:\d{2})?)",
    "XX": r"(?P<zone>Z|[+-]\d{4})",
    "XXX": r"(?P<zone>Z|[+-]\d{2}:\d{2})",
    "x": r"(?P<zone>[+-]\d{2}(?:\d{2})?)",
    "xx": r"(?P<zone>[+-]\d{4})",
    "xxx": r"(?P<zone>[+-]\d{2}:\d{2})",
    "z": r"(?P<zone>Z|UTC|GMT|MEZ|MESZ|CET|CEST)",
}
"""Fields of date patterns. Source: Unicode Technical Standard 35, date format patterns."""

EXAMPLE = datetime(2016, 7, 4, 9, 5, 7)


SCALES = {"%": -2, "‰": -3}
"""Power of ten of the signs at the end of a number."""


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How numbers are written.

    Attributes:
        decimal: decimal mark.
        group: mark between thousands; "" for none.
        pattern: Unicode number pattern with these marks, such as `#,##0.00`; "": any number.
    """

    decimal: str = "."
    group: str = ""
    pattern: str = ""

    def describe(self) -> str:
        """``a number such as 1.234,5 (decimalChar `,`, groupChar `.`)``."""
        if self.pattern:
            _, example = number_pattern(self)
            return f"a number of the form `{self.pattern}`, such as {example}"
        shown = f"1{self.group}234{self.decimal}5"
        group = f", groupChar `{self.group}`" if self.group else ", no groupChar"
        return f"a number such as {shown} (decimalChar `{self.decimal}`{group})"

    def parse(self, texts: Sequence[str]) -> tuple[NDArray[np.float64], list[int]]:
        """The numbers, NaN for words without a value, and the positions of all other texts.

        Raises:
            PatternError: the pattern is not one of numbers.
        """
        pattern = number_pattern(self)[0] if self.pattern else _compile_number(self)
        values, wrong = [], []
        known: dict[str, float | None] = {}
        for i, text in enumerate(texts):
            if text not in known:
                known[text] = self._parse_one(text, pattern)
            value = known[text]
            if value is None:
                wrong.append(i)
            values.append(np.nan if value is None else value)
        return np.array(values, dtype=np.float64), wrong

    def _parse_one(self, text: str, pattern: re.Pattern[str]) -> float | None:
        plain = text.translate(MINUS)
        if pattern.fullmatch(plain):
            digits = plain.replace(self.group, "") if self.group else plain
            if self.group == " ":
                digits = digits.replace("\u00a0", "").replace("\u202f", "")
            if self.group == "'":
                digits = digits.replace("’", "")
            digits = digits.replace(self.decimal, ".")
            if digits[-1] in SCALES:
                digits = f"{digits[:-1].rstrip()}e{SCALES[digits[-1]]}"
            value = float(digits)
            return value if np.isfinite(value) else np.nan
        return np.nan if is_unknown(text) else None


def _group_expression(group: str) -> str:
    """The regular expression of a mark between thousands, with its typographic variants."""
    return {" ": "[ \u00a0\u202f]", "'": "['’]"}.get(group, re.escape(group))


@cache
def _compile_number(form: NumberFormat) -> re.Pattern[str]:
    d, marks = re.escape(form.decimal), _group_expression(form.group)
    whole = rf"(?:\d{{1,3}}(?:{marks}\d{{3}})+|\d+)" if form.group else r"\d+"
    return re.compile(rf"[+-]?(?:{whole}(?:{d}\d*)?|{d}\d+)(?:[eE][+-]?\d+)?")


class PatternError(ValueError):
    """A number or date pattern or a zone that fedkg does not know; the text is a help line."""


@cache
def number_pattern(form: NumberFormat) -> tuple[re.Pattern[str], str]:
    """The regular expression of the format's number pattern, and an example.

    `0` is a digit, `#` an optional one. The digits after the last mark between thousands are the
    size of the last group, those before it the size of the other groups. Numbers with more digits
    must have these groups. A sign is optional, and needed after `+`.

    Source: Metadata Vocabulary for Tabular Data, section 6.4.2; Unicode Technical Standard 35,
    number format patterns.

    Raises:
        PatternError: the pattern has other characters or another order.
    """
    d, g = re.escape(form.decimal), re.escape(form.group)
    found = re.fullmatch(
        rf"(?P<sign>\+?)(?P<whole>[#0{g}]*)(?:{d}(?P<part>0*#*))?"
        r"(?:E(?P<power_sign>\+?)(?P<power>0+))?(?P<scale> ?[%‰])?",
        form.pattern,
    )
    written = found["whole"] if found else ""
    groups = written.split(form.group or None) if written else []
    places = "".join(groups)
    if (
        found is None
        or not all(groups)
        or not places + (found["part"] or "")
        or "#" in places.lstrip("#")
        or (found["power"] and found["scale"])
    ):
        group = f", groupChar `{form.group}`" if form.group else ""
        raise PatternError(
            f"write a number pattern with 0, #, decimalChar `{form.decimal}`{group}, E, +, % and "
            f"‰, such as #{form.group}##0{form.decimal}00; fedkg does not know others"
        )
    whole, shown, mark = r"\d*", "1234", _group_expression(form.group)
    if len(groups) > 1:
        last, size = len(groups[-1]), len(groups[-2 if len(groups) > 2 else -1])
        whole = rf"(?:\d{{1,{size}}}(?:{mark}\d{{{size}}})*{mark}\d{{{last}}}|\d{{0,{last}}})"
        shown = f"{'1234567'[: 7 - last][-size:]}{form.group}{'1234567'[7 - last :]}"
    least = rf"(?=(?:(?:{mark})?\d){{{places.count('0')}}})"
    part = found["part"] or ""
    fraction = rf"(?:{d}\d{{{max(part.count('0'), 1)},{len(part)}}})" if part else ""
    fraction += "" if "0" in part or not part else "?"
    power = ""
    if found["power"]:
        power = rf"[eE]{'[+-]' if found['power_sign'] else '-?'}\d{{{len(found['power'])},}}"
    sign, scale = "[+-]" if found["sign"] else "[+-]?", found["scale"] or ""
    some = rf"(?=[+-]?{d}?\d)"  # at least one digit
    example = (
        found["sign"]
        + shown.zfill(places.count("0"))
        + (form.decimal + "5".ljust(part.count("0"), "0") if part else "")
        + (f"E{found['power_sign']}{'3'.zfill(len(found['power']))}" if found["power"] else "")
        + scale
    )
    return re.compile(some + sign + least + whole + fraction + power + re.escape(scale)), example


@cache
def date_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression of a Unicode date pattern such as ``dd/MM/yy HH``.

    Raises:
        PatternError: the pattern has an unknown letter, a field twice, or no date.
    """
    if "%" in pattern:
        raise PatternError("write a Unicode date pattern, such as dd.MM.yyyy HH:mm:ss, without %")
    out, seen = [], set()
    for found in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|\s+|.", pattern):
        piece = found.group()
        if piece.startswith("'"):
            out.append(re.escape(found[1].replace("''", "'")) if found[1] else "'")
        elif piece == "T":
            out.append("T")
        elif found[2] is None:
            out.append(r"\s+" if piece.isspace() else re.escape(piece))
        else:
            field = r"(?P<fraction>\d{1,9})" if found[2] == "S" else FIELDS.get(piece)
            if field is None:
                raise PatternError(
                    f"`{piece}` is unknown; write yyyy, yy, MM, M, MMM, dd, d, HH, H, hh, h, mm, "
                    "ss, S, a, XXX, and other letters in single quotes"
                )
            group = field[4 : field.index(">")]
            if group in seen:
                raise PatternError(f"`{piece}` occurs twice in the date pattern; write it once")
            seen.add(group)
            out.append(field)
    date = ({"year", "short"} & seen) and ({"month", "name"} & seen) and "day" in seen
    if not date:
        raise PatternError("a time needs year, month and day: dd.MM.yyyy HH:mm")
    if ("half" in seen) != ("part" in seen):
        raise PatternError("`h` and `a` need each other: hh:mm a; hours up to 24 are HH")
    return re.compile("".join(out))


def example_of(pattern: str) -> str:
    """A time written in a pattern, for messages."""
    values = {
        "y": EXAMPLE.year,
        "M": EXAMPLE.month,
        "d": EXAMPLE.day,
        "H": EXAMPLE.hour,
        "h": EXAMPLE.hour,
        "m": EXAMPLE.minute,
        "s": EXAMPLE.second,
    }

    def shown(found: re.Match[str]) -> str:
        piece = found.group()
        if piece.startswith("'"):
            return found[1].replace("''", "'") or "'"
        if found[2] is None or piece == "T":
            return piece
        match found[2]:
            case "y":
                return "2016" if len(piece) > 2 else "16"
            case "M" if len(piece) > 2:
                return "Jul"
            case "S":
                return "0" * len(piece)
            case "a":
                return "AM"
            case "X" | "x" | "z":
                return "Z" if found[2] != "x" else "+00:00"
        return str(values[found[2]]).zfill(len(piece))

    return re.sub(r"'((?:[^']|'')*)'|([A-Za-z])\2*|\s+|.", shown, pattern)


def parse_date(text: str, pattern: str) -> tuple[datetime, timedelta | None] | None:
    """The moment without its zone, and the zone's offset from UTC (None without a zone).

    Returns None for a text that does not have the pattern, or is not a date.
    """
    found = date_pattern(pattern).fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    year = int(parts.get("year") or 2000 + int(parts.get("short") or 0))
    named = parts.get("name")
    month = MONTHS.get(named[:3].casefold(), 0) if named else int(parts.get("month") or 0)
    hour = int(parts.get("hour") or 0)
    if parts.get("half"):
        hour = int(parts["half"]) % 12 + (12 if parts["part"][0] in "pP" else 0)
    fraction = int((parts.get("fraction") or "0").ljust(6, "0")[:6])
    day = int(parts.get("day") or 0)
    later = hour == 24 and not int(parts.get("minute") or 0) and not int(parts.get("second") or 0)
    try:
        moment = datetime(
            year,
            month,
            day,
            0 if later else hour,
            int(parts.get("minute") or 0),
            int(parts.get("second") or 0),
            fraction,
        )
        moment += timedelta(days=int(later))
    except (ValueError, OverflowError):
        return None
    return moment, _parse_offset(parts.get("zone"))


def _parse_offset(text: str | None) -> timedelta | None:
    if text is None:
        return None
    if text in ZONE_NAMES:
        return timedelta(hours=ZONE_NAMES[text])
    found = OFFSET.fullmatch(text)
    assert found is not None
    ahead = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
    return -ahead if found[1] == "-" else ahead


@cache
def find_zone(name: str) -> tzinfo:
    """The zone ``Europe/Vienna``, ``UTC`` or ``+01:00``.

    Raises:
        PatternError: the zone is unknown.
    """
    if name in ("Z", "UTC"):
        return UTC
    found = OFFSET.fullmatch(name)
    if found is not None and int(found[2]) < 24 and int(found[3] or 0) < 60:
        offset = _parse_offset(name)
        assert offset is not None
        return timezone(offset)
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise PatternError(
            f"time zone `{name}` is unknown; write a name such as Europe/Vienna, UTC, or an offset "
            "such as +01:00"
        ) from error


def to_utc(moment: datetime, zone: tzinfo, after: datetime | None) -> datetime | None:
    """A local time in UTC, without zone; None for a time that the clocks skip.

    Args:
        after: the previous time of the same series in UTC. An hour that the clocks repeat is the
            second one if the first would not be later than `after`.
    """
    local = moment.replace(tzinfo=zone)
    try:
        utc = local.astimezone(UTC)
        if utc.astimezone(zone).replace(tzinfo=None) != moment:
            return None
        first = utc.replace(tzinfo=None)
        if after is not None and first <= after:
            second = local.replace(fold=1).astimezone(UTC).replace(tzinfo=None)
            return second if second > after else first
    except OverflowError:
        return None
    return first
