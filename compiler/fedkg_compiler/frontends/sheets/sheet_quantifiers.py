"""Quantifiers over a sheet: its headers meet the variables by name, its cells are texts or numbers,
with units where they are written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import FedkgError
from fedkg.tables import Table
from fedkg.tables.cell_words import is_unknown
from fedkg.tables.numerals import DecimalMark, number
from fedkg.units.header import split_header
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.frontends.fkg.binding.scope import Cell, Environment, Sources
from fedkg_compiler.frontends.fkg.syntax.tree import Word
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets

_UNIT_HEADERS = ("unit", "units", "einheit", "uom", "engunits")
_WITH_UNIT = re.compile(r"^([-+−]?[\d.,' \u00a0]*\d(?:[eE][-+]?\d+)?)\s*([^\d\s].*)$")


def sheet_environment(
    path: Word, variables: Sequence[Word], sources: Sources, sheets: Sheets
) -> Environment | None:
    """One row for each row of the sheet; None, with a problem, where the sheet or a column is
    missing.
    """
    if not path.text.strip():
        sources.problems.error(
            "FKG170",
            path.span,
            "this sheet has no name",
            'write which file it is: in table "limits.csv"',
        )
        return None
    folder = sources.names.folders.get(path.span.file, Path())
    table = sheets.read(folder / path.text)
    if isinstance(table, FedkgError):
        sources.problems.error(
            "FKG170",
            path.span,
            unreadable(table, folder / path.text, path.text),
            sheet_advice(folder, path.text),
        )
        return None
    headers = {word.text: _header(word, table, path, sources.problems) for word in variables}
    if any(header is None for header in headers.values()):
        return None
    cells = {name: _cells(header, table) for name, header in headers.items() if header is not None}
    unit = unit_column(table)
    return Environment(
        rows=table.rows,
        cells=cells,
        units=tuple("" if is_unknown(text) else text for text in table.texts(unit))
        if unit is not None
        else (),
        span=path.span,
        where=partial(_where, table, Path(path.text).name),
    )


def unit_column(table: Table) -> str | None:
    """The header of the column that gives each row's unit."""
    return next((header for header in table.headers if header.casefold() in _UNIT_HEADERS), None)


def _where(table: Table, name: str, row: int) -> str:
    return f"{table.where(row)} of {name}"


def unreadable(error: FedkgError, path: Path, short: str, what: str = "sheet") -> str:
    """Why a sheet cannot be read, its name said once: ``the sheet "limts.csv" cannot be read: No
    such file or directory``.
    """
    said = error.message.replace(str(path.resolve()), short).replace(str(path), short)
    received = getattr(error, "received", "")
    if received and said in (f"cannot read table {short}", f"cannot read table {path.name}"):
        return f'the {what} "{short}" cannot be read: {received}'
    detail = f" ({received})" if received else ""
    rest = said.removeprefix(f"{short} ").removeprefix(f"{path.name} ")
    return (
        f'the {what} "{short}" {rest}{detail}'
        if rest != said
        else f'the {what} "{short}" cannot be read: {said}{detail}'
    )


def sheet_advice(folder: Path, name: str) -> str:
    """What to do about a sheet that cannot be read.

    Args:
        folder: the folder of the rule file.
        name: the path of the sheet as the rule file has it.
    """
    try:
        if (folder / name).exists():
            return "a sheet is a CSV, TSV, Parquet or xlsx file with its headers in the first row"
        near = nearest_name(
            name, [path.name for path in (folder / name).parent.iterdir() if path.is_file()]
        )
    except OSError:
        near = None
    if near:
        return f'did you mean "{near}"?'
    return "the path is relative to the folder of the rule file"


def _plain(header: str) -> str:
    return re.sub(r"[\W_]+", "", header).casefold()


def _header(word: Word, table: Table, path: Word, problems: Problems) -> str | None:
    """Return the header of a variable; a unit in brackets after it is ignored."""
    by_name = {_plain(header): header for header in reversed(table.headers)}
    for header in reversed(table.headers):
        name, unit = split_header(header)
        if unit:
            by_name.setdefault(_plain(name), header)
    known = by_name.get(_plain(word.text))
    if known is None:
        close = nearest_name(word.text, [re.sub(r"\W+", "_", header) for header in table.headers])
        shown = ", ".join(f"`{header}`" for header in table.headers[:8])
        problems.error(
            "FKG171",
            word.span,
            f'the sheet "{path.text}" has no column for ?{word.text}',
            f"did you mean `?{close}`?" if close else f"its columns are {shown}",
        )
    return known


def _cells(header: str, table: Table) -> tuple[Cell | None, ...]:
    _, unit = split_header(header)
    mark: DecimalMark = table.found.decimal
    texts = table.texts(header)
    if table.is_numeric(header):
        values = table.numbers(header).tolist()
        return tuple(
            None if value != value else Cell(text=text, number=value, unit=unit, category=text)
            for text, value in zip(texts, values, strict=True)
        )
    return tuple(None if is_unknown(text) else _cell(text, mark, unit) for text in texts)


def _cell(text: str, mark: DecimalMark, unit: str) -> Cell:
    """A text, that may also be a number with its unit: ``8 bar``."""
    value = number(text, mark)
    if value is not None:
        return Cell(text=text, number=value, unit=unit, category=text)
    parts = _WITH_UNIT.match(text)
    if parts:
        value = number(parts[1].strip(), mark)
        if value is not None and value == value:
            return Cell(text=text, number=value, unit=parts[2].strip(), category=text)
    return Cell(text=text, category=text)
