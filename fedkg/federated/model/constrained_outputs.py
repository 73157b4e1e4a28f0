"""Models with outputs that satisfy rules and knowledge, in training and in use, under any
algorithm.

Letters: C clients of a stack, B batch, F features, H outputs, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg._internal.torch_compat import being_traced
from fedkg.constraints.binding.reads import categories_read
from fedkg.constraints.module import ConstraintModule
from fedkg.errors import JobError, KnowledgeError
from fedkg.knowledge.injection_formulas import NOTHING, range_log_softmax
from fedkg.models.model_protocols import ModelWrapper
from fedkg.models.random_streams import Noise

CERTAIN = 800.0
"""Logit of an answer that rules make certain: its probability is 0 or 1 to the last bit, and its
loss is finite.
"""

EXCLUDED = -10_000.0
"""Logarithm of the probability of a class that is ruled out: 0 to the last bit, and finite."""


Trust = float | Callable[[Tensor], Tensor]
"""The weight of predictions: a number, or a function from rows [B, F] to one for each row, [B]."""


def check_trust(trust: Trust) -> None:
    """Raise KnowledgeError for a number outside 0 .. 1."""
    if not callable(trust) and not 0 <= trust <= 1:
        raise KnowledgeError(
            "`trust` in predictions must be a number from 0 to 1", received=str(trust)
        )


def finite_logits(answers: Tensor) -> Tensor:
    """Answers with `CERTAIN` for an infinite logit; an answer that is not a number stays."""
    return torch.nan_to_num(answers, nan=torch.nan, posinf=CERTAIN, neginf=-CERTAIN)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Projected(ModelWrapper):
    """A model with outputs projected onto the linear rules of each row
    (`ConstraintModule.project`).

    The projection is part of the model: the gradient goes through it, and rules and losses read its
    result. If it moves an answer to a bound, the loss of that answer has no gradient.

    Args:
        model: any model.
        rules: the pack over the layout of the rows and of the model's raw outputs.
        keys: categories that rules read but the layout of the rows lacks; their codes are the last
            columns of every row.

    Raises:
        JobError: rules read another category that the layout lacks.
    """

    rules: ConstraintModule
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        contract = self.rules.pack.manifest.contract
        absent = {
            contract.columns[column].name
            for column, place in self.rules.plan.features.items()
            if place < 0
        }
        missing = sorted(
            {column.name for column in categories_read(self.rules.pack)} & absent - set(self.keys)
        )
        if missing:
            raise JobError(
                "the rules of the projection read categories that the rows do not contain",
                received="without " + ", ".join(missing),
                help="append the codes of each category to the rows, and name it in keys=",
            )

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`."""
        width = x.shape[-1] - len(self.keys)
        output = self.model.apply(params, x[..., :width] if self.keys else x, noise)
        rows = _rows(x, output).flatten(0, 1)
        keys = {
            name: rows[..., width + place].to(torch.int64) for place, name in enumerate(self.keys)
        }
        moved = self.rules.project(rows, output.flatten(0, 1), keys=keys).to(output.dtype)
        return finite_logits(moved).view(output.shape)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Informed(ModelWrapper):
    """A model with knowledge built into its answers (Fan et al. 2022, definition 5.1), as
    `fedkg.inject` builds it into a module.

    The outputs are the logarithms of the answer's probabilities, so `CrossEntropy` is the cross
    entropy of the answer. An excluded class has probability 0 for all parameters. An excluded label
    has a loss of 10,000 and no gradient. Knowledge that contradicts itself on a row (a range
    without a class, a prediction outside the range) is not used for this row.

    Args:
        model: a model with one logit for each of K classes.
        range: a function from rows [B, F] to the allowed classes, bool [B, K]; None: all classes.
            It must accept a row of zeros, because zeros fill up short batches.
        prediction: a function from rows [B, F] to the predicted class, int64 [B], -1 for no
            prediction; None: no predictions. It must accept a row of zeros too.
        trust: weight of predictions, 0 .. 1; or a function from rows [B, F] to the weight of each
            row, [B].

    Raises:
        KnowledgeError: a trust outside 0 .. 1, or neither kind of knowledge.
    """

    range: Callable[[Tensor], Tensor] | None = None
    prediction: Callable[[Tensor], Tensor] | None = None
    trust: Trust = 0.3

    def __post_init__(self) -> None:
        check_trust(self.trust)
        if self.range is None and self.prediction is None:
            raise KnowledgeError(
                "there is no knowledge to inject", expected="prediction=, range= or both"
            )

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`."""
        logits = self.model.apply(params, x, noise)
        clients, batch, classes = logits.shape
        rows = _rows(x, logits).flatten(0, 1)
        allowed = (
            torch.ones_like(logits, dtype=torch.bool)
            if self.range is None
            else self.range(rows).view(clients, batch, classes)
        )
        allowed = allowed | ~allowed.any(-1, keepdim=True)
        own = range_log_softmax(logits, allowed)
        if self.prediction is not None and self.trust != 0:
            weight = (
                self.trust(rows).to(own.dtype).view(clients, batch, 1)
                if callable(self.trust)
                else own.new_tensor(self.trust)
            )
            predicted = self.prediction(rows).view(clients, batch)
            own = self._believing(own, allowed, predicted, weight)
        return torch.where(allowed, own.clamp(min=EXCLUDED), EXCLUDED)

    def _believing(self, own: Tensor, allowed: Tensor, predicted: Tensor, weight: Tensor) -> Tensor:
        """The logarithm of ``(1 - trust) s + trust e`` from that of s, where something that is
        allowed is predicted; `weight` is the trust, one number or [C, B, 1].
        """
        said = predicted.unsqueeze(-1) == torch.arange(own.shape[-1], device=own.device)
        believed = ((predicted != NOTHING).unsqueeze(-1) & said & allowed).any(-1, keepdim=True)
        # Where nothing is allowed the logarithm is minus infinity and is not used: a finite number
        # there keeps gradients finite.
        less = torch.where(allowed, own, 0.0) + torch.log1p(-weight).clamp(min=EXCLUDED)
        more = torch.logaddexp(less, weight.log())
        if callable(self.trust) or self.trust >= 0.5:
            # The predicted class wins ties, which rounding makes at 0.5 (specification K5).
            chosen = torch.where(said, more, -torch.inf).amax(-1, keepdim=True).detach()
            below = _next_below(chosen)
            less = torch.where(weight >= 0.5, torch.minimum(less, below), less)
        return torch.where(believed, torch.where(said, more, less), own)


def _next_below(values: Tensor) -> Tensor:
    """The next smaller number; in exported graphs, which lack `nextafter`, one of the next two."""
    if not being_traced():
        return torch.nextafter(values, torch.full_like(values, -torch.inf))
    kind = torch.finfo(values.dtype)
    # The ONNX exporter writes Python numbers in float32, where the smallest number would be 0.
    eps, tiny = values.new_tensor(kind.eps), values.new_tensor(kind.tiny)
    return values - values.abs() * eps - tiny


def _rows(x: Tensor, output: Tensor) -> Tensor:
    """The rows of every client, [C, B, F], also where all read the same ones."""
    return x if x.dim() == output.dim() else x.unsqueeze(0).expand(output.shape[0], *x.shape)
