"""Gradients per sample of a minibatch in factored form: their norms and weighted sums, without
materialising them.

Letters: C clients of a stack, B batch, N steps of time, O and I output and input width of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.kernels.training.sample_norms import FLOOR
from fedkg.models.batched_products import has_compiled_loops, outer_sums
from fedkg.models.model_protocols import Gradient, OuterProduct


@dataclass(frozen=True, slots=True, eq=False)
class AffineSampleGradients:
    """Sample gradients of an affine layer that each sample passes once: outer products of two
    vectors.

    Attributes:
        weight: name of the layer's weight.
        bias: name of the layer's bias; None without a bias.
        left: [C, B, O], the derivative by the layer's output.
        right: [C, B, I], the layer's input.
    """

    weight: str
    bias: str | None
    left: Tensor
    right: Tensor

    def squared_norms(self) -> Tensor:
        """See `SampleGradients.squared_norms`."""
        read: Tensor = (
            torch.linalg.vector_norm(self.right, dim=2)
            .square_()
            .add_(FLOOR if self.bias is None else 1.0)
        )
        return read.mul_(torch.linalg.vector_norm(self.left, dim=2).square_().add_(FLOOR))

    def weighted_sum(self, factor: Tensor) -> dict[str, Gradient]:
        """See `SampleGradients.weighted_sum`."""
        left = self.left * factor.unsqueeze(2)
        gradients: dict[str, Gradient] = {self.weight: OuterProduct(left, self.right)}
        if self.bias is not None:
            gradients[self.bias] = left.sum(1)
        return gradients


@dataclass(frozen=True, slots=True, eq=False)
class StepwiseSampleGradients:
    """Sample gradients of a layer that each sample passes N times: ``sum over n of left[c, n, b, o]
    * right[c, n, b, i]``.

    Attributes:
        weight: name of the layer's weight.
        bias: name of the layer's bias; None without a bias.
        left: [C, N, B, O], the derivative by the layer's output at each step.
        right: [C, N, B, I], the layer's input at each step.
    """

    weight: str
    bias: str | None
    left: Tensor
    right: Tensor

    def squared_norms(self) -> Tensor:
        """See `SampleGradients.squared_norms`.

        On a CPU, computed by a compiled loop over samples; elsewhere from the products of the steps
        with each other, or from the gradient, whichever is smaller. If steps cancel, rounding may
        leave a sum that is far too small for clipping. The largest possible rounding error is
        therefore added: for products, which suffer most, eps / 2 for each term of the sums; for
        gradients see `sample_norms.measure_steps`.
        """
        if has_compiled_loops(self.left):
            from fedkg.models.compiled_recurrent_cells import step_squares

            return step_squares(self.left, self.right, bias=self.bias is not None)
        left, right = (
            self.left.transpose(1, 2).flatten(0, 1),
            self.right.transpose(1, 2).flatten(0, 1),
        )
        steps, outputs, inputs = left.shape[1], left.shape[2], right.shape[2]
        if steps * steps <= outputs * inputs:
            reads = torch.bmm(right, right.transpose(1, 2)).add_(
                FLOOR if self.bias is None else 1.0
            )
            products = torch.bmm(left, left.transpose(1, 2)).add_(FLOOR).mul_(reads)
            longest = products.diagonal(dim1=1, dim2=2).sqrt().sum(1).square_()
            rounded = (steps + outputs + inputs) * torch.finfo(left.dtype).eps
            total = products.sum((1, 2)).add_(longest, alpha=rounded).clamp_(min=0)
        else:
            total = torch.bmm(left.transpose(1, 2), right).square().sum((1, 2))
            total += 0.0 if self.bias is None else left.sum(1).square().sum(1)
            far = (
                left.square()
                .sum((1, 2))
                .mul_(right.square().sum((1, 2)).add_(steps * (self.bias is not None)))
            )
            total = (
                total.sqrt()
                .add_(far.sqrt_(), alpha=(steps + 1) * torch.finfo(left.dtype).eps)
                .square_()
            )
        return total.view(self.left.shape[0], -1)

    def weighted_sum(self, factor: Tensor) -> dict[str, Gradient]:
        """See `SampleGradients.weighted_sum`."""
        left = self.left * factor.view(factor.shape[0], 1, -1, 1)
        weight, bias = outer_sums(left.flatten(1, 2), self.right.flatten(1, 2))
        return (
            {self.weight: weight} if self.bias is None else {self.weight: weight, self.bias: bias}
        )
