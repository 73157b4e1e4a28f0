"""How a minibatch becomes a gradient.

Letters: C clients of a stack, B batch, H outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkg.federated.round_steps import OutputTerm, SlopedTerm, Step, Term
from fedkg.federated.step_results import require_values
from fedkg.models.model_protocols import DifferentiatedModel, Gradient, OuterProduct, Params
from fedkg.privacy import Randomness


@dataclass(frozen=True, slots=True)
class MeanGradient:
    """The gradient of each client's mean loss over its minibatch, plus its terms.

    Where the step allows it, the model's own derivative is used if it has one and all terms know
    theirs: the same numbers up to rounding,
    in a fraction of the time; not in mixed precision, where all executors differentiate
    automatically.
    """

    @property
    def by_chance(self) -> bool:
        """See `Differentiation.by_chance`."""
        return False

    @property
    def randomness(self) -> Randomness:
        """See `Differentiation.randomness`."""
        return "seeded"

    def __call__(
        self, step: Step, terms: tuple[Term, ...]
    ) -> tuple[Tensor, Mapping[str, Gradient]]:
        """See `Differentiation`."""
        sloped = tuple(term for term in terms if isinstance(term, SlopedTerm))
        answered = tuple(term for term in terms if isinstance(term, OutputTerm))
        if (
            step.closed is not None
            and step.autocast is None
            and len(sloped) + len(answered) == len(terms)
        ):
            return _closed(step, step.closed, sloped, answered)
        return _automatic(step, terms)


def _closed(
    step: Step,
    model: DifferentiatedModel,
    terms: tuple[SlopedTerm, ...],
    answered: tuple[OutputTerm, ...],
) -> tuple[Tensor, Mapping[str, Gradient]]:
    output, saved = model.forward(step.params, step.x, step.noise)
    value, slope = step.loss.value_and_slope(output, step.y)
    slope = (
        slope.mul_(1.0 / value.shape[1])
        if step.share is None
        else slope.mul_(step.share.unsqueeze(-1))
    )
    total = step.mean(value)
    for asked in answered:
        more, pull = asked.by_output(replace(step, output=output))
        total = total + require_values(asked, "by_output", more, total.shape)
        slope = slope.add_(pull)
    gradient = model.backward(step.params, saved, slope)
    for term in terms:
        total = total + require_values(term, "value", term.value(step), total.shape)
        for name, pull in term.slope(step).items():
            own = gradient[name]
            gradient[name] = (
                pull.add_(own)
                if not isinstance(own, OuterProduct)
                else pull.baddbmm_(own.left.transpose(1, 2), own.right)
            )
    return total, gradient


def _automatic(step: Step, terms: tuple[Term, ...]) -> tuple[Tensor, Mapping[str, Gradient]]:
    with torch.enable_grad():
        leaves = {name: value.detach().requires_grad_() for name, value in step.params.items()}
        step = replace(step, params=leaves)
        output = answer_of(step, leaves)
        value = step.mean(step.loss.value(output, step.y))
        step = replace(step, output=output)
        for term in terms:
            value = value + require_values(term, "value", term.value(step), value.shape)
        # Clients share no parameter, so the gradient of the sum over clients is each client's own
        # gradient.
        # A module may have parameters that its answer does not use: their gradient is 0.
        slopes = torch.autograd.grad(
            value.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True
        )
    return value.detach(), dict(zip(leaves, slopes, strict=True))


def answer_of(step: Step, params: Params) -> Tensor:
    """The model's answer to a step's samples, in the parameters' type; computed in mixed precision
    where the step says so.
    """
    if step.autocast is None:
        return step.model.apply(params, step.x, step.noise)
    with torch.autocast(step.x.device.type, dtype=step.autocast):
        output = step.model.apply(params, step.x, step.noise)
    return output.to(step.x.dtype)
