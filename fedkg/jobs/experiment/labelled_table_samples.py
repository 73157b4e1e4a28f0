"""Read the tables of a job with a 0/1 label as samples: held-out rows, features and scaling.

Letters: N rows, F features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing
from fedkg.data import Frame, Scaling, Split, concatenate, deal_names, hold_out
from fedkg.data.frame import text_array
from fedkg.data.sets import DataSet, StandardisedDataSet
from fedkg.data.standardise import moments_of
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
from fedkg.jobs.comparison_metric import event_of, plural_event
from fedkg.jobs.experiment.sample_preparation import Index, Samples
from fedkg.jobs.experiment.site_sample_statistics import (
    SERVER,
    TEST,
    TRAIN,
    UNUSED,
    USES,
    SiteSummary,
    count_labels,
    merge_summaries,
)
from fedkg.jobs.prediction_target import choose_output
from fedkg.jobs.schema.job import Job
from fedkg.jobs.site_split import hold_out_stream
from fedkg.jobs.source_tables import feature_headers, read_server_table, read_tables, sha256_of
from fedkg.learned_knowledge_records import TimeRange
from fedkg.pack import Pack

SERVER_NAME = "(server)"
"""The site of the rows in the server's own table; no site can have this name."""

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

    def with_categories(self, numeric: Scaling) -> Scaling:
        """The scaling of all F features: the texts of categories stay 0 and 1."""
        texts = len(self.names) - len(self.numeric)
        return Scaling(
            names=self.names,
            mean=np.concatenate([numeric.mean, np.zeros(texts)]),
            std=np.concatenate([numeric.std, np.ones(texts)]),
        )

    def matrix(self, frame: Frame) -> NDArray[np.float64]:
        """Values [N, F] in source units; unknown numbers are NaN."""
        columns = [frame.numbers(header) for header in self.numeric]
        for header, texts in self.categories:
            cells = np.array(frame.texts(header), dtype=object)
            columns += [(cells == text).astype(np.float64) for text in texts]
        return np.stack(columns, axis=1) if columns else np.empty((frame.rows, 0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TablePart:
    """The rows of one table of a job: of a site, or of all sites if they share a table.

    Attributes:
        frame: the rows with `ROW_COLUMN`, and `SITE_COLUMN` if sites have tables.
        use: int8 [N], the use of each row.
        time_range: first and last time; None without times.
        names_machines: whether the table names the machine of each row.
    """

    frame: Frame
    use: NDArray[np.int8]
    time_range: TimeRange | None = None
    names_machines: bool = True


def read_job_tables(job: Job, pack: Pack) -> Samples:
    """Read the tables, hold out rows, and define features and scaling.

    Raises:
        JobError, TableError: a field, file or column is wrong; the message names it.
    """
    parts, files = read_table_parts(job, pack)
    summaries = {name: summarise_table(job, pack, part) for name, part in parts.items()}
    own = read_server_part(job, pack)
    summary = merge_tables(job, pack, list(summaries.values()), own)
    if own is not None:
        parts[SERVER_NAME] = own
        files = (*files, (str(job.data.server_table), sha256_of(str(job.data.server_table))))
    samples = table_samples(job, pack, parts, summary)
    return replace(samples, files=files, sites=summaries if "" not in parts else {})


def merge_tables(
    job: Job, pack: Pack, summaries: Sequence[SiteSummary], own: TablePart | None
) -> SiteSummary:
    """The summary of all tables of sites; under privacy with the inputs of the server's own table.

    Args:
        own: the server's table, if it has one.
    """
    merged = merge_summaries(summaries, machines=job.data.machine)
    if own is None or job.privacy is None:
        return merged
    shown = summarise_table(job, pack, own)
    return replace(merged, inputs=shown.inputs, texts=shown.texts)


def read_server_part(job: Job, pack: Pack) -> TablePart | None:
    """The rows of the server's own table; None if the job names none.

    Raises:
        JobError, TableError: the file is missing or wrong; the message names it.
    """
    if job.data.server_table is None:
        return None
    frame = read_server_table(job, pack.manifest.contract)
    frame = frame.with_numbers(ROW_COLUMN, np.arange(1.0, frame.rows + 1.0))
    frame = frame.with_texts(SITE_COLUMN, [SERVER_NAME] * frame.rows)
    return TablePart(frame=frame, use=np.full(frame.rows, SERVER, dtype=np.int8))


def read_table_parts(
    job: Job, pack: Pack
) -> tuple[dict[str, TablePart], tuple[tuple[str, str], ...]]:
    """The tables of a job by site, "" for a common table; and path and SHA-256 of each file.

    Which rows of a site are held out depends on the seed and the site's name.

    Raises:
        JobError, TableError: a field, file or column is wrong; the message names it.
    """
    contract = pack.manifest.contract
    _reject_earlier_labels(pack, choose_output(job, pack))
    tables = read_tables(job, contract)
    ordered = is_held_out_in_order(job, pack)
    parts: dict[str, TablePart] = {}
    whole = {} if tables.whole is None else {"": tables.whole}
    for name, read in (tables.by_site or whole).items():
        stream = hold_out_stream(job.data.seed, name)
        frame = read.with_numbers(ROW_COLUMN, np.arange(1.0, read.rows + 1.0))
        held = _hold_out(job, pack, frame, stream, ordered=ordered)
        use = np.full(frame.rows, UNUSED, dtype=np.int8)
        for kind, rows in zip((TRAIN, TEST, SERVER), held, strict=True):
            use[rows] = kind
        if name:
            frame = _with_machines(frame, job.data.machine, job.sites[name].machines, held, stream)
            frame = frame.with_texts(SITE_COLUMN, [name] * frame.rows)
        else:  # training rows get the machines of their site in each split
            groups = [np.flatnonzero(use == kind) for kind in (TEST, SERVER)]
            machines = [one for site in job.sites.values() for one in site.machines]
            frame = _with_machines(frame, job.data.machine, machines, groups, stream)
        parts[name] = TablePart(
            frame=frame,
            use=use,
            time_range=tables.time_ranges.get(name),
            names_machines=job.data.machine in read.columns,
        )
    return parts, tables.files


def is_held_out_in_order(job: Job, pack: Pack) -> bool:
    """Whether the test and the server get consecutive rows."""
    in_order = compares_rows(pack) or pack.manifest.contract.time is not None
    return in_order and job.data.hold_out == "auto"


def summarise_table(job: Job, pack: Pack, part: TablePart) -> SiteSummary:
    """Counts and sums of the rows of a table.

    Under privacy, the server's rows alone define inputs: they reveal nothing about the sites.

    Raises:
        JobError: a label is not 0 or 1, or a category has too many texts.
    """
    numeric = _numeric_features(job, pack)
    labels = binary_labels(part.frame, job.data.label)
    shown = part.frame.take(part.use == (TRAIN if job.privacy is None else SERVER))
    training = part.frame.take(part.use == TRAIN)
    x, trained = (
        Features(numeric=numeric, categories=()).matrix(frame) for frame in (shown, training)
    )
    return SiteSummary(
        task="detection",
        rows=tuple(int((part.use == kind).sum()) for kind in USES),
        labels=count_labels(labels, part.use, 2),
        inputs=moments_of([x], len(numeric)),
        unknown=np.isnan(trained).sum(axis=0),
        texts={header: _texts_of(shown, header) for header in job.data.categories},
        columns=part.frame.headers,
        time_range=part.time_range,
    )


def table_samples(
    job: Job, pack: Pack, parts: Mapping[str, TablePart], summary: SiteSummary
) -> Samples:
    """The samples of the rows that are here, prepared with the summary of all sites.

    Args:
        parts: the rows by site, "" for a common table.
        summary: of all sites, whether or not their rows are here.
    """
    ordered, own = is_held_out_in_order(job, pack), "" not in parts
    frames = [_with_headers(part.frame, summary.columns) for part in parts.values()]
    frame = concatenate(frames, frames[0].name) if len(frames) > 1 else frames[0]
    use = np.concatenate([part.use for part in parts.values()])
    timeline = pack.manifest.contract.time is not None
    notes = (
        *_check_held_out(job, summary),
        *note_order(ordered=ordered, compares=compares_rows(pack), timeline=timeline),
    )
    features = Features(
        numeric=_numeric_features(job, pack),
        categories=tuple((header, summary.texts[header]) for header in job.data.categories),
    )
    labels = binary_labels(frame, job.data.label)
    site_column = SITE_COLUMN if own else job.data.site_column
    own_sites = own or job.data.split == "column"
    data = DataSet(
        name=frame.name,
        source=frame.name,
        x=features.matrix(frame),
        y=labels,
        features=features.names,
        units=("",) * len(features.names),
        task="detection",
        label=job.data.label,
        clients=text_array(frame.texts(site_column)) if own_sites else None,
        test=(use == TEST) | (use == UNUSED),
        notes=(*notes, *_note_unknown_cells(features, summary.unknown)),
    )
    inputs = summary.inputs.scaling(features.numeric, where=frame.name)
    return Samples(
        source=data,
        scaled=StandardisedDataSet(
            source=data, y=labels, inputs=features.with_categories(inputs), outputs=None
        ),
        use=use,
        ordered=ordered,
        uncut_rows=data,
        summary=summary,
        frame=frame,
        own_sites=own_sites,
        machines_of_split=""
        if own_sites or all(part.names_machines for part in parts.values())
        else job.data.machine,
        time_range=summary.time_range,
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
            + (f", the first of {wrong.size:,} such rows" if wrong.size > 1 else ""),
            help="correct these cells, or set data.label to the column to predict",
        )
    return values


def _reject_earlier_labels(pack: Pack, output: str) -> None:
    columns = pack.manifest.contract.columns
    label = next((column for column in columns if column.name == output), None)
    if label is None:
        raise JobError(
            f"output: `{output}` has classes, and `data.label` is a column of 0 and 1",
            help="set `data.set: table`, which reads the columns that the rules read",
        )
    if any(column.role == "input" and column.source == label.source for column in columns):
        raise JobError(
            f"a rule reads earlier values of the output `{label.name}` (past, previous), and the "
            "rows of a table are predicted one by one",
            help="set `data.set: table` and data.window, so that the model forecasts a series, or "
            "write the rule about columns that the model reads",
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


def _with_headers(frame: Frame, headers: Sequence[str]) -> Frame:
    """The columns that the tables of all sites have; "" for the machine of a table without."""
    for header in headers:
        if header not in frame.columns:
            frame = frame.with_texts(header, [""] * frame.rows)
    return Frame(name=frame.name, columns={header: frame.columns[header] for header in headers})


def _check_held_out(job: Job, summary: SiteSummary) -> tuple[str, ...]:
    """Remarks about the held-out rows. Raises JobError if there are none."""
    for field, kind in (("test", TEST), ("server", SERVER)):
        if getattr(job.data, field) and not summary.rows[kind]:
            raise JobError(
                f"data.{field}: this share gets no rows",
                received=f"{getattr(job.data, field):g} of each class, rounded",
                help="increase the share, or use a longer table",
            )
    if not summary.positives(TEST):
        events = plural_event(event_of(job.data.label or "failure"))
        return (
            f"the test rows contain no {events}: F1, precision and recall are 0 for every model",
        )
    return ()


def _numeric_features(job: Job, pack: Pack) -> tuple[str, ...]:
    """Headers of the numeric columns that the model reads.

    Raises:
        JobError: the model reads its label, or nothing.
    """
    numeric = feature_headers(job, pack.manifest.contract)
    for field, headers in (("features", numeric), ("categories", job.data.categories)):
        if job.data.label in headers:
            raise JobError(
                f"data.{field}: `{job.data.label}` is the label",
                help=f"remove it from `data.{field}`",
            )
    if not numeric and not job.data.categories:
        raise JobError(
            "data.features: the model has no inputs",
            help="list the columns that the model should read",
        )
    return numeric


def _texts_of(frame: Frame, header: str) -> tuple[str, ...]:
    """The different texts of a category, sorted. Raises JobError if there are too many."""
    texts = sorted(set(frame.texts(header)))
    if len(texts) > MOST_TEXTS:
        raise JobError(
            f"data.categories: column `{header}` has {len(texts)} different texts",
            expected=f"at most {MOST_TEXTS}",
            help="remove it from `data.categories`, or merge texts",
        )
    return tuple(texts)


def _note_unknown_cells(features: Features, unknown: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(
        f"column `{name}`: {count} unknown cells, replaced by the mean"
        for name, count in zip(features.numeric, unknown.tolist(), strict=True)
        if count
    )
