"""Check the rules about the data alone on the intact data of the sites, before any split.

A random sample of rows or a window has no neighbours left, so rules over time would be evaluated
there on other steps than by `fedkg eval`.

Letters: N rows, F features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from fedkg.data import Frame, concatenate
from fedkg.data.sets import DataSet
from fedkg.evaluation import evaluate
from fedkg.jobs.folder import Row
from fedkg.jobs.row_order import ROW_COLUMN, SITE_COLUMN
from fedkg.jobs.samples.knowledge_inputs import category_codes
from fedkg.jobs.schema.data_section import TABLE_SET
from fedkg.jobs.schema.job import Job
from fedkg.jobs.unevaluated_rules import NO_ROW, NO_ROWS
from fedkg.pack import Pack, is_temporal
from fedkg.pack.manifest import RuleRecord
from fedkg.sites import load_sites, read_site
from fedkg.tables import Table, read_table

SECONDS = {"s": 1.0, "h": 3600.0}
"""Seconds in a time unit of a data set; other units only order the rows."""


def check_tables(pack: Pack, frames: Sequence[Frame]) -> list[Row]:
    """Rows of `checks.csv`: every rule over inputs alone, on all rows of intact tables, in float64.

    Args:
        frames: one per file, with `ROW_COLUMN` and, if sites have tables, `SITE_COLUMN`.
    """
    return _count(
        pack,
        ((frame.table(), partial(row_name, frame)) for frame in _concatenate_frames(pack, frames)),
    )


def check_data_set(pack: Pack, data: DataSet, job: Job) -> list[Row]:
    """The same for a data set, before windows are cut from it; images have no rows to check."""
    own = [rule for rule in pack.manifest.rules if not rule.output]
    if job.data.sites_file is not None:
        return _count(pack, _read_site_tables(pack, job))
    if job.data.set == TABLE_SET:
        table = read_table(str(job.data.path))
        return _count(pack, [(table, lambda at: f"row {at + 1}")])
    if data.x.ndim != 2 or not own:
        return [_line(rule, 0, 0, reason=NO_ROWS) for rule in own]
    return check_tables(pack, _site_frames(pack, data))


def _read_site_tables(pack: Pack, job: Job) -> Iterator[tuple[Table, Callable[[int], str]]]:
    """The tables of the job's sites file, each with the names of its rows in the site's file."""
    sites = load_sites(str(job.data.sites_file))
    for name in job.sites or sites.sites:
        table = read_site(sites, name, pack.manifest.contract).table
        yield table, partial(_name_file_row, name, table)


def _name_file_row(site: str, table: Table, at: int) -> str:
    return f"site {site}, {table.where(at)}"


def row_name(frame: Frame, at: int) -> str:
    """The position of a row in its source table, with the site if sites have tables:

    "site graz, row 19".
    """
    number = int(frame.numbers(ROW_COLUMN)[at]) if ROW_COLUMN in frame.columns else at + 1
    return (
        f"site {frame.columns[SITE_COLUMN][at]}, row {number}"
        if SITE_COLUMN in frame.columns
        else f"row {number}"
    )


def _concatenate_frames(pack: Pack, frames: Sequence[Frame]) -> list[Frame]:
    """The same rows in as few tables as possible, because each evaluation has a fixed cost.

    Tables stay separate if rules compare rows, or if their columns differ.
    """
    over_time = any(is_temporal(bank.skeleton) for bank in pack.banks)
    if over_time or any(view.steps for view in pack.manifest.contract.views):
        return list(frames)
    alike: dict[tuple[object, ...], list[Frame]] = {}
    for frame in frames:
        columns = ((header, cells.dtype) for header, cells in frame.columns.items())
        alike.setdefault((frame.name, *columns), []).append(frame)
    return [concatenate(group, group[0].name) for group in alike.values()]


def _count(pack: Pack, tables: Iterable[tuple[Table, Callable[[int], str]]]) -> list[Row]:
    """Counts and the worst example of every rule over inputs alone.

    Args:
        tables: each with the name of a row by its position from 0.
    """
    counts: Counter[tuple[str, str]] = Counter()
    worst: dict[str, tuple[bool, float, str]] = {}
    for table, name in tables:
        for result in evaluate(pack, table, missing="skip").rules:
            if result.output:
                continue
            counts[result.rule, "violated"] += result.violated
            counts[result.rule, "known"] += result.violated + result.satisfied
            found = result.worst
            if result.violated and found is not None:
                measured = bool(np.isfinite(found.robustness))
                by = found.read or f"violation {abs(found.robustness):.4g} {found.unit}".strip()
                entity = f"{found.entity}, " if found.entity else ""
                text = f"{entity}{name(found.row - 1)}: {by}"
                worst[result.rule] = min(
                    worst.get(result.rule, (True, np.inf, "")),
                    (not measured, found.robustness, text),
                )
    return [
        _line(
            record,
            counts[record.name, "violated"],
            counts[record.name, "known"],
            reason="" if counts[record.name, "known"] else NO_ROW,
            example=worst.get(record.name, (True, 0.0, ""))[2],
        )
        for record in pack.manifest.rules
        if not record.output
    ]


def _line(
    rule: RuleRecord, violated: int, evaluations: int, *, reason: str, example: str = ""
) -> Row:
    return {
        "rule": rule.name,
        "title": rule.title,
        "kind": rule.kind,
        "violated": violated,
        "evaluations": evaluations,
        "rate": violated / evaluations if evaluations else None,
        "reason": reason,
        "example": example,
    }


def _site_frames(pack: Pack, data: DataSet) -> list[Frame]:
    """The rows of each client of a data set in their order in time, with the columns that the rules
    may read.
    """
    contract, asked = pack.manifest.contract, _needed_headers(pack)
    places = {name: place for place, name in enumerate(data.features) if name in asked}
    columns: dict[str, Any] = {
        name: np.asarray(data.x[:, place], dtype=np.float64) for name, place in places.items()
    }
    if contract.time is not None and data.time is not None and data.step_unit in SECONDS:
        columns[contract.time] = data.time * SECONDS[data.step_unit]
    columns[ROW_COLUMN] = np.arange(1.0, data.samples + 1.0)
    frame = Frame(name=data.name, columns=columns)
    for column in contract.columns:
        if column.type == "category":
            texts = (*column.vocabulary, "")
            frame = frame.with_texts(
                column.source, [texts[code] for code in category_codes(column, data).tolist()]
            )
    if data.time is not None:
        frame = frame.take(np.argsort(data.time, kind="stable"))
    if data.clients is None:
        return [frame]
    clients = (
        data.clients if data.time is None else data.clients[np.argsort(data.time, kind="stable")]
    )
    frame = frame.with_texts(SITE_COLUMN, clients.tolist())
    if contract.trace is not None:
        frame = frame.with_texts(contract.trace, clients.tolist())
    return [frame.take(clients == name) for name in data.client_names]


def _needed_headers(pack: Pack) -> set[str]:
    """Headers that the rules may read, so that a wide table is not copied to float64 completely."""
    contract = pack.manifest.contract
    headers = [column.source for column in contract.columns] + [
        model.column for model in pack.manifest.knowledge
    ]
    headers += [header for view in contract.views for header in view.groups]
    return {form for header in headers for form in (header, " ".join(header.split()))}
