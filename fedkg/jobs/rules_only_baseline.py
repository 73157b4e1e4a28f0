"""The control "rules alone": what the rules answer without any learning.

A rule about an output often determines the answer of a row. Where the rules leave the answer open,
the control gives the majority class or the site's mean of the training data, or repeats the last
value in a forecast. A training that does not beat this control has learned nothing beyond the
rules.

Letters: N test rows, F features, K classes, H outputs, T steps and V channels of a forecast.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from fedkg.constraints import ConstraintModule
from fedkg.constraints.binding.model_run_inputs import Keys
from fedkg.constraints.module import ConstraintWarning
from fedkg.data.sets import Task
from fedkg.errors import SetError
from fedkg.federated.temporal.expert_rules import expert_rules
from fedkg.federated.temporal.forecast_rules import ForecastRules
from fedkg.federated.temporal.hard_rule_forecasts import forecast_teacher
from fedkg.jobs.comparison_metric import MEASURES, Measure
from fedkg.jobs.experiment.task_metrics import figures_of
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section

SURE = 50.0
"""Logit of a certain answer; its probability is 0 or 1 in float64 up to rounding."""


MAJORITY, MEAN, PERSISTENCE, EQUAL = (
    "the most frequent answer",
    "the site's mean",
    "the last observed value",
    "an equal risk",
)
"""Answers without rules: for classes, numbers, forecasts and survival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesAlone:
    """The control on the test rows.

    Attributes:
        figure: value of the run's measure.
        determined: rows for which the rules leave one answer, or move the answer without rules.
        rows: N.
        elsewhere: what the control answers where the rules leave the answer open.
    """

    figure: float
    determined: int
    rows: int
    elsewhere: str = MAJORITY


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlSums:
    """The control on the test rows of some sites.

    Attributes:
        sums: the `figure_sums` of its answers, float64.
        determined: rows as in `RulesAlone`.
        rows: number of rows.
    """

    sums: Tensor
    determined: int
    rows: int


def merge_controls(task: Task, each: Sequence[ControlSums]) -> RulesAlone:
    """The control on the test rows of all sites."""
    figures = figures_of(task, torch.stack([one.sums for one in each]).sum(0), 0.5)
    return RulesAlone(
        figure=figures.get(MEASURES[task].name, math.nan),
        determined=sum(one.determined for one in each),
        rows=sum(one.rows for one in each),
        elsewhere={"regression": MEAN, "forecast": PERSISTENCE, "survival": EQUAL}.get(
            task, MAJORITY
        ),
    )


def determined_answers(
    module: ConstraintModule, x: Tensor, candidates: Tensor, majority: int, *, keys: Keys
) -> tuple[Tensor, Tensor]:
    """For each row the candidate that violates rules of the least total weight, and whether the
    rules leave one candidate; the majority class where it is among the best.

    Args:
        module: the rules over rows x [N, F] and the model's raw outputs [N, H].
        candidates: possible outputs [K, H].
        majority: the candidate that wins ties.

    Returns:
        int64 [N] and bool [N].
    """
    weight = torch.cat([bank.weight for bank in module.banks]).double()
    runs, costs = len(module.plan.runs), []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstraintWarning)
        for candidate in candidates:
            answers = candidate.to(x).expand(runs, len(x), -1)
            report = module(x, answers if runs > 1 else answers[0], keys=keys)
            costs.append(report.violated.double() @ weight)
    cost = torch.stack(costs, dim=1)
    least = cost.min(dim=1).values
    best = cost == least[:, None]
    chosen = torch.where(best[:, majority], majority, cost.argmin(dim=1))
    return chosen, best.sum(dim=1) == 1


def certain_classes(classes: int) -> Tensor:
    """Scores [K, K] that are sure of one class each, float64."""
    return SURE * (2 * torch.eye(classes, dtype=torch.float64) - 1)


def detection_control(
    module: ConstraintModule, x: Tensor, *, positives_prevail: bool, keys: Keys
) -> tuple[Tensor, Tensor]:
    """The control for a 0/1 label on rows x [N, F]: logits [N, 1], and bool [N], whether the rules
    determine the answer.

    Args:
        module: its output is a logit.
        positives_prevail: whether most training rows are positive.
    """
    candidates = torch.tensor([[-SURE], [SURE]], dtype=torch.float64)
    chosen, known = determined_answers(module, x, candidates, int(positives_prevail), keys=keys)
    return candidates[chosen], known


