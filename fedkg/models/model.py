"""What a model is to the federation: named parameters, and pure functions of them over a stack of clients.

Letters: C clients of a stack (or models, or one), B batch, F input features, H outputs, O and I output and input width of a layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedkg.models.noise import Noise

Params = dict[str, Tensor]
"""Tensors by parameter name; in a stack each has the clients as its first dimension."""


@dataclass(frozen=True, slots=True, eq=False)
class Outer:
    """The gradient of a weight matrix as the factors it is a product of: ``sum over b of left[c, b, o] * right[c, b, i]``.

    Every affine layer's gradient has this form. Kept as factors, a plain gradient step is one batched product straight into the
    parameters, and the norm of one sample's gradient is the product of two small norms.

    Attributes:
        left: [C, B, O], the derivative of the loss by the layer's result.
        right: [C, B, I], what the layer read.
    """

    left: Tensor
    right: Tensor

    def dense(self) -> Tensor:
        """The gradient itself, [C, O, I]."""
        return torch.bmm(self.left.transpose(1, 2), self.right)


Gradient = Tensor | Outer
"""The gradient of one parameter over a stack: [C, ...], or its factors."""


class Model(Protocol):
    """A value (no state) that knows its parameters' names and shapes and computes outputs from them."""

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """Parameters to start from, without a client dimension; the same for the same seed on every machine."""
        ...

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """Outputs [C, B, H] of C stacked models.

        Args:
            params: each [C, ...].
            x: [C, B, F], or [B, F] when all read the same rows.
            noise: randomness for training (dropout); without it the model is in evaluation and deterministic.
        """
        ...


@runtime_checkable
class Differentiated(Protocol):
    """A model that also knows its derivative in closed form, which spares a stack the cost of automatic differentiation."""

    def forward(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None) -> tuple[Tensor, Any]:
        """Outputs as `Model.apply` gives them, and whatever `backward` needs to remember."""
        ...

    def backward(self, params: Mapping[str, Tensor], saved: Any, slope: Tensor) -> dict[str, Gradient]:
        """Gradients of the parameters from the derivative by the outputs, `slope` [C, B, H]."""
        ...


def predict(model: Model, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Outputs [B, H] of one model (parameters without a client dimension) on rows x [B, F], in evaluation."""
    with torch.no_grad():
        return model.apply({name: value.unsqueeze(0) for name, value in params.items()}, x)[0]
