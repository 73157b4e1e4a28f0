"""A model with knowledge built into its answers: ``fedkg.inject(model, prediction=..., range=..., trust=...)``.

Letters: B batch, F features, K classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from fedkg._internal.messages import describe_value
from fedkg.errors import KnowledgeError, LayoutError
from fedkg.knowledge.bins import bin_centres
from fedkg.knowledge.clause_conditions import Float
from fedkg.knowledge.injection_formulas import (
    NOTHING,
    injected_log_probability,
    injected_probabilities,
    most_probable_class,
)
from fedkg.knowledge.reconciliation import (
    Policy,
    SampleKnowledge,
    check_labels,
    check_policy,
    check_ruled_out,
    reconcile,
    ruled_out,
    with_class,
)
from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge

Range = RangeKnowledge | Callable[[Tensor], Tensor]
Prediction = PredictionKnowledge | Callable[[Tensor], Tensor]


class Injected(nn.Module):
    """A model whose answers are probabilities that obey its knowledge (Fan et al. 2022, definition 5.1).

    The model's parameters are all there is to train: knowledge and trust are no parameters and stand in no ``state_dict``, so that an
    upload of weights tells nothing of them. Made by `inject`.
    """

    def __init__(
        self, model: nn.Module, *, prediction: Prediction | None, range: Range | None, trust: float
    ) -> None:
        super().__init__()
        self.model = model
        self._range, self._prediction = (
            (range,),
            (prediction,),
        )  # in tuples, so that no knowledge enters the state
        self.trust = trust

    def known(self, x: Tensor, *, policy: Policy = "error", **places: Any) -> SampleKnowledge:
        """What knowledge says of a batch: once for a data set, then ``injected(x[rows], known=known[rows])``.

        Args:
            x: features [B, F]. policy: what becomes of knowledge that contradicts itself, as of `reconcile`, which settles labels too.
            places: `keys` and `previous`, as of `RangeKnowledge`.

        Raises:
            KnowledgeError: a range without a class, a prediction outside of its range, under the policy "error".
            LayoutError: knowledge that does not fit the batch.
        """
        [ranging], [predicting] = self._range, self._prediction
        check_features(x)
        shape = tuple(x.shape[:-1])
        allowed = None if ranging is None else ranging(x, **places)
        predicted = (
            torch.full(shape, NOTHING, device=x.device)
            if predicting is None
            else predicting(x, **places)
        )
        if allowed is None:
            count = (
                predicting.count
                if isinstance(predicting, PredictionKnowledge)
                else int(self.model(x[:1]).shape[-1])
            )
            allowed = torch.ones((*shape, count), dtype=torch.bool, device=x.device)
        _check_fit(allowed, predicted, shape)
        if bool(((predicted < NOTHING) | (predicted >= allowed.shape[-1])).any()):
            expected = f"0 .. {allowed.shape[-1] - 1}, or {NOTHING} for nothing"
            raise LayoutError(
                "a prediction is none of the classes",
                expected=expected,
                received=str(int(predicted.max())),
            )
        ranges = _names(ranging)
        names = tuple(dict.fromkeys((*ranges, *_names(predicting))))
        return reconcile(
            SampleKnowledge(allowed=allowed, predicted=predicted, names=names, ranges=ranges),
            policy=policy,
        ).known

    @override
    def forward(self, x: Tensor, *, known: SampleKnowledge | None = None) -> Tensor:
        """The probabilities of the classes, [B, K]: 0 outside of the range, never below the trust for the predicted class.

        In the dtype of the model's logits; under ``torch.autocast`` in float32.

        Raises:
            LayoutError: the model's logits are not those of K classes.
        """
        known = self.known(x) if known is None else known
        return injected_probabilities(
            self._logits(x, known), known.allowed, known.predicted, self.trust
        )

    def loss(
        self,
        x: Tensor,
        label: Tensor,
        *,
        known: SampleKnowledge | None = None,
        policy: Policy = "error",
    ) -> Tensor:
        """The cross entropy of each sample, [B], from int64 labels [B].

        In the dtype of the model's logits; under ``torch.autocast`` in float32, as PyTorch's losses.

        A label that knowledge rules out has probability 0, so that its loss would be infinite, without gradient (specification K3).

        Args:
            policy: what becomes of such a label, and of knowledge that contradicts itself where `known` is not given, as of `reconcile`.
                "error" raises. "drop": the sample costs 0 and teaches nothing. "repair": the label is allowed, for the loss alone.

        Labels are looked at on a processor, and where knowledge is worked out in this very call. On a device with `known` given, in
        `torch.func` transforms over labels and in compiled functions no number is asked for: under "error" the loss of such a label is then
        infinite, and `reconcile` finds it beforehand; the other policies do the same everywhere. With a trust of 1, of which `inject`
        warns, a label that is not the predicted class costs infinitely much under "error" too.

        Raises:
            KnowledgeError: a label that is ruled out, under "error", with the samples and the knowledge.
            LayoutError: the model's logits are not those of K classes; labels that are not one of the K classes for each sample.
            UsageError: a policy that there is not.
        """
        check_policy(policy)
        self._check_numbers(label)
        near = not isinstance(label, Tensor) or label.device.type == "cpu"
        shown = not torch.compiler.is_compiling() and (known is None or near)
        known = self.known(x, policy=policy) if known is None else known
        check_labels(label, known, shown=shown)
        wrong = ruled_out(known, label, self.trust)
        if policy == "error":
            if shown:
                check_ruled_out(wrong, label, known)
        elif self.trust == 1:  # nothing is left to any class but the predicted one
            wrong = wrong | ((known.predicted != NOTHING) & (known.predicted != label))
        allowed, predicted = known.allowed, known.predicted
        if policy == "repair":
            allowed = with_class(allowed, label, wrong)
            predicted = torch.where(wrong, NOTHING, predicted) if self.trust == 1 else predicted
        found = -injected_log_probability(
            self._logits(x, known), allowed, predicted, self.trust, label
        )
        return torch.where(wrong, 0, found) if policy == "drop" else found

    def decide(self, x: Tensor, *, known: SampleKnowledge | None = None) -> Tensor:
        """The most probable class, int64 [B]; ties go to the predicted one."""
        known = self.known(x) if known is None else known
        return most_probable_class(self(x, known=known), known.predicted)

    def number(
        self, x: Tensor, *, known: SampleKnowledge | None = None, mean: bool = False
    ) -> Tensor:
        """The number that the answer's bins stand for, [B] in the output's unit: the most probable bin's centre, or the mean of all.

        Raises:
            KnowledgeError: the knowledge is about classes.
        """
        ends = self._ends()
        if ends is None:
            raise KnowledgeError(
                "the answer is a class and stands for no number", help="model.decide(x)"
            )
        known = self.known(x) if known is None else known
        middle = torch.as_tensor(bin_centres(ends), dtype=x.dtype, device=x.device)
        return self(x, known=known) @ middle if mean else middle[self.decide(x, known=known)]

    def _ends(self) -> Float | None:
        """The ends of the bins that the classes are; None where they are no bins."""
        parts = (*self._range, *self._prediction)
        return next(
            (
                part.ends
                for part in parts
                if isinstance(part, (RangeKnowledge, PredictionKnowledge))
            ),
            None,
        )

    def _check_numbers(self, label: Tensor) -> None:
        """Raise LayoutError for numbers where the bins are asked for in which they lie."""
        ends = self._ends()
        if ends is not None and not (isinstance(label, Tensor) and label.dtype == torch.int64):
            raise LayoutError(
                f"the labels are the bins of a number, counted from 0 to {len(ends) - 2}",
                expected="int64, the bin of each sample",
                received=describe_value(label),
                help="of float64 numbers: torch.from_numpy(fedkg.knowledge.bin_of(numbers, knowledge.ends)).long()",
            )

    def _logits(self, x: Tensor, known: SampleKnowledge) -> Tensor:
        check_features(x)
        if len(known.allowed) != len(x):
            raise LayoutError(
                "what is known is that of another batch",
                expected=f"{len(x)} rows",
                received=f"{len(known.allowed)}",
                help="known=model.known(x)",
            )
        logits: Tensor = self.model(x)
        if logits.shape != known.allowed.shape:
            raise LayoutError(
                "the model's answers are not one logit for each class",
                expected=str(list(known.allowed.shape)),
                received=describe_value(logits),
            )
        return logits


def inject(
    model: nn.Module,
    prediction: Prediction | None = None,
    range: Range | None = None,
    trust: float | None = None,
) -> Injected:
    """Build knowledge into a model.

    Args:
        model: any module from features [B, F] to logits [B, K]; no softmax inside.
        prediction: what predicts a class: `PredictionKnowledge`, or a function from features to int64 [B], -1 for nothing.
        range: what allows classes: `RangeKnowledge`, or a function from features to bool [B, K].
        trust: how far a prediction is followed, in 0 .. 1; above 0.5 it is always the answer; nothing means 0.3. Warned of where nothing
            predicts.

    Raises:
        KnowledgeError: a trust outside of 0 .. 1, neither kind of knowledge, one in place of the other, or the two about different classes.
    """
    if not callable(model):
        raise KnowledgeError(
            "knowledge is built into a model",
            expected="a torch.nn.Module",
            received=type(model).__name__,
        )
    given, trust = trust, 0.3 if trust is None else trust
    if not 0 <= trust <= 1:
        raise KnowledgeError("the trust in predictions is a number in 0 .. 1", received=str(trust))
    if prediction is None and range is None:
        raise KnowledgeError("there is nothing to inject", expected="prediction=, range= or both")
    if isinstance(prediction, RangeKnowledge) or isinstance(range, PredictionKnowledge):
        raise KnowledgeError(
            "prediction and range are exchanged, or one stands in place of the other",
            expected="prediction=PredictionKnowledge(...), range=RangeKnowledge(...)",
            received=", ".join(
                f"{name}={type(part).__name__}"
                for name, part in (("prediction", prediction), ("range", range))
                if part
            ),
            help="fedkg.inject(model, prediction=..., range=..., trust=...)",
        )
    if given and prediction is None:
        warnings.warn(
            f"a trust of {trust:g} counts for nothing: there is no prediction= to trust",
            stacklevel=2,
        )
    if trust == 1 and prediction is not None:
        warnings.warn(
            "with a trust of 1 the model learns nothing where something is predicted, and any other label costs infinitely much",
            stacklevel=2,
        )
    if isinstance(prediction, PredictionKnowledge) and isinstance(range, RangeKnowledge):
        predicts, allows = (part.classes or part.count for part in (prediction, range))
        if predicts != allows:
            raise KnowledgeError(
                "prediction and range are about different classes",
                received=f"{predicts} and {allows}",
            )
    return Injected(model, prediction=prediction, range=range, trust=trust)


def _names(part: Range | Prediction | None) -> tuple[str, ...]:
    """What says something, for messages."""
    if isinstance(part, (RangeKnowledge, PredictionKnowledge)):
        return tuple(model.name for model in part.models)
    return () if part is None else (getattr(part, "__name__", type(part).__name__),)


def check_features(x: object) -> None:
    """Raise LayoutError where features are no tensor."""
    if not isinstance(x, Tensor):
        raise LayoutError(
            "x is no tensor",
            expected="features [B, F]",
            received=describe_value(x),
            help="model(torch.as_tensor(x))",
        )


def _check_fit(allowed: Tensor, predicted: Tensor, shape: tuple[int, ...]) -> None:
    """Raise LayoutError unless a range is bool [..., K] and predictions are int64 [...], of a batch of this shape."""
    exchanged = "prediction= predicts classes, range= allows them: are they exchanged?"
    if (
        not isinstance(allowed, Tensor)
        or allowed.dtype != torch.bool
        or allowed.shape[:-1] != shape
    ):
        expected = (
            f"bool [{', '.join(map(str, shape))}, K], whether each of the K classes is allowed"
        )
        swapped = isinstance(allowed, Tensor) and allowed.shape == shape
        raise LayoutError(
            "the range does not fit the batch",
            expected=expected,
            received=describe_value(allowed),
            help=exchanged if swapped else "a bool tensor",
        )
    if (
        not isinstance(predicted, Tensor)
        or predicted.dtype != torch.int64
        or predicted.shape != shape
    ):
        swapped = isinstance(predicted, Tensor) and predicted.dtype == torch.bool
        raise LayoutError(
            "the predictions do not fit the batch",
            expected=f"int64 {list(shape)}, the position of the predicted class, {NOTHING} for none",
            received=describe_value(predicted),
            help=exchanged if swapped else "predicted.long(), of one class for each sample",
        )
