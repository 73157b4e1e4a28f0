"""Protocols of federated models: named parameters, and pure functions of them over a stack of
clients.

Letters: C clients of a stack (or models, or one), B batch, F input features, H outputs, O and I
output and input width of a layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.random_streams import Noise

Params = dict[str, Tensor]
"""Tensors by parameter name; in a stack, the first dimension is the client."""


@dataclass(frozen=True, slots=True, eq=False)
class OuterProduct:
    """The gradient of a weight matrix in factored form: ``sum over b of left[c, b, o] * right[c, b,
    i]``.

    Every affine layer's gradient has this form. In factored form, a plain gradient step is one
    batched product straight into the parameters, and the norm of one sample's gradient is the
    product of two small norms.

    Attributes:
        left: [C, B, O], the derivative of the loss by the layer's output.
        right: [C, B, I], the layer's input.
    """

    left: Tensor
    right: Tensor

    def dense(self) -> Tensor:
        """The gradient itself, [C, O, I]."""
        return torch.bmm(self.left.transpose(1, 2), self.right)


Gradient = Tensor | OuterProduct
"""The gradient of one parameter over a stack: [C, ...], or its factors."""


class Model(Protocol):
    """A stateless value that defines its parameters' names and shapes, and computes outputs from
    them.
    """

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """Initial parameters, without a client dimension; the same for the same seed on every
        machine.
        """
        ...

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """Outputs [C, B, H] of C stacked models.

        Args:
            params: each [C, ...].
            x: [C, B, F], or [B, F] if all models read the same rows. Other models read windows [C,
                B, T, F] or images [C, B, channels, height, width]; the outputs are always [C, B,
                H].
            noise: randomness for training (dropout); without it, the model is deterministic
                (evaluation).
        """
        ...


@runtime_checkable
class DifferentiatedModel(Protocol):
    """A model with a closed-form derivative, which saves the cost of automatic differentiation of a
    stack.
    """

    def forward(
        self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None
    ) -> tuple[Tensor, Any]:
        """Outputs of `Model.apply`, and saved values for `backward`."""
        ...

    def backward(
        self, params: Mapping[str, Tensor], saved: Any, gradient: Tensor
    ) -> dict[str, Gradient]:
        """Gradients of the parameters from the derivative by the outputs, `gradient` [C, B, H].

        An `OuterProduct` has one entry for each sample; a weight that a sample passes several times
        (at each step of time) has a dense gradient.
        """
        ...


class SampleGradients(Protocol):
    """The gradient of some parameters by each sample of a minibatch, with the operations that
    clipping needs.
    """

    def squared_norms(self) -> Tensor:
        """The squared norm of each sample's gradient, [C, B]."""
        ...

    def weighted_sum(self, factor: Tensor) -> dict[str, Gradient]:
        """For each parameter, the sum of the samples' gradients times their factors [C, B]."""
        ...


@runtime_checkable
class SampleDifferentiatedModel(DifferentiatedModel, Protocol):
    """A model that computes the norm of each sample's gradient without materialising it."""

    def sample_gradients(
        self, params: Mapping[str, Tensor], saved: Any, gradient: Tensor
    ) -> list[SampleGradients]:
        """Gradients by each sample, with every parameter once, from the derivatives of each
        sample's loss by its outputs [C, B, H].
        """
        ...


@runtime_checkable
class PartitionedModel(Protocol):
    """A model with shared parameters (body) and parameters that each client may personalise
    (head)."""

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """Prefixes of the parameter names of the ``body``, which clients share, and the ``head``;
        disjoint and complete.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelWrapper:
    """Base of models that change what another model reads or answers, with its parameters.

    Args:
        model: the model inside.
    """

    model: Model

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`: those of the model inside; no head if it does not say which
        layers are.
        """
        return (
            self.model.parts
            if isinstance(self.model, PartitionedModel)
            else {"body": ("",), "head": ()}
        )

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        return self.model.init(seed, dtype)


@runtime_checkable
class StatisticalModel(Protocol):
    """A model with running statistics: tensors among its parameters that follow the samples in
    training and have no gradient, such as the means and variances of batch normalisation.
    """

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics among the parameters; may be empty."""
        ...


def running_statistics(model: Model) -> tuple[str, ...]:
    """Names of the running statistics of a model, or of the model inside it."""
    inner: object = model
    while not isinstance(inner, StatisticalModel):
        inner = getattr(inner, "model", None)
        if inner is None:
            return ()
    return inner.statistics


def match_parameters(prefixes: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """The parameters with a name that begins with one of these prefixes, such as ``layers.2.``, in
    the model's order.

    Names are compared part by part between their dots: ``layers.2`` (the last dot is optional) is a
    prefix of ``layers.2.bias`` but not of ``layers.20.bias``; a complete name is its own prefix.

    Raises:
        JobError: no parameter has the prefix.

    Examples:
        >>> match_parameters(("a",), ("a.weight", "a_b.weight"))
        ('a.weight',)
    """
    names = tuple(names)
    for prefix in prefixes:
        if not any(_begins(name, prefix) for name in names):
            raise JobError(
                f"no parameter of the model has a name that begins with `{prefix}`",
                expected=", ".join(names[:12])
                + (f" or one of {len(names) - 12} more" if names[12:] else ""),
                help="correct the prefix, which ends at a dot of a name or at its end",
            )
    return tuple(name for name in names if any(_begins(name, prefix) for prefix in prefixes))


def _begins(name: str, prefix: str) -> bool:
    return f"{name}.".startswith(f"{prefix.removesuffix('.')}.")


def predict(model: Model, params: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Outputs [B, H] of one model (parameters without a client dimension) on samples x [B, F] (or
    [B, ...]), in evaluation.
    """
    with torch.no_grad():
        return model.apply({name: value.unsqueeze(0) for name, value in params.items()}, x)[0]
