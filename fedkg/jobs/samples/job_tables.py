"""Read the tables of a job with a 0/1 label as samples: held-out rows, features and scaling.

Letters: N rows, F features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.trace_grids import Timing
from fedkg.data import Frame, Split, concatenate, deal_names, hold_out
from fedkg.data.frame import text_array
from fedkg.data.sets import DataSet, standardise
from fedkg.errors import JobError
from fedkg.jobs.chronological_holdout import (
    ROW_COLUMN,
    SITE_COLUMN,
    compares_rows,
    hold_out_in_order,
    horizon_of,
    note_order,
    row_timing,
)
from fedkg.jobs.predicted_output import choose_output
from fedkg.jobs.samples.sample_preparation import SERVER, TEST, TRAIN, UNUSED, Index, Samples
from fedkg.jobs.schema.job import Job
from fedkg.jobs.source_tables import feature_headers, read_tables
from fedkg.pack import Pack

MOST_TEXTS = 64
"""Most different texts of a category that the model reads, each of which becomes a feature."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Features:
    """How rows become model inputs.

    Attributes:
        numeric: headers of numeric columns.
        categories: header and texts of each category; every text is a 0/1 feature ``header=text``.
    """

    numeric: tuple[str, ...]
    categories: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """F feature names in tensor order."""
        read = (f"{header}={text}" for header, texts in self.categories for text in texts)
        return (*self.numeric, *read)

    def matrix(self, frame: Frame) -> NDArray[np.float64]:
        """Values [N, F] in source units; unknown numbers are NaN."""
        columns = [frame.numbers(header) for header in self.numeric]
        for header, texts in self.categories:
            cells = np.array(frame.texts(header), dtype=object)
            columns += [(cells == text).astype(np.float64) for text in texts]
        return np.stack(columns, axis=1) if columns else np.empty((frame.rows, 0))


def read_job_tables(job: Job, pack: Pack) -> Samples:
    """Read the tables, hold out rows, and define features and scaling.

    Raises:
        JobError, TableError: a field, file or column is wrong; the message names it.
    """
    contract = pack.manifest.contract
    _reject_earlier_labels(pack, choose_output(job, pack))
    tables = read_tables(job, contract)
    stream = np.random.Generator(np.random.PCG64([job.data.seed, 1]))
    compares = compares_rows(pack)
    ordered = (compares or contract.time is not None) and job.data.hold_out == "auto"
    frames: list[Frame] = []
    uses: list[NDArray[np.int8]] = []
    parts: Mapping[str, Frame] = {"": tables.whole} if tables.whole else tables.by_site or {}
    for name, read in parts.items():
        part = read.with_numbers(ROW_COLUMN, np.arange(1.0, read.rows + 1.0))
        held = _hold_out(job, pack, part, stream, ordered=ordered)
        use = np.full(part.rows, UNUSED, dtype=np.int8)
        for kind, rows in zip((TRAIN, TEST, SERVER), held, strict=True):
            use[rows] = kind
        if name:
            part = _with_machines(part, job.data.machine, job.sites[name].machines, held, stream)
            part = part.with_texts(SITE_COLUMN, [name] * part.rows)
        frames.append(part)
        uses.append(use)
    frame, use = _join(frames, job.data.machine), np.concatenate(uses)
    has_machines = job.data.machine in frame.columns
    if tables.whole is not None:
        groups = [np.flatnonzero(use == kind) for kind in (TEST, SERVER)]
        machines = [one for site in job.sites.values() for one in site.machines]
        frame = _with_machines(frame, job.data.machine, machines, groups, stream)
    labels = binary_labels(frame, job.data.label)
    notes = (
        *_check_held_out(job, labels, use),
        *note_order(ordered=ordered, compares=compares, timeline=contract.time is not None),
    )
    # Under privacy, the server's rows alone define inputs: they reveal nothing about the sites.
    shown = use == (TRAIN if job.privacy is None else SERVER)
    features = _features(job, pack, frame.take(shown))
    x = features.matrix(frame)
    site_column = SITE_COLUMN if tables.whole is None else job.data.site_column
    own_sites = tables.whole is None or job.data.split == "column"
    data = DataSet(
        name=frame.name,
        source=frame.name,
        x=x,
        y=labels,
        features=features.names,
        units=("",) * len(features.names),
        task="detection",
        label=job.data.label,
        clients=text_array(frame.texts(site_column)) if own_sites else None,
        test=(use == TEST) | (use == UNUSED),
        notes=(*notes, *_note_unknown_cells(features, x[use == TRAIN])),
    )
    return Samples(
        source=data,
        scaled=standardise(data, rows=shown, unscaled=len(features.names) - len(features.numeric)),
        use=use,
        ordered=ordered,
        uncut_rows=data,
        files=tables.files,
        frame=frame,
        own_sites=own_sites,
        machines_of_split="" if has_machines or own_sites else job.data.machine,
        time_range=tables.time_range,
    )


