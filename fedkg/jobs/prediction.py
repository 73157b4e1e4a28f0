"""Apply the models of a finished run to new rows of its sites, with the rules enforced.

Letters: N samples, H outputs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor

from fedkg._internal.threads import library_threads
from fedkg.data.sets import table_set
from fedkg.errors import JobError, TableError, UsageError
from fedkg.evaluation import evaluate
from fedkg.federated import ServerState
from fedkg.federated.model.constrained_outputs import Projected
from fedkg.federated.temporal.hard_rule_forecasts import HardForecasts
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.chronological_holdout import ROW_COLUMN, SITE_COLUMN
from fedkg.jobs.code_trust import require_trust
from fedkg.jobs.experiment.experiment import Experiment, target_of
from fedkg.jobs.experiment.knowledge_feature_columns import with_pixel_names
from fedkg.jobs.experiment.labelled_table_samples import TablePart, table_samples
from fedkg.jobs.experiment.model_inputs import ModelInputs
from fedkg.jobs.experiment.rules_on_samples import SampleRules, tally_forecasts
from fedkg.jobs.experiment.sample_preparation import SamplePart, Samples, cut_windows, join_samples
from fedkg.jobs.experiment.site_knowledge import SiteKnowledge, load_site_knowledge
from fedkg.jobs.experiment.site_sample_statistics import TEST
from fedkg.jobs.experiment.task_metrics import PREDICTION_BATCH
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.file_damage import require_run
from fedkg.jobs.folder import TRIALS, RunFolder
from fedkg.jobs.run_initial_files import reopen_run
from fedkg.jobs.schema.data_section import TABLE_SET, Knowledge, Site, resolve_knowledge_files
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import format_field_errors
from fedkg.jobs.source_tables import read_site_frame
from fedkg.jobs.sweep.stored_plan import is_sweep, sweep_error
from fedkg.jobs.trial_expansion import TrialConfig, trial_to_use
from fedkg.jobs.trial_training import deployed_models
from fedkg.models import Model, Params, predict
from fedkg.pack import Column, Pack
from fedkg.sites import SitesFile, load_sites, read_site
from fedkg.sites.sites_file import find_site
from fedkg.tables import Cells, Table

Counts = dict[str, int]
"""Satisfied, violated and unknown evaluations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePredictions:
    """The predictions for one site.

    Attributes:
        site: name of the site.
        model: the site of the run that uses this model; "" for the model of all sites.
        rows: number of rows in the site's table.
        lines: the predictions by column: the place of each row, the output, and whether rules
            corrected it. If a column of the table is called like one of fedkg's, fedkg's is called
            `NAME (2)`.
        corrected: number of lines that rules corrected.
        counts: evaluations of each rule, with the predictions as the output's column.
        notes: remarks.
    """

    site: str
    model: str
    rows: int
    lines: tuple[dict[str, Any], ...]
    corrected: int
    counts: Mapping[str, Counts]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """The predictions of a trial of a run for some sites.

    Attributes:
        trial: the trial.
        output: the output or label of the rules.
        unit: its unit; "" for none.
        corrected_by: the hard rules that every prediction satisfies.
        sites: in the order of the sites file.
        seconds: duration.
    """

    trial: str
    output: str
    unit: str
    corrected_by: tuple[str, ...]
    sites: tuple[SitePredictions, ...]
    seconds: float


