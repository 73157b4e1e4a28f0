"""Gradients of the samples of a minibatch apart, in factors: how long each is, and a weighted sum of them, without writing them out.

Letters: C clients of a stack, B batch, N steps of time, O and I output and input width of a layer.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.models.model import Gradient, Outer


@dataclass(frozen=True, slots=True, eq=False)
class Affine:
    """An affine layer that serves each sample once: a sample's gradient is a product of two vectors, its norm that of theirs.

    Attributes:
        weight, bias: names of the parameters; no bias: None.
        left: [C, B, O], the derivative by the layer's result. right: [C, B, I], what the layer read.
    """

    weight: str
    bias: str | None
    left: Tensor
    right: Tensor

    def squares(self) -> Tensor:
        """See `Apart.squares`."""
        read: Tensor = torch.linalg.vector_norm(self.right, dim=2).square_()
        if self.bias is not None:
            read.add_(1.0)
        return read.mul_(torch.linalg.vector_norm(self.left, dim=2).square_())

    def weighted(self, factor: Tensor) -> dict[str, Gradient]:
        """See `Apart.weighted`."""
        left = self.left * factor.unsqueeze(2)
        gradients: dict[str, Gradient] = {self.weight: Outer(left, self.right)}
        if self.bias is not None:
            gradients[self.bias] = left.sum(1)
        return gradients


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A weight that serves each sample at N steps: its gradient is ``sum over n of left[c, n, b, o] * right[c, n, b, i]``.

    Attributes:
        name: of the parameter. left: [C, N, B, O], the derivative by the layer's result at each step. right: [C, N, B, I], what it read.
    """

    name: str
    left: Tensor
    right: Tensor

    def squares(self) -> Tensor:
        """See `Apart.squares`: from the products of the steps with each other, or of the gradient itself, whichever is smaller.

        The products of steps that cancel leave little but what was rounded, so that a norm found from them may be far too small to clip by;
        the most that rounding can take away (eps / 2 for each of the sums' terms) is therefore added.
        """
        left, right = self.left.transpose(1, 2).flatten(0, 1), self.right.transpose(1, 2).flatten(0, 1)
        steps, outputs, inputs = left.shape[1], left.shape[2], right.shape[2]
        if steps * steps <= outputs * inputs:
            products = torch.bmm(left, left.transpose(1, 2)).mul_(torch.bmm(right, right.transpose(1, 2)))
            longest = products.diagonal(dim1=1, dim2=2).sqrt().sum(1).square_()
            rounded = (steps + outputs + inputs) * torch.finfo(left.dtype).eps
            total = products.sum((1, 2)).add_(longest, alpha=rounded).clamp_(min=0)
        else:
            total = torch.bmm(left.transpose(1, 2), right).square().sum((1, 2))
        return total.view(self.left.shape[0], -1)

    def weighted(self, factor: Tensor) -> dict[str, Gradient]:
        """See `Apart.weighted`."""
        left = self.left * factor.view(factor.shape[0], 1, -1, 1)
        return {self.name: torch.bmm(left.flatten(1, 2).transpose(1, 2), self.right.flatten(1, 2))}


@dataclass(frozen=True, slots=True, eq=False)
class AddedSteps:
    """A bias that serves each sample at N steps.

    Attributes:
        name: of the parameter. left: [C, N, B, O], the derivative by the layer's result at each step.
    """

    name: str
    left: Tensor

    def squares(self) -> Tensor:
        """See `Apart.squares`."""
        return self.left.sum(1).square().sum(2)

    def weighted(self, factor: Tensor) -> dict[str, Gradient]:
        """See `Apart.weighted`."""
        return {self.name: torch.bmm(factor.unsqueeze(1), self.left.sum(1)).squeeze(1)}
