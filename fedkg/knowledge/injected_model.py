"""A model with knowledge built into its outputs: ``fedkg.inject(model, prediction=..., range=...,
trust=...)``.

Letters: B batch, F features, K classes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from fedkg._internal.torch_compat import being_traced
from fedkg._internal.value_description import describe_value
from fedkg.constraints.binding.layout import InputLayout
from fedkg.errors import KnowledgeError, LayoutError
from fedkg.knowledge.clause_conditions import Float
from fedkg.knowledge.contradiction_resolution import (
    Policy,
    SampleKnowledge,
    check_labels,
    check_policy,
    check_ruled_out,
    reconcile,
    ruled_out,
    with_class,
)
from fedkg.knowledge.injection_formulas import (
    NOTHING,
    injected_log_probability,
    injected_probabilities,
    most_probable_class,
)
from fedkg.knowledge.target_bins import bin_centres
from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge

Range = RangeKnowledge | Callable[[Tensor], Tensor]
Prediction = PredictionKnowledge | Callable[[Tensor], Tensor]


class Injected(nn.Module):
    """A model with output probabilities that obey its knowledge (Fan et al. 2022, definition 5.1).
    Made by `inject`.

    Only the model's parameters are trained: knowledge and trust are neither parameters nor part of
    the ``state_dict``, so uploaded weights reveal nothing about them.
    """

    def __init__(
        self, model: nn.Module, *, prediction: Prediction | None, range: Range | None, trust: float
    ) -> None:
        super().__init__()
        self.model = model
        self._range, self._prediction = (
            (range,),
            (prediction,),
        )  # tuples keep the knowledge out of `state_dict`
        self.trust = trust

    @property
    def parts(self) -> tuple[Range | Prediction, ...]:
        """The injected range and prediction."""
        return tuple(part for part in (*self._range, *self._prediction) if part is not None)

    def with_layout(self, x: InputLayout) -> Injected:
        """The same model with knowledge of a pack that reads batches of another layout."""
        [ranging], [predicting] = self._range, self._prediction
        if isinstance(ranging, RangeKnowledge):
            ranging = ranging.with_layout(x)
        if isinstance(predicting, PredictionKnowledge):
            predicting = predicting.with_layout(x)
        return Injected(self.model, prediction=predicting, range=ranging, trust=self.trust)

    def knowledge(self, x: Tensor, *, policy: Policy = "error", **places: Any) -> SampleKnowledge:
        """Evaluate the knowledge on a batch: once for a data set, then ``injected(x[rows],
        knowledge=knowledge[rows])``.

        Args:
            x: features [B, F].
            policy: treatment of knowledge that contradicts itself, as in `reconcile`, which also
                handles labels.
            places: `keys` and `previous`, as in `RangeKnowledge`.

        Raises:
            KnowledgeError: a range without a class, or a prediction outside its range, under the
                policy "error".
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
        if being_traced():
            # an exported graph shows no numbers: contradicting knowledge is not used on its row
            allowed = allowed | ~allowed.any(-1, keepdim=True)
            inside = allowed.gather(-1, predicted.clamp(min=0).unsqueeze(-1)).squeeze(-1)
            return SampleKnowledge(
                allowed=allowed, predicted=torch.where(inside, predicted, NOTHING)
            )
        if bool(((predicted < NOTHING) | (predicted >= allowed.shape[-1])).any()):
            expected = f"0 .. {allowed.shape[-1] - 1}, or {NOTHING} for nothing"
            raise LayoutError(
                "the knowledge predicts a number that is not the position of a class",
                expected=expected,
                received=f"{int(predicted.min())} .. {int(predicted.max())}",
            )
        ranges = _names(ranging)
        names = tuple(dict.fromkeys((*ranges, *_names(predicting))))
        return reconcile(
            SampleKnowledge(allowed=allowed, predicted=predicted, names=names, ranges=ranges),
            policy=policy,
        ).knowledge

    @override
    def forward(self, x: Tensor, *, knowledge: SampleKnowledge | None = None) -> Tensor:
        """The probabilities of the classes, [B, K]: 0 outside the range, at least the trust for the
        predicted class.

        In the dtype of the model's logits; under ``torch.autocast`` in float32.

        Raises:
            LayoutError: the model's logits are not those of K classes.
        """
        knowledge = self.knowledge(x) if knowledge is None else knowledge
        return injected_probabilities(
            self._logits(x, knowledge), knowledge.allowed, knowledge.predicted, self.trust
        )

    def loss(
        self,
        x: Tensor,
        label: Tensor,
        *,
        knowledge: SampleKnowledge | None = None,
        policy: Policy = "error",
    ) -> Tensor:
        """The cross entropy of each sample, [B], from int64 labels [B].

        In the dtype of the model's logits; under ``torch.autocast`` in float32, as for PyTorch's
        losses. A label that knowledge rules out has probability 0, so its loss would be infinite
        and without a gradient (specification K3).

        Args:
            policy: treatment of such a label, and of knowledge that contradicts itself if
                `knowledge` is missing, as in `reconcile`. "error" raises. "drop": the sample has
                loss 0 and no gradient. "repair": the loss treats the label as allowed.

        Labels are checked on a CPU, and if the knowledge is evaluated in this call. On a device
        with `knowledge`, in `torch.func` transforms over labels and in compiled functions, fedkg
        reads no numbers: under "error" the loss of such a label is then infinite, and `reconcile`
        finds it before training; the other policies work the same everywhere. With a trust of 1,
        which `inject` warns about, any label except the predicted class has infinite loss under
        "error" too.

        Raises:
            KnowledgeError: a label that is ruled out, under "error", with the samples and the
                knowledge.
            LayoutError: the model's logits are not those of K classes; labels that are not one of
                the K classes for each sample.
            UsageError: an unknown policy.
        """
        check_policy(policy)
        self._check_numbers(label)
        near = not isinstance(label, Tensor) or label.device.type == "cpu"
        shown = not torch.compiler.is_compiling() and (knowledge is None or near)
        knowledge = self.knowledge(x, policy=policy) if knowledge is None else knowledge
        check_labels(label, knowledge, shown=shown)
        wrong = ruled_out(knowledge, label, self.trust)
        if policy == "error":
            if shown:
                check_ruled_out(wrong, label, knowledge)
        elif self.trust == 1:  # the probability of every other class is 0
            wrong = wrong | ((knowledge.predicted != NOTHING) & (knowledge.predicted != label))
        allowed, predicted = knowledge.allowed, knowledge.predicted
        if policy == "repair":
            allowed = with_class(allowed, label, wrong)
            predicted = torch.where(wrong, NOTHING, predicted) if self.trust == 1 else predicted
        found = -injected_log_probability(
            self._logits(x, knowledge), allowed, predicted, self.trust, label
        )
        return torch.where(wrong, 0, found) if policy == "drop" else found

    def decide(self, x: Tensor, *, knowledge: SampleKnowledge | None = None) -> Tensor:
        """The most probable class, int64 [B]; the predicted class wins a tie."""
        knowledge = self.knowledge(x) if knowledge is None else knowledge
        return most_probable_class(self(x, knowledge=knowledge), knowledge.predicted)

    def number(
        self, x: Tensor, *, knowledge: SampleKnowledge | None = None, mean: bool = False
    ) -> Tensor:
        """The number of the output's bins, [B] in the output's unit: the most probable bin's
        centre, or the mean.

        Raises:
            KnowledgeError: the knowledge is about classes.
        """
        ends = self._ends()
        if ends is None:
            raise KnowledgeError(
                "the output is a class, not a number",
                help="use model.decide(x), which returns the class",
            )
        knowledge = self.knowledge(x) if knowledge is None else knowledge
        middle = torch.as_tensor(bin_centres(ends), dtype=x.dtype, device=x.device)
        return (
            self(x, knowledge=knowledge) @ middle
            if mean
            else middle[self.decide(x, knowledge=knowledge)]
        )

    def _ends(self) -> Float | None:
        """The edges of the bins, if the classes are bins; otherwise None."""
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
        """Raise LayoutError for numbers instead of their bins."""
        ends = self._ends()
        if ends is not None and not (isinstance(label, Tensor) and label.dtype == torch.int64):
            raise LayoutError(
                f"labels must be the bins of the numbers, counted from 0 to {len(ends) - 2}",
                expected="int64, the bin of each sample",
                received=describe_value(label),
                help="torch.from_numpy(fedkg.knowledge.bin_of(numbers, ends)).long(), with float64 "
                "`numbers` and the `ends` of the RangeKnowledge or PredictionKnowledge",
            )

    def _logits(self, x: Tensor, knowledge: SampleKnowledge) -> Tensor:
        check_features(x)
        if knowledge.allowed.shape[0] != x.shape[0]:
            raise LayoutError(
                "`knowledge` belongs to another batch",
                expected=f"{len(x)} rows",
                received=f"{len(knowledge.allowed)} rows",
                help="compute the knowledge for this batch: knowledge=model.knowledge(x)",
            )
        logits = self.model(x)
        if not isinstance(logits, Tensor) or logits.shape != knowledge.allowed.shape:
            raise LayoutError(
                "the model must return one logit for each class",
                expected=f"a tensor of shape {list(knowledge.allowed.shape)}",
                received=describe_value(logits),
                help="return only the logits from the model's forward, or wrap the model in a "
                "torch.nn.Module that does"
                if isinstance(logits, tuple | list)
                else "end the model with one output for each class of the knowledge",
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
        model: any module from features [B, F] to logits [B, K], without a softmax.
        prediction: predicts a class: `PredictionKnowledge`, or a function from features to int64
            [B], -1 for no prediction.
        range: allows classes: `RangeKnowledge`, or a function from features to bool [B, K].
        trust: weight of predictions, in 0 .. 1; above 0.5 the prediction always wins; default 0.3.
            Warns if there is no prediction.

    Raises:
        KnowledgeError: a trust outside 0 .. 1, neither kind of knowledge, the two kinds exchanged,
            or about different classes.
    """
    if not callable(model):
        raise KnowledgeError(
            "`model` must be a torch.nn.Module or a function", received=type(model).__name__
        )
    given, trust = trust, 0.3 if trust is None else trust
    if not 0 <= trust <= 1:
        raise KnowledgeError("`trust` must be a number from 0 to 1", received=str(trust))
    if prediction is None and range is None:
        raise KnowledgeError(
            "there is nothing to inject",
            expected="prediction=, range= or both",
            help="fedkg.inject(model, prediction=..., range=..., trust=...)",
        )
    if isinstance(prediction, RangeKnowledge) or isinstance(range, PredictionKnowledge):
        raise KnowledgeError(
            "prediction and range are exchanged, or one is passed as the other",
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
            f"a trust of {trust:g} has no effect without prediction=, the knowledge that it weighs",
            stacklevel=2,
        )
    if trust == 1 and prediction is not None:
        warnings.warn(
            "with a trust of 1 the model learns nothing from samples with a "
            "prediction, and a sample with another label has infinite loss; a "
            "trust below 1 avoids both",
            stacklevel=2,
        )
    if isinstance(prediction, PredictionKnowledge) and isinstance(range, RangeKnowledge):
        predicts, allows = (part.classes or part.count for part in (prediction, range))
        if predicts != allows:
            raise KnowledgeError(
                "prediction and range are about different classes",
                expected="the same classes in the same order",
                received=f"{predicts} and {allows}",
            )
    return Injected(model, prediction=prediction, range=range, trust=trust)


def _names(part: Range | Prediction | None) -> tuple[str, ...]:
    """Names of knowledge, for messages."""
    if isinstance(part, (RangeKnowledge, PredictionKnowledge)):
        return tuple(model.name for model in part.models)
    return () if part is None else (getattr(part, "__name__", type(part).__name__),)


def check_features(x: object) -> None:
    """Raise LayoutError unless features are a tensor."""
    if not isinstance(x, Tensor):
        raise LayoutError(
            "x must be a tensor",
            expected="features [B, F]",
            received=describe_value(x),
            help="model(torch.as_tensor(x))",
        )


def _check_fit(allowed: Tensor, predicted: Tensor, shape: tuple[int, ...]) -> None:
    """Raise LayoutError unless a range is bool [..., K] and predictions are int64 [...]."""
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
            help=exchanged if swapped else "pass a bool tensor of this shape",
        )
    if (
        not isinstance(predicted, Tensor)
        or predicted.dtype != torch.int64
        or predicted.shape != shape
    ):
        swapped = isinstance(predicted, Tensor) and predicted.dtype == torch.bool
        raise LayoutError(
            "the predictions do not fit the batch",
            expected=f"int64 {list(shape)}, the position of the predicted class, "
            f"{NOTHING} for none",
            received=describe_value(predicted),
            help=exchanged if swapped else "pass predicted.long(), one class for each sample",
        )
