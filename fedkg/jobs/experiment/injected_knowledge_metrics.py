"""Injected knowledge on test samples: how good it is alone, and as a mask on a model's answers.

The masked control applies the ranges to the answers of a model. For a model that was trained
without knowledge it shows how much of a gain comes from the ranges at the time of use (Fan et al.
2022, section 6, give ranges that contain the true label of every test sample).

Letters: N test samples, H outputs, S sums of a figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.data.sets import StandardisedDataSet, Task
from fedkg.federated.model.constrained_outputs import CERTAIN, EXCLUDED
from fedkg.federated.model.knowledge_bounded_models import UNKNOWN
from fedkg.jobs.experiment.knowledge_feature_columns import ROUNDING, ColumnForm
from fedkg.jobs.experiment.task_metrics import figure_sums, figures_of
from fedkg.jobs.folder import Row

COUNTS = 4
"""Counts before the sums of figures: samples, violations, predictions, labels in their range."""


def knowledge_sums(
    scaled: StandardisedDataSet,
    form: ColumnForm,
    columns: NDArray[np.float64],
    answers: Tensor,
    y: Tensor,
    threshold: float,
) -> Tensor:
    """The sums that determine the figures of knowledge, float64 [4 + 3 S].

    After the counts come the `figure_sums` of the model, of the predictions alone on the samples
    with one, and of the model's answers within the ranges.

    Args:
        columns: the knowledge about the N samples.
        answers: the model's outputs [N, H].
        y: the targets [N] or [N, H].
    """
    columns = columns[:, : form.width]
    if not len(answers):
        none = figure_sums(scaled, answers, y, threshold)
        return torch.cat([torch.zeros(COUNTS, dtype=torch.float64), none, none, none])
    predicted, has_prediction = _predictions(form, columns, answers)
    masked, violated = _mask(form, columns, answers)
    contained = ~form.excludes(columns, y.numpy())
    counts = [len(answers), violated, int(has_prediction.sum()), int(contained.sum())]
    return torch.cat(
        [
            torch.tensor(counts, dtype=torch.float64),
            figure_sums(scaled, answers, y, threshold),
            figure_sums(scaled, predicted[has_prediction], y[has_prediction], threshold),
            figure_sums(scaled, masked, y, threshold),
        ]
    )


def _predictions(
    form: ColumnForm, columns: NDArray[np.float64], answers: Tensor
) -> tuple[Tensor, Tensor]:
    """The predictions of the knowledge as outputs [N, H], and whether there is one, bool [N]."""
    if form.outputs is None:
        place = torch.from_numpy(columns[:, -1]).round().long() - 1
        hot = torch.nn.functional.one_hot(place.clamp(min=0), len(form.classes))
        return torch.where(hot > 0, 0.0, EXCLUDED).to(answers.dtype), place >= 0
    number = torch.from_numpy(columns[:, 2::3].copy())
    has_prediction = (number.abs() < UNKNOWN).all(dim=1)
    if form.chance:
        number = torch.logit(number.clamp(0.0, 1.0)).clamp(-CERTAIN, CERTAIN)
    steps = answers.shape[1] // number.shape[1]
    return number.repeat(1, steps).to(answers.dtype), has_prediction


def _mask(form: ColumnForm, columns: NDArray[np.float64], answers: Tensor) -> tuple[Tensor, int]:
    """The answers within the ranges, and how many samples have an answer outside."""
    sound = torch.from_numpy(~form.contradicts_itself(columns))[:, None]
    if form.outputs is None:
        allowed = (torch.from_numpy(columns[:, :-1]) > 0.5) | ~sound
        inside = allowed.gather(1, answers.argmax(1, keepdim=True))
        return torch.where(allowed, answers, EXCLUDED), int((~inside).sum())
    low, high = (torch.from_numpy(columns[:, end::3].copy()) for end in (0, 1))
    if form.chance:
        low, high = (
            torch.logit(end.clamp(0.0, 1.0)).clamp(-CERTAIN, CERTAIN) for end in (low, high)
        )
    steps = answers.shape[1] // low.shape[1]
    low, high = (end.repeat(1, steps).to(answers.dtype) for end in (low, high))
    clamped = torch.minimum(torch.maximum(answers, low), high)
    masked = torch.where(sound, clamped, answers)
    away = (masked - answers).abs() > ROUNDING * answers.abs().clamp(min=1.0)
    return masked, int(away.any(dim=1).sum())


def knowledge_rows(
    trial: str, names: Sequence[str], each: Sequence[Tensor], task: Task, measure: str
) -> list[Row]:
    """Rows of `knowledge.csv`: of each site, and of all test samples together (`client` empty).

    Args:
        names: the sites.
        each: the `knowledge_sums` of each site; none without knowledge.
        measure: the figure that decides comparisons.
    """
    if not each:
        return []
    together = (("", torch.stack(list(each)).sum(0)), *zip(names, each, strict=True))
    return [_row(trial, name, sums, task, measure) for name, sums in together]


def _row(trial: str, client: str, sums: Tensor, task: Task, measure: str) -> Row:
    samples, violated, predicted, contained = sums[:COUNTS].tolist()
    parts = sums[COUNTS:].reshape(3, -1)
    model, alone, masked = (
        figures_of(task, part, math.nan).get(measure, math.nan) for part in parts
    )
    return {
        "trial": trial,
        "client": client,
        "test_rows": int(samples),
        "figure": measure,
        "model": model,
        "violation": violated / samples if samples else None,
        "predicted": int(predicted),
        "knowledge": alone if predicted else None,
        "contained": contained / samples if samples else None,
        "masked": masked,
    }
