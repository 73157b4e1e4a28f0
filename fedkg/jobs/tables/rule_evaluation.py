"""Evaluate rules on tables: the server's scorer, the table of rules, and checks of the data.

Letters: V views of the rows, N rows, C columns of the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints import ConstraintModule, Timing, columns, evaluate_bank, logit
from fedkg.constraints.engine.skeleton_properties import reads_output
from fedkg.data import Frame
from fedkg.errors import JobError
from fedkg.evaluation import table_values
from fedkg.evaluation.row_explanation import example
from fedkg.evaluation.table_timing import steps_before
from fedkg.evaluation.tally import least_margin
from fedkg.federated.server.pack_scorer import PackScorer
from fedkg.federated.server.trace_scorer import TraceScorer
from fedkg.jobs.chronological_holdout import (
    ROW_COLUMN,
    SITE_COLUMN,
    compares_rows,
    consecutive_traces,
    horizon_of,
    row_timing,
)
from fedkg.jobs.folder import Row
from fedkg.jobs.hard_rule_answers import HardRules
from fedkg.jobs.result_rows import RuleCounts, rule_row
from fedkg.jobs.table_rule_evaluation import row_name
from fedkg.jobs.tables.table_preparation import WHOLE_TABLE, TableData
from fedkg.jobs.unevaluated_rules import COMPARES_ROWS
from fedkg.models import Model, Params
from fedkg.pack import Bank, DataContract, Implies


def constraint_module(prepared: TableData) -> ConstraintModule:
    """The rules over the model's standardised inputs and its logit.

    Raises:
        LayoutError: the model lacks an input that a rule reads.
        JobError: a rule reads earlier values of the label, which no row has.
    """
    scaling = prepared.scaling
    contract = prepared.pack.manifest.contract.columns
    label = next(column for column in contract if column.name == prepared.output)
    if any(column.role == "input" and column.source == label.source for column in contract):
        raise JobError(
            f"a rule reads earlier values of the output `{label.name}` (past, previous), and the "
            "rows of a table are predicted one by one",
            help="give data.window, so that the model forecasts a series, or write the rule about "
            "columns that the model reads",
        )
    return ConstraintModule(
        prepared.pack,
        x=columns(scaling.names, mean=scaling.mean, std=scaling.std),
        y=logit(prepared.output),
    )


def row_keys(prepared: TableData, frame: Frame) -> dict[str, list[str]]:
    """The texts of the categories by which rules select rows, as far as the frame has them."""
    categories = (
        column
        for column in prepared.pack.manifest.contract.columns
        if column.type == "category" and column.role == "input"
    )
    return {
        column.source: frame.texts(column.source)
        for column in categories
        if column.source in frame.columns
    }


def row_codes(prepared: TableData, module: ConstraintModule, frame: Frame) -> dict[str, Tensor]:
    """`row_keys` as codes, int64 [N]."""
    return {name: module.codes(name, texts) for name, texts in row_keys(prepared, frame).items()}


def probe_scorer(
    prepared: TableData, module: ConstraintModule, model: Model, probe: Frame
) -> PackScorer | TraceScorer:
    """The server's scorer of the sites' models: on its probe rows, and on traces of its rows if
    rules compare rows and the rows are consecutive.
    """
    rows = PackScorer(
        model, module, prepared.inputs(probe), keys=row_codes(prepared, module, probe)
    )
    if not (prepared.ordered and compares_rows(prepared.pack)):
        return rows
    server = prepared.server
    places = consecutive_traces(
        _timing_by_key(prepared, module, server),
        horizon_of(prepared.pack),
        prepared.job.scoring.probe_rows,
    )
    if places is None:
        return rows
    x = prepared.inputs(server)[torch.from_numpy(places)]
    keys = {
        name: codes[torch.from_numpy(places)]
        for name, codes in row_codes(prepared, module, server).items()
    }
    return TraceScorer(rows, model, module, x, keys=keys)


def _timing_by_key(prepared: TableData, module: ConstraintModule, frame: Frame) -> Timing:
    """The timing of rows, with a trace for every machine and variant by which rules select rows."""
    timing = row_timing(prepared.pack, frame)
    codes = [one.numpy() for one in row_codes(prepared, module, frame).values()]
    _, trace = np.unique(np.stack([timing.trace, *codes]), axis=1, return_inverse=True)
    trace = np.where(timing.trace < 0, -1, trace.ravel())
    return Timing(trace=trace, step=timing.step, gaps=timing.gaps, end=timing.end)


def _rows_before(prepared: TableData, module: ConstraintModule, x: Tensor) -> Tensor | None:
    """The features of the row before each test row, NaN where there is none; None if no view of the
    rules needs them.
    """
    contract = prepared.pack.manifest.contract
    asked = [
        contract.views[view] for view in module.plan.runs if contract.views[view].kind == "previous"
    ]
    if not (asked and prepared.ordered):
        return None
    timing = row_timing(prepared.pack, prepared.test)
    group = np.zeros(prepared.test.rows, dtype=np.int64)
    for header in asked[0].groups:
        _, own = np.unique(np.array(prepared.test.texts(header)), return_inverse=True)
        group = group * (int(own.max(initial=0)) + 1) + own.ravel()
    before = torch.from_numpy(steps_before(timing, group, x.numpy()))
    return torch.where((before >= 0)[:, None], x[before.clamp(min=0)], torch.nan)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowTally:
    """Counts of verdicts on every test row under every deployed model: int64 [models, N].

    Attributes:
        violated: bound rows that the test row violates.
        evaluations: bound rows with a verdict on it, satisfied or violated, as `fedkg eval` counts.
    """

    violated: NDArray[np.int64]
    evaluations: NDArray[np.int64]


def empty_tally(models: int, rows: int) -> RowTally:
    """A tally of zeros."""
    return RowTally(
        violated=np.zeros((models, rows), np.int64), evaluations=np.zeros((models, rows), np.int64)
    )


@dataclass(slots=True, kw_only=True)
class _Counts(RuleCounts):
    """Counts of one rule, and its worst example."""

    worst: tuple[bool, float, int, int, int, int] | None = (
        None  # no margin, margin, model, test row, bank, row of the bank
    )


def rule_table(
    prepared: TableData,
    module: ConstraintModule,
    model: Model,
    models: Sequence[Params],
    trial: str,
    tally: RowTally | None = None,
    hard: HardRules | None = None,
) -> list[Row]:
    """Rows of `rules.csv`: every rule on the deployed models, over the test rows, with the worst
    example.

    The interpreter evaluates in float64, because
    limits lie exactly on decimal data. Rules that compare rows are evaluated where the test rows
    are consecutive (`TableData.ordered`), as `fedkg eval` does with the predictions as the output's
    column, and not where they are a random sample.

    Args:
        tally: counts are added to it.
        hard: the hard rules that every answer satisfies.
    """
    pack = prepared.pack
    across = frozenset[int]() if prepared.ordered else module.plan.across_rows
    values = [_values_with_predictions(prepared, module, model, params, hard) for params in models]
    timing = row_timing(pack, prepared.test)
    counts: dict[int, _Counts] = {}
    for b, bank in enumerate(pack.banks):
        if reads_output(bank.skeleton):
            _count_bank(bank, b, values, counts, timing, tally, across)
    return [
        rule_row(
            trial,
            record,
            count := counts.get(rule, _Counts()),
            compares=COMPARES_ROWS if rule in across else "",
            example=_example(prepared, values, count),
        )
        for rule, record in enumerate(pack.manifest.rules)
        if record.output
    ]


def _values_with_predictions(
    prepared: TableData,
    module: ConstraintModule,
    model: Model,
    params: Params,
    hard: HardRules | None,
) -> NDArray[np.float64]:
    """The test rows in all views with the model's predictions, float64 [V, N, C]."""
    frame, contract = prepared.test, prepared.pack.manifest.contract
    values = _site_values(contract, frame)
    x = prepared.inputs(frame, torch.float64)
    before = _rows_before(prepared, module, x)
    with torch.no_grad():
        views = module.views(x, keys=row_keys(prepared, frame), previous=before)
        double = {name: value.double().unsqueeze(0) for name, value in params.items()}
        answers = model.apply(double, views.flatten(0, 1))[0].reshape(len(views), frame.rows, -1)
        if hard is not None:
            codes = row_codes(prepared, module, frame)
            answers = torch.stack(
                [hard.satisfy(view, one, codes) for view, one in zip(views, answers, strict=True)]
            )
        said = torch.sigmoid(answers[..., 0]).numpy()
    column = contract.index(prepared.output)
    for run, view in enumerate(module.plan.runs):
        raised = contract.views[view].column  # a raised unknown value stays unknown
        values[view, :, column] = (
            said[run]
            if raised is None
            else np.where(np.isnan(values[0, :, raised]), np.nan, said[run])
        )
    return values


