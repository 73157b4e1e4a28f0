"""A first rule file for a table: from a sheet of limits, or from the ranges that the data itself
keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import numpy as np

from fedkg.errors import TableError
from fedkg.tables import Table, is_unknown, looks_like_time
from fedkg_compiler.authoring.from_data import rules_from_data
from fedkg_compiler.authoring.from_sheet import rules_from_sheet
from fedkg_compiler.authoring.string_and_name_quoting import quoted, remark

TIME_HEADERS = ("time", "zeit", "date", "datum", "timestamp", "stempel")


def draft_rules(
    limits: Table | None,
    table: Table,
    *,
    limits_name: str = "",
    table_name: str = "",
    units: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The text of a first rule file.

    Args:
        limits: a sheet of limits (tag, low, high), or None to draft from the data's own ranges.
        table: the data.
        limits_name: the path of the sheet as the rule file writes it, relative to the rule file;
            default: the file name of `limits`.
        table_name: the name of the table in comments; default: its file name.
        units: the units of columns that a sites file states, by their names in `table`.

    Raises:
        TableError: when the sheet has no column of tags or of limits, or a limit is not a number.
    """
    table_name = table_name or Path(table.name).name
    time = _time_column(table)
    if limits is None:
        source = f"the ranges found in {table_name}"
        body = rules_from_data(table, table_name, time)
    else:
        limits_name = limits_name or Path(limits.name).name
        source = f"the limits in {limits_name}"
        body = rules_from_sheet(limits, table, limits_name, table_name, units)
    lines = [
        f"# A first draft, made by `fedkg new` from {remark(source)}.",
        (
            "# Read every rule, correct or delete what is wrong, and add what only you know; `fedkg"
            " check` tells whether it is well formed."
        ),
        *_timeline(table, time),
        "",
        *body,
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _timeline(table: Table, time: str | None) -> list[str]:
    """The timeline statement, where there is a column of times."""
    if time is None:
        return []
    try:
        step = _step(table.times(time)[0])
    except TableError as error:  # the order of day and month is not for us to choose
        return [
            f"timeline time column {quoted(time)}",
            f"# No step is found: {remark(error.message)}. {remark(error.help)}",
        ]
    return [f"timeline time column {quoted(time)}" + (f" step {step}" if step else "")]


def _time_column(table: Table) -> str | None:
    """Return the first column of times, preferring one with a matching header."""
    headers = sorted(
        table.headers,
        key=lambda header: not any(word in header.casefold() for word in TIME_HEADERS),
    )
    for header in headers:
        known = [text for text in table.texts(header)[:200] if not is_unknown(text)]
        if (
            known
            and sum(map(looks_like_time, known)) > 0.9 * len(known)
            and not table.is_numeric(header)
        ):
            return header
    return None


def _step(moments: list[datetime | None]) -> str:
    """The time between two rows, where nine of ten agree on it; "" where they do not."""
    known = [moment for moment in moments if moment is not None]
    gaps = np.array([(later - earlier).total_seconds() for earlier, later in pairwise(known)])
    if not gaps.size:
        return ""
    usual = float(np.median(gaps))
    if usual <= 0 or float(np.mean(np.abs(gaps - usual) < 1e-6)) < 0.9:
        return ""
    for seconds, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if usual % seconds == 0:
            return f"{usual / seconds:g} {unit}"
    return f"{usual:g} s"