def predict_sites(
    folder: str | Path,
    sites: str | Path | None = None,
    *,
    site: str = "",
    trial: str = "",
    model: str = "",
    trust_code: bool = False,
) -> Predictions:
    """Predict the output for the tables of sites with a model of a finished run.

    A table needs no column of the output, unless the run forecasts it. The run's own tables must be
    unchanged: they define the scaling of the inputs.

    Args:
        folder: of the run.
        sites: a sites file; None: that of the run.
        site: only this site.
        trial: the trial; "": see `trial_to_use`.
        model: with models for each site, the site of the run that lends its model to new sites.
        trust_code: whether code that the job imports may run.

    Raises:
        UsageError: there is no such run, trial or site, or the job imports untrusted code.
        JobError: the run is not finished, one of its files has changed, or its models need more
            than a table.
        TableError: a table lacks a column, or a unit does not convert.
    """
    began = time.monotonic()
    run = RunFolder(Path(folder))
    if is_sweep(run.path):
        raise sweep_error(run.path)
    require_run(run)
    run.environment()  # a causal discovery has no trials
    if trial:
        _require_trial(run, trial)
    job, experiment, configs = reopen_run(run, trust_code)
    entry = trial or trial_to_use(configs).id
    _require_trial(run, entry)
    config = next(one for one in configs if one.id == entry)
    _require_tables(config.job)
    described, names = _choose_sites(job, sites, site)
    state = load_state(run, config.id)
    if state is None:
        raise _unfinished(run, config.id)
    known = {
        name: _load_knowledge(
            experiment, config, described, name, trust_code, is_new=sites is not None
        )
        for name in names
    }
    with library_threads(config.job.training.threads or 1):
        built = experiment.build_trial(config)
        rules = built.rules
        found = tuple(
            _predict_site(experiment, config, built, state, described, name, model, known[name])
            for name in names
        )
    enforced = rules.hard.enforced if rules.hard is not None else ()
    if isinstance(built.problem.model, HardForecasts):
        enforced = built.problem.model.rules.names
    return Predictions(
        trial=config.id,
        output=built.output,
        unit=find_output(built.pack, built.output).unit,
        corrected_by=tuple(enforced),
        sites=found,
        seconds=time.monotonic() - began,
    )


def find_output(pack: Pack, name: str) -> Column:
    """The column of an output, or the first one of a label."""
    columns = pack.manifest.contract.columns
    return next(c for c in columns if c.role == "output" and name in (c.name, c.label))


def _require_trial(run: RunFolder, trial: str) -> None:
    """Raises UsageError without this trial, and JobError if it is not finished."""
    entries = {one["id"]: one for one in run.read_json(TRIALS)}
    if trial not in entries:
        raise UsageError(
            f"the run in {run.path} has no trial {trial}",
            expected=", ".join(entries),
            received=trial,
        )
    if not entries[trial].get("done"):
        raise _unfinished(run, trial)


def _unfinished(run: RunFolder, trial: str) -> JobError:
    return JobError(
        f"the trial {trial} of the run in {run.path} is not finished",
        help=f"finish it first: fedkg run --resume {run.path}",
    )


def _require_tables(job: Job) -> None:
    """Raise JobError if the inputs of the models are more than the columns of a table."""
    reason = ""
    if job.data.set not in (None, TABLE_SET):
        reason = f"it was trained on the data set {job.data.set}"
    elif job.augment.by != "none":
        reason = "its models read augmented states (`augment`)"
    if reason:
        raise JobError(
            f"the models of this run cannot be applied to tables: {reason}",
            expected="a run on tables, without `augment`",
        )


def _choose_sites(job: Job, sites: str | Path | None, site: str) -> tuple[SitesFile, list[str]]:
    path = sites or job.data.sites_file
    if path is None:
        raise UsageError(
            "the job of the run has no sites file, and this command names none",
            help="describe the tables: --sites sites.yaml",
        )
    described = load_sites(path)
    if site:
        find_site(described, site)
    return described, [site] if site else list(described.sites)


def _load_knowledge(
    experiment: Experiment,
    config: TrialConfig,
    described: SitesFile,
    name: str,
    trust_code: bool,
    *,
    is_new: bool,
) -> SiteKnowledge | None:
    """The knowledge that a new sites file states for a site, otherwise the run's; None if no site
    of the run has any.

    Raises:
        JobError: the knowledge is missing, is wrong, or needs rows for training.
        UsageError: it imports untrusted code.
    """
    run = experiment.site_knowledge
    sites = experiment.site_splits[config.split_key].split.sites
    settings, file = described.sites[name].settings, Path(described.path)
    place = f"sites.{name}.settings.knowledge of {file}"
    if not run:
        if is_new and settings.knowledge is not None:
            raise JobError(
                f"{place}: the models of this run read no knowledge of single sites",
                help="remove it, or train with `sites: {...: {knowledge: ...}}` in the job",
            )
        return None
    target = target_of(experiment.samples, experiment.pack, experiment.output)
    if settings.knowledge is None or not is_new:
        everywhere = all(one in run and run[one].has_sources for one in sites)
        if name not in sites and everywhere and config.job.model.inject is not None:
            raise JobError(
                f"{place} is missing: the models of this run read the knowledge of each site",
                expected="the knowledge of this site, such as `settings: {knowledge: own.fkg}`",
                help="add it to the sites file",
            )
        return run.get(name) or SiteKnowledge(site=name, trust=None, target=target)
    try:
        section = Knowledge.model_validate(resolve_knowledge_files(settings.knowledge, file.parent))
    except ValidationError as error:
        raise JobError(f"{place}: {format_field_errors(error.errors())}") from error
    if section.train is not None and name not in sites:
        raise JobError(
            f"{place}: a new site has no training rows for `train`",
            expected="rules, table, lookup or model",
            help="remove `train`",
        )
    job = experiment.job.model_copy(update={"sites": {name: Site(knowledge=section)}})
    require_trust([job], trust_code)
    return load_site_knowledge(job, with_pixel_names(experiment.samples.source), target)[name]