def _site_values(contract: DataContract, frame: Frame) -> NDArray[np.float64]:
    """The rows in all views, float64 [V, N, C]; the row before a row is one of the same site."""
    if SITE_COLUMN not in frame.columns:
        return table_values(contract, frame.table(), missing="skip").values
    sites = frame.columns[SITE_COLUMN]
    values = np.full((len(contract.views), frame.rows, len(contract.columns)), np.nan)
    for site in dict.fromkeys(sites.tolist()):
        rows = np.flatnonzero(sites == site)
        table = frame.take(rows).table()
        values[:, rows] = table_values(contract, table, missing="skip").values
    return values


def _count_bank(
    bank: Bank,
    b: int,
    answers: Sequence[NDArray[np.float64]],
    counts: dict[int, _Counts],
    timing: Timing,
    tally: RowTally | None,
    across: frozenset[int],
) -> None:
    """Add a bank's verdicts on every model.

    The worst example of an `if ... then` has the largest violation of its consequence.
    """
    met = np.zeros(len(bank.rule), dtype=bool)
    alone = ~np.isin(bank.rule, list(across))
    for which, values in enumerate(answers):
        found = evaluate_bank(bank, values, timing)
        if tally is not None:
            tally.violated[which] += found.violated[:, alone].sum(1)
            tally.evaluations[which] += (found.satisfied | found.violated)[:, alone].sum(1)
        margin = found.robustness
        if isinstance(bank.skeleton, Implies):
            margin = evaluate_bank(
                replace(bank, skeleton=bank.skeleton.consequent), values, timing
            ).robustness
        for row, rule in enumerate(bank.rule.tolist()):
            count = counts.setdefault(rule, _Counts())
            if not alone[row]:
                continue
            broken, applied = found.violated[:, row], found.fired[:, row] & ~found.unknown[:, row]
            count.violated += int(broken.sum())
            count.evaluations += int((found.satisfied[:, row] | broken).sum())
            count.applied += int(applied.sum())
            met[row] |= applied.any()
            if broken.any():
                at = int(least_margin(margin[:, [row]], broken[:, None])[0])
                worst = (bool(np.isinf(margin[at, row])), float(margin[at, row]), which, at, b, row)
                count.worst = worst if count.worst is None else min(count.worst, worst)
    for rule, applies in zip(bank.rule.tolist(), met.tolist(), strict=True):
        counts[rule].bound += 1
        counts[rule].not_evaluated += not applies


