"""Task losses: per sample, over a stack of clients, each with its derivative by the model's
outputs.

Letters: C clients of a stack, B batch, H outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from fedkg.errors import JobError


class Loss(Protocol):
    """A pure function of outputs and targets, one number per sample."""

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        """Losses [C, B] of outputs [C, B, H]; differentiable by autograd."""
        ...

    def value_and_slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [C, B] and the derivatives of their sum by the outputs [C, B, H]."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryCrossEntropy:
    """Cross entropy of one logit (H = 1) against a target in 0 .. 1, [C, B]: ``-(w t log p + (1 -
    t) log(1 - p))``.

    Args:
        pos_weight: w, how much more a positive sample counts; for rare failures, negatives per
            positive or its root.
    """

    pos_weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.pos_weight > 0:
            raise JobError(
                "`pos_weight`, the weight of positive samples, must be above 0",
                received=str(self.pos_weight),
            )

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        """See `Loss.value`."""
        weight = None if self.pos_weight == 1.0 else output.new_tensor(self.pos_weight)
        return F.binary_cross_entropy_with_logits(
            output.squeeze(-1), target, reduction="none", pos_weight=weight
        )

    def value_and_slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `Loss.value_and_slope`; the derivative is ``(1 - t) p - w t (1 - p)``."""
        slope = torch.sigmoid(output.squeeze(-1))
        if self.pos_weight == 1.0:
            slope.sub_(target)
        else:
            slope.mul_(1 + (self.pos_weight - 1) * target).sub_(target, alpha=self.pos_weight)
        return self.value(output, target), slope.unsqueeze(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossEntropy:
    """Cross entropy of H class scores against the class number, int64 [C, B]."""

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        """See `Loss.value`."""
        return -torch.log_softmax(output, -1).gather(-1, target.unsqueeze(-1)).squeeze(-1)

    def value_and_slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `Loss.value_and_slope`; the derivative is softmax minus one-hot."""
        # Written out, because the library's softmax is several times slower over a last dimension
        # of a few classes.
        shifted = output - output.amax(-1, keepdim=True)
        place = target.unsqueeze(-1)
        chosen = shifted.gather(-1, place)
        slope = shifted.exp_()
        total = slope.sum(-1, keepdim=True)
        slope.div_(total)
        slope.scatter_add_(-1, place, slope.new_full((1,), -1.0).expand_as(place))
        return (total.log_() - chosen).squeeze(-1), slope


@dataclass(frozen=True, slots=True, kw_only=True)
class SquaredError:
    """Mean over the outputs of the squared error; targets [C, B, H], or [C, B] when H = 1."""

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        """See `Loss.value`."""
        return (output - target.reshape(output.shape)).square().mean(-1)

    def value_and_slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `Loss.value_and_slope`; the derivative is ``2 (output - target) / H``."""
        error = output - target.reshape(output.shape)
        return error.square().mean(-1), error * (2.0 / output.shape[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSquaredError:
    """Mean of the squared error over the outputs with a known target; targets as `SquaredError` has
    them, NaN where unknown.

    A sample without any known target has loss 0 and no derivative.
    """

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        """See `Loss.value`."""
        error, known = self._error(output, target)
        return error.square().sum(-1) / known

    def value_and_slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `Loss.value_and_slope`; the derivative is ``2 (output - target) / known``, 0 where
        the target is unknown.
        """
        error, known = self._error(output, target)
        return error.square().sum(-1) / known, error * (2.0 / known.unsqueeze(-1))

    def _error(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Errors [C, B, H], 0 where unknown, and the number of known outputs [C, B], at least 1."""
        target = target.reshape(output.shape)
        unknown = torch.isnan(target)
        error = torch.where(unknown, 0.0, output - torch.where(unknown, 0.0, target))
        return error, (output.shape[-1] - unknown.sum(-1)).clamp(min=1).to(output.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoxLoss:
    """Negative log partial likelihood of Cox's proportional hazards (Cox 1972), with Breslow's
    treatment of tied times; targets [C, B, 2] of times and events, one output (H = 1), the
    logarithm of the relative hazard.

    The loss of an event is ``log sum_{j: T_j >= T_i} exp(o_j) - o_i``, that of a censored sample 0.
    The samples at risk are those of the minibatch. A sample of time 0 without an event, such as
    the padding of a minibatch, affects no other sample.
    """

    def value(self, output: Tensor, target: Tensor) -> Tensor:
        """See `Loss.value`."""
        order, last, event = self._by_time(target)
        risk = output.squeeze(-1).gather(-1, order)
        at_risk = risk.logcumsumexp(-1).gather(-1, last)
        return torch.zeros_like(risk).scatter(-1, order, event * (at_risk - risk))

    def value_and_slope(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """See `Loss.value_and_slope`; the derivative is that of the sum over the minibatch, because
        the loss of a sample depends on all outputs: ``sum_{i: E_i, T_i <= T_j} exp(o_j - L_i) -
        E_j``, with L_i the logarithm above.
        """
        order, last, event = self._by_time(target)
        risk = output.squeeze(-1).gather(-1, order)
        at_risk = risk.logcumsumexp(-1).gather(-1, last)
        # log sum_i exp(-L_i) over events i not later than j: a cumulative sum from the end, taken
        # at the first sample of each group of equal times.
        terms = torch.where(event > 0, -at_risk, -torch.inf).flip(-1).logcumsumexp(-1).flip(-1)
        time = target[..., 0].gather(-1, order)
        first = torch.searchsorted(-time, -time, right=False)
        slope = torch.exp(risk + terms.gather(-1, first)) - event
        value = torch.zeros_like(risk).scatter(-1, order, event * (at_risk - risk))
        return value, torch.zeros_like(risk).scatter(-1, order, slope).unsqueeze(-1)

    @staticmethod
    def _by_time(target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The order of samples by decreasing time, the last position with the time of each, and
        the events in that order; each [C, B].
        """
        time, order = target[..., 0].sort(dim=-1, descending=True)
        last = torch.searchsorted(-time, -time, right=True) - 1
        return order, last, target[..., 1].gather(-1, order)


LOSSES: dict[str, Callable[..., Loss]] = {
    "bce": BinaryCrossEntropy,
    "cross_entropy": CrossEntropy,
    "mse": SquaredError,
    "mse_known": KnownSquaredError,
    "cox": CoxLoss,
}
"""Losses by name; a job trains with the one that its data asks for."""