def _choose_model(trial: Trial, state: ServerState, site: str, lender: str) -> tuple[Params, str]:
    """The model for a site, and the site of the run that uses it ("": all).

    Raises:
        JobError: each site of the run has its own model, and this one is not among them.
    """
    models = deployed_models(trial).models(state)
    if trial.algorithm.one_model:
        return models[0], ""
    names = trial.problem.clients.names
    wanted = site if site in names else lender
    if wanted not in names:
        raise JobError(
            f"each site of the run has its own model, and the run has no site {wanted or site}",
            expected=", ".join(names[:8]),
            help="--model NAME uses the model of one of these sites for new sites",
        )
    return models[names.index(wanted)], wanted


def _predict_site(
    experiment: Experiment,
    config: TrialConfig,
    trial: Trial,
    state: ServerState,
    described: SitesFile,
    name: str,
    lender: str,
    known: SiteKnowledge | None,
) -> SitePredictions:
    params, owner = _choose_model(trial, state, name, lender)
    table = read_site(described, name, trial.pack.manifest.contract).table
    try:
        samples = _prepare(experiment, config.job, table, name)
    except TableError as error:
        raise TableError(
            f"site {name}: {error.message}",
            expected=error.expected,
            received=error.received,
            help=error.help,
        ) from error
    rules, inputs, notes = experiment.apply_to(config, samples, name, known)
    index = np.arange(samples.source.samples)
    answers = rules.answers(trial.problem.model, params, inputs, index, exact=True)
    plain = _plain_answers(trial.problem.model, params, inputs, index)
    corrected = ((answers != plain) & ~(answers.isnan() & plain.isnan())).any(1).numpy()
    window = config.job.data.window
    if window is not None and window.horizon:
        lines = _forecast_lines(samples, answers, corrected, name, trial)
        counts = _count_forecasts(rules, trial.problem.model, params, inputs, samples)
        return SitePredictions(
            site=name,
            model=owner,
            rows=table.rows,
            lines=lines,
            corrected=window.horizon * int(corrected.sum()),
            counts=counts,
            notes=(*notes, *_short_traces(samples, table, trial, window.history)),
        )
    if samples.source.task == "classes":
        corrected = (answers.argmax(1) != plain.argmax(1)).numpy()
    values = _values(samples, answers)
    lines, whole = _row_lines(samples, values, corrected, table, name, trial, params)
    evaluated = evaluate(trial.pack, whole, missing="skip")
    counts = {
        one.rule: {
            "satisfied": one.satisfied, "violated": one.violated, "unknown": one.unknown
        }
        for one in evaluated.rules
    }  # fmt: skip
    left = table.rows - len(lines)
    if left:
        notes += (
            f"{left:,} of {table.rows:,} rows have no prediction: their window is not complete",
        )
    return SitePredictions(
        site=name,
        model=owner,
        rows=table.rows,
        lines=lines,
        corrected=int(corrected.sum()),
        counts=counts,
        notes=notes,
    )


def _short_traces(samples: Samples, table: Table, trial: Trial, history: int) -> tuple[str, ...]:
    """A note that names the traces of the table without a forecast; empty if there are none."""
    header, forecast = trial.pack.manifest.contract.trace, samples.source.traces
    if header is None or forecast is None or header not in table:
        return ()
    short = [one for one in dict.fromkeys(table.texts(header)) if one and one not in set(forecast)]
    if not short:
        return ()
    names = ", ".join(short[:5]) + (", ..." if short[5:] else "")
    return (f"no forecast for {names}: none of these traces has a window of {history} steps",)