def _example(prepared: TableData, answers: Sequence[NDArray[np.float64]], count: _Counts) -> str:
    if count.worst is None:
        return ""
    *_, which, at, b, row = count.worst
    return example(
        prepared.pack,
        prepared.pack.banks[b],
        row,
        answers[which][:, at],
        place=row_name(prepared.test, at),
    )


def intact_frames(prepared: TableData, sites: Sequence[Frame]) -> list[Frame]:
    """The tables as read, one per file, so that rules over several rows see them in order.

    Args:
        sites: the training rows of each site; from these and the held-out rows each row takes the
            machine
            that was assigned to it.
    """
    tables, header = prepared.tables, prepared.job.data.machine
    parts = [*sites, prepared.test, prepared.server]
    frames = []
    whole = {} if tables.whole is None else {WHOLE_TABLE: tables.whole}
    for site, frame in (whole or dict(tables.by_site or {})).items():
        frame = frame.with_numbers(ROW_COLUMN, np.arange(1.0, frame.rows + 1.0))
        own = [part if whole else _of_site(part, site) for part in parts]
        if header not in frame.columns and all(header in part.columns for part in own):
            machines = np.full(frame.rows, "", dtype=object)
            for part in own:
                machines[part.numbers(ROW_COLUMN).astype(np.int64) - 1] = part.texts(header)
            frame = frame.with_texts(header, machines.tolist())
        frames.append(frame if whole else frame.with_texts(SITE_COLUMN, [site] * frame.rows))
    return frames


def _of_site(frame: Frame, site: str) -> Frame:
    """The rows from a site's table."""
    return frame.take(np.array(frame.texts(SITE_COLUMN), dtype=object) == site)
