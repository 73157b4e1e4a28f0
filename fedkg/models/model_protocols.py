"""What a model is to the federation: named parameters, and pure functions of them over a stack of clients.

Letters: C clients of a stack (or models, or one), B batch, F input features, H outputs, O and I output and input width of a layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.noise import Noise

Params = dict[str, Tensor]
"""Tensors by parameter name; in a stack each has the clients as its first dimension."""


@dataclass(frozen=True, slots=True, eq=False)
class OuterProduct:
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


Gradient = Tensor | OuterProduct
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
            x: [C, B, F], or [B, F] when all read the same rows. Windows [C, B, T, F] and images [C, B, channels, height, width]
                take the place of rows in models that read them; the outputs are [C, B, H] all the same.
            noise: randomness for training (dropout); without it the model is in evaluation and deterministic.
        """
        ...


@runtime_checkable
class DifferentiatedModel(Protocol):
    """A model that also knows its derivative in closed form, which spares a stack the cost of automatic differentiation."""

    def forward(
        self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None
    ) -> tuple[Tensor, Any]:
        """Outputs as `Model.apply` gives them, and whatever `backward` needs to remember."""
        ...

    def backward(
        self, params: Mapping[str, Tensor], saved: Any, slope: Tensor
    ) -> dict[str, Gradient]:
        """Gradients of the parameters from the derivative by the outputs, `slope` [C, B, H].

        An `Outer` has one entry for each sample; a weight that serves a sample several times (at each step of time) has a whole gradient.
        """
        ...


class SampleGradients(Protocol):
    """The gradient of some parameters by each sample of a minibatch, as far as it takes to clip it."""

    def squares(self) -> Tensor:
        """The squared norm of each sample's gradient, [C, B]."""
        ...

    def weighted(self, factor: Tensor) -> dict[str, Gradient]:
        """By parameter the sum of the samples' gradients, each times its factor, [C, B]."""
        ...


@runtime_checkable
class SampleDifferentiatedModel(DifferentiatedModel, Protocol):
    """A model that also knows how long the gradient of each sample is, without writing it out."""

    def each(
        self, params: Mapping[str, Tensor], saved: Any, slope: Tensor
    ) -> list[SampleGradients]:
        """Gradients by each sample, every parameter's once, from the derivatives of each sample's own loss by its outputs [C, B, H]."""
        ...


@runtime_checkable
class PartitionedModel(Protocol):
    """A model that says which of its parameters clients share and which each may keep for itself."""

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """``body``, what clients share, and ``head``, what each may keep: prefixes of parameter names; together all, none in both."""
        ...


def match_parameters(prefixes: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """The parameters whose name begins with a prefix such as ``layers.2.``, in the model's order.

    Names are compared part by part between their dots: ``layers.2`` (the last dot may be left out) begins ``layers.2.bias`` and not
    ``layers.20.bias``; a whole name is its own beginning.

    Raises:
        JobError: naming the prefix that no parameter begins with.

    >>> names_of(("a",), ("a.weight", "a_b.weight"))
    ('a.weight',)
    """
    names = tuple(names)
    for prefix in prefixes:
        if not any(_begins(name, prefix) for name in names):
            raise JobError(
                "no parameter of the model begins so", expected=", ".join(names), received=prefix
            )
    return tuple(name for name in names if any(_begins(name, prefix) for prefix in prefixes))


def _begins(name: str, prefix: str) -> bool:
    return f"{name}.".startswith(f"{prefix.removesuffix('.')}.")


def predict(model: Model, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Outputs [B, H] of one model (parameters without a client dimension) on samples x [B, F] (or [B, ...]), in evaluation."""
    with torch.no_grad():
        return model.apply({name: value.unsqueeze(0) for name, value in params.items()}, x)[0]