def _count_forecasts(
    rules: SampleRules, model: Model, params: Params, inputs: ModelInputs, samples: Samples
) -> dict[str, Counts]:
    """The evaluations of each rule on forecasts; a forecast is one case."""
    if rules.module is None:
        return {}
    index = torch.arange(samples.source.samples)
    verdicts = rules.forecast_verdicts(model, params, inputs, index)
    tallies = tally_forecasts(rules, verdicts, index, samples.source)
    return {
        rules.pack.manifest.rules[place].name: {
            "satisfied": one.evaluations - one.violated,
            "violated": one.violated,
            "unknown": one.bound * len(index) - one.evaluations,
        }
        for place, one in tallies.items()
    }


def _prepare(experiment: Experiment, job: Job, table: Table, site: str) -> Samples:
    """The samples of a site's rows, scaled as the training scaled its own."""
    pack, summary = experiment.pack, experiment.samples.summary
    contract = pack.manifest.contract
    if job.data.set is None:
        filled = with_column(table, job.data.label, np.zeros(table.rows))
        frame = read_site_frame(job, contract, site, Site(), filled)
        frame = frame.with_numbers(ROW_COLUMN, np.arange(1.0, frame.rows + 1.0))
        frame = frame.with_texts(SITE_COLUMN, [site] * frame.rows)
        part = TablePart(frame=frame, use=np.full(frame.rows, TEST, dtype=np.int8))
        return table_samples(job, pack, {site: part}, summary)
    output = find_output(pack, experiment.output)
    horizon = 0 if job.data.window is None else job.data.window.horizon
    if horizon:
        _require_series(table, pack, output.source)
    else:
        fill: Sequence[str] | NDArray[np.float64] = np.zeros(table.rows)
        if output.type == "score":
            fill = [output.category] * table.rows
        table = with_column(table, output.source, fill)
    table = with_column(table, SITE_COLUMN, [site] * table.rows)
    data = table_set(table, contract, output=job.output or "", site=SITE_COLUMN)
    if horizon:
        x = np.concatenate(
            [data.x.astype(np.float64), np.asarray(data.y, dtype=np.float64)[:, None]], axis=1
        )
        data = replace(
            data, x=x, features=(*data.features, output.source), units=(*data.units, output.unit),
            task="forecast",
        )  # fmt: skip
    else:
        data = replace(data, task=summary.task)
    cut = cut_windows(data, job, to_predict=True) if job.data.window is not None else data
    use = np.full(cut.samples, TEST, dtype=np.int8)
    named = SamplePart(data=cut, use=use, uncut_rows=data)
    return join_samples(job, pack, {site: named}, summary)


def _require_series(table: Table, pack: Pack, output: str) -> None:
    """Raise TableError if the rules have no timeline with a step, no row has a time, or the table
    lacks the output.
    """
    contract = pack.manifest.contract
    if output not in table:
        raise table.missing(output, needed="the model reads to forecast it")
    header = contract.time
    if header is None or contract.step is None:
        raise TableError(
            f"{table.name}: forecasts need times, and the rules declare no timeline "
            "with a step and a time column",
            help="declare `timeline step 1 h time column NAME` in the rules",
        )
    if not table.is_numeric(header) and not any(table.times(header)[0]):
        raise TableError(
            f"{table.name}: no row has a time in `{header}`",
            help="write the times into this column of the table, or correct the `titles` of "
            "the column in the sites file",
        )


def with_column(table: Table, header: str, column: Sequence[str] | NDArray[np.float64]) -> Table:
    """The table with one column added or replaced.

    Args:
        table: the rows.
        header: of the column.
        column: its texts or numbers.
    """
    own = (
        Cells(values=np.asarray(column, dtype=np.float64))
        if isinstance(column, np.ndarray)
        else Cells(texts=tuple(column))
    )
    if header in table:
        place = table.position(header)
        cells = (*table.cells[:place], own, *table.cells[place + 1 :])
        return replace(table, cells=cells)
    return replace(table, headers=(*table.headers, header), cells=(*table.cells, own))


def _plain_answers(
    model: Model, params: Params, inputs: ModelInputs, index: NDArray[np.int64]
) -> Tensor:
    """The outputs [N, H] of the model without the correction by hard rules."""
    codes = len(model.keys) if isinstance(model, Projected) else 0
    inner = model.model if isinstance(model, Projected | HardForecasts) else model
    params = {name: value.double() for name, value in params.items()}
    parts = []
    for at in range(0, len(index), PREDICTION_BATCH):
        x = inputs.exact_rows(index[at : at + PREDICTION_BATCH])
        parts.append(predict(inner, params, x[..., : x.shape[-1] - codes] if codes else x))
    return torch.cat(parts)


