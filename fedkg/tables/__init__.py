"""Reading tables as plants write them: CSV with any separator, decimal mark and encoding, Parquet, xlsx. Needs numpy alone for CSV."""

from fedkg.tables.reader import read_bytes, read_table
from fedkg.tables.table import Cells, Table, TableFormat
from fedkg.tables.times import looks_like_time, parse_time, parse_times
from fedkg.tables.words import FALSE_WORDS, TRUE_WORDS, UNKNOWN_WORDS, is_unknown, truth

__all__ = [
    "FALSE_WORDS",
    "TRUE_WORDS",
    "UNKNOWN_WORDS",
    "Cells",
    "Table",
    "TableFormat",
    "is_unknown",
    "looks_like_time",
    "parse_time",
    "parse_times",
    "read_bytes",
    "read_table",
    "truth",
]
