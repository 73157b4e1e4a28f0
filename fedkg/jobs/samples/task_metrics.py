"""Figures of a task on held-out samples. Letters: N samples, H outputs, K classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedkg.data.sets import StandardisedDataSet
from fedkg.federated import BinaryCrossEntropy, CrossEntropy
from fedkg.federated.client.task_losses import KnownSquaredError, Loss
from fedkg.federated.metrics import Detection, accuracy, detection
from fedkg.jobs.comparison_metric import MEASURES, f1_of_constant_alarm
from fedkg.jobs.samples.inputs import ModelInputs
from fedkg.jobs.samples.sample_preparation import Index
from fedkg.models import Model, Params, predict

PREDICTION_BATCH = 512
"""Samples per forward pass; a whole test set of images may exceed memory."""


def task_loss(task: str, positive_weight: float) -> Loss:
    """The loss that sites minimise."""
    match task:
        case "classes":
            return CrossEntropy()
        case "detection":
            return BinaryCrossEntropy(pos_weight=positive_weight)
        case _:
            return KnownSquaredError()


def predict_in_batches(model: Model, params: Params, x: Tensor) -> Tensor:
    """Outputs of a model for samples [N, ...], [N, H]."""
    return torch.cat(
        [
            predict(model, params, x[start : start + PREDICTION_BATCH])
            for start in range(0, len(x), PREDICTION_BATCH)
        ]
    )


def predict_at(model: Model, params: Params, inputs: ModelInputs, index: Index) -> Tensor:
    """Outputs of a model for the samples at these positions, [N, H]."""
    return torch.cat(
        [
            predict(model, params, inputs.rows_at(index[start : start + PREDICTION_BATCH]))
            for start in range(0, len(index), PREDICTION_BATCH)
        ]
    )


def compute_figures(
    scaled: StandardisedDataSet, answers: Tensor, y: Tensor, threshold: float
) -> dict[str, float]:
    """The figures of outputs [N, H] for targets [N] or [N, H], by column of `rounds.csv`.

    Empty without samples.
    """
    if not len(answers):
        return {}
    match scaled.source.task:
        case "detection":
            return detection_figures(answers.squeeze(-1), y, threshold)
        case "classes":
            loss = float(F.cross_entropy(answers.double(), y))
            return {"accuracy": accuracy(answers, y), "loss": loss}
        case _:
            return _squared_errors(scaled, answers.double(), y.double().reshape(answers.shape))


def detection_figures(logits: Tensor, targets: Tensor, threshold: float) -> dict[str, float]:
    """F1, precision, recall, cross entropy and threshold for logits [N] and targets [N]."""
    found = detection(torch.sigmoid(logits), targets, threshold)
    loss = float(F.binary_cross_entropy_with_logits(logits.double(), targets.double()))
    return {
        "f1": found.f1,
        "precision": alarm_precision(found),
        "recall": found.recall,
        "loss": loss,
        "threshold": threshold,
    }


def _squared_errors(scaled: StandardisedDataSet, answers: Tensor, y: Tensor) -> dict[str, float]:
    """Errors over known targets.

    Mean square in standard deviations, root mean square in source units.
    """
    assert scaled.outputs is not None, "numbers are scaled"
    away = (answers - y).reshape(-1, len(scaled.outputs.names))
    known = ~torch.isnan(away)
    if not bool(known.any()):
        return {}
    mse = float(away[known].square().mean())
    units = away * torch.as_tensor(scaled.outputs.std, dtype=away.dtype)
    return {"mse": mse, "rmse": math.sqrt(float(units[known].square().mean())), "loss": mse}


def constant_answer_figure(scaled: StandardisedDataSet, rows: Index) -> float:
    """The figure of the best constant answer for the samples at `rows`; NaN without samples."""
    y = scaled.y[rows]
    if not len(y):
        return math.nan
    match scaled.source.task:
        case "detection":
            return f1_of_constant_alarm(int((y > 0.5).sum()), len(y))
        case "classes":
            return float(np.bincount(y.astype(np.int64)).max() / len(y))
        case task:
            assert scaled.outputs is not None, "numbers are scaled"
            numbers = torch.from_numpy(y).double().reshape(-1, len(scaled.outputs.names))
            return _squared_errors(scaled, numbers.nanmean(0).expand(numbers.shape), numbers).get(
                MEASURES[task].name, math.nan
            )


def mean_figures(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every figure over the models with a value."""
    names = [name for name in each[0] if all(name in one for one in each)] if each else []
    known = {name: [one[name] for one in each if not math.isnan(one[name])] for name in names}
    return {name: sum(own) / len(own) if own else math.nan for name, own in known.items()}


def alarm_precision(found: Detection) -> float:
    """The share of alarms that are right; NaN without alarms."""
    return found.precision if found.true_positive + found.false_positive else math.nan