def _values(samples: Samples, answers: Tensor) -> list[str] | NDArray[np.float64]:
    """The predictions of N samples in source units: probabilities, numbers, or classes."""
    match samples.source.task:
        case "detection":
            return torch.sigmoid(answers).squeeze(-1).numpy()
        case "classes":
            return [samples.source.classes[place] for place in answers.argmax(1).tolist()]
        case _:
            return samples.scaled.quantities(answers.numpy()).squeeze(-1)


def _row_lines(
    samples: Samples,
    values: list[str] | NDArray[np.float64],
    corrected: NDArray[np.bool_],
    table: Table,
    site: str,
    trial: Trial,
    params: Params,
) -> tuple[tuple[dict[str, Any], ...], Table]:
    """A line for each prediction, and the table with the predictions as the output's column.

    `Any`: texts and numbers.
    """
    contract = trial.pack.manifest.contract
    column = find_output(trial.pack, trial.output)
    source = column.source
    rows = samples.source.rows
    keys = dict.fromkeys((contract.time, contract.trace, trial.config.job.data.machine))
    places = {
        header: table.texts(header) for header in keys if header is not None and header in table
    }
    own = _own_headers(("site", "row", "unit", "alarm", "corrected"), (*keys, source))
    threshold = trial.threshold(params) if samples.source.task == "detection" else None
    lines: list[dict[str, Any]] = []
    listed: list[Any] = values if isinstance(values, list) else values.tolist()
    for sample, row in enumerate(rows.tolist()):
        line: dict[str, Any] = {own["site"]: site, own["row"]: _row_number(table, row)}
        line |= {header: texts[row] for header, texts in places.items()}
        line |= {source: listed[sample], own["unit"]: column.unit}
        if threshold is not None:
            line[own["alarm"]] = int(listed[sample] >= threshold)
        lines.append(line | {own["corrected"]: int(corrected[sample])})
    if isinstance(values, list):
        texts = [""] * table.rows
        for sample, row in enumerate(rows.tolist()):
            texts[row] = values[sample]
        return tuple(lines), with_column(table, source, texts)
    numbers = np.full(table.rows, np.nan)
    numbers[rows] = values
    return tuple(lines), with_column(table, source, numbers)


def _forecast_lines(
    samples: Samples, answers: Tensor, corrected: NDArray[np.bool_], site: str, trial: Trial
) -> tuple[dict[str, Any], ...]:
    """A line for each step of each forecast."""
    data = samples.source
    values = samples.scaled.quantities(answers.numpy())
    steps = values.reshape(len(values), -1, len(data.targets))
    contract = trial.pack.manifest.contract
    assert data.time is not None, "windows have times"
    own = _own_headers(
        ("site", "forecast", "step", "unit", "corrected"),
        (contract.time, contract.trace, *data.targets),
    )
    lines: list[dict[str, Any]] = []
    for sample in range(len(steps)):
        trace = {} if data.traces is None else {contract.trace or "": data.traces[sample]}
        for place in range(steps.shape[1]):
            moment = float(data.time[sample]) + place * data.step
            text: Any = moment
            if data.since_1970:
                text = str(np.datetime64(round(moment), "s")).replace("T", " ") + "Z" * data.utc
            lines.append(
                {
                    own["site"]: site,
                    own["forecast"]: sample + 1,
                    own["step"]: place + 1,
                    contract.time or "time": text,
                    **trace,
                    **dict(zip(data.targets, steps[sample, place].tolist(), strict=True)),
                    own["unit"]: find_output(trial.pack, trial.output).unit,
                    own["corrected"]: int(corrected[sample]),
                }
            )
    return tuple(lines)


def _own_headers(names: Sequence[str], others: Sequence[str | None]) -> dict[str, str]:
    """The header of each of fedkg's columns: its name, or `NAME (2)` beside a column of the table
    with that name.
    """
    return {name: f"{name} (2)" if name in others else name for name in names}


def _row_number(table: Table, row: int) -> int:
    """The row of the file if it is one file, else the row of the table, from 1."""
    return int(table.lines[row]) if table.lines.size and not table.parts[1:] else row + 1
