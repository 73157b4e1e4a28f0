"""Figures of a task on held-out samples. Letters: N samples, H outputs, K classes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fedkg.data import Scaling
from fedkg.data.sets import StandardisedDataSet, Task
from fedkg.federated import BinaryCrossEntropy, CrossEntropy
from fedkg.federated.client.task_losses import CoxLoss, KnownSquaredError, Loss
from fedkg.federated.metrics import Detection, concordant_pairs, detection
from fedkg.jobs.comparison_metric import f1_of_constant_alarm
from fedkg.jobs.experiment.model_inputs import ModelInputs
from fedkg.jobs.experiment.sample_preparation import Index
from fedkg.jobs.experiment.site_sample_statistics import TEST, SiteSummary
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
        case "survival":
            return CoxLoss()
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


def predict_at(
    model: Model, params: Params, inputs: ModelInputs, index: Index, *, exact: bool = False
) -> Tensor:
    """Outputs of a model for the samples at these positions, [N, H]; `exact`: in float64."""
    rows_at = inputs.exact_rows if exact else inputs.rows_at
    if exact:
        params = {name: value.double() for name, value in params.items()}
    return torch.cat(
        [
            predict(model, params, rows_at(index[start : start + PREDICTION_BATCH]))
            for start in range(0, len(index), PREDICTION_BATCH)
        ]
    )


def compute_figures(
    scaled: StandardisedDataSet, answers: Tensor, y: Tensor, threshold: float
) -> dict[str, float]:
    """The figures of outputs [N, H] for targets [N] or [N, H], by column of `rounds.csv`.

    Empty without samples.
    """
    return figures_of(scaled.source.task, figure_sums(scaled, answers, y, threshold), threshold)


def figure_count(task: Task) -> int:
    """The number of `figure_sums`."""
    return {"detection": 5, "survival": 4}.get(task, 3)


def figure_sums(
    scaled: StandardisedDataSet, answers: Tensor, y: Tensor, threshold: float
) -> Tensor:
    """The sums that determine all figures, float64; sites send them instead of answers.

    For detection [5]: true and false positives, false and true negatives, and the cross entropy.
    For classes [3]: samples, right answers, cross entropy. For numbers [3]: known targets, and
    squared errors in standard deviations and in source units. For survival [4]: samples,
    comparable and concordant pairs, Cox loss; only samples of the same site form pairs and risk
    sets.
    """
    task = scaled.source.task
    if not len(answers):
        return torch.zeros(figure_count(task), dtype=torch.float64)
    match task:
        case "detection":
            return detection_sums(answers.squeeze(-1), y, threshold)
        case "classes":
            loss = float(F.cross_entropy(answers.double(), y, reduction="sum"))
            right = int((answers.argmax(-1) == y).sum())
            return torch.tensor([len(answers), right, loss], dtype=torch.float64)
        case "survival":
            risk, target = answers.double().flatten(), y.double()
            loss = float(CoxLoss().value(risk[None, :, None], target[None]).sum())
            pairs = concordant_pairs(risk, *target.T)
            return torch.tensor([len(answers), *pairs, loss], dtype=torch.float64)
        case _:
            return _squared_errors(scaled, answers.double(), y.double().reshape(answers.shape))


def detection_sums(logits: Tensor, targets: Tensor, threshold: float) -> Tensor:
    """The sums of `figure_sums` for logits [N] and targets [N]."""
    found = detection(torch.sigmoid(logits), targets, threshold)
    loss = F.binary_cross_entropy_with_logits(logits.double(), targets.double(), reduction="sum")
    counts = (found.true_positive, found.false_positive, found.false_negative, found.true_negative)
    return torch.tensor([*counts, float(loss)], dtype=torch.float64)


def figures_of(task: Task, sums: Tensor, threshold: float) -> dict[str, float]:
    """The figures by column of `rounds.csv` from the `figure_sums` of all sites; empty without
    samples.
    """
    match task:
        case "detection":
            found, loss = Detection.of(sums[:4].long().tolist()), float(sums[4])
            if not found.samples:
                return {}
            return {
                "f1": found.f1,
                "precision": alarm_precision(found),
                "recall": found.recall,
                "loss": loss / found.samples,
                "threshold": threshold,
            }
        case "classes":
            samples, right, loss = sums.tolist()
            return {"accuracy": right / samples, "loss": loss / samples} if samples else {}
        case "survival":
            samples, comparable, concordant, loss = sums.tolist()
            if not samples:
                return {}
            index = concordant / comparable if comparable else math.nan
            return {"concordance": index, "loss": loss / samples}
        case _:
            known, scaled, units = sums.tolist()
            if not known:
                return {}
            return {"mse": scaled / known, "rmse": math.sqrt(units / known), "loss": scaled / known}


def _squared_errors(scaled: StandardisedDataSet, answers: Tensor, y: Tensor) -> Tensor:
    """Known targets, and squared errors in standard deviations and in source units."""
    assert scaled.outputs is not None, "numbers are scaled"
    away = (answers - y).reshape(-1, len(scaled.outputs.names))
    known = ~torch.isnan(away)
    units = away * torch.as_tensor(scaled.outputs.std, dtype=away.dtype)
    errors = (float(one[known].square().sum()) for one in (away, units))
    return torch.tensor([int(known.sum()), *errors], dtype=torch.float64)


def constant_answer_figure(summary: SiteSummary, outputs: Scaling | None) -> float:
    """The figure of the best constant answer for the test samples; NaN without samples.

    Args:
        outputs: the scaling of numbers; None for labels.
    """
    rows, labels = summary.rows[TEST], summary.labels[TEST]
    if not rows:
        return math.nan
    match summary.task:
        case "detection":
            return f1_of_constant_alarm(int(labels[1]), rows)
        case "classes":
            return float(labels.max() / rows)
        case "survival":
            return 0.5
        case task:
            assert outputs is not None, "numbers are scaled"
            assert summary.tested is not None, "numbers have moments"
            squares, count = summary.tested.squares, float(summary.tested.count.sum())
            if not count:
                return math.nan
            if task == "regression":
                return math.sqrt(float(squares.sum()) / count)
            return float((squares / outputs.std**2).sum()) / count


def mean_figures(each: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every figure over the models with a value."""
    names = [name for name in each[0] if all(name in one for one in each)] if each else []
    known = {name: [one[name] for one in each if not math.isnan(one[name])] for name in names}
    return {name: sum(own) / len(own) if own else math.nan for name, own in known.items()}


def alarm_precision(found: Detection) -> float:
    """The share of alarms that are right; NaN without alarms."""
    return found.precision if found.true_positive + found.false_positive else math.nan
