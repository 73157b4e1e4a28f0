"""Prepare the tables of a job: held-out rows, features, scaling, and splits among sites.

Letters: N rows, F features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.binding.reads import categories_read
from fedkg.data import (
    Frame,
    Scaling,
    Split,
    by_column,
    concatenate,
    deal_names,
    hold_out,
    pooled_scaling,
)
from fedkg.errors import JobError
from fedkg.jobs.chronological_holdout import (
    ROW_COLUMN,
    SITE_COLUMN,
    compares_rows,
    hold_out_in_order,
    horizon_of,
    row_timing,
)
from fedkg.jobs.predicted_output import choose_output
from fedkg.jobs.schema.job import Corruption, Job
from fedkg.jobs.site_split import draw_split, trial_stream
from fedkg.jobs.source_tables import SourceTables, feature_headers, read_tables
from fedkg.jobs.trial_expansion import TrialConfig
from fedkg.pack import Pack

Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """How rows become model inputs.

    Attributes:
        numeric: headers of numeric columns.
        categories: header and texts of each category; every text is a 0/1 feature ``header=text``.
        codes: header and texts of each category with a code column at the end, for rules alone; -1
            for any
            other text.
    """

    numeric: tuple[str, ...]
    categories: tuple[tuple[str, tuple[str, ...]], ...]
    codes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """F feature names in tensor order."""
        read = (f"{header}={text}" for header, texts in self.categories for text in texts)
        return (*self.numeric, *read, *(f"{header} (code)" for header, _ in self.codes))

    def matrix(self, frame: Frame) -> NDArray[np.float64]:
        """Values [N, F] in source units; unknown numbers are NaN."""
        columns = [frame.numbers(header) for header in self.numeric]
        for header, texts in self.categories:
            cells = np.array(frame.texts(header), dtype=object)
            columns += [(cells == text).astype(np.float64) for text in texts]
        for header, texts in self.codes:
            place = {text: float(code) for code, text in enumerate(texts)}
            known = frame.texts(header) if header in frame.columns else [""] * frame.rows
            columns.append(np.array([place.get(text, -1.0) for text in known]))
        return np.stack(columns, axis=1) if columns else np.empty((frame.rows, 0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableData:
    """The tables that all trials of a run share.

    Attributes:
        job: the job of the run.
        pack: its rules.
        output: the output of the rules that the model predicts.
        tables: the tables as read.
        train: rows for the sites: one frame, or one per site if sites have tables.
        test: test rows, with a machine in every row.
        server: rows of the server, with a machine in every row.
        features: how rows become inputs.
        scaling: of the inputs, from the sites' sums; under privacy from the server's rows, like
            `features`.
        positives: training rows with a failure.
        negatives: training rows without one.
        ordered: whether test and server rows are consecutive, so that rules that compare rows can
            be evaluated on them.
        notes: remarks for the user.
    """

    job: Job
    pack: Pack
    output: str
    tables: SourceTables
    train: Mapping[str, Frame]
    test: Frame
    server: Frame
    features: Features
    scaling: Scaling
    positives: int
    negatives: int
    ordered: bool = False
    notes: tuple[str, ...] = ()

    def inputs(self, frame: Frame, dtype: torch.dtype = torch.float32) -> Tensor:
        """The model's inputs [N, F], standardised."""
        return torch.from_numpy(self.scaling.apply(self.features.matrix(frame))).to(dtype)

    def targets(self, frame: Frame) -> Tensor:
        """Labels 0 or 1, float32 [N]."""
        return torch.from_numpy(binary_labels(frame, self.job.data.label)).to(torch.float32)


WHOLE_TABLE = ""
"""Key of `TableData.train` for one table that is split among the sites."""


def with_category_codes(prepared: TableData) -> TableData:
    """The same data with unscaled category codes for rules after the inputs."""
    codes = tuple(
        (column.source, tuple(column.vocabulary)) for column in categories_read(prepared.pack)
    )
    features, scaling = replace(prepared.features, codes=codes), prepared.scaling
    none, one = np.zeros(len(codes)), np.ones(len(codes))
    apart = Scaling(
        names=features.names,
        mean=np.concatenate([scaling.mean, none]),
        std=np.concatenate([scaling.std, one]),
    )
    return replace(prepared, features=features, scaling=apart)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteRows:
    """The rows of the sites in some trials.

    Attributes:
        frames: the rows of each site, with a machine in every row.
        y: the labels of each site, float32, after any corruption.
        draws: number of draws of the split; 0 without randomness.
    """

    frames: Mapping[str, Frame]
    y: Mapping[str, Tensor]
    draws: int


