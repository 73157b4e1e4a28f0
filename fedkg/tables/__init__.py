"""Reading tables as plants write them: CSV with any separator, decimal mark and encoding, Parquet,
xlsx. Needs numpy alone for CSV.

Names are loaded when they are first touched: who only wants to know which words mean true loads no
reader.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkg.tables.cell_words import FALSE_WORDS, TRUE_WORDS, UNKNOWN_WORDS, is_unknown, truth
    from fedkg.tables.declared_dialect import Dialect
    from fedkg.tables.reader import read_bytes, read_table
    from fedkg.tables.table import Cells, Table, TableFormat
    from fedkg.tables.times import (
        DateOrder,
        in_utc,
        looks_like_time,
        parse_time,
        parse_times,
        zone_of,
    )

__all__ = [
    "FALSE_WORDS",
    "TRUE_WORDS",
    "UNKNOWN_WORDS",
    "Cells",
    "DateOrder",
    "Dialect",
    "Table",
    "TableFormat",
    "in_utc",
    "is_unknown",
    "looks_like_time",
    "parse_time",
    "parse_times",
    "read_bytes",
    "read_table",
    "truth",
    "zone_of",
]

_HOMES = {
    "declared_dialect": ("Dialect",),
    "reader": ("read_bytes", "read_table"),
    "table": ("Cells", "Table", "TableFormat"),
    "times": ("DateOrder", "in_utc", "looks_like_time", "parse_time", "parse_times", "zone_of"),
    "cell_words": ("FALSE_WORDS", "TRUE_WORDS", "UNKNOWN_WORDS", "is_unknown", "truth"),
}
"""Which names live in which module of this folder."""


def __getattr__(name: str) -> Any:
    """The public name `name`, its module imported now.

    `Any`: it may be a class, a function or a set.
    """
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"fedkg.tables.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'fedkg.tables' has no attribute '{name}'")
