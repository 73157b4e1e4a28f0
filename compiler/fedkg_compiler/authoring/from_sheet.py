"""Rules from a sheet of limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

import numpy as np

from fedkg._internal.name_matching import nearest_header
from fedkg.tables import Table, is_unknown
from fedkg.units.text import UnitProblem, parse_unit
from fedkg_compiler.authoring.limit_sheet_columns import LimitColumns, find_limit_columns
from fedkg_compiler.authoring.ranges import plain
from fedkg_compiler.authoring.sheet_units import row_units, unit_remarks
from fedkg_compiler.authoring.string_and_name_quoting import Names, quoted, reference, remark, slug
from fedkg_compiler.frontends.sheets.sheet_quantifiers import unit_column

LISTED = 12
UNIT_BEHIND = re.compile(r"\s*[\[(][^\])]*[\])]$")


def rules_from_sheet(
    limits: Table, table: Table, limits_name: str, table_name: str, units: Mapping[str, str]
) -> list[str]:
    """Lines of one rule over the sheet, or, where the sheet has units nobody knows or no limit at
    all, of one rule per tag; and of remarks.

    Raises:
        TableError: when the sheet has no column of tags or of limits, or a limit is not a number.
    """
    columns = find_limit_columns(limits)
    gaps, hopeless = _gaps(limits, columns)
    reasons = [*hopeless, *_odd_units(limits, columns)]
    if columns.unit is not None and unit_column(limits) != columns.unit:
        reasons.append(
            "Rules over a sheet read units from a column called `unit`, not from"
            f" `{remark(columns.unit)}`"
        )
    lines = [
        *_remarks(limits, columns, gaps, table, limits_name, table_name),
        *unit_remarks(limits, columns, table, units),
        "",
    ]
    if not reasons:
        return lines + _one_rule(limits, columns, limits_name)
    lines += [f"# {reason}." for reason in reasons]
    lines += [
        (
            "# So every row is a separate rule. Correct the sheet and run `fedkg new` again for one"
            " rule that reads it."
        ),
        "",
    ]
    return lines + _rule_per_tag(limits, columns, table, limits_name)


def missing_tags(limits: Table, table: Table) -> tuple[int, dict[str, str | None]]:
    """Return the number of tags, and the tags without a column, each with the closest header."""
    tags = dict.fromkeys(
        text for text in limits.texts(find_limit_columns(limits).tag) if not is_unknown(text)
    )
    return len(tags), {tag: nearest_header(tag, table.headers) for tag in tags if tag not in table}


def _gaps(limits: Table, columns: LimitColumns) -> tuple[list[str], list[str]]:
    """What is missing in the sheet, as a remark; and, where no row has a tag and a limit, that one
    rule over it would not do.
    """
    empty = {
        header: np.isnan(limits.numbers(header))
        for header in (columns.low, columns.high)
        if header is not None
    }
    nameless = np.array([is_unknown(text) for text in limits.texts(columns.tag)], dtype=np.bool_)
    gaps = np.logical_or.reduce([nameless, *empty.values()])
    if not gaps.any():
        return [], []
    useless = nameless | np.logical_and.reduce(list(empty.values()))
    if useless.all():
        return [], ["No row of the sheet has a tag and a limit"]
    first = limits.where(int(gaps.argmax()))
    return [
        (
            f"# {int(gaps.sum())} of {limits.rows} rows of the sheet lack a limit, first {first}:"
            " what is not given does not limit."
        )
    ], []


def _odd_units(limits: Table, columns: LimitColumns) -> list[str]:
    """The units that are none: one rule over the whole sheet would not do."""
    if columns.unit is None:
        return []
    texts = dict.fromkeys(text for text in limits.texts(columns.unit) if not is_unknown(text))
    unknown = [text for text in texts if isinstance(parse_unit(text), UnitProblem)]
    return (
        ["Units that are not known: " + ", ".join(remark(text) for text in unknown[:LISTED])]
        if unknown
        else []
    )


def _one_rule(limits: Table, columns: LimitColumns, limits_name: str) -> list[str]:
    tag = variable(columns.tag, limits)
    low, high = (
        None if header is None else variable(header, limits)
        for header in (columns.low, columns.high)
    )
    formula = " <= ".join(
        part for part in (low and f"?{low}", f"value(?{tag})", high and f"?{high}") if part
    )
    return [
        f"rule tag_limits {quoted(f'Every tag stays inside its row of {limits_name}.')}",
        "  kind capacity",
        (
            f"  for {', '.join(f'?{name}' for name in (tag, low, high) if name)} in table"
            f" {quoted(limits_name)}"
        ),
        f"  require {formula}",
        "",
    ]


def variable(header: str, sheet: Table) -> str:
    """Return the variable of a header, without a unit in brackets if the name stays unique."""
    short, whole = _word(UNIT_BEHIND.sub("", header)), _word(header)
    others = [
        text
        for other in sheet.headers
        if other != header
        for text in (other, UNIT_BEHIND.sub("", other))
    ]
    return (
        whole
        if not short or _folded(short) in {_folded(_word(other)) for other in others}
        else short
    )


def _folded(word: str) -> str:
    return word.casefold().replace("_", "")


def _word(header: str) -> str:
    word = re.sub(r"\W+", "_", header).strip("_")
    return word if not word or re.match(r"[^\W\d]", word) else f"c_{word}"


def _rule_per_tag(
    limits: Table, columns: LimitColumns, table: Table, limits_name: str
) -> list[str]:
    nothing = np.full(limits.rows, np.nan)
    lows, highs = (
        nothing if header is None else limits.numbers(header)
        for header in (columns.low, columns.high)
    )
    names = Names()
    lines = []
    units = zip(
        *(row_units(limits, header, columns.unit) for header in (columns.low, columns.high)),
        strict=True,
    )
    for tag, low, high, (below, above) in zip(
        limits.texts(columns.tag), lows.tolist(), highs.tolist(), units, strict=True
    ):
        if tag not in table or is_unknown(tag) or (np.isnan(low) and np.isnan(high)):
            continue
        name = names.give(slug(tag))
        column, before = reference(tag, name)
        parts = (_limit(low, below), column, _limit(high, above))
        lines += [
            *before,
            f"rule limit_{name} {quoted(f'{tag} stays inside its limits in {limits_name}.')}",
            "  kind capacity",
            f"  require {' <= '.join(part for part in parts if part)}",
            "",
        ]
    return lines


def _limit(value: float, unit: str) -> str:
    return "" if np.isnan(value) else f"{plain(Decimal(repr(value)))} {unit}".rstrip()


def _remarks(
    limits: Table,
    columns: LimitColumns,
    gaps: list[str],
    table: Table,
    limits_name: str,
    table_name: str,
) -> list[str]:
    """Comments: tags that the table does not have, with the header that was meant; limits that are
    missing or contradict each other.
    """
    tags = [text for text in limits.texts(columns.tag) if not is_unknown(text)]
    absent = missing_tags(limits, table)[1]
    lines = [
        (
            f"# {len(set(tags)) - len(absent)} of {len(set(tags))} tags of {remark(limits_name)}"
            f" are columns of {remark(table_name)}."
        )
    ]
    for tag, close in list(absent.items())[:LISTED]:
        lines.append(
            f"#   missing: {remark(tag)}" + (f"; did you mean {remark(close)}?" if close else "")
        )
    if len(absent) > LISTED:
        lines.append(f"#   missing: {len(absent) - LISTED} more")
    if absent:
        lines.append(
            f"# Correct their names in {remark(limits_name)}, or remove these rows: `fedkg eval`"
            " rejects a table without them."
        )
    lines += gaps
    twice = list(dict.fromkeys(tag for tag in tags if tags.count(tag) > 1))
    if twice:
        lines.append(
            "# More than one row: "
            + ", ".join(map(remark, twice[:LISTED]))
            + ("" if len(twice) <= LISTED else ", ...")
        )
    if columns.low is not None and columns.high is not None:
        names = limits.texts(columns.tag)
        crossed = np.flatnonzero(
            limits.numbers(columns.low) > limits.numbers(columns.high)
        ).tolist()
        lines += [
            f"#   {limits.where(row)}: the lower limit of {remark(names[row])} is above the upper"
            for row in crossed[:LISTED]
        ]
    return lines