def prepare_tables(job: Job, pack: Pack) -> TableData:
    """Read the tables, hold out rows, and define features and scaling.

    Raises:
        JobError, TableError: a field, file or column is wrong; the message names it.
    """
    contract = pack.manifest.contract
    tables = read_tables(job, contract)
    parts = {WHOLE_TABLE: tables.whole} if tables.whole is not None else dict(tables.by_site or {})
    train: dict[str, Frame] = {}
    test: list[Frame] = []
    server: list[Frame] = []
    stream = np.random.Generator(np.random.PCG64([job.data.seed, 1]))
    compares = compares_rows(pack)
    ordered = (compares or contract.time is not None) and job.data.hold_out == "auto"
    for name, frame in parts.items():
        labels = binary_labels(frame, job.data.label)
        frame = frame.with_numbers(ROW_COLUMN, np.arange(1.0, frame.rows + 1.0))
        shares = (1.0 - job.data.test - job.data.server, job.data.test, job.data.server)
        rows_of_parts = (
            hold_out_in_order(row_timing(pack, frame), shares, horizon_of(pack))
            if ordered
            else hold_out(labels, shares, stream)
        )
        pieces = [frame.take(rows) for rows in rows_of_parts]
        if name != WHOLE_TABLE:
            pieces = [
                _with_machines(piece, job, [name], stream).with_texts(
                    SITE_COLUMN, [name] * piece.rows
                )
                for piece in pieces
            ]
        train[name] = pieces[0]
        test.append(pieces[1])
        server.append(pieces[2])
    held = [
        _with_machines(concatenate(piece, piece[0].name), job, list(job.sites), stream)
        for piece in (test, server)
    ]
    notes = (
        *_check_held_out(job, held[0], held[1]),
        *_note_order(ordered=ordered, compares=compares, timeline=contract.time is not None),
    )
    shown = (
        list(train.values()) if job.privacy is None else [held[1]]
    )  # the server's rows reveal nothing about the sites
    features = _features(job, pack, shown)
    matrices = [features.matrix(frame) for frame in train.values()]
    seen = matrices if job.privacy is None else [features.matrix(held[1])]
    scaling = _fit_scaling(features, seen, next(iter(train.values())).name)
    positives = sum(int(binary_labels(frame, job.data.label).sum()) for frame in train.values())
    return TableData(
        job=job,
        pack=pack,
        output=choose_output(job, pack),
        tables=tables,
        train=train,
        test=held[0],
        server=held[1],
        features=features,
        scaling=scaling,
        positives=positives,
        negatives=sum(frame.rows for frame in train.values()) - positives,
        ordered=ordered,
        notes=(*notes, *_note_unknown_cells(features, matrices)),
    )


def split_rows(prepared: TableData, config: TrialConfig) -> SiteRows:
    """The rows of every site in a trial. Raises JobError if a site gets too few."""
    job, data = config.job, config.job.data
    stream = trial_stream(config.seed)
    frames: dict[str, Frame]
    draws = 0
    if WHOLE_TABLE in prepared.train:
        frame = prepared.train[WHOLE_TABLE]
        split = _split(frame, job, stream)
        draws = split.draws
        frames = {
            site: _with_machines(frame.take(split.rows(i)), job, [site], stream)
            for i, site in enumerate(split.sites)
        }
    else:
        frames = dict(prepared.train)
        for site, frame in frames.items():
            if frame.rows < data.min_samples:
                raise JobError(
                    f"sites.{site}.table: only {frame.rows} rows remain for training",
                    expected=f"at least {data.min_samples}",
                    help="use a longer table, or decrease `data.test` or `data.min_samples`",
                )
    y = {site: prepared.targets(frame) for site, frame in frames.items()}
    if config.corrupt is not None:
        y[config.corrupt.site] = corrupt_labels(
            y[config.corrupt.site],
            config.corrupt,
            np.random.Generator(np.random.PCG64([config.seed, 3])),
        )
    return SiteRows(frames=frames, y=y, draws=draws)


def corrupt_labels(
    y: Tensor, corrupt: Corruption, stream: np.random.Generator, last: float = 1.0
) -> Tensor:
    """Labels [N] of 0 .. last, with a share of them wrong.

    Flipped labels change from y to last - y, constant ones become `last`.
    """
    chosen = torch.zeros_like(y, dtype=torch.bool)
    chosen[torch.from_numpy(stream.permutation(len(y))[: round(corrupt.share * len(y))])] = True
    wrong = torch.full_like(y, last) if corrupt.kind == "constant_label" else last - y
    return torch.where(chosen, wrong, y)


