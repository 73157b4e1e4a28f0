"""Prepare the samples of a run: read, cut into windows, hold out, scale, and assign to sites.

Letters: N samples, K sites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.user_code import describe_lack_of_memory, load_object
from fedkg.constraints.meaning.interpreter import Timing
from fedkg.data.frame import Frame
from fedkg.data.partition import Split, by_column, hold_out
from fedkg.data.sets import (
    DataSet,
    StandardisedDataSet,
    data_set,
    forecast_windows,
    labelled_windows,
    table_set,
)
from fedkg.data.sets.first_and_last_time import time_range_of
from fedkg.data.sets.scaled_dataset import input_moments, output_moments, output_names, scale
from fedkg.data.skews import by_site
from fedkg.errors import FedkgError, JobError
from fedkg.granger.filter_states_as_inputs import OURS
from fedkg.jobs.chronological_holdout import (
    compares_rows,
    hold_out_in_order,
    horizon_of,
    note_order,
)
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
from fedkg.jobs.schema.data_section import TABLE_SET
from fedkg.jobs.schema.job import Job
from fedkg.jobs.site_split import assign_by_class, draw_split, hold_out_stream
from fedkg.jobs.source_tables import sha256_of
from fedkg.learned_knowledge_records import TimeRange
from fedkg.pack import Pack
from fedkg.sites import load_sites
from fedkg.sites.reader import read_all_sites
from fedkg.tables import Table

Index = NDArray[np.int64]


def samples_time_range(data: DataSet, job: Job, index: Index | None = None) -> TimeRange | None:
    """The first and last time of samples, including the steps of their windows.

    None without times.
    """
    window = job.data.window
    if window is None:
        return time_range_of(data, index)
    before = window.history if window.horizon else window.history - 1
    return time_range_of(data, index, before=before, after=max(window.horizon - 1, 0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Samples:
    """The samples that all trials of a run share.

    Attributes:
        source: the samples in source units, unknown values NaN.
        scaled: the samples as models read them.
        use: int8 [N]: `TRAIN`, `TEST`, `SERVER` or `UNUSED`.
        ordered: whether the test follows the training in time, so that its rows are consecutive.
        uncut_rows: the data before windows are cut; rules about the data are checked on it, and
            trials read states of its series.
        summary: counts and sums of the samples of all sites.
        files: path and SHA-256 of every file that was read.
        sites: the summary of each site whose samples come from its own table, whether or not they
            are here; empty if sites share a table.
        complete: whether the samples of all sites are here.
        frame: the table of the samples with all columns that the rules read; None for data sets.
        own_sites: whether the data says to which site a sample belongs.
        machines_of_split: the column of machines if training rows get them from their site; else
            "".
        time_range: first and last time of all samples; None without times.
    """

    source: DataSet
    scaled: StandardisedDataSet
    use: NDArray[np.int8]
    ordered: bool
    uncut_rows: DataSet
    summary: SiteSummary
    files: tuple[tuple[str, str], ...] = ()
    sites: Mapping[str, SiteSummary] = field(default_factory=dict)
    complete: bool = True
    frame: Frame | None = None
    own_sites: bool = False
    machines_of_split: str = ""
    time_range: TimeRange | None = None

    def rows(self, use: int) -> Index:
        """Positions of the samples for one use."""
        return np.flatnonzero(self.use == use)

    @property
    def labels(self) -> NDArray[Any]:
        """The classes [N] for stratified splits; zeros for tasks without classes."""
        return (
            self.source.y
            if self.source.task in ("classes", "detection")
            else np.zeros(self.source.samples, dtype=np.int64)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteSplit:
    """The samples of the sites in some trials.

    Attributes:
        split: of the samples at `rows` (positions among all).
        owner: the site that each test sample belongs to; -1 for none.
        frame: the table of the samples with machines of this split; None for data sets.
    """

    split: Split
    rows: Index
    owner: Index
    frame: Frame | None = None

    def samples_at(self, site: int) -> Index:
        """Positions of a site's samples among all."""
        return self.rows[self.split.index[site]]

    def all_samples(self) -> Index:
        """Positions of all sites' samples among all, site by site."""
        return self.rows[np.concatenate(self.split.index)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SamplePart:
    """The samples of one site, or those of a data set that all sites share.

    Attributes:
        data: the samples, windows if the job asks for them.
        use: int8 [N], the use of each sample.
        uncut_rows: the data before windows are cut.
        unlabelled: dropped samples without a target.
    """

    data: DataSet
    use: NDArray[np.int8]
    uncut_rows: DataSet
    unlabelled: int = 0


def read_samples(job: Job, pack: Pack) -> Samples:
    """Read the samples of a job.

    Raises:
        JobError, TableError: files are missing or have an unexpected layout, no window is left, or
            the
            test or the server gets no sample.
    """
    parts = read_sample_parts(job, pack)
    summaries = {name: summarise_samples(job, part) for name, part in parts.items()}
    samples = join_samples(job, pack, parts, merge_summaries(list(summaries.values())))
    return replace(
        samples,
        files=_files(job.data.path) + files_of_sites(job.data.sites_file, list(job.sites)),
        sites=summaries if "" not in parts else {},
    )


def read_sample_parts(job: Job, pack: Pack) -> dict[str, SamplePart]:
    """The samples of each site of a sites file, or "" for the data set of all sites.

    Which samples of a site are held out depends on the seed, its rows and its name.

    Raises:
        JobError, TableError: as for `read_samples`.
    """
    by_site = job.data.sites_file is not None and job.data.own_sites
    parts = {}
    for name in job.sites if by_site else ("",):
        rows = _read(job, pack, (name,) if name else tuple(job.sites))
        rows = rows if name else _keep_job_sites(rows, job)
        windows = cut_windows(rows, job)
        data = _drop_unlabelled(windows)
        use = _assign_uses(data, job, pack, name)
        if job.data.window is not None and job.data.window.gaps == "interpolate":
            data, use = _interpolate_apart(rows, job, data, use)
        unlabelled = windows.samples - data.samples
        parts[name] = SamplePart(data=data, use=use, uncut_rows=rows, unlabelled=unlabelled)
    return parts


def summarise_samples(job: Job, part: SamplePart) -> SiteSummary:
    """Counts and sums of the samples of a part; all samples but those of the test define the
    scaling.
    """
    data, use = part.data, part.use
    index = np.flatnonzero((use == TRAIN) | (use == SERVER))
    classes = {"classes": len(data.classes), "detection": 2}.get(data.task, 0)
    return SiteSummary(
        task=data.task,
        rows=tuple(int((use == kind).sum()) for kind in USES),
        labels=count_labels(data.y, use, classes)
        if classes
        else np.zeros((len(USES), 0), dtype=np.int64),
        inputs=input_moments(data, index),
        unknown=np.zeros(len(data.features), dtype=np.int64),
        outputs=output_moments(data, index),
        tested=output_moments(data, np.flatnonzero(use == TEST)),
        time_range=samples_time_range(data, job),
        notes=data.notes,
        unlabelled=part.unlabelled,
    )


def join_samples(
    job: Job, pack: Pack, parts: Mapping[str, SamplePart], summary: SiteSummary
) -> Samples:
    """The samples that are here, prepared with the summary of all sites.

    Args:
        parts: the samples by site, or "" for a data set that all sites share.
        summary: of all sites, whether or not their samples are here.

    Raises:
        JobError: the test or the server gets no sample, or a feature has no value.
    """
    data = join_data([part.data for part in parts.values()], job, name="" not in parts)
    use = np.concatenate([part.use for part in parts.values()])
    for field_name, kind in (("test", TEST), ("server", SERVER)):
        if getattr(job.data, field_name) and not summary.rows[kind]:
            raise JobError(
                f"data.{field_name}: this share gets no samples",
                received=f"{getattr(job.data, field_name):g} of {sum(summary.rows)} samples",
                help="increase the share, or the number of samples (`data.size`)",
            )
    idle, without = summary.rows[UNUSED], summary.unlabelled
    notes = [
        f"{without} of {sum(summary.rows) + without} samples have no label and are dropped"
    ] * bool(without)
    notes += [
        (f"fedkg does not train on {idle} samples that overlap the server's samples or the test")
    ] * bool(idle)
    if job.data.hold_out == "random" and job.data.window is not None:
        notes.append(
            "warning: `data.hold_out: random` separates windows from their neighbours, so windows "
            "of the test may overlap windows of the training"
        )
    ordered = _is_in_order(data, job, pack)
    if data.x.ndim == 2:
        timeline = pack.manifest.contract.time is not None and data.time is not None
        notes += note_order(ordered=ordered, compares=compares_rows(pack), timeline=timeline)
    test = (use == TEST) | (use == UNUSED)
    data = replace(data, test=test, task=summary.task, notes=(*summary.notes, *notes))
    outputs = None
    if summary.outputs is not None:
        outputs = summary.outputs.scaling(output_names(data), where=data.name)
    inputs = summary.inputs.scaling(data.features, where=data.name)
    if not job.data.standardise:
        inputs = replace(inputs, mean=np.zeros_like(inputs.mean), std=np.ones_like(inputs.std))
    return Samples(
        source=data,
        scaled=scale(data, inputs, outputs),
        use=use,
        ordered=ordered,
        summary=summary,
        uncut_rows=join_data(
            [part.uncut_rows for part in parts.values()], job, name="" not in parts
        ),
        own_sites=job.data.own_sites,
        time_range=summary.time_range,
    )


def join_data(each: Sequence[DataSet], job: Job, *, name: bool) -> DataSet:
    """The samples of all parts; `name`: whether the sites file names the data set.

    Rows keep their numbers in the table of their site.
    """
    first = each[0]
    if name:
        path = str(job.data.sites_file)
        first = replace(first, name=Path(path).name.split(".")[0], source=path)
    if len(each) == 1:
        return first
    return replace(
        first,
        x=np.concatenate([one.x for one in each]),
        y=np.concatenate([one.y for one in each]),
        clients=np.concatenate([one.clients for one in each if one.clients is not None]),
        traces=None
        if any(one.traces is None for one in each)
        else np.concatenate([one.traces for one in each if one.traces is not None]),
        time=None
        if first.time is None
        else np.concatenate([one.time for one in each if one.time is not None]),
        row=np.concatenate([one.rows for one in each]),
        test=None,
        since_1970=all(one.since_1970 for one in each),
        utc=all(one.utc for one in each),
        notes=tuple(dict.fromkeys(note for one in each for note in one.notes)),
    )


def split_samples(samples: Samples, job: Job, stream: np.random.Generator) -> tuple[Split, Index]:
    """The split of a trial, and the positions (int64) of the samples that it assigns.

    Raises:
        JobError: the data has no classes or sites to split by, a site is unknown, or a site gets
            too few
            samples.
    """
    data, rows = job.data, samples.rows(TRAIN)
    sites = list(job.sites)
    if samples.own_sites:
        return _split_by_source(samples, job, rows)
    labels = samples.labels[rows]
    if data.split in ("dirichlet", "classes") and samples.source.task not in (
        "classes",
        "detection",
    ):
        raise JobError(
            f"data.split: `{data.split}` requires classes, and the task of this data has none "
            f"({samples.source.task})",
            help="use `sites`, `iid`, `sizes` or `quantity`",
        )
    return draw_split(labels, sites, data, stream), rows


def assign_test_samples(samples: Samples, split: Split, rows: Index, seed: int) -> Index:
    """The site that each test sample belongs to, [test samples]; -1 for none.

    Samples of the data set's own sites keep their site. Others are assigned like the training
    samples: of each class in proportion to the sites' numbers of training samples.
    """
    test = samples.rows(TEST)
    if samples.own_sites:
        place = {name: number for number, name in enumerate(split.sites)}
        assert samples.source.clients is not None
        return np.array(
            [place.get(name, -1) for name in samples.source.clients[test].tolist()], dtype=np.int64
        )
    labels = samples.labels[rows]
    return assign_by_class(samples.labels[test], [labels[own] for own in split.index], seed)


def _augments(job: Job) -> bool:
    """Whether a trial may read states of the sites' series."""
    return job.augment.by != "none" or any(
        field.partition(".")[0] == "augment" for field in job.compare
    )


def _read(job: Job, pack: Pack, sites: Sequence[str]) -> DataSet:
    """The samples of the data set, or of these sites of a sites file."""
    data = job.data
    if data.set is not None and ":" in data.set:
        make = load_object(data.set, "data.set")
        try:
            made = make(data.path, seed=data.seed, size=data.size)
        except FedkgError:
            raise
        except Exception as error:  # whatever the user's function raises
            raise describe_lack_of_memory(error, f"data.set: {data.set}") or JobError(
                f"data.set: {data.set} fails with (path, seed=..., size=...)",
                received=f"{type(error).__name__}: {error}",
                help="correct the function, or `data.path`, `data.seed` or `data.size`",
            ) from error
        if not isinstance(made, DataSet):
            raise JobError(
                f"data.set: {data.set} does not return a data set",
                expected="a fedkg.data.sets.DataSet",
                received=type(made).__name__,
                help="correct the function, or name another one",
            )
        return made
    if data.set != TABLE_SET:
        return data_set(str(data.set), data.path, seed=data.seed, size=data.size)
    site = data.site_column if data.split == "column" else ""
    contract = pack.manifest.contract
    if _augments(job):  # rules may read augmented states, which are not in the table
        contract = contract.model_copy(
            update={
                "columns": tuple(one for one in contract.columns if not one.source.startswith(OURS))
            }
        )
    source: str | Table = str(data.path)
    if data.sites_file is not None:
        source = read_all_sites(load_sites(data.sites_file), contract, sites, data.site_column)
    read = table_set(source, contract, output=job.output or "", site=site)
    if not read.features and data.window is None:
        raise JobError(
            "data: the model has no inputs, because no rule reads a column of the table other than "
            "the output",
            help="write a rule that reads the columns that the model should read",
        )
    if data.window is None or not data.window.horizon:
        return read
    name = next(
        column
        for column in pack.manifest.contract.columns
        if column.role == "output" and job.output in (None, column.name)
    )
    x = np.concatenate(
        [read.x.astype(np.float64), np.asarray(read.y, dtype=np.float64)[:, None]], axis=1
    )
    return replace(
        read,
        x=x,
        features=(*read.features, name.source),
        units=(*read.units, name.unit),
        task="forecast",
    )


def _keep_job_sites(data: DataSet, job: Job) -> DataSet:
    """The data of the participating sites, so that others do not affect the scaling."""
    if not job.data.own_sites:
        return data
    if data.clients is None:
        raise JobError(
            f"data.split: {data.name} does not define sites",
            help="use `iid`, `dirichlet`, `sizes`, ... and set `sites`",
        )
    known = data.client_names
    if (
        data.test is not None and data.task == "regression"
    ):  # test engines are cut before their failure, so they cannot be trained on
        training = set(data.clients[~data.test].tolist())
        known = tuple(name for name in known if name in training)
    names = tuple(job.sites) or known[: job.data.clients]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise JobError(
            f"sites: unknown site of {data.name}",
            expected=", ".join(known[:8]),
            received=", ".join(unknown[:8]),
            help="list some of these, or set their number in data.clients",
        )
    return (
        data if names == data.client_names else data.take(np.isin(data.clients.astype(str), names))
    )


def cut_windows(
    data: DataSet, job: Job, before: Mapping[str, float] | None = None, *, to_predict: bool = False
) -> DataSet:
    """The windows of a data set, if the job asks for them; see `forecast_windows` for `before` and
    `to_predict`.
    """
    window = job.data.window
    if window is None:
        if data.task == "forecast":
            raise JobError(
                f"data.window: {data.name} is a series for forecasting, and requires windows",
                help="data.window: {history: 120, horizon: 24}",
            )
        return data
    if not window.horizon:
        return labelled_windows(
            data,
            history=window.history,
            stride=window.stride,
            gaps=window.gaps,
            longest=window.longest,
            before=before,
            to_predict=to_predict,
        )
    targets = window.targets or ((data.features[-1],) if job.data.set == TABLE_SET else ())
    return forecast_windows(
        data,
        history=window.history,
        horizon=window.horizon,
        stride=window.stride,
        targets=targets,
        gaps=window.gaps,
        longest=window.longest,
        before=before,
        to_predict=to_predict,
    )


def _interpolate_apart(
    rows: DataSet, job: Job, data: DataSet, use: NDArray[np.int8]
) -> tuple[DataSet, NDArray[np.int8]]:
    """The same windows and uses, but with gaps before the test interpolated without test values.

    Windows without any known value are dropped.
    """
    assert data.time is not None, "windows have a time"
    names = np.full(data.samples, "", dtype=object) if data.clients is None else data.clients
    first: dict[str, float] = {}
    for name, time in zip(
        names[use == TEST].tolist(), data.time[use == TEST].tolist(), strict=True
    ):
        first[name] = min(time, first.get(name, time))
    again = _drop_unlabelled(cut_windows(rows, job, first))
    assert again.time is not None, "windows have a time"
    known = dict(
        zip(zip(names.tolist(), data.time.tolist(), strict=True), use.tolist(), strict=True)
    )
    own = [""] * again.samples if again.clients is None else again.clients.tolist()
    kept = [known[place] for place in zip(own, again.time.tolist(), strict=True)]
    return again, np.array(kept, dtype=np.int8)


def _drop_unlabelled(data: DataSet) -> DataSet:
    """The samples with a known target; forecasts stay unchanged.

    Raises:
        JobError: a detection label is not 0 or 1.
    """
    if data.task in ("classes", "forecast"):
        return data
    known = ~np.asarray(np.isnan(data.y.reshape(data.samples, -1)).any(axis=1))
    if (
        data.task == "detection"
        and (wrong := np.flatnonzero(known & (data.y != 0.0) & (data.y != 1.0))).size
    ):
        raise JobError(
            f"{data.name}: the label must be 0 or 1",
            received=f"{data.y[wrong[0]]:g} in sample {wrong[0] + 1}",
            help="write 1 for a failure and 0 otherwise, or predict it as a number",
        )
    if known.all():
        return data
    return data.take(known)


def _is_in_order(data: DataSet, job: Job, pack: Pack) -> bool:
    """Whether test and server are held out by time (windows, and rows of rules with a timeline), or
    in row order (rows that rules compare).
    """
    timeline = job.data.window is not None or pack.manifest.contract.time is not None
    in_rows = data.x.ndim == 2 and data.test is None and compares_rows(pack)
    return ((timeline and data.time is not None) or in_rows) and job.data.hold_out == "auto"


def _assign_uses(data: DataSet, job: Job, pack: Pack, site: str) -> NDArray[np.int8]:
    """The use of each sample: the test split of the data set; otherwise, at each site, first the
    training samples, then the server's, then the test, or random samples.
    """
    use = np.full(data.samples, TRAIN, dtype=np.int8)
    stream = hold_out_stream(job.data.seed, site)
    classes = data.y if data.task in ("classes", "detection") else np.zeros(data.samples)
    shares = (1.0 - job.data.test - job.data.server, job.data.test, job.data.server)
    if _is_in_order(data, job, pack):
        window = job.data.window
        # A forecast of training may not reach into the test; neither may a rule about labels.
        gap = window.horizon - 1 if window is not None and window.horizon else horizon_of(pack)
        parts = hold_out_in_order(site_timing(data), shares, gap, cut_every=True)
        use[:] = UNUSED
        for kind, rows in zip((TRAIN, TEST, SERVER), parts, strict=True):
            use[rows] = kind
        return use
    if data.test is not None and data.test.any() and not data.test.all():
        use[data.test] = TEST
    else:
        use[hold_out(classes, (1.0 - job.data.test, job.data.test), stream)[1]] = TEST
    rest = np.flatnonzero(use == TRAIN)
    if job.data.server:
        share = job.data.server / (1.0 - job.data.test)
        use[rest[hold_out(classes[rest], (1.0 - share, share), stream)[1]]] = SERVER
    return use


def site_timing(data: DataSet) -> Timing:
    """The traces of each site, or each site as a trace. Steps count from 1970 if the data has a
    step, else they order times, or rows of data without times.
    """
    trace = np.zeros(data.samples, dtype=np.int64)
    for names in (data.clients, data.traces):
        if names is not None:
            place = np.unique(names.astype(str), return_inverse=True)[1]
            trace = np.unique(np.stack([trace, place]), axis=1, return_inverse=True)[1].ravel()
    if data.time is None:
        return Timing(trace=trace, step=data.rows)
    known = ~np.isnan(data.time)
    step = np.zeros(data.samples, dtype=np.int64)
    if data.step:
        step[known] = np.rint(data.time[known] / data.step).astype(np.int64)
    else:
        step[known] = np.unique(data.time[known], return_inverse=True)[1]
    return Timing(trace=np.where(known, trace, -1), step=step)


def _split_by_source(samples: Samples, job: Job, rows: Index) -> tuple[Split, Index]:
    """The split by the data set's own sites."""
    clients = samples.source.clients
    assert clients is not None, "looked at when the data was read"
    if samples.sites:
        _require_rows_for_training(samples.sites, job)
        place = {name: number for number, name in enumerate(samples.sites)}
        owner = np.array([place[name] for name in clients[rows].tolist()], dtype=np.int64)
        return Split(sites=tuple(samples.sites), owner=owner), rows
    if job.sites:
        names = tuple(job.sites)
        return by_column(
            clients[rows].tolist(),
            names,
            column=job.data.site_column,
            min_samples=job.data.min_samples,
        ), rows
    return by_site(clients[rows], min_samples=job.data.min_samples), rows


def _require_rows_for_training(sites: Mapping[str, SiteSummary], job: Job) -> None:
    """Raise JobError if the table of a site leaves too few rows for training."""
    for site, one in sites.items():
        if one.rows[TRAIN] < job.data.min_samples:
            raise JobError(
                f"sites.{site}.table: only {one.rows[TRAIN]} rows remain for training",
                expected=f"at least {job.data.min_samples}",
                help="use a longer table, or decrease `data.test` or `data.min_samples`",
            )


def files_of_sites(path: str | None, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Path and checksum of a sites file and of the tables of these sites; of all without names."""
    if path is None:
        return ()
    sites = load_sites(path, names=names).sites
    tables = [url for name, site in sites.items() if name in (names or sites) for url in site.url]
    every = dict.fromkeys(str(Path(file).resolve()) for file in (path, *tables))
    return tuple((file, sha256_of(file)) for file in every)


def _files(path: str | None) -> tuple[tuple[str, str], ...]:
    """Path and checksum of the file, or of every file in the folder."""
    if path is None:
        return ()
    place = Path(path)
    every: Sequence[Path] = (
        [place] if place.is_file() else sorted(file for file in place.rglob("*") if file.is_file())
    )
    return tuple((str(file), sha256_of(file)) for file in every)


def count_held_out(samples: Samples, use: int) -> dict[str, int | None]:
    """Number of samples for a use, and of positive labels among them; None for other tasks."""
    return {"rows": samples.summary.rows[use], "positives": samples.summary.positives(use)}


def count_per_site(samples: Samples, split: Split, rows: Index) -> Mapping[str, dict[str, int]]:
    """Number of samples per site, and of positive labels for detection."""
    if samples.sites:
        return {
            site: {"rows": one.rows[TRAIN], "positives": one.positives(TRAIN) or 0}
            for site, one in samples.sites.items()
        }
    y = samples.source.y
    detection = samples.source.task == "detection"
    return {
        site: {"rows": len(own), "positives": int((y[rows[own]] > 0.5).sum()) if detection else 0}
        for site, own in zip(split.sites, split.index, strict=True)
    }
