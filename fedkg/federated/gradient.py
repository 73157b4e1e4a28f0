"""How a minibatch becomes a gradient.

Letters: C clients of a stack, B batch, H outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkg.federated.joints import Step, Term
from fedkg.models.model import Differentiated, Gradient


@dataclass(frozen=True, slots=True)
class MeanGradient:
    """The gradient of each client's mean loss over its minibatch, plus its terms.

    Where the step allows it, the model's own derivative is used if it has one and no term needs automatic differentiation: the same
    numbers up to rounding, in a fraction of the time.
    """

    def __call__(self, step: Step, terms: tuple[Term, ...]) -> tuple[Tensor, Mapping[str, Gradient]]:
        """See `Differentiation`."""
        if step.closed is not None and not terms:
            return _closed(step, step.closed)
        return _automatic(step, terms)


def _closed(step: Step, model: Differentiated) -> tuple[Tensor, Mapping[str, Gradient]]:
    output, saved = model.forward(step.params, step.x, step.noise)
    value, slope = step.loss.value_and_slope(output, step.y)
    slope = slope.mul_(1.0 / value.shape[1]) if step.share is None else slope.mul_(step.share.unsqueeze(-1))
    return step.mean(value), model.backward(step.params, saved, slope)


def _automatic(step: Step, terms: tuple[Term, ...]) -> tuple[Tensor, Mapping[str, Gradient]]:
    with torch.enable_grad():
        leaves = {name: value.detach().requires_grad_() for name, value in step.params.items()}
        step = replace(step, params=leaves)
        value = step.mean(step.loss.value(step.model.apply(leaves, step.x, step.noise), step.y))
        for term in terms:
            value = value + term.value(step)
        # Clients share no parameter, so the gradient of the sum over clients is each client's own gradient.
        slopes = torch.autograd.grad(value.sum(), list(leaves.values()))
    return value.detach(), dict(zip(leaves, slopes, strict=True))
