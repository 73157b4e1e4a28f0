"""Draft a sites file from tables: their form, columns, units, formats and words."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from fedkg._internal.name_matching import normalise_header
from fedkg.errors import TableError
from fedkg.limits import read_file
from fedkg.sites.cell_formats import NumberFormat, date_pattern, parse_date
from fedkg.tables import Dialect, Table, is_unknown, read_bytes, read_table
from fedkg.tables.delimited import VOTING_ROWS
from fedkg.tables.layout import blank, is_value
from fedkg.tables.numerals import looks_numeric
from fedkg.units import Unit, parse_unit
from fedkg.units.header import header_unit, split_header

DATES = ("yyyy-MM-dd", "yyyy/MM/dd", "dd.MM.yyyy", "d.M.yyyy", "dd/MM/yyyy", "d/M/yyyy",
         "MM/dd/yyyy", "M/d/yyyy", "dd-MM-yyyy", "dd.MM.yy", "dd/MM/yy", "MM/dd/yy", "yyyyMMdd",
         "d-MMM-yyyy", "d-MMM-yy", "d MMM yyyy", "d. MMM yyyy")  # fmt: skip
CLOCKS = ("", "HH:mm:ss", "HH:mm", "H:mm:ss", "H:mm", "HH", "HH:mm:ss.S", "HH:mm:ss,S",
          "hh:mm:ss a", "hh:mm a", "h:mm:ss a", "h:mm a", "HHmmss", "HHmm")  # fmt: skip
"""Date patterns that a draft recognises: a date, then a blank or `T` and a clock."""

TRUTHS = (
    ("true", "false"),
    ("yes", "no"),
    ("y", "n"),
    ("on", "off"),
    ("open", "closed"),
    ("running", "stopped"),
    ("wahr", "falsch"),
    ("ja", "nein"),
    ("j", "n"),
    ("ein", "aus"),
    ("auf", "zu"),
    ("offen", "zu"),
    ("offen", "geschlossen"),
    ("läuft", "steht"),
    ("oui", "non"),
    ("vrai", "faux"),
    ("ouvert", "fermé"),
    ("marche", "arrêt"),
    ("si", "no"),
    ("sí", "no"),
    ("aperto", "chiuso"),
)
"""Pairs of words for true and false."""

BARE_UNITS = frozenset("bar mbar psi psia psig barg kPa MPa degC degF rpm kW MW kWh".split())  # noqa: SIM905
"""Units that a draft recognises as the last word of a header without brackets, as well as those
with a sign such as `°C`, `%` and `m3/h`.
"""

FEW_WORDS = 0.2
"""Largest share of cells with words in a column that is drafted as numbers; the words become its
`null`.
"""
MAX_WORDS = 12
MAX_HEADER_ROWS = 3
SEARCHED_ROWS = 60
SAMPLE_ROWS = 30
FULL = 0.75
"""A header has a name for at least this share of the columns that a usual row fills."""
HEAD_BYTES = 1 << 18
"""Bytes of a text file in which its header is searched."""


@dataclass(slots=True)
class _Column:
    """A drafted column: fields in the order of the file, and a remark."""

    header: str
    name: str
    fields: dict[str, object] = field(default_factory=dict)
    remark: str = ""
    time: bool = False


@dataclass(frozen=True, slots=True)
class _Draft:
    """The drafted description of one table."""

    name: str
    url: str
    dialect: dict[str, object]
    datatype: dict[str, object]
    columns: list[_Column]
    notes: list[str]


def draft_sites(tables: Sequence[Path], folder: Path, tags: Sequence[str] = ()) -> str:
    """Draft a sites file, one site for each table.

    A column has the same name at all sites if its headers differ only in unit, case and
    punctuation, or if one tag is the start of its headers. Otherwise it has its header as name.

    Args:
        tables: the tables; the first one gives the names.
        folder: the folder of the sites file, from which it names the tables.
        tags: names of the rules, such as the tags of a sheet of limits.

    Raises:
        TableError, LimitError: a table cannot be read.
    """
    drafts: list[_Draft] = []
    names: dict[str, str] = {}
    time_name = ""
    for path in tables:
        draft = _draft_table(path, folder, tags, names, time_name)
        drafts.append(draft)
        time_name = time_name or next((one.name for one in draft.columns if one.time), "")
        for column in draft.columns:
            names.setdefault(column.header, column.name)
            names.setdefault(_normalise_name(column.header), column.name)
    return _format_draft(_make_names_unique(drafts))


def match_tags(
    tags: Sequence[str], headers: Sequence[str], parts: Sequence[Sequence[str]] = ()
) -> dict[str, str]:
    """The tag that each header means: an equal one, or else the longest that is its start.

    A tag that is the start of several headers matches none of them.

    Args:
        parts: for each header its cells, if it has several rows; a tag may be the start of one.
    """
    found: dict[str, str] = {}
    others = {tag: tag.casefold() for tag in set(tags) - set(headers)}
    for number, header in enumerate(headers):
        if header in tags:
            found[header] = header
            continue
        texts = [text.casefold() for text in (header, *(parts[number] if parts else ()))]
        starts = [
            tag
            for tag, start in others.items()
            if any(
                text.startswith(start) and not text[len(start) : len(start) + 1].isalnum()
                for text in texts
            )
        ]
        if starts:
            found[header] = max(sorted(starts), key=len)
    counts = list(found.values())
    return {header: tag for header, tag in found.items() if counts.count(tag) == 1}


def find_header(path: Path) -> Dialect:
    """The rows above the header, and the rows of the header, of a table; may be merged cells.

    Raises TableError, LimitError.
    """
    try:
        body = _take_first_lines(read_file(path))
    except OSError:
        read_table(path)  # raises the error with its remedy
        raise
    line = read_bytes(body, str(path)).found.header_line
    if line is None:
        return Dialect(header_rows=0)
    whole = read_bytes(body, str(path), dialect=Dialect(header_rows=0))
    lines = whole.lines[: SEARCHED_ROWS + SAMPLE_ROWS].tolist()
    if line not in lines:
        return Dialect()
    columns = [whole.texts(header)[: len(lines)] for header in whole.headers]
    rows = [list(row) for row in zip(*columns, strict=True)]
    top = end = _find_header_row(rows, lines.index(line))
    while (
        end + 2 < len(rows) and end - top + 1 < MAX_HEADER_ROWS and _continues_header(rows, end + 1)
    ):
        end += 1
    if top and end - top + 1 < MAX_HEADER_ROWS and _is_group_row(rows[top - 1], rows[top]):
        top -= 1
    if lines[end] - lines[top] != end - top:
        return Dialect()  # blank rows within the header
    return Dialect(header_rows=end - top + 1, skip_rows=lines[top] - 1)


def _find_header_row(rows: Sequence[Sequence[str]], detected: int) -> int:
    """The position of the header: the detected one, or a fuller row of words below it.

    Titles such as `Plant;Graz` above the header may look like one.
    """
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    body = sorted(filled[detected + 1 :])
    usual = body[len(body) // 2] if body else 0
    for at in range(detected, min(detected + SAMPLE_ROWS, len(rows) - 1)):
        if filled[at] >= FULL * usual and not any(is_value(cell) for cell in rows[at]):
            return at
        if any(is_value(cell) for cell in rows[at]) and filled[at] >= FULL * usual:
            break
    return detected


def _take_first_lines(body: bytes) -> bytes:
    """The first lines of a text file, which hold its header; other files whole."""
    if len(body) <= HEAD_BYTES or b"\0" in body[:4096] or not body[:1].isascii():
        return body
    head = body[: body.rfind(b"\n", 0, HEAD_BYTES) + 1]
    return head if head and not body.startswith((b"PK\x03\x04", b"PAR1", b"\x1f\x8b")) else body


def _continues_header(rows: Sequence[Sequence[str]], at: int) -> bool:
    """Whether a row below a header belongs to it: words or units above columns of values."""
    row, below = rows[at], rows[at + 1 : at + 1 + SAMPLE_ROWS]
    if blank(row) or any(is_value(cell) for cell in row):
        return False
    over = False
    for column, cell in enumerate(row):
        known = [other[column] for other in below if not is_unknown(other[column].strip())]
        values = bool(known) and 2 * sum(map(is_value, known)) > len(known)
        over = over or (values and bool(cell.strip()) and not is_unknown(cell.strip()))
    return over


def _is_group_row(row: Sequence[str], header: Sequence[str]) -> bool:
    """Whether the row above a header names groups of columns: several cells, or repeated headers
    below.
    """
    filled = [i for i, cell in enumerate(row) if cell.strip()]
    named = [cell.strip() for cell in header if cell.strip()]
    if not filled or any(is_value(row[i]) for i in filled) or len(filled) >= len(named):
        return False
    return len(filled) > 1 or (filled[0] > 0 and len(set(named)) < len(named))


def _draft_table(
    path: Path, folder: Path, tags: Sequence[str], names: Mapping[str, str], time_name: str
) -> _Draft:
    dialect = find_header(path)
    try:
        table = read_table(path, dialect=dialect)
    except TableError:
        dialect = Dialect()
        table = read_table(path)
    tagged = match_tags(tags, table.headers, table.header_parts)
    marks = _find_number_format(table)
    datatype: dict[str, object] = {}
    if marks != NumberFormat():
        datatype["decimalChar"] = marks.decimal
        if marks.group:
            datatype["groupChar"] = marks.group
    columns: list[_Column] = []
    notes: list[str] = []
    taken: set[str] = set()
    for header in table.headers:
        if header in table.found.duplicates:
            notes.append(f"column {header} occurs more than once; give it a unique header")
        if header in table.found.duplicates or (
            header.rpartition(" (")[0] in table.found.duplicates
        ):
            continue
        column = _draft_column(table, header, marks)
        column.name = tagged.get(header) or _find_common_name(header, names)
        if column.time and not any(one.time for one in columns) and time_name:
            column.name = time_name
        if column.name in taken:
            column.name = header
        taken.add(column.name)
        columns.append(column)
    return _Draft(
        name=re.sub(r"[^A-Za-z0-9_.() -]", "_", path.name.split(".")[0]).lstrip("_.() -") or "site",
        url=_relative_path(path, folder),
        dialect=_describe_dialect(table, dialect),
        datatype=datatype,
        columns=columns,
        notes=notes,
    )


def _relative_path(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return path.resolve().as_posix()


def _describe_dialect(table: Table, dialect: Dialect) -> dict[str, object]:
    fields: dict[str, object] = {}
    if table.found.separator:
        fields["delimiter"] = table.found.separator
        if table.found.encoding not in ("", "utf-8"):
            fields["encoding"] = table.found.encoding
    if dialect.header_rows == 0:
        fields["header"] = False
    elif dialect.header_rows is not None and (dialect.skip_rows or dialect.header_rows > 1):
        fields["skipRows"] = dialect.skip_rows
        if dialect.header_rows > 1:
            fields["headerRowCount"] = dialect.header_rows
    return fields


def _find_common_name(header: str, names: Mapping[str, str]) -> str:
    """The name of a column at an earlier site, if the headers differ in unit and spelling only."""
    return names.get(header) or names.get(_normalise_name(header)) or header


def _normalise_name(header: str) -> str:
    """A header without unit, case and punctuation, behind a line break, which no header has."""
    unit = _find_unit(header)[0]
    plain = split_header(header)[0] if split_header(header)[1] else header
    plain = plain.removesuffix(unit).strip() if unit and plain == header else plain
    return f"\n{normalise_header(plain) or plain}"


def _find_unit(header: str) -> tuple[str, str]:
    """The unit that a header names, and a remark about one that is ambiguous or unknown."""
    if header_unit(header) is not None:
        return split_header(header)[1], ""
    bracketed = split_header(header)[1]
    last = header.split()[-1] if len(header.split()) > 1 else ""
    bare = last if last in BARE_UNITS or re.search(r"[°%/]|\([agü]\)$", last) else ""
    if bare and isinstance(parse_unit(bare), Unit):
        return bare, ""
    found = parse_unit(bracketed) if re.search(r"[^\W\d_]|[%°]", bracketed) else None
    if found is None or isinstance(found, Unit):
        return "", ""
    advice = found.advice.replace("`", "")
    return "", f"state the unit: {bracketed} {found.reason}" + (f" ({advice})" if advice else "")


def _find_number_format(table: Table) -> NumberFormat:
    """The form of numbers in which the cells of most columns can be read, apart from words."""
    decimal = table.found.decimal
    other = "," if decimal == "." else "."
    columns = [
        [text for text in table.texts(header)[:VOTING_ROWS] if looks_numeric(text)]
        for header in table.headers
        if table.cells[table.position(header)].values is None
    ]
    best, most = NumberFormat(), -1
    for mark, groups in ((decimal, ("", other, "'", " ")), (other, ("", decimal, "'", " "))):
        for group in groups:
            form = NumberFormat(decimal=mark, group=group)
            fits = sum(bool(texts) and not form.parse(texts)[1] for texts in columns)
            if fits > most:
                best, most = form, fits
    return best


def _draft_column(table: Table, header: str, marks: NumberFormat) -> _Column:
    """The description of one column."""
    column = _Column(header=header, name=header)
    unit, column.remark = _find_unit(header)
    texts = table.texts(header)
    known = [text for text in dict.fromkeys(texts) if not is_unknown(text)]
    if not known:
        column.remark = column.remark or "no known value"
        return column
    typed = table.cells[table.position(header)].values is not None
    if typed and table.is_numeric(header):
        _add_unit(column, unit)
        return column
    pair = _find_truth_words(known)
    if pair is not None:
        column.fields["datatype"] = {"base": "boolean", "format": "|".join(pair)}
        return column
    wrong = sorted({texts[i] for i in marks.parse(texts)[1]})
    if not wrong or table.is_numeric(header):
        if wrong:
            own = next((form for form in _FORMS if not form.parse(texts)[1]), None)
            if own is None:
                column.remark = "state `decimalChar` and `groupChar`"
                return column
            column.fields["datatype"] = {"base": "number", "decimalChar": own.decimal}
            if own.group:
                column.fields["datatype"] = {
                    "base": "number",
                    "decimalChar": own.decimal,
                    "groupChar": own.group,
                }
        _add_unit(column, unit)
        return column
    pattern, doubtful = _find_time_pattern(known)
    if pattern:
        column.time = True
        column.fields["datatype"] = {"base": "datetime", "format": pattern}
        if doubtful:
            column.remark = f"day first or month first? `{doubtful}` fits too"
        return column
    odd = [texts[i] for i in marks.parse(texts)[1]]
    if (
        len(odd) <= FEW_WORDS * len(texts)
        and len(wrong) <= MAX_WORDS
        and not any(map(is_value, wrong))
    ):
        column.fields["null"] = wrong
        _add_unit(column, unit)
        column.remark = column.remark or "are these words missing values?"
        return column
    column.fields["datatype"] = {"base": "string"}
    shown = ", ".join(known[:4])
    column.remark = f"text: {shown}" + (f" and {len(known) - 4} more" if len(known) > 4 else "")
    return column


_FORMS = tuple(
    NumberFormat(decimal=decimal, group=group)
    for decimal in (".", ",")
    for group in ("", ",", ".", "'", " ")
    if group != decimal
)


def _add_unit(column: _Column, unit: str) -> None:
    if unit:
        column.fields = {"unit": unit, **column.fields}


def _find_truth_words(known: Sequence[str]) -> tuple[str, str] | None:
    """The words for true and false, if a column has exactly such a pair."""
    words = {word.casefold(): word for word in known}
    if len(words) != 2 or {"0", "1"} == set(words):
        return None
    for yes, no in TRUTHS:
        if set(words) == {yes, no}:
            return words[yes], words[no]
    return None


def _find_time_pattern(known: Sequence[str]) -> tuple[str, str]:
    """The date pattern of all texts, and a second one that fits too; "" for none."""
    if not all(len(text) >= 6 and text[0].isdigit() for text in known[:20]):
        return "", ""
    fits: list[str] = []
    for date in DATES:
        for clock in CLOCKS:
            for between in (" ", "'T'") if clock else ("",):
                for zone in ("", "XXX", "XX", "X", " z") if clock else ("",):
                    pattern = f"{date}{between}{clock}{zone}"
                    if fits and _month_first(pattern) == _month_first(fits[0]):
                        continue  # one pattern of each order is enough
                    if date_pattern(pattern).fullmatch(known[0]) and all(
                        parse_date(text, pattern) for text in known
                    ):
                        fits.append(pattern)
    if not fits:
        return "", ""
    swapped = fits[1] if len(fits) > 1 else ""
    if swapped and not _increases(known, fits[0]) and _increases(known, swapped):
        return swapped, ""
    if swapped and _increases(known, fits[0]) and not _increases(known, swapped):
        swapped = ""
    return fits[0], swapped


def _month_first(pattern: str) -> bool:
    return pattern.find("M") < pattern.find("d")


def _increases(known: Sequence[str], pattern: str) -> bool:
    """Whether times never decrease in the order of the file."""
    moments = [found[0] for text in known if (found := parse_date(text, pattern)) is not None]
    return all(earlier <= later for earlier, later in pairwise(moments))


def _make_names_unique(drafts: Sequence[_Draft]) -> dict[str, _Draft]:
    named: dict[str, _Draft] = {}
    for draft in drafts:
        name, number = draft.name[:60], 2
        while name in named:
            name, number = f"{draft.name[:60]} {number}", number + 1
        named[name] = draft
    return named


def _format_draft(drafts: Mapping[str, _Draft]) -> str:
    """The drafts as YAML."""
    lines = [
        "# A first draft, made by `fedkg new`. Check the names, units, formats and words.",
        "# `name` is the name in the rules, `titles` the header in the file of the site.",
        "sites:",
    ]
    earlier: set[str] = set()
    for number, (site, draft) in enumerate(drafts.items()):
        lines += [f"  {_format_text(site)}:", f"    url: {_format_text(draft.url)}"]
        if draft.dialect:
            lines.append(f"    dialect: {_format_mapping(draft.dialect)}")
        if draft.datatype:
            lines.append(f"    datatype: {_format_mapping(draft.datatype)}")
        lines += [f"    # {_format_remark(note)}" for note in draft.notes]
        if draft.columns:
            lines += ["    tableSchema:", "      columns:"]
        for column in draft.columns:
            fields = {"name": column.name, "titles": column.header, **column.fields}
            remark = column.remark
            if number and column.name not in earlier:
                remark = "; ".join(filter(None, (remark, "no counterpart at the sites above")))
            lines.append(
                f"        - {_format_mapping(fields)}"
                + (f"  # {_format_remark(remark)}" if remark else "")
            )
        earlier |= {column.name for column in draft.columns}
    return "\n".join(lines) + "\n"


def _format_mapping(fields: Mapping[str, object]) -> str:
    """A mapping in one line of YAML."""
    return "{" + ", ".join(f"{key}: {_format_value(value)}" for key, value in fields.items()) + "}"


def _format_value(value: object) -> str:
    if isinstance(value, Mapping):
        return _format_mapping(value)
    if isinstance(value, list):
        return "[" + ", ".join(_format_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _format_text(str(value))


def _format_text(text: str) -> str:
    """A text of YAML: in quotes unless it is a plain word."""
    if re.fullmatch(r"[A-Za-zÄÖÜäöüß][A-Za-z0-9ÄÖÜäöüß_.-]*(?:/[A-Za-z0-9_.-]+)*", text) and (
        text.casefold() not in ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    ):
        return text
    return json.dumps(text, ensure_ascii=False)


def _format_remark(text: str) -> str:
    return " ".join(text.split())
