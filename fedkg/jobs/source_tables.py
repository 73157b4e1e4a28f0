"""Read the tables of a job: from the generator, one file, or one file per site.

Columns get the headers and units that the rules expect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedkg._internal.name_matching import nearest_name
from fedkg.data import Frame, from_table, unit_conversion
from fedkg.data.ai4i import generate
from fedkg.data.sets.first_and_last_time import time_range_of_table
from fedkg.errors import JobError
from fedkg.jobs.schema.data_section import Site
from fedkg.jobs.schema.job import Job
from fedkg.learned_knowledge_records import TimeRange
from fedkg.pack import DataContract
from fedkg.sites import load_sites, read_site
from fedkg.sites.reader import reject_lists, signal_name, warn_of_times
from fedkg.tables import Table, in_utc, read_table
from fedkg.units import Conversion


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceTables:
    """The tables of a job before they are split.

    Attributes:
        whole: one table for all sites; or
        by_site: one table per site, in the order of the job.
        files: path and SHA-256 of every file that was read.
        time_ranges: first and last time of each table, by site, "" for one table; None without
            times.
    """

    whole: Frame | None = None
    by_site: Mapping[str, Frame] | None = None
    files: tuple[tuple[str, str], ...] = ()
    time_ranges: Mapping[str, TimeRange | None] = field(default_factory=dict)


def read_tables(job: Job, contract: DataContract) -> SourceTables:
    """Read the tables of a job.

    Raises:
        TableError: a file cannot be read, lacks a required column, or has text in a numeric column.
        JobError: a site maps a column that nothing reads, or gives a unit that cannot be converted.
    """
    if any(site.table for site in job.sites.values()):
        frames: dict[str, Frame] = {}
        files: list[tuple[str, str]] = []
        time_ranges: dict[str, TimeRange | None] = {}
        described = None
        if job.data.sites_file is not None:
            described = load_sites(job.data.sites_file, names=job.sites)
            files.append((job.data.sites_file, sha256_of(job.data.sites_file)))
        for name, site in job.sites.items():
            path = str(site.table)
            if described is None:
                table = read_table(_require_file(path, f"sites.{name}.table"))
                table = table.with_headers(
                    (one.source, one.alternatives) for one in contract.columns
                )
                files.append((path, sha256_of(path)))
            else:
                read = read_site(described, name, contract)
                table = read.table
                files += [(str(Path(one).resolve()), sha256_of(one)) for one in read.files]
                warn_of_times(read)
                reject_lists(
                    read, (*_numeric_headers(job, contract), *_text_headers(job, contract))
                )
            frames[name] = read_site_frame(job, contract, name, site, table)
            time_ranges[name] = time_range_of_table(table, contract.time) if contract.time else None
        return SourceTables(by_site=frames, files=tuple(files), time_ranges=time_ranges)
    for name, site in job.sites.items():
        if site.columns:
            raise JobError(
                f"sites.{name}.columns requires sites.{name}.table", help=f"add sites.{name}.table"
            )
    if job.data.path is None:
        return SourceTables(whole=generate(job.data.rows, job.data.seed))
    table = read_table(_require_file(job.data.path, "data.path"), dates=job.data.dates)
    table = table.with_headers((one.source, one.alternatives) for one in contract.columns)
    _require_named_columns(job, table)
    texts = (
        *_text_headers(job, contract),
        *((job.data.site_column,) if job.data.split == "column" else ()),
    )
    frame = from_table(
        table,
        numeric=_numeric_headers(job, contract),
        text=[h for h in texts if h in table.headers or h != job.data.machine],
    )
    return SourceTables(
        whole=_iso_times(frame, table, contract),
        files=((job.data.path, sha256_of(job.data.path)),),
        time_ranges={"": time_range_of_table(table, contract.time) if contract.time else None},
    )


def read_server_table(job: Job, contract: DataContract) -> Frame:
    """The table of the server, `data.server_table`, with the headers that the rules expect.

    Raises:
        JobError: the file does not exist.
        TableError: the file cannot be read, or lacks a column.
    """
    path = _require_file(str(job.data.server_table), "data.server_table")
    table = read_table(path).with_headers((c.source, c.alternatives) for c in contract.columns)
    return read_site_frame(job, contract, "server", Site(), table)


def _require_named_columns(job: Job, table: Table) -> None:
    """Raise TableError with the field of the job if a column that it names is missing."""
    named = {
        **dict.fromkeys(job.data.features, "data.features"),
        **dict.fromkeys(job.data.categories, "data.categories"),
        job.data.label: "data.label",
        **({job.data.site_column: "data.site_column"} if job.data.split == "column" else {}),
    }
    for header, place in named.items():
        if header not in table and header != job.data.machine:
            raise table.missing(header, needed=f"`{place}` names")


def _iso_times(frame: Frame, table: Table, contract: DataContract) -> Frame:
    """The frame with its times in ISO 8601.

    The order of day and month is resolved while all rows are present. Raises TableError if it is
    ambiguous.
    """
    if (
        contract.time is None
        or contract.time not in table
        or not any("/" in text for text in table.texts(contract.time))
    ):
        return frame
    texts = table.texts(contract.time)
    moments, _ = in_utc(
        table.times(contract.time)[0], texts, f"{table.name}: column `{contract.time}`"
    )
    return frame.with_texts(
        contract.time,
        [
            text if at is None else at.isoformat(" ")
            for text, at in zip(texts, moments, strict=True)
        ],
    )


def feature_headers(job: Job, contract: DataContract) -> tuple[str, ...]:
    """Headers of the numeric columns that the model reads."""
    if job.data.features:
        return job.data.features
    read = (c.source for c in contract.columns if c.role == "input" and c.type != "category")
    return tuple(header for header in dict.fromkeys(read) if header != job.data.label)


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _numeric_headers(job: Job, contract: DataContract) -> tuple[str, ...]:
    read = (c.source for c in contract.columns if c.role == "input" and c.type == "real")
    return tuple(dict.fromkeys((*feature_headers(job, contract), *read, job.data.label)))


def _text_headers(job: Job, contract: DataContract) -> tuple[str, ...]:
    read = (c.source for c in contract.columns if c.role == "input" and c.type == "category")
    return tuple(dict.fromkeys((*job.data.categories, *read)))


def read_site_frame(job: Job, contract: DataContract, name: str, site: Site, table: Table) -> Frame:
    """The table of a site with the headers and units of the rules.

    Args:
        job: names features, categories and the label.
        contract: what the rules read.
        name: of the site, for messages.
        site: maps its columns.
        table: its rows.

    Raises:
        TableError: a column is missing, or has text instead of numbers.
        JobError: the site maps a column that nothing reads, or gives a unit that cannot be
            converted.
    """
    given: dict[str, tuple[str, Conversion | None]] = {}
    for key, entry in site.columns.items():
        where = f"sites.{name}.columns.{key}"
        header, unit = _resolve_column(key, where, job, contract)
        if entry.column not in table:
            raise table.missing(entry.column, needed=f"{where} names")
        given[header] = (
            entry.column,
            None
            if entry.unit is None
            else unit_conversion(entry.unit, unit, where=f"{where}.unit"),
        )
    numeric, texts = _numeric_headers(job, contract), _text_headers(job, contract)
    frame = Frame(name=table.name, columns={})
    for place in (contract.time, contract.trace):
        if place is not None and place in table:
            frame = frame.with_texts(place, table.texts(place))
    for header in (*numeric, *texts):
        own, change = given.get(header, (header, None))
        if own not in table:
            if header == job.data.machine:
                continue
            raise table.missing(
                own,
                needed=f"site {name} needs (map it under sites.{name}.columns if it has another "
                "name)"
                if job.data.sites_file is None
                else f"site {name} needs (describe it in {job.data.sites_file})",
            )
        if header in texts:
            frame = frame.with_texts(header, table.texts(own))
        else:
            values = table.numbers(own)
            frame = frame.with_numbers(header, values if change is None else change.apply(values))
    return _iso_times(frame, table, contract)


def _resolve_column(key: str, where: str, job: Job, contract: DataContract) -> tuple[str, str]:
    """Header and unit of a signal name or header."""
    for column in contract.columns:
        if key in (column.name, signal_name(column), column.source):
            return column.source, column.unit
    headers = {*job.data.features, *job.data.categories, job.data.label, job.data.machine}
    if key in headers:
        return key, ""
    known = sorted({signal_name(column) for column in contract.columns} | headers)
    near = nearest_name(key, known)
    raise JobError(
        f"{where}: `{key}` is not a signal of the rules or a column of the job",
        expected=", ".join(known),
        help=f"did you mean `{near}`?" if near else "",
    )


def _require_file(path: str, field: str) -> str:
    """A path of the job that exists. Raises JobError."""
    if not Path(path).exists():
        raise JobError(
            f"{field}: the file does not exist",
            received=path,
            help="paths are relative to the job file",
        )
    return path
