"""Read the table of a site: the headers, units and texts become those that the rules expect.

N is the number of rows.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import TableError
from fedkg.pack import Column as ContractColumn
from fedkg.pack import DataContract
from fedkg.sites.cell_formats import (
    SCALES,
    NumberFormat,
    PatternError,
    date_pattern,
    example_of,
    find_zone,
    number_pattern,
    parse_date,
    to_utc,
)
from fedkg.sites.schema import Column, Datatype, ForeignKey, Site, SitesFile
from fedkg.sites.sites_file import find_site
from fedkg.tables import Cells, Table, TableFormat, in_utc, parse_time, read_table, truth, zone_of
from fedkg.tables.cell_words import is_unknown
from fedkg.tables.table import number_text, one_line, shorten
from fedkg.units import Conversion, Unit, UnitProblem, conversion, parse_unit
from fedkg.units.header import header_unit
from fedkg.units.unit import SAME

Kind = Literal["number", "boolean", "time", "text", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReading:
    """How one column of a site is read.

    Attributes:
        key: its name in the sites file, or its header.
        signal: the signal or label of the rules; "" if the rules do not read it.
        header: its header in the file; "" for a virtual column.
        target: its header in the table that the rules read.
        unit: of the values in the file; "" if unknown.
        target_unit: of the values that the rules read; "" if unknown.
        converted: whether values change their unit.
        list_place: where the sites file states a `separator`; "" for a column with one value in a
            cell.
    """

    key: str
    signal: str
    header: str
    target: str
    unit: str = ""
    target_unit: str = ""
    converted: bool = False
    list_place: str = ""

    def describe(self) -> str:
        """```pressure` from `Druck` (psi, converted to bar)``."""
        source = f"from `{self.header}`" if self.header else "constant"
        unit = ""
        if self.converted:
            unit = f" ({self.unit}, converted to {self.target_unit})"
        elif self.unit and not self.target_unit:
            unit = f" ({self.unit}; the rules state no unit)"
        return f"`{self.signal or self.key}` {source}{unit}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteTable:
    """The table of a site.

    Attributes:
        site: name of the site.
        table: the rows, with the headers, units and texts of the rules.
        files: the files that were read.
        columns: the described columns, and those that the rules read.
        notes: sentences about times that repeat or decrease.
    """

    site: str
    table: Table
    files: tuple[str, ...]
    columns: tuple[ColumnReading, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Source:
    """One file of a site.

    Attributes:
        table: as read, with the headers of the file.
        has_header: whether the columns have names.
    """

    sites: SitesFile
    site: str
    section: Site
    contract: DataContract | None
    table: Table
    has_header: bool

    def place(self, column: Column, field_name: str = "") -> str:
        """The place of a column in the sites file, for messages."""
        inner = f".{field_name}" if field_name else ""
        line = "" if column.line is None else f":{column.line}"
        return f"{self.sites.path}{line}: column `{column.key}`{inner} of site {self.site}"


def read_site(sites: SitesFile, site: str, contract: DataContract | None = None) -> SiteTable:
    """Read the table of a site as the rules expect it.

    Described columns get the header, the unit and the texts of the contract. Other columns stay as
    they are in the file. Without a contract, columns get their names, and units stay.

    Raises:
        UsageError: the site does not exist.
        TableError: a file or a column is missing, a column occurs twice, a cell does not have its
            format, or a unit does not convert; with file, row of the file, column and value.
        LimitError: a file is larger than `fedkg.limits` allows.
    """
    section = find_site(sites, site)
    parts = [_read_file(sites, site, section, contract, url) for url in section.url]
    table = parts[0][0] if len(parts) == 1 else _concatenate([one for one, _ in parts], site)
    notes = _check_time_order(table, section, contract)
    found = replace(table.found, notes=(*table.found.notes, *notes))
    read = SiteTable(
        site=site,
        table=replace(table, found=found),
        files=section.url,
        columns=tuple(parts[0][1]),
        notes=tuple(notes),
    )
    if contract is not None:
        reject_lists(read, (contract.time, contract.trace, *(c.source for c in contract.columns)))
    for key in section.table_schema.foreign_keys:
        _check_foreign_key(sites, read, key, contract)
    return read


def reject_lists(read: SiteTable, headers: Iterable[str | None]) -> None:
    """Raise TableError if a column that something reads has several values in a cell.

    Args:
        headers: of the columns that rules, a model or a job read.
    """
    wanted = set(headers)
    for one in read.columns:
        if one.list_place and one.target in wanted:
            first = next((text for text in read.table.texts(one.target) if text), "")
            raise TableError(
                f"{one.list_place}: the cells of column `{one.header}` of {read.table.name} "
                "are lists, and rules and models read one value",
                expected="a column with one value in each cell",
                received=f'"{shorten(first)}"' if first else "",
                help="write a column for each value of the list; or remove `separator` if each "
                "cell is one value",
            )


def read_all_sites(
    sites: SitesFile, contract: DataContract, names: Iterable[str], column: str
) -> Table:
    """The tables of several sites as one, with the name of the site in an additional column.

    Args:
        names: the sites; empty: all.
        column: header of the additional column.

    Raises:
        UsageError, TableError, LimitError: as for `read_site`; or a table has this column.
    """
    read = [read_site(sites, name, contract) for name in names or sites.sites]
    tables: list[Table] = []
    for one in read:
        warn_of_times(one)
        if column in one.table:
            raise TableError(
                f"{one.table.name}: column `{column}` is in the table, and fedkg adds one with the "
                "name of the site",
                help="set `data.site_column` to another name",
            )
        cells = Cells(texts=(one.site,) * one.table.rows)
        tables.append(
            replace(
                one.table,
                headers=(*one.table.headers, column),
                cells=(*one.table.cells, cells),
                parts=one.table.parts or ((one.table.name, one.table.rows),),
            )
        )
    return tables[0] if len(tables) == 1 else _concatenate(tables, sites.path)


def read_together(sites: SitesFile, names: Iterable[str]) -> Table:
    """The rows of several sites with the columns of all of them, without a contract.

    A column that a site lacks is unknown in its rows. Raises UsageError, TableError, LimitError.
    """
    read = [read_site(sites, name).table for name in names]
    if len(read) == 1:
        return read[0]
    headers = dict.fromkeys(header for table in read for header in table.headers)
    filled = []
    for table in read:
        absent = [header for header in headers if header not in table.headers]
        unknown = Cells(texts=("",) * table.rows)
        filled.append(
            replace(
                table,
                headers=(*table.headers, *absent),
                cells=(*table.cells, *(unknown for _ in absent)),
            )
        )
    return _concatenate(filled, sites.path)


def warn_of_times(read: SiteTable) -> None:
    """Issue a warning for times that repeat or decrease."""
    for note in read.notes:
        warnings.warn(f"{read.site}: {note}", stacklevel=3)


def signal_name(column: ContractColumn) -> str:
    """The signal or label of a contract column, without the entity in brackets: `torque` of
    `torque[M01]`. In a header such as `Torque [Nm]`, the brackets follow a blank, and stay.
    """
    signal, _, _ = column.name.partition("[")
    return column.label or (column.name if signal.endswith(" ") else signal)


def _read_file(
    sites: SitesFile, site: str, section: Site, contract: DataContract | None, url: str
) -> tuple[Table, list[ColumnReading]]:
    if not os.path.isfile(url):  # noqa: PTH113, it rejects overlong paths without an error
        raise TableError(
            f"{sites.path}: the table of site {site} "
            + ("is a folder" if Path(url).is_dir() else "does not exist"),
            expected="the path of a file",
            received=url,
            help="correct `url` of the site; paths are relative to the sites file",
        )
    dialect = section.dialect.dialect()
    raw = read_table(url, sheet=section.sheet, dialect=dialect)
    source = _Source(
        sites=sites,
        site=site,
        section=section,
        contract=contract,
        table=raw,
        has_header=raw.found.header_line is not None,
    )
    return _map_columns(source)


def read_rows(
    sites: SitesFile, site: str, table: Table, contract: DataContract | None = None
) -> Table:
    """Rows in the form of a site's file, as the rules expect them; see `read_site`.

    Args:
        sites: the sites file.
        site: name of the site.
        table: the rows, with the headers of the site's file.
        contract: what the rules read; None: columns get their names, and units stay.

    Raises:
        UsageError: the site does not exist.
        TableError: a column is missing, a cell does not have its format, or a unit does not
            convert.
    """
    source = _Source(
        sites=sites,
        site=site,
        section=find_site(sites, site),
        contract=contract,
        table=table,
        has_header=True,
    )
    return _map_columns(source)[0]


def _map_columns(source: _Source) -> tuple[Table, list[ColumnReading]]:
    """The table with the columns of the rules, and how each described column was read."""
    raw, contract = source.table, source.contract
    headers: dict[str, Cells] = {}
    readings: list[ColumnReading] = []
    used: dict[int, Column] = {}
    targets: dict[str, Column] = {}
    order = 0
    for column in source.section.table_schema.columns:
        if column.virtual:
            position = None
        elif not source.has_header:
            position, order = order, order + 1
        else:
            position = _find_position(source, column)
        if position is not None:
            _claim_position(source, column, position, used)
        if column.suppress_output or (position is None and not column.virtual):
            continue
        wanted = _find_contract_column(source, column)
        target = wanted.source if wanted is not None else _choose_target(column, contract)
        if target in targets:
            raise TableError(
                f"{source.place(column)}: column `{targets[target].key}` is read as `{target}` too",
                help="remove one of the two columns from the sites file, or give it "
                "`suppressOutput: true`",
            )
        targets[target] = column
        headers[target], reading = _read_cells(source, column, position, target, wanted)
        readings.append(reading)
    for position, header in enumerate(raw.headers):
        if position in used:
            continue
        if header in headers:
            raise TableError(
                f"{raw.name}{_format_header_row(raw)}: two columns are read as `{header}`: the "
                f"one with this header, and `{targets[header].key}` of {source.sites.path}",
                help="to leave out the column with this header, add to the columns of the site: "
                f"{{titles: '{header}', suppressOutput: true}}",
            )
        implied = Column(name=header)
        wanted = _find_implied(source, header, targets)
        if wanted is not None:
            header = wanted.source
        headers[header], reading = _read_cells(source, implied, position, header, wanted)
        if wanted is not None or (contract is not None and header == contract.time):
            readings.append(reading)
    found = replace(
        raw.found, duplicates=tuple(one for one in raw.found.duplicates if one in headers)
    )
    table = Table(
        name=raw.name,
        headers=tuple(headers),
        cells=tuple(headers.values()),
        rows=raw.rows,
        found=found,
        lines=raw.lines,
        parts=((raw.name, raw.rows),),
    )
    return table, readings


def _find_implied(
    source: _Source, header: str, targets: Mapping[str, Column]
) -> ContractColumn | None:
    """The contract column that a column without description is: its header is that of the rules,
    or it is the name of a signal that no other column is.
    """
    if source.contract is None or not source.has_header:
        return None
    columns = source.contract.columns
    found = next((one for one in columns if one.source == header), None)
    if found is not None:
        return found
    described = {*source.table.headers, *targets}
    for one in columns:
        other = next((name for name in one.alternatives if name in described), None)
        if other == header and one.source not in described:
            return one
    named = [one for one in columns if signal_name(one) == header]
    headers = {one.source for one in named}
    taken = headers & {*source.table.headers, *targets}
    return named[0] if len(headers) == 1 and not taken else None


def _format_header_row(raw: Table) -> str:
    line = raw.found.header_line
    return "" if line is None else f": row {line}"


def _claim_position(
    source: _Source, column: Column, position: int, used: dict[int, Column]
) -> None:
    """Note that a description reads a column of the file. Raises TableError if another one does."""
    raw = source.table
    if position >= len(raw.headers):
        raise TableError(
            f"{raw.name}: no column {position + 1}, which `{column.key}` describes",
            received=f"{len(raw.headers)} column{'s' * (len(raw.headers) != 1)} and no header row",
            help=f"correct `columns` of site {source.site} in {source.sites.path}: without a "
            "header row they describe the columns of the file in their order",
        )
    if position in used:
        raise TableError(
            f"{source.place(column)}: `{used[position].key}` describes column "
            f"`{raw.headers[position]}` too",
            help="give each column one description",
        )
    used[position] = column
    header = raw.headers[position]
    if header in raw.found.duplicates and not column.suppress_output:
        raise TableError(
            f"{raw.name}{_format_header_row(raw)}: column `{header}` occurs more than once",
            expected=f"one column for `{column.key}` of site {source.site}",
            received=", ".join(
                f"`{one}`"
                for one in raw.headers
                if one == header or re.fullmatch(re.escape(header) + r" \(\d+\)", one)
            ),
            help="give each column a unique header; if several rows form the header, state their "
            "number as `headerRowCount` in `dialect`",
        )


def _find_position(source: _Source, column: Column) -> int | None:
    """The position of a described column in the file; None if it may be missing.

    Raises TableError if no header, or more than one, is one of its titles.
    """
    raw = source.table
    wanted = _find_contract_column(source, column)
    titles = column.titles or tuple(
        dict.fromkeys((column.name, wanted.source if wanted is not None else column.name))
    )
    plain = [one_line(title) for title in titles]
    found = [i for i, header in enumerate(raw.headers) if header in plain]
    if not found and raw.header_parts:
        found = [i for i, parts in enumerate(raw.header_parts) if set(parts) & set(plain)]
    if len(found) == 1:
        return found[0]
    if found and not column.titles:  # the name comes before the header of the rules
        return next(i for i in found if raw.headers[i] == plain[0])
    if found:
        raise TableError(
            f"{raw.name}{_format_header_row(raw)}: several headers are titles of "
            f"column `{column.key}`",
            expected="one header with one of these titles",
            received=", ".join(f"`{raw.headers[i]}`" for i in found),
            help=f"remove titles from column `{column.key}` in {source.sites.path}",
        )
    if column.suppress_output:
        return None
    error = raw.missing(titles[0], needed=f"{source.place(column)} describes", declare_unit=False)
    raise TableError(
        error.message,
        expected=f"one of the headers {', '.join(f'`{title}`' for title in titles)}"
        if len(titles) > 1
        else "",
        received=error.received,
        help=error.help or f"correct `titles` in {source.sites.path}, or remove the column there",
    )


def search_contract(contract: DataContract | None, *names: str) -> ContractColumn | None:
    """The contract column with this name, header, signal or label; an exact name comes first."""
    for name in names:
        for column in contract.columns if contract is not None else ():
            if name in (column.name, column.source):
                return column
        for column in contract.columns if contract is not None else ():
            if name in (signal_name(column), column.label, *column.alternatives):
                return column
    return None


def _find_contract_column(source: _Source, column: Column) -> ContractColumn | None:
    """The contract column that a description is about.

    Raises TableError for a signal that the rules read from several columns.
    """
    contract = source.contract
    found = search_contract(contract, column.key, *column.titles)
    if contract is None or found is None:
        return found
    if column.key in (found.name, found.source, *found.alternatives):
        return found
    headers = list(
        dict.fromkeys(one.source for one in contract.columns if signal_name(one) == column.key)
    )
    if len(headers) > 1:
        raise TableError(
            f"{source.place(column)}: the rules read `{column.key}` from several columns",
            expected=", ".join(f"`{header}`" for header in headers[:8]),
            help="use one of these headers as `name`",
        )
    return found


def _choose_target(column: Column, contract: DataContract | None) -> str:
    """The header of a column that is no signal: the time or trace column of the rules, or its
    name.
    """
    for header in (contract.time, contract.trace) if contract is not None else ():
        if header is not None and header in (column.key, *column.titles):
            return header
    return one_line(column.key)


def _choose_kind(
    source: _Source, column: Column, target: str, wanted: ContractColumn | None
) -> Kind:
    """What the cells of a column are: as stated, else as the rules read them.

    `open` if neither says it: numbers if all cells have the form of numbers that the site states.
    """
    stated = column.datatype.kind if column.datatype is not None else ""
    if stated:
        return stated
    contract = source.contract
    if contract is not None and target == contract.time:
        return "time"
    if wanted is not None:
        return (
            "number" if wanted.type == "real" else "boolean" if wanted.type == "boolean" else "text"
        )
    if contract is not None and target == contract.trace:
        return "text"
    common = source.section.datatype.kind
    return "number" if column.unit is not None else common or "open"


def _read_cells(
    source: _Source,
    column: Column,
    position: int | None,
    target: str,
    wanted: ContractColumn | None,
) -> tuple[Cells, ColumnReading]:
    """The cells of a column as the rules read them."""
    raw = source.table
    header = "" if position is None else raw.headers[position]
    reading = ColumnReading(
        key=column.key,
        signal=signal_name(wanted) if wanted is not None else "",
        header=header,
        target=target,
    )
    if position is None:
        texts: list[str] = [column.default] * raw.rows
        typed = None
    else:
        texts, typed = raw.texts(header), raw.cells[position].values
    if column.separator and position is not None:
        place = source.place(column, "separator")
        return Cells(texts=tuple(texts)), replace(reading, list_place=place)
    nulls = {*source.section.null, *column.null} - {""}
    changed = position is None
    if nulls or column.default or column.values:
        plain = {text: _translate_cell(text, nulls, column) for text in dict.fromkeys(texts)}
        if any(text != other for text, other in plain.items()):
            changed = True
            if typed is not None:
                kept = np.array([plain[text] == text for text in texts], dtype=np.bool_)
                typed = np.where(kept, typed, np.nan)
            texts = [plain[text] for text in texts]
    view = _ColumnCells(
        source=source, column=column, header=header, texts=texts, typed=typed, wanted=wanted
    )
    kind = _choose_kind(source, column, target, wanted)
    if kind == "open" and column.datatype is not None and isinstance(column.datatype.format, str):
        kind = "text"  # the format of a text is a regular expression
    if kind == "open":
        form = _find_number_format(view)
        known = any(not is_unknown(text) for text in texts)
        kind = "number" if form and known and not form.parse(texts)[1] else "text"
    if kind == "number":
        change, units = _find_conversion(view, target)
        reading = replace(reading, unit=units[0], target_unit=units[1])
        marks = _find_number_format(view)
        as_read = marks is None and change.identity and not changed
        if as_read and position is not None and header == target:
            return raw.cells[position], reading  # evaluation reports its errors
        values = change.apply(view.numbers(marks))
        return Cells(values=values), replace(reading, converted=not change.identity)
    if kind == "boolean":
        if column.datatype is None and not changed and position is not None:
            return raw.cells[position], reading
        return view.truths(), reading
    if kind == "time":
        return view.times(), reading
    if changed or column.datatype is not None:
        return Cells(texts=tuple(texts)), reading
    return raw.cells[position or 0], reading


def _translate_cell(text: str, nulls: set[str], column: Column) -> str:
    """A cell after `null`, `default` and `values`."""
    if text in nulls:
        text = ""
    return column.values.get(text or column.default, text or column.default)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ColumnCells:
    """The cells of one column, before their format is applied.

    Attributes:
        texts: N texts.
        typed: float64 [N], the numbers of a file with typed cells (NaN for texts); None for files
            without types.
    """

    source: _Source
    column: Column
    header: str
    texts: list[str]
    typed: NDArray[np.float64] | None
    wanted: ContractColumn | None

    def numbers(self, marks: NumberFormat | None) -> NDArray[np.float64]:
        """The cells as float64 [N]; NaN for missing values. Raises TableError."""
        if marks is None:
            if self.typed is None:
                own = self._as_table()
                try:
                    return own.numbers(own.headers[0])
                except TableError:
                    if self.header:
                        raise
                    raise self.wrong_cell([0], "is not a number", "a number") from None
            cells = Cells(texts=(*self.texts,), values=self.typed)
            own = replace(self.source.table, headers=(self.header,), cells=(cells,))
            return own.numbers(self.header)
        texts = self.texts
        if self.typed is not None:  # numbers of a workbook have no format
            left = np.flatnonzero(np.isnan(self.typed)).tolist()
            values = self.typed.copy()
            values[left], wrong = marks.parse([texts[i] for i in left])
            wrong = [left[i] for i in wrong]
        else:
            values, wrong = marks.parse(texts)
        if wrong:
            truths = [truth(text) for text in dict.fromkeys(texts) if not is_unknown(text)]
            if all(value is not None for value in truths):
                return np.array(
                    [np.nan if is_unknown(text) else float(bool(truth(text))) for text in texts]
                )
            raise self.wrong_cell(wrong, "is not a number in the stated format", marks.describe())
        return values

    def _as_table(self) -> Table:
        """A table of this column alone; a virtual column has its key as header."""
        header = self.header or self.column.key
        cells = (Cells(texts=(*self.texts,)),)
        return replace(self.source.table, headers=(header,), cells=cells)

    def truths(self) -> Cells:
        """The cells as 1 and 0, or as `true` and `false` if the rules compare texts."""
        stated = self.column.datatype.format if self.column.datatype is not None else None
        words: dict[str, bool] = {}
        if isinstance(stated, str):
            yes, no = stated.split("|")
            words = {yes: True, no: False}
            if yes.casefold() != no.casefold():
                words |= {yes.casefold(): True, no.casefold(): False}
        wanted = self.wanted
        if wanted is not None and wanted.type in ("category", "score"):
            known = {word.casefold() for word in wanted.vocabulary} or {wanted.category}
            if not known <= {"true", "false"}:
                raise TableError(
                    f"{self.source.place(self.column, 'datatype')}: the rules compare "
                    f"`{wanted.source}` with words, not with true and false",
                    expected=", ".join(
                        f"`{word}`" for word in wanted.vocabulary[:8] or (wanted.category,)
                    ),
                    received="boolean",
                    help="remove `datatype`, and translate the words of the file, for example "
                    "`values: {AUF: open, ZU: closed}`",
                )

        def one(text: str) -> bool | None:
            found = words.get(text, words.get(text.casefold()))
            return found if words else truth(text)

        found = {text: one(text) for text in dict.fromkeys(self.texts)}
        missing = {text for text in found if found[text] is None and is_unknown(text)}
        wrong = [
            i for i, text in enumerate(self.texts) if found[text] is None and text not in missing
        ]
        if wrong:
            expected = " or ".join(f"`{word}`" for word in str(stated).split("|"))
            raise self.wrong_cell(
                wrong,
                "is neither of the two words of the format" if words else "is neither yes nor no",
                expected if words else "true or false, yes or no, 1 or 0, ...",
            )
        if wanted is not None and wanted.type in ("category", "score"):
            shown = {True: "true", False: "false", None: ""}
            return Cells(texts=tuple(shown[found[text]] for text in self.texts))
        numbers = {True: 1.0, False: 0.0, None: np.nan}
        return Cells(values=np.array([numbers[found[text]] for text in self.texts]))

    def times(self) -> Cells:
        """The cells as ISO 8601 times; in UTC, with `Z`, if the zone is known. Raises
        TableError.
        """
        stated = self.column.datatype.format if self.column.datatype is not None else None
        zone_name = self.column.timezone or self.source.section.timezone
        zone = None
        if zone_name is not None:
            try:
                zone = find_zone(zone_name)
            except PatternError as error:
                place = (
                    self.source.place(self.column, "timezone")
                    if self.column.timezone is not None
                    else f"{self.source.sites.path}: timezone of site {self.source.site}"
                )
                raise TableError(
                    f"{place}: {error}",
                    help="correct `timezone`, or remove it if the times have no zone",
                ) from error
        if not isinstance(stated, str):
            own = self._as_table()
            [header] = own.headers
            if self.typed is not None and own.is_numeric(header):
                return Cells(texts=None, values=self.typed)
            if own.is_numeric(header):
                return Cells(texts=(*self.texts,))
            if zone is None and not any("/" in text for text in self.texts):
                return Cells(texts=(*self.texts,))
            moments, _ = own.times(header)
            parsed: list[tuple[datetime, timedelta | None] | None] = [
                None if moment is None else (moment, zone_of(text))
                for moment, text in zip(moments, self.texts, strict=True)
            ]
        else:
            try:
                date_pattern(stated)
            except PatternError as error:
                raise TableError(
                    f"{self.source.place(self.column, 'datatype.format')}: {error}",
                    received=stated,
                    help="docs/reference/sites-file.md describes date patterns",
                ) from error
            parsed = [None if is_unknown(text) else parse_date(text, stated) for text in self.texts]
            if not self.source.table.found.encoding:  # times of a workbook have no format
                parsed = [
                    one or _parse_typed_time(text)
                    for one, text in zip(parsed, self.texts, strict=True)
                ]
            wrong = [
                i for i, text in enumerate(self.texts) if parsed[i] is None and not is_unknown(text)
            ]
            if wrong:
                raise self.wrong_cell(
                    wrong,
                    f"is not a time of the form `{stated}`",
                    f"a time such as {example_of(stated)}",
                )
        zoned = [one for one in parsed if one is not None and one[1] is not None]
        if zone is None and zoned and len(zoned) < sum(one is not None for one in parsed):
            bare = next(i for i, one in enumerate(parsed) if one is not None and one[1] is None)
            raise self.wrong_cell(
                [bare],
                "names no zone, and other times do",
                "a time with its zone",
                "set `timezone`",
            )
        out, before = [], None
        for i, one in enumerate(parsed):
            if one is None:
                out.append("" if is_unknown(self.texts[i]) else self.texts[i])
                continue
            moment: datetime | None = one[0]
            if one[1] is not None:
                moment = _subtract_offset(one[0], one[1])
            elif zone is not None:
                moment = to_utc(one[0], zone, before)
            if moment is None and (one[1] is not None or one[0].year in (1, 9999)):
                raise self.wrong_cell(
                    [i], "is outside of the years 1 to 9999 in UTC", "a time of these years in UTC"
                )
            if moment is None:
                raise self.wrong_cell(
                    [i],
                    f"does not exist in {zone_name}: the clocks skip this hour",
                    "a time that exists, or `timezone` with the zone of the clock",
                )
            before = moment
            utc = one[1] is not None or zone is not None
            out.append(moment.isoformat(" ") + ("Z" if utc else ""))
        return Cells(texts=tuple(out))

    def wrong_cell(
        self, rows: Sequence[int], what: str, expected: str, remedy: str = ""
    ) -> TableError:
        """The error for cells that do not have their format; rows from 0."""
        if not self.header:
            return TableError(
                f'{self.source.place(self.column, "default")}: "{shorten(self.texts[0])}" {what}',
                expected=expected,
                received=f'"{shorten(self.texts[0])}"',
                help="correct `default`, or state the `datatype` of the column",
            )
        table = self.source.table
        row = _row_number(table, rows[0])
        more = f", and {_count_more(len(rows), 'cell')}" if len(rows) > 1 else ""
        return TableError(
            f'{table.name}: row {row}, column `{self.header}`: "{shorten(self.texts[rows[0]])}" '
            f"{what}",
            expected=expected,
            received=f'"{shorten(self.texts[rows[0]])}"{more}',
            help=(remedy + ", " if remedy else "")
            + f"correct the cell, list it under `null`, or correct column `{self.column.key}` of "
            f"site {self.source.site} in {self.source.sites.path}",
        )


def _parse_typed_time(text: str) -> tuple[datetime, timedelta | None] | None:
    """The time of a workbook's or Parquet file's cell, which the reader writes in ISO 8601."""
    moment = parse_time(text) if ISO.match(text) else None
    return None if moment is None else (moment, zone_of(text))


HAS_OFFSET = re.compile(r"[T ].*[+-]")
ISO = re.compile(r"\d{4}-\d{2}-\d{2}\b")


def _subtract_offset(moment: datetime, offset: timedelta) -> datetime | None:
    """None outside the calendar."""
    try:
        return moment - offset
    except OverflowError:
        return None


def _count_more(number: int, noun: str) -> str:
    """``3 more such cells``: all of this number but the first, which a message shows."""
    return f"{number - 1:,} more such {noun}{'s' * (number > 2)}"


def _find_number_format(view: _ColumnCells) -> NumberFormat | None:
    """The stated form of numbers; None if the column and the site state none. Raises TableError."""
    datatype = view.column.datatype or Datatype()
    common = view.source.section.datatype
    decimal, group = (
        own or shared for own, shared in zip(datatype.marks, common.marks, strict=True)
    )
    pattern = datatype.pattern or common.pattern
    if decimal is None and group is None and not pattern:
        return None
    if (decimal or ".") == group:
        raise TableError(
            f"{view.source.place(view.column, 'datatype')}: the decimal mark"
            f"{'' if decimal else ' (`.` if `decimalChar` is not stated)'} and `groupChar` are "
            f"the same character, `{group}`",
            help="state another `decimalChar` or `groupChar`",
        )
    if pattern and group is None and decimal != ",":
        group = ","  # the default of the vocabulary
    form = NumberFormat(decimal=decimal or ".", group=group or "", pattern=pattern)
    if pattern:
        try:
            number_pattern(form)
        except PatternError as error:
            raise TableError(
                f"{view.source.place(view.column, 'datatype.format')}: {error}",
                received=pattern,
                help="docs/reference/sites-file.md describes number patterns",
            ) from error
    return form


def _find_conversion(view: _ColumnCells, target: str) -> tuple[Conversion, tuple[str, str]]:
    """The conversion of a column to the unit of the rules, and both units.

    Raises TableError if a stated unit is unknown or measures something else.
    """
    wanted, column = view.wanted, view.column
    if wanted is not None:
        goal_text = "" if wanted.unit == "probability" else wanted.unit
    else:
        goal = header_unit(target)
        goal_text = goal.text if goal is not None else ""
        if not goal_text and view.source.contract is not None and column.unit is not None:
            goal_text = "s" if target == view.source.contract.time else ""
    form = _find_number_format(view)
    scale = form.pattern[-1:] if form is not None and form.pattern[-1:] in SCALES else ""
    if scale and column.unit not in (None, "", "1"):
        raise TableError(
            f"{view.source.place(column, 'unit')}: `{scale}` in the format makes 25{scale} a plain "
            f"number, and `unit` is `{column.unit}`",
            help=f"remove `unit`, or `{scale}` from the format if the cells have none",
        )
    if scale:
        origin, given = f"`{scale}` in the format", Unit(text="")
        if not goal_text:
            return SAME, ("", "")
    elif column.unit is None:
        found = header_unit(view.header) if view.header != target else None
        if found is None or not goal_text:
            return SAME, ("", goal_text)
        given = found
        origin = f"the header `{view.header}`"
    else:
        origin = f"`unit: {column.unit}`"
        given = _parse_unit(view, column.unit)
        if not goal_text and (wanted is None or not wanted.unit):
            return SAME, (column.unit, "")
    goal_unit = _parse_unit(view, goal_text)
    try:
        change = conversion(given, goal_unit)
    except ValueError as error:
        raise TableError(
            f"{view.source.place(column, 'unit')}: {origin} does not convert to the unit that the "
            f"rules or other sites state, for column `{view.header or column.key}` of "
            f"{view.source.table.name}",
            expected=f"a unit that converts to {goal_text or 'a plain number'}",
            received=given.text or "a plain number",
            help="state the unit of the values in the file as `unit`",
        ) from error
    return change, (given.text, goal_text)


def _parse_unit(view: _ColumnCells, text: str) -> Unit:
    """The unit that a text means. Raises TableError with suggestions."""
    if text in ("", "1"):
        return Unit(text="")
    found = parse_unit(text)
    if isinstance(found, UnitProblem):
        raise TableError(
            f"{view.source.place(view.column, 'unit')}: unit `{text}` {found.reason}",
            expected="a unit as in rule files, for column "
            f"`{view.header or view.column.key}` of {view.source.table.name}",
            help=found.advice or "docs/reference/units.md lists units",
        )
    return found


def _concatenate(tables: Sequence[Table], site: str) -> Table:
    """The rows of several files, with the columns that all of them have."""
    first = tables[0]
    headers = [one for one in first.headers if all(one in table.headers for table in tables)]
    cells = []
    for header in headers:
        own = [table.cells[table.position(header)] for table in tables]
        if all(one.values is not None for one in own):
            values = np.concatenate([one.values for one in own if one.values is not None])
            texts = None
            if all(one.texts is not None for one in own):
                texts = tuple(text for one in own for text in one.texts or ())
            cells.append(Cells(texts=texts, values=values))
        else:
            cells.append(
                Cells(texts=tuple(text for table in tables for text in table.texts(header)))
            )
    notes = [f"{table.name}: {note}" for table in tables for note in table.found.notes]
    found = TableFormat(
        kind=f"{len(tables)} files",
        separator=first.found.separator,
        decimal=first.found.decimal,
        encoding=first.found.encoding,
        header_line=first.found.header_line,
        notes=tuple(notes),
    )
    return Table(
        name=f"{site} ({len(tables)} files)",
        headers=tuple(headers),
        cells=tuple(cells),
        rows=sum(table.rows for table in tables),
        found=found,
        lines=np.concatenate([table.lines for table in tables]),
        parts=tuple(
            part for table in tables for part in table.parts or ((table.name, table.rows),)
        ),
    )


def _check_foreign_key(
    sites: SitesFile, read: SiteTable, key: ForeignKey, contract: DataContract | None
) -> None:
    """Raise TableError for a cell whose value is in no row, or in several, of the other table.

    A row with a missing value in a column of the key has no partner.
    """
    table, section = read.table, find_site(sites, read.site)
    place = f"`foreignKeys` of site {read.site} in {sites.path}"
    headers = [_find_key_header(name, section, contract) for name in key.column_reference]
    other = _read_lookup(sites, key.reference.resource, place)
    partners = [one_line(name) for name in key.reference.column_reference]
    for one, columns in ((table, headers), (other, partners)):
        for header in columns:
            if header not in one:
                error = one.missing(header, needed=f"{place} names")
                raise TableError(
                    error.message,
                    received=error.received,
                    help=error.help or "write the `name` of a described column, or a header",
                )
    rows_of: dict[tuple[str, ...], list[int]] = {}
    for row, values in enumerate(_key_values(other, partners)):
        rows_of.setdefault(values, []).append(row)
    cells = _key_values(table, headers)
    wrong = [
        row
        for row, values in enumerate(cells)
        if not any(is_unknown(value) for value in values) and len(rows_of.get(values, ())) != 1
    ]
    if not wrong:
        return
    row = wrong[0]
    shown = {one.target: one.header for one in read.columns if one.header}
    several = rows_of.get(cells[row])
    if several:
        found = " and ".join(str(_row_number(other, at)) for at in several[:2])
        what = f"is in rows {found} of {other.name}"
    else:
        what = f"is not in {_format_headers(partners)} of {other.name}"
    more = f", and {_count_more(len(wrong), 'row')}" if wrong[1:] else ""
    known = [" ".join(values) for values in list(rows_of)[:MAX_PAIRS]]
    has = ", ".join(f"`{shorten(one)}`" for one in known) + ", ..." * (len(rows_of) > MAX_PAIRS)
    raise TableError(
        f"{table.file_of(row)}: row {_row_number(table, row)}, "
        f"{_format_headers([shown.get(header, header) for header in headers])}: "
        f'"{shorten(" ".join(cells[row]))}" {what}',
        expected=f"one row of {other.name} with this value"
        + ("" if several else f"; {other.name} has {has or 'no rows'}"),
        received=f'"{shorten(" ".join(cells[row]))}"{more}',
        help=f"correct the cell or {other.name}, list the word under `null`, or remove {place}",
    )


def _read_lookup(sites: SitesFile, resource: str, place: str) -> Table:
    """The table that a foreign key refers to, with the names of its description if it has one."""
    path = Path(resource).resolve()
    for name, section in (*sites.sites.items(), *sites.lookups.items()):
        if path in (Path(url).resolve() for url in section.url):
            return _read_file(sites, name, section, None, resource)[0]
    if not path.is_file():
        raise TableError(
            f"{place}: the table of `reference` "
            + ("is a folder" if path.is_dir() else "does not exist"),
            expected="the path of a file",
            received=resource,
            help="correct `resource`; paths are relative to the sites file",
        )
    return read_table(resource)


def _key_values(table: Table, headers: Sequence[str]) -> list[tuple[str, ...]]:
    """The cells of key columns; equal numbers are equal texts."""
    columns = [
        [number_text(value) for value in table.numbers(header).tolist()]
        if table.is_numeric(header)
        else table.texts(header)
        for header in headers
    ]
    return list(zip(*columns, strict=True))


def _format_headers(headers: Sequence[str]) -> str:
    return f"column{'s' * (len(headers) > 1)} " + ", ".join(f"`{header}`" for header in headers)


def _row_number(table: Table, index: int) -> int:
    """The row of the file, title rows included."""
    return int(table.lines[index]) if table.lines.size else index + 1


def find_time_header(section: Site, contract: DataContract | None) -> str | None:
    """The header of the time column in the read table: that of the rules' timeline, else the first
    column of times that the site describes; None without one.
    """
    if contract is not None and contract.time is not None:
        return contract.time
    return next(
        (
            one_line(column.key)
            for column in section.table_schema.columns
            if column.datatype is not None
            and column.datatype.kind == "time"
            and not column.suppress_output
        ),
        None,
    )


def _check_time_order(table: Table, section: Site, contract: DataContract | None) -> list[str]:
    """Sentences about times that repeat or decrease within their series, with rows of the file."""
    header = find_time_header(section, contract)
    if header is None or header not in table:
        return []
    seconds = _read_seconds(table, header)
    if seconds is None:
        return []
    keys = [
        one
        for key in (
            *section.table_schema.primary_key,
            contract.trace if contract is not None else None,
        )
        if key is not None and (one := _find_key_header(key, section, contract)) != header
    ]
    groups = np.zeros(table.rows, dtype=np.int64)
    for key in dict.fromkeys(keys):
        if key not in table:
            raise table.missing(key, needed=f"`primaryKey` of {section.url[0]} names")
        codes = {text: i for i, text in enumerate(dict.fromkeys(table.texts(key)))}
        own = np.array([codes[text] for text in table.texts(key)], dtype=np.int64)
        groups = np.unique(groups * (len(codes) + 1) + own, return_inverse=True)[1].ravel()
    rows = np.flatnonzero(~np.isnan(seconds))
    rows = rows[np.argsort(groups[rows], kind="stable")]
    after, before = rows[1:], rows[:-1]
    back = (groups[after] == groups[before]) & (seconds[after] < seconds[before])
    ranked = rows[np.lexsort((rows, seconds[rows], groups[rows]))]
    twice = (groups[ranked[1:]] == groups[ranked[:-1]]) & (
        seconds[ranked[1:]] == seconds[ranked[:-1]]
    )
    hint = "" if keys else "; `primaryKey` names the columns that tell series apart"
    notes = []
    if twice.any():
        at = int(np.argmax(twice))
        pairs = _format_row_pairs(table, ranked[:-1][twice], ranked[1:][twice])
        notes.append(
            f"times in `{header}` repeat in {pairs}"
            f" (`{table.texts(header)[ranked[at]]}` first){hint}"
        )
    if back.any():
        notes.append(
            f"times in `{header}` decrease in {_format_row_pairs(table, before[back], after[back])}"
        )
    return notes


def _read_seconds(table: Table, header: str) -> NDArray[np.float64] | None:
    """The times of a column in seconds, NaN where unknown; None if the order of day and month is
    open, which evaluation reports.
    """
    texts = [text.removesuffix("Z") or "NaT" for text in table.texts(header)]
    if all((text[4:5] == "-" and not HAS_OFFSET.search(text)) or text == "NaT" for text in texts):
        try:  # ISO 8601, as `read_site` writes it
            moments = np.array(texts, dtype="datetime64[us]")
        except ValueError:
            pass
        else:
            return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)
    if table.is_numeric(header):
        return table.numbers(header)
    try:
        parsed, _ = in_utc(table.times(header)[0], table.texts(header))
    except TableError:
        return None
    return np.array(
        [np.nan if one is None else one.replace(tzinfo=UTC).timestamp() for one in parsed]
    )


def _find_key_header(key: str, section: Site, contract: DataContract | None) -> str:
    """The header in the read table of a column that `primaryKey` names."""
    found = search_contract(contract, key)
    if found is not None:
        return found.source
    column = next((one for one in section.table_schema.columns if one.key == key), None)
    if column is not None and contract is not None:
        found = search_contract(contract, *column.titles)
        return found.source if found is not None else _choose_target(column, contract)
    return one_line(key)


MAX_PAIRS = 3
"""Pairs of rows that a note lists."""


def _format_row_pairs(table: Table, first: NDArray[np.int64], second: NDArray[np.int64]) -> str:
    """``rows 12 and 13, 40 and 41 and 5 more pairs`` of the file."""

    def row(index: int) -> str:
        number = str(_row_number(table, index))
        return f"{number} of {table.file_of(index)}" if table.parts[1:] else number

    shown = [
        f"{row(int(a))} and {row(int(b))}"
        for a, b in zip(first[:MAX_PAIRS], second[:MAX_PAIRS], strict=True)
    ]
    more = f" and {len(first) - MAX_PAIRS:,} more pairs" if len(first) > MAX_PAIRS else ""
    return f"rows {', '.join(shown)}{more}"