def frame_of_split(
    samples: Samples, job: Job, split: Split, rows: Index, stream: np.random.Generator
) -> Frame | None:
    """The table of a run with a machine in every training row, dealt among the machines of the
    row's site; the table itself if it names machines.
    """
    header, frame = samples.machines_of_split, samples.frame
    if frame is None or header not in frame.columns:
        return frame
    cells = frame.columns[header].copy()
    for site, own in zip(split.sites, split.index, strict=True):
        if job.sites[site].machines:
            cells[rows[own]] = deal_names(len(own), job.sites[site].machines, stream)
    return Frame(name=frame.name, columns={**frame.columns, header: cells})


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


def _reject_earlier_labels(pack: Pack, output: str) -> None:
    columns = pack.manifest.contract.columns
    label = next(column for column in columns if column.name == output)
    if any(column.role == "input" and column.source == label.source for column in columns):
        raise JobError(
            f"a rule reads earlier values of the output `{label.name}` (past, previous), and the "
            "rows of a table are predicted one by one",
            help="give data.window, so that the model forecasts a series, or write the rule about "
            "columns that the model reads",
        )


def _hold_out(
    job: Job, pack: Pack, frame: Frame, stream: np.random.Generator, *, ordered: bool
) -> list[Index]:
    """Rows for training, the test and the server."""
    labels = binary_labels(frame, job.data.label)
    shares = (1.0 - job.data.test - job.data.server, job.data.test, job.data.server)
    if not ordered:
        return hold_out(labels, shares, stream)
    timing: Timing = row_timing(pack, frame)
    return hold_out_in_order(timing, shares, horizon_of(pack))


def _with_machines(
    frame: Frame,
    header: str,
    machines: Sequence[str],
    groups: Sequence[Index],
    stream: np.random.Generator,
) -> Frame:
    """The frame with a machine in every row of these groups, dealt at random; "" in other rows.

    A frame that names machines stays as it is.
    """
    if header in frame.columns or not machines:
        return frame
    cells = np.full(frame.rows, "", dtype=object)
    for rows in groups:
        cells[rows] = deal_names(len(rows), machines, stream)
    return frame.with_texts(header, cells.tolist())


def _join(frames: Sequence[Frame], machines: str) -> Frame:
    """All rows; the machine is "" at sites that name none, if others do."""
    if len(frames) == 1:
        return frames[0]
    if any(machines in frame.columns for frame in frames):
        frames = [
            frame if machines in frame.columns else frame.with_texts(machines, [""] * frame.rows)
            for frame in frames
        ]
    return concatenate(frames, frames[0].name)


def _check_held_out(
    job: Job, labels: NDArray[np.float64], use: NDArray[np.int8]
) -> tuple[str, ...]:
    """Remarks about the held-out rows. Raises JobError if there are none."""
    for field, kind in (("test", TEST), ("server", SERVER)):
        if not (use == kind).any():
            raise JobError(
                f"data.{field}: it gets no rows",
                received=f"{getattr(job.data, field):g} of each class, rounded",
                help="increase the share, or use a longer table",
            )
    if not labels[use == TEST].any():
        return (
            "the test rows contain no failures: F1, precision and recall are 0 for every model",
        )
    return ()


def _features(job: Job, pack: Pack, shown: Frame) -> Features:
    """The model's inputs; the texts of a category are those of the shown rows."""
    numeric = feature_headers(job, pack.manifest.contract)
    for field, headers in (("features", numeric), ("categories", job.data.categories)):
        if job.data.label in headers:
            raise JobError(
                f"data.{field}: `{job.data.label}` is the label",
                help=f"remove it from `data.{field}`",
            )
    if not numeric and not job.data.categories:
        raise JobError(
            "data.features: the model has no inputs", help="list the columns that it should read"
        )
    categories = []
    for header in job.data.categories:
        texts = sorted(set(shown.texts(header)))
        if len(texts) > MOST_TEXTS:
            raise JobError(
                f"data.categories: column `{header}` has {len(texts)} different texts",
                expected=f"at most {MOST_TEXTS}",
                help="remove it from `data.categories`, or merge texts",
            )
        categories.append((header, tuple(texts)))
    return Features(numeric=numeric, categories=tuple(categories))


def _note_unknown_cells(features: Features, x: NDArray[np.float64]) -> tuple[str, ...]:
    missing = np.isnan(x).sum(axis=0)
    return tuple(
        f"column `{name}`: {int(count)} unknown cells, replaced by the mean"
        for name, count in zip(features.names, missing.tolist(), strict=True)
        if count
    )
