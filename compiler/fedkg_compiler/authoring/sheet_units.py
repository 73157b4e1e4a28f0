"""The units of a sheet of limits beside those of the table: what the rules say, and what a person
should look at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fedkg.tables import Table, is_unknown
from fedkg.units.header import header_unit, split_header
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, same_dimension, same_scale
from fedkg.units.unit_table import ALIASES
from fedkg_compiler.authoring.limit_sheet_columns import LimitColumns
from fedkg_compiler.authoring.string_and_name_quoting import remark

LISTED = 12
_UNIT_PART = r"(?:[^\W\d_]|[°%‰€℃])(?:[\w°%‰€℃⁻]|\^?-?[0-9])*"
_WRITABLE = re.compile(rf"(?:1/)?{_UNIT_PART}(?:[.·/][0-9]*{_UNIT_PART})*")
"""A unit as a rule file can have it behind a number."""


def row_units(limits: Table, header: str | None, unit: str | None) -> list[str]:
    """The unit behind each row's limit, as a rule writes it: of the limit's own header, else of the
    row; "" where none is known.
    """
    own = split_header(header)[1] if header is not None else ""
    texts = (
        [own or ("" if is_unknown(text) else text) for text in limits.texts(unit)]
        if unit is not None
        else [own] * limits.rows
    )
    return [_written(text) for text in texts]


def _written(text: str) -> str:
    text = text.strip().replace("*", ".")
    text = ALIASES.get(text, text)  # `bar(ü)` cannot stand behind a number, `barg` can
    return text if _WRITABLE.fullmatch(text) and isinstance(parse_unit(text), Unit) else ""


def unit_remarks(
    limits: Table, columns: LimitColumns, table: Table, units: Mapping[str, str]
) -> list[str]:
    """Comments: where the sheet's unit and the one in the table's header differ, and where the
    table tells none.

    Args:
        units: the units of columns that a sites file states, which comes before their headers.
    """
    if columns.unit is None:
        return []
    said: list[str] = []
    for tag, text in zip(limits.texts(columns.tag), limits.texts(columns.unit), strict=True):
        if tag not in table or is_unknown(text):
            continue
        unit, stated = parse_unit(text), parse_unit(units.get(tag, ""))
        if isinstance(unit, UnitProblem):
            continue
        stored = stated if isinstance(stated, Unit) else header_unit(tag)
        if stored is None:
            said.append(
                f"{remark(tag)}: taken to be in {remark(text)} in the table too, because its header"
                " states no unit"
            )
        elif not same_dimension(stored, unit):
            said.append(
                f"{remark(tag)}: the sheet's {remark(text)} cannot be converted to the header's"
                f" {stored.text}: correct one of them"
            )
        elif not same_scale(stored, unit):
            said.append(
                f"{remark(tag)}: limits in {remark(text)} are converted, since the header says"
                f" {stored.text}"
            )
    lines = [f"#   {line}" for line in dict.fromkeys(said)]
    more = [f"#   units: {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    return ["# Units:", *lines[:LISTED], *more] if lines else []
