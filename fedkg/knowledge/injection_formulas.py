"""Knowledge inside a model's output: definition 5.1 of Fan et al. 2022, exact in value, gradient
and support.

With logits z, an allowed set of classes, a predicted class g and a trust l in 0 .. 1, the output is
``f = (1 - l) s + l e_g``, where s is the softmax over the allowed classes. All functions are pure
functions of tensors and work under ``torch.func`` transforms and in half precision. Under
``torch.autocast`` the results are float32. The allowed set must not be empty:
`fedkg.knowledge.contradiction_resolution.reconcile` ensures that.

Letters: K classes; [...] any leading shape, equal for all arguments or broadcast.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

NOTHING = -1
"""The predicted class of a sample without a prediction."""


def range_softmax(logits: Tensor, allowed: Tensor) -> Tensor:
    """The softmax over the allowed classes [..., K]: exactly 0 outside them, for any logits.

    Logits that have overflowed to infinity count as the largest finite number.
    """
    return torch.where(allowed, torch.softmax(_masked(logits, allowed), -1), 0)


def range_log_softmax(logits: Tensor, allowed: Tensor) -> Tensor:
    """The logarithm of `range_softmax`, [..., K]; minus infinity, without gradient, outside the
    allowed classes.
    """
    return torch.where(allowed, torch.log_softmax(_masked(logits, allowed), -1), -math.inf)


def _masked(logits: Tensor, allowed: Tensor) -> Tensor:
    limits = torch.finfo(logits.dtype)
    return logits.clamp(limits.min, limits.max).masked_fill(~allowed, -math.inf)


def injected_probabilities(
    logits: Tensor, allowed: Tensor, predicted: Tensor, trust: Tensor | float
) -> Tensor:
    """The output probabilities f, [..., K].

    The trust is 0 for samples without a prediction. The predicted class has at least the trust as
    probability (Proposition 5.1 b).

    Args:
        logits: floating [..., K].
        allowed: bool [..., K], some true in each row.
        predicted: int64 [...], `NOTHING` without a prediction.
        trust: in 0 .. 1, [...] or one number.
    """
    logits = _full_precision(logits)
    weight = _trust(logits, predicted, trust)
    own = range_softmax(logits, allowed) * (1 - weight).unsqueeze(-1)
    said = predicted.unsqueeze(-1) == torch.arange(logits.shape[-1], device=logits.device)
    return torch.where(said, own + weight.unsqueeze(-1), own)


def injected_log_probability(
    logits: Tensor, allowed: Tensor, predicted: Tensor, trust: Tensor | float, label: Tensor
) -> Tensor:
    """The log probability of one class for each row, [...]: minus the cross entropy.

    Computed from logarithms, so it stays exact if the probability underflows. A class that the
    knowledge rules out has minus infinity and a gradient of zero: `reconcile` finds such labels
    before training.

    Args:
        logits: floating [..., K].
        allowed: bool [..., K], some true in each row.
        predicted: int64 [...], `NOTHING` without a prediction.
        trust: in 0 .. 1, [...] or one number.
        label: int64 [...], the class to return the log probability of.
    """
    logits = _full_precision(logits)
    weight = _trust(logits, predicted, trust)
    place = label.unsqueeze(-1)
    log_own = range_log_softmax(logits, allowed).gather(-1, place).squeeze(-1)
    reachable = allowed.gather(-1, place).squeeze(-1) & (weight < 1)
    own = torch.where(
        reachable,
        torch.log1p(-torch.where(weight < 1, weight, 0)) + torch.where(reachable, log_own, 0),
        -math.inf,
    )
    agreed = (predicted == label) & (weight > 0)
    both = torch.logaddexp(torch.where(agreed, own, 0), torch.log(torch.where(agreed, weight, 1)))
    return torch.where(agreed, both, own)


def most_probable_class(probabilities: Tensor, predicted: Tensor) -> Tensor:
    """The most probable class, int64 [...]; the predicted class wins a tie."""
    best = probabilities.amax(-1)
    said = probabilities.gather(-1, predicted.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where((predicted >= 0) & (said >= best), predicted, probabilities.argmax(-1))


def _full_precision(logits: Tensor) -> Tensor:
    """Half-precision logits as float32 under `torch.autocast`, as in PyTorch's own losses."""
    half = logits.dtype in (torch.bfloat16, torch.float16)
    return logits.float() if half and torch.is_autocast_enabled(logits.device.type) else logits


def _trust(logits: Tensor, predicted: Tensor, trust: Tensor | float) -> Tensor:
    """The trust [...] in the dtype of the logits, 0 without a prediction."""
    number = torch.as_tensor(trust, dtype=logits.dtype, device=logits.device)
    return torch.where(predicted >= 0, number, 0)
