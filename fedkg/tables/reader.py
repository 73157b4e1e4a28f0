"""One way to read any table: the file's bytes say what it is."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

from fedkg._internal.safe_text import list_first
from fedkg.errors import TableError
from fedkg.limits import gunzip, open_zip, read_file, unzip
from fedkg.tables.declared_dialect import Dialect
from fedkg.tables.delimited import read_delimited
from fedkg.tables.parquet import read_parquet
from fedkg.tables.table import Table
from fedkg.tables.times import DateOrder
from fedkg.tables.workbook import read_workbook, require_ordinary

DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, LookupError)
"""What the zip reader raises on damaged bytes."""
OLD_EXCEL = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def read_table(
    path: str | Path,
    *,
    sheet: str | None = None,
    dates: DateOrder | None = None,
    dialect: Dialect | None = None,
) -> Table:
    """Read a table from a CSV, TSV (also gzipped), Parquet or xlsx file.

    The first bytes of the file determine its format; its name does not matter.

    Args:
        path: the file; all messages contain its name.
        sheet: name of a sheet in a workbook; None: the first sheet with content.
        dates: order of day and month in dates with slashes; None: detect it from the column.
        dialect: the form of the file (delimiter, encoding, header rows); None: detect it.

    Raises:
        TableError: the file is missing, empty, damaged or not a table.
        LimitError: the file is larger than a limit of `fedkg.limits`, or expands to more.
        MissingExtra: Parquet or xlsx need a package that is not installed.
    """
    name = str(path)
    try:
        body = read_file(path)
    except (OSError, ValueError) as error:
        raise TableError(
            f"cannot read table {name}",
            received=getattr(error, "strerror", None) or str(error),
            help="give a CSV, TSV, Parquet or xlsx file; paths are relative to the current folder",
        ) from error
    return replace(read_bytes(body, name, sheet=sheet, dialect=dialect), dates=dates)


def read_bytes(
    body: bytes, name: str, *, sheet: str | None = None, dialect: Dialect | None = None
) -> Table:
    """The table in a file's bytes; see `read_table`."""
    if body.startswith(b"\x1f\x8b"):
        try:
            body = gunzip(body, name)
        except (OSError, EOFError, zlib.error) as error:
            raise TableError(
                f"{name} is not a complete gzip file",
                received=str(error),
                help="write or download it again: it is incomplete, or a different file",
            ) from error
    if body.startswith(b"PAR1"):
        return read_parquet(body, name)
    if body.startswith(b"PK\x03\x04"):
        return _in_zip(body, name, sheet, dialect)
    if body.startswith(OLD_EXCEL):
        raise TableError(
            f"{name} is an Excel file of the old format (.xls), or one with a password",
            help="save it without a password, as .xlsx or as CSV",
        )
    return read_delimited(body, name, dialect)


def _in_zip(body: bytes, name: str, sheet: str | None, dialect: Dialect | None) -> Table:
    """A workbook is a zip; a zip with one text table in it will do as well."""
    try:
        with open_zip(body, name) as archive:
            files = [entry for entry in archive.namelist() if not entry.endswith("/")]
            if any(entry.startswith("xl/") for entry in files):
                parts = [file for file in files if file.endswith((".xml", ".rels"))]
                unzip(archive, [file for file in files if file not in parts], name, keep=False)
                require_ordinary(unzip(archive, parts, name), name)
                return read_workbook(body, name, sheet, dialect)
            if len(files) == 1 and not files[0].endswith((".zip", ".gz")):
                inner = unzip(archive, files, name)[files[0]]
                return read_bytes(inner, f"{name}/{files[0]}", dialect=dialect)
    except RuntimeError as error:  # encrypted, or compressed in a way that Python does not know
        raise TableError(
            f"the zip file {name} cannot be expanded",
            received=str(error),
            help="unpack it with another program, or save the table without a password",
        ) from error
    except DAMAGE as error:
        raise TableError(
            f"{name} is not a complete zip file",
            received=str(error),
            help="write or download it again: it is incomplete, or a different file",
        ) from error
    raise TableError(
        f"{name} is a zip file that does not contain exactly one table",
        expected="one CSV, TSV, Parquet or xlsx file",
        received=list_first(files, 8) or "no file",
        help="unpack the zip file and give one of its tables; save a spreadsheet of another "
        "format, such as .ods, as .xlsx or CSV",
    )
