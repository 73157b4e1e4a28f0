"""Evaluate rules on tables as `fedkg eval` does: those about the data alone on the intact data of
the sites, before any split, and those that compare rows on test rows with a model's answers.

A random sample of rows or a window has no neighbours left, so rules over time would be evaluated
there on other steps than by `fedkg eval`.

Letters: N rows, F features.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.data import Frame, concatenate
from fedkg.data.sets import DataSet
from fedkg.evaluation import evaluate
from fedkg.evaluation.incidents import find_incidents
from fedkg.evaluation.result import margin_scales
from fedkg.jobs.chronological_holdout import ROW_COLUMN, SITE_COLUMN
from fedkg.jobs.experiment.knowledge_feature_columns import category_codes
from fedkg.jobs.folder import Row
from fedkg.jobs.result_rows import RuleCounts
from fedkg.jobs.schema.data_section import TABLE_SET
from fedkg.jobs.schema.job import Job
from fedkg.jobs.unevaluated_rules import NO_ROW, NO_ROWS
from fedkg.pack import Pack, is_temporal
from fedkg.pack.manifest import RuleRecord
from fedkg.sites import load_sites, read_site
from fedkg.tables import Table, read_table

NamedTable = tuple[str, Table, Callable[[int], str]]
"""The name of a site ("" for a table of all sites), its table, and a function that names a row by
its position from 0."""

SECONDS = {"s": 1.0, "h": 3600.0}
"""Seconds in a time unit of a data set; other units only order the rows."""


def count_frames(pack: Pack, frames: Sequence[Frame]) -> dict[str, TableCounts]:
    """The counts of every rule over inputs alone on all rows of each frame, in float64.

    Args:
        frames: intact tables with `ROW_COLUMN` and, if sites have tables, `SITE_COLUMN`.
    """
    tables = ((frame.table(), partial(row_name, frame)) for frame in frames)
    return count_on_tables(pack, tables, names_of_checks(pack))


def count_data_set(pack: Pack, data: DataSet, job: Job) -> dict[str, TableCounts] | None:
    """The same for a data set, before windows are cut from it; None for images, which have no rows
    to check.
    """
    names = names_of_checks(pack)
    if job.data.sites_file is not None:
        return count_on_tables(pack, _read_site_tables(pack, job), names)
    if job.data.set == TABLE_SET:
        table = read_table(str(job.data.path))
        table = table.with_headers(
            (one.source, one.alternatives) for one in pack.manifest.contract.columns
        )
        return count_on_tables(pack, [(table, lambda at: f"row {at + 1}")], names)
    if data.x.ndim != 2 or not names:
        return None
    return count_frames(pack, _concatenate_frames(pack, list(site_frames(pack, data).values())))


def data_set_tables(pack: Pack, data: DataSet, job: Job) -> list[NamedTable]:
    """The tables of a data set that `count_data_set` evaluates, by site; none for images."""
    if job.data.sites_file is not None:
        sites = load_sites(str(job.data.sites_file), names=job.sites)
        read = {
            name: read_site(sites, name, pack.manifest.contract).table
            for name in (job.sites or sites.sites)
        }
        return [(name, table, table.where) for name, table in read.items()]
    if job.data.set == TABLE_SET:
        table = read_table(str(job.data.path))
        return [("", table, table.where)]
    if data.x.ndim != 2:
        return []
    frames = site_frames(pack, data)
    return [(name, own.table(), partial(row_name, own)) for name, own in frames.items()]


def find_table_incidents(
    pack: Pack, tables: Sequence[NamedTable], rules: Sequence[str], *, is_ordered: bool = True
) -> dict[str, Any] | None:
    """The incidents of tables under some rules; None without tables. `Any`: JSON.

    A rule whose columns a site lacks is not evaluated there.

    Args:
        is_ordered: whether successive rows are neighbours.
    """
    if not tables:
        return None
    results = [evaluate(pack, table, missing="skip") for _, table, _ in tables]
    named = [(site, table) for site, table, _ in tables]
    where = [name for _, _, name in tables]
    return find_incidents(pack, named, results, rules, where, is_ordered)


def names_of_checks(pack: Pack) -> list[str]:
    """The names of the rules over inputs alone."""
    return [rule.name for rule in pack.manifest.rules if not rule.output]


def check_rows(pack: Pack, counts: Mapping[str, TableCounts] | None) -> list[Row]:
    """Rows of `checks.csv` from the counts of every rule over inputs alone; None: no rows."""
    own = [rule for rule in pack.manifest.rules if not rule.output]
    if counts is None:
        return [_line(rule, 0, 0, reason=NO_ROWS) for rule in own]
    return [
        _line(
            rule,
            counts[rule.name].violated,
            counts[rule.name].evaluations,
            reason="" if counts[rule.name].evaluations else NO_ROW,
            example=counts[rule.name].example,
        )
        for rule in own
    ]


def _read_site_tables(pack: Pack, job: Job) -> Iterator[tuple[Table, Callable[[int], str]]]:
    """The tables of the job's sites file, each with the names of its rows in the site's file."""
    sites = load_sites(str(job.data.sites_file), names=job.sites)
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


@dataclass(slots=True, kw_only=True)
class TableCounts(RuleCounts):
    """Counts of one rule on tables, and the worst violation: whether it has no margin, its margin
    in the common unit of the rule, and in words.
    """

    worst: tuple[bool, float, str] = (True, np.inf, "")

    def add(self, other: TableCounts) -> None:
        """Add the counts of the same rule on another table."""
        self.bound = other.bound
        self.violated += other.violated
        self.evaluations += other.evaluations
        self.applied += other.applied
        self.not_evaluated = 0 if self.evaluations else self.bound
        self.worst = min(self.worst, other.worst)

    @property
    def example(self) -> str:
        """The worst violation in words; "" for none."""
        return self.worst[2]


def count_on_tables(
    pack: Pack, tables: Iterable[tuple[Table, Callable[[int], str]]], rules: Collection[str]
) -> dict[str, TableCounts]:
    """Counts and the worst example of some rules as `fedkg eval` evaluates them, in float64.

    Args:
        pack: the pack with the rules.
        tables: each table with a function that names a row by its position from 0.
        rules: names of the rules to count.
    """
    found = {name: TableCounts() for name in rules}
    scales, units = margin_scales(pack), pack.manifest.units
    for table, name in tables:
        for rule, result in enumerate(evaluate(pack, table, missing="skip").rules):
            if result.rule not in found:
                continue
            counts = found[result.rule]
            counts.bound = result.bound_rows
            counts.violated += result.violated
            counts.evaluations += result.violated + result.satisfied
            counts.applied += result.fired
            worst = result.worst
            if result.violated and worst is not None:
                measured = bool(np.isfinite(worst.robustness))
                by = worst.read or f"violation {abs(worst.robustness):.4g} {worst.unit}".strip()
                entity = f"{worst.entity}, " if worst.entity else ""
                text = f"{entity}{name(worst.row - 1)}: {by}"
                compared = worst.robustness * scales[rule, units.index(worst.unit)]
                counts.worst = min(counts.worst, (not measured, float(compared), text))
    for counts in found.values():
        counts.not_evaluated = 0 if counts.evaluations else counts.bound
    return found


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


def site_frames(pack: Pack, data: DataSet) -> dict[str, Frame]:
    """The `ordered_frame` of each client of a data set; all rows under "" if there are none."""
    frame, _ = ordered_frame(pack, data)
    if data.clients is None:
        return {"": frame}
    clients = frame.columns[SITE_COLUMN]
    return {name: frame.take(clients == name) for name in data.client_names}


def ordered_frame(pack: Pack, data: DataSet) -> tuple[Frame, NDArray[np.int64]]:
    """The rows of a data set in their order in time, with the columns that the rules may read, and
    their positions in the data set.

    Args:
        data: rows [N, F], or images, of which the rules read no column.
    """
    contract, asked = pack.manifest.contract, _needed_headers(pack)
    known = {name: place for place, name in enumerate(data.features)} if data.x.ndim == 2 else {}
    places = {name: place for name, place in known.items() if name in asked}
    for column in contract.columns:
        if column.source not in known and column.name in known:
            places[column.source] = known[column.name]
    columns: dict[str, Any] = {
        name: np.asarray(data.x[:, place], dtype=np.float64) for name, place in places.items()
    }
    if contract.time is not None and data.time is not None and data.step_unit in SECONDS:
        columns[contract.time] = data.time * SECONDS[data.step_unit]
    columns[ROW_COLUMN] = data.rows + 1.0
    frame = Frame(name=data.name, columns=columns)
    for column in contract.columns:
        if column.type == "category":
            texts = (*column.vocabulary, "")
            frame = frame.with_texts(
                column.source, [texts[code] for code in category_codes(column, data).tolist()]
            )
    order = np.arange(data.samples) if data.time is None else np.argsort(data.time, kind="stable")
    frame = frame.take(order)
    if data.clients is not None:
        clients = data.clients[order].tolist()
        frame = frame.with_texts(SITE_COLUMN, clients)
        if contract.trace is not None:
            own = clients if data.traces is None else data.traces[order].tolist()
            frame = frame.with_texts(contract.trace, own)
    return frame, order


def _needed_headers(pack: Pack) -> set[str]:
    """Headers that the rules may read, so that a wide table is not copied to float64 completely."""
    contract = pack.manifest.contract
    headers = [column.source for column in contract.columns] + [
        model.column for model in pack.manifest.knowledge
    ]
    headers += [header for view in contract.views for header in view.groups]
    return {form for header in headers for form in (header, " ".join(header.split()))}