def binary_labels(frame: Frame, header: str) -> NDArray[np.float64]:
    """The labels [N], 0 or 1.

    Raises:
        JobError: another value; the message names column, value and row.
    """
    values = frame.numbers(header)
    wrong = np.flatnonzero(~((values == 0.0) | (values == 1.0)))
    if wrong.size:
        cell = values[wrong[0]]
        raise JobError(
            f"{frame.name}: label column `{header}` must be 0 or 1 in every row",
            received=f"{'no value' if np.isnan(cell) else f'{cell:g}'} in row {wrong[0] + 1}"
            + (f", and {wrong.size - 1} more rows" if wrong.size > 1 else ""),
            help="set data.label to the column to predict",
        )
    return values


def _split(frame: Frame, job: Job, stream: np.random.Generator) -> Split:
    data, sites = job.data, list(job.sites)
    if data.split == "column":
        return by_column(
            frame.texts(data.site_column),
            sites,
            column=data.site_column,
            min_samples=data.min_samples,
        )
    return draw_split(binary_labels(frame, data.label), sites, data, stream)


def _with_machines(
    frame: Frame, job: Job, sites: Sequence[str], stream: np.random.Generator
) -> Frame:
    """The frame with a machine in every row.

    Missing machines are assigned at random among those of the sites, if the job lists any.
    """
    machines = [machine for site in sites for machine in job.sites[site].machines]
    if job.data.machine in frame.columns or not machines:
        return frame
    return frame.with_texts(job.data.machine, deal_names(frame.rows, machines, stream))


def _check_held_out(job: Job, test: Frame, server: Frame) -> tuple[str, ...]:
    """Remarks about the held-out rows. Raises JobError if there are none."""
    for field, frame in (("test", test), ("server", server)):
        if not frame.rows:
            raise JobError(
                f"data.{field}: it gets no rows",
                received=f"{getattr(job.data, field):g} of each class, rounded",
                help="increase the share, or use a longer table",
            )
    if not binary_labels(test, job.data.label).any():
        return (
            "the test rows contain no failures: F1, precision and recall are 0 for every model",
        )
    return ()


def _note_order(*, ordered: bool, compares: bool, timeline: bool) -> tuple[str, ...]:
    """How rows were held out, if a reader would not expect it."""
    if ordered:
        by = "by time" if timeline else "in row order, because rules compare rows"
        return (f"data: the test and server rows are held out {by}: the last rows are the test",)
    if compares:
        return (
            (
                "warning: `data.hold_out: random` separates rows from their neighbours, so rules "
                "that compare rows are not evaluated on predictions"
            ),
        )
    return ()


def _features(job: Job, pack: Pack, frames: Sequence[Frame]) -> Features:
    numeric = feature_headers(job, pack.manifest.contract)
    if job.data.label in (*numeric, *job.data.categories):
        raise JobError(
            f"data.features: `{job.data.label}` is the label", help="remove it from `data.features`"
        )
    if not numeric and not job.data.categories:
        raise JobError(
            "data.features: the model has no inputs", help="list the columns that it should read"
        )
    categories = []
    for header in job.data.categories:
        texts = sorted({text for frame in frames for text in frame.texts(header)})
        if len(texts) > 64:
            raise JobError(
                f"data.categories: column `{header}` has {len(texts)} different texts",
                expected="at most 64",
                help="remove it from `data.categories`, or merge texts",
            )
        categories.append((header, tuple(texts)))
    return Features(numeric=numeric, categories=tuple(categories))


def _fit_scaling(
    features: Features, matrices: Sequence[NDArray[np.float64]], where: str
) -> Scaling:
    """Standardise numbers by sums over all matrices; leave 0/1 features unchanged."""
    found = pooled_scaling(matrices, features.names, where=where)
    fixed = np.arange(len(features.names)) >= len(features.numeric)
    return Scaling(
        names=found.names,
        mean=np.where(fixed, 0.0, found.mean),
        std=np.where(fixed, 1.0, found.std),
    )


def _note_unknown_cells(
    features: Features, matrices: Sequence[NDArray[np.float64]]
) -> tuple[str, ...]:
    missing = np.sum([np.isnan(matrix).sum(axis=0) for matrix in matrices], axis=0)
    return tuple(
        f"column `{name}`: {int(count)} unknown cells, replaced by the mean"
        for name, count in zip(features.names, missing.tolist(), strict=True)
        if count
    )
