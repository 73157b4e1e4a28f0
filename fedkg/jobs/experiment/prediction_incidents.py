"""Incidents of predictions: where a model's answers on held-out samples violate rules.

The answers become tables, in which incidents are found as in measured data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkg.data.sets import DataSet
from fedkg.federated.temporal.hard_rule_forecasts import HardForecasts
from fedkg.jobs.experiment.forecast_baselines import moment_text
from fedkg.jobs.experiment.rule_evaluation import Deployed, answered_frame
from fedkg.jobs.experiment.sample_preparation import Index
from fedkg.jobs.source_data_checks import SECONDS, NamedTable, find_table_incidents, row_name
from fedkg.models import Params
from fedkg.pack import Bank, Column, Pack
from fedkg.pack.bank import MemberTable, reads
from fedkg.tables import Table

if TYPE_CHECKING:
    from fedkg.jobs.experiment.trial import Trial

MAX_SITES = 100
"""Number of sites with incidents of predictions: each one is a table to evaluate."""
TRACE = "forecast"
"""The column that separates the forecasts of a table."""

HISTORY = " (history)"
"""The compiler adds this to the name of an output that rules read as an earlier observation."""

MODEL_RUNS = "evaluated on changed inputs, of which a table has no row"
OTHER_ROWS = "compares rows, which a random test sample or a table of all sites separates"
ENFORCED = "a hard rule that every forecast satisfies"

Json = dict[str, Any]
"""A JSON object. `Any`: JSON."""


def find_prediction_incidents(
    trial: Trial, sites: Iterable[tuple[str, Params, Index]], count: int
) -> Json | None:
    """Where the answers on test samples violate rules about outputs.

    Args:
        trial: a trained trial.
        sites: of each site with test samples the name, the model and the positions of its test
            samples among all samples.
        count: the number of these sites; the first `MAX_SITES` are evaluated.

    Returns:
        As `fedkg.evaluation.incidents.find_incidents`, with `left_out` (rules that tables of
        answers cannot show, by reason) and `sites_left_out`. None if nothing is violated.
    """
    pack = trial.rules.pack
    shown, left_out = _divide_rules(trial)
    if not shown:
        return None
    some, is_ordered = islice(sites, MAX_SITES), True
    if trial.rules.forecasts is None:
        tables = list(_row_tables(trial, some))
        is_ordered = trial.samples.ordered
    else:
        pack, earlier = _with_traces(pack)
        tables = list(_forecast_tables(trial, pack, earlier, some))
    found = find_table_incidents(pack, tables, shown, is_ordered=is_ordered)
    if found is None or not found["details"]:
        return None
    return found | {"left_out": left_out, "sites_left_out": max(0, count - MAX_SITES)}


def _divide_rules(trial: Trial) -> tuple[list[str], dict[str, list[str]]]:
    """The rules about outputs that tables of answers show, and the others by reason."""
    pack, rules = trial.rules.pack, trial.rules
    model = trial.problem.model
    enforced = model.rules.names if isinstance(model, HardForecasts) else ()
    runs_model = _rules_on_changed_inputs(pack)
    apart = bool(trial.samples.sites) and trial.samples.ordered
    across = set() if rules.rows is None or apart else set(rules.rows.plan.across_rows)
    shown: list[str] = []
    left_out: dict[str, list[str]] = {}
    for number, record in enumerate(pack.manifest.rules):
        if not record.output:
            continue
        if number in runs_model:
            left_out.setdefault(MODEL_RUNS, []).append(record.name)
        elif number in across:
            left_out.setdefault(OTHER_ROWS, []).append(record.name)
        elif record.name in enforced:
            left_out.setdefault(ENFORCED, []).append(record.name)
        else:
            shown.append(record.name)
    return shown, left_out


def _rules_on_changed_inputs(pack: Pack) -> set[int]:
    """The rules that compare answers for a row with answers for a changed row."""
    views = pack.manifest.contract.views
    raised = np.array([view.kind == "raised" for view in views], dtype=np.bool_)
    return {
        rule
        for bank in pack.banks
        for _, read, rows in reads(bank)
        for rule in bank.rule[rows][raised[read].any(axis=1)].tolist()
    }


def _row_tables(trial: Trial, sites: Iterable[tuple[str, Params, Index]]) -> Iterator[NamedTable]:
    """The test rows of each site with the answers of its model."""
    for name, params, index in sites:
        deployed = Deployed(params=params, index=index, counted=np.ones(len(index), dtype=np.bool_))
        frame = answered_frame(
            trial.rules,
            trial.samples,
            trial.frame,
            trial.inputs,
            trial.problem.model,
            trial.output,
            deployed,
        )
        yield name, frame.table(), partial(row_name, frame)


def _with_traces(pack: Pack) -> tuple[Pack, dict[int, Column]]:
    """The pack for tables in which each forecast is a trace, and the columns that it adds, by the
    position of the column of which they hold the value one step earlier.

    The step before the first one of a forecast is the last observation, which is not a row of the
    table. So `past x` becomes a column.
    """
    contract = pack.manifest.contract
    looks_back = np.array([view.kind == "previous" for view in contract.views], dtype=np.bool_)
    read = {
        column
        for bank in pack.banks
        for slots, views, _ in reads(bank)
        for column in slots[looks_back[views]].tolist()
    }
    earlier: dict[int, Column] = {}
    moved = np.arange(len(contract.columns))
    for place in sorted(read):
        column = contract.columns[place]
        name = f"past {column.name.removesuffix(HISTORY)}"
        changes = {"name": name, "role": "input", "source": f"past {column.source}"}
        moved[place] = len(contract.columns) + len(earlier)
        earlier[place] = column.model_copy(update=changes | {"alternatives": ()})

    def move(part: Bank | MemberTable) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        back = looks_back[part.views]
        slots = np.where(back, moved[part.slots], part.slots).astype(np.int32)
        return slots, np.where(back, 0, part.views).astype(np.int32)

    banks = []
    for bank in pack.banks:
        members = []
        for one in bank.members:
            slots, views = move(one)
            members.append(replace(one, slots=slots, views=views))
        slots, views = move(bank)
        banks.append(replace(bank, slots=slots, views=views, members=tuple(members)))
    columns = (*contract.columns, *earlier.values())
    updated = contract.model_copy(update={"trace": TRACE, "kind": "panel", "columns": columns})
    manifest = pack.manifest.model_copy(update={"contract": updated})
    return replace(pack, manifest=manifest, banks=tuple(banks)), earlier


def _forecast_tables(
    trial: Trial,
    pack: Pack,
    earlier: Mapping[int, Column],
    sites: Iterable[tuple[str, Params, Index]],
) -> Iterator[NamedTable]:
    """The forecasts for the test windows of each site: one row per step, one trace per forecast."""
    rules, data, contract = trial.rules.forecasts, trial.samples.source, pack.manifest.contract
    assert rules is not None, "rules about forecasts"
    usual = (contract.step or 1.0) / (data.step or 1.0)
    scale = SECONDS.get(data.step_unit, usual)
    for name, params, index in sites:
        answers, last = trial.rules.forecast_answers(
            trial.problem.model, params, trial.inputs, torch.from_numpy(index)
        )
        steps = rules.steps
        values = trial.samples.scaled.quantities(torch.cat([last, answers], dim=1).numpy())
        values = values.reshape(len(index), steps + 1, -1)
        start = np.arange(len(index)) * float(steps) if data.time is None else data.time[index]
        time = ((start[:, None] + data.step * np.arange(steps)) * scale).ravel()
        columns: dict[str, Any] = {TRACE: np.repeat(np.arange(1, len(index) + 1), steps).tolist()}
        columns[TRACE] = [str(one) for one in columns[TRACE]]
        if contract.time is not None:
            columns[contract.time] = time
            if data.since_1970:
                moments = np.round(time).astype("datetime64[s]").astype(str)
                columns[contract.time] = [one.replace("T", " ") for one in moments.tolist()]
        for channel, target in enumerate(data.targets):
            for place, column in enumerate(contract.columns):
                if target in (column.source, column.name.removesuffix(HISTORY)):
                    columns[column.source] = values[:, 1:, channel].ravel()
                    if place in earlier:
                        columns[earlier[place].source] = values[:, :-1, channel].ravel()
        yield name, Table.of(data.name, columns), partial(_step_name, data, index, steps)


def _step_name(data: DataSet, index: Index, steps: int, at: int) -> str:
    """The time of a step, or its number: ``2026-03-01 04:00 UTC (step 3 of the forecast)``."""
    window, step = divmod(at, steps)
    moment = ""
    if data.time is not None:
        moment = moment_text(data, float(data.time[index[window]]) + step * data.step)
    if moment:
        return f"{moment} (step {step + 1} of the forecast)"
    return f"forecast {window + 1}, step {step + 1}"