def classes_control(
    module: ConstraintModule, x: Tensor, *, classes: int, majority: int, keys: Keys
) -> tuple[Tensor, Tensor]:
    """The control for K classes on rows x [N, F]: scores [N, K], and bool [N], whether the rules
    determine the answer.
    """
    candidates = certain_classes(classes)
    chosen, known = determined_answers(module, x, candidates, majority, keys=keys)
    return candidates[chosen], known


def regression_control(
    module: ConstraintModule, x: Tensor, *, mean: Tensor, keys: Keys
) -> tuple[Tensor, Tensor]:
    """The control for a number on rows x [N, F]: the answers [N, 1] nearest to the mean of each
    row's site that satisfy the linear rules of the row, and bool [N], whether they move it.

    Args:
        mean: mean of the training targets at each row's site, [N], in the scale of the outputs.
    """
    start = mean.double()[:, None]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstraintWarning)
        moved = module.project(x, start, keys=keys)
    return moved, (moved - start).abs()[:, 0] > 1e-9


def forecast_control(rules: ForecastRules, x: Tensor) -> tuple[Tensor, Tensor]:
    """The control for forecasts of windows x [N, history, F]: the traces [N, T * V] nearest to the
    last observed value that satisfy all rules which a teacher can enforce (if those contradict each
    other, the hard ones), and bool [N], whether they move it.
    """
    pack, layout = rules.module.pack, rules.module.plan.x
    readable, _ = expert_rules(pack, layout, rules.steps)
    traces = rules.last_values(x).double().unsqueeze(1).repeat(1, rules.steps, 1)
    moved = traces
    for chosen in (readable, tuple(one for one in readable if one.hard)):
        try:
            teacher = forecast_teacher(pack, layout, rules.steps, chosen) if chosen else None
        except SetError:
            continue
        if teacher is None or not teacher.teacher.by_program:
            moved = traces if teacher is None else teacher.nearest(traces)
            break
    return moved.flatten(1), ((moved - traces).abs() > 1e-9).flatten(1).any(1)


def describe_rules_alone(
    control: RulesAlone,
    configs: Sequence[TrialConfig],
    results: Sequence[Mapping[str, Any]],
    measure: Measure,
    *,
    hard: bool,
) -> str:
    """The first sentence of the comparison: rules alone, learning alone, learning with rules.

    Args:
        control: the result of rules alone.
        configs: the trials of the run.
        results: rows of the comparison; `Any`: JSON.
        measure: the measure of the run.
        hard: whether hard rules change the answers of every trial.
    """
    with_rules = {config.algorithm for config in configs if hard or uses_rules(config)}
    parts = [
        (
            f"rules alone {measure.text(control.figure)} (they determine {control.determined:,} of "
            f"{control.rows:,} answers; elsewhere {control.elsewhere})"
        )
    ]
    for name, chosen in (("learning alone", False), ("learning with rules", True)):
        known = [
            row
            for row in results
            if not (row["corrupted"] or row["baseline"])
            and (row["algorithm"] in with_rules) == chosen
            and row[measure.name]["mean"] is not None
        ]
        if known:
            best = max(known, key=lambda row: measure.sign * row[measure.name]["mean"])
            setting = ", ".join(
                f"{key.rpartition('.')[2]} {value}" for key, value in best["setting"].items()
            )
            at = f"{best['title']}, {setting}" if setting else str(best["title"])
            if len(known) > 1:  # a choice by test scores favours the side with more trainings
                at += f", the best of {len(known)} on the test rows"
            parts.append(f"{name} {measure.text(best[measure.name]['mean'])} ({at})")
        else:
            parts.append(f"{name}: not part of this run")
    return f"What knowledge is worth: {'; '.join(parts)}."


def uses_rules(config: TrialConfig) -> bool:
    """Whether a trial's training, weighting or outputs depend on the rules."""
    job, section = config.job, algorithm_section(config.job)
    return bool(
        job.training.penalty
        or job.training.projection
        or job.model.inject is not None
        or section.weighting == "scfa"
        or section.sets is not None
        or section.agents is not None
        or section.grouping.fedstl is not None
    )


def as_json(control: RulesAlone | None) -> dict[str, float | int] | None:
    """The control for `results.json`."""
    return None if control is None else asdict(control)
