"""The multi-layer perceptron, as pure functions over stacked parameters, with its derivative in
closed form.

Letters: C clients of a stack, B batch, F input features, H outputs, O and I output and input width
of a layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Literal

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.layers import INIT, dense, require_positive, start_affine
from fedkg.models.model_protocols import Gradient, OuterProduct, Params, SampleGradients
from fedkg.models.random_streams import Noise, fold, root
from fedkg.models.sample_gradients import AffineSampleGradients


@dataclass(frozen=True, slots=True, eq=False)
class _Saved:
    """Of each layer: its input [C, B, I] (after activation and dropout), and its dropout factor [C,
    B, I], if any.
    """

    inputs: list[Tensor]
    factors: list[Tensor | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MLP:
    """Dense layers with an activation and dropout between them; the outputs are raw scores
    (logits).

    Without hidden layers it is linear (or softmax, or logistic) regression. Parameters are named
    ``layers.0.weight`` [O, I], ``layers.0.bias`` [O] and so on. They start uniform in plus/minus
    1/sqrt(I), like PyTorch's ``Linear``.

    Args:
        inputs: F, the width of a row; or the shape of a sample, such as (1, 28, 28), which is
            flattened.
        hidden: widths of the hidden layers.
        outputs: H, the number of scores.
        dropout: share of hidden values that are zeroed in training; the rest is scaled up by 1 / (1
            - dropout).
        activation: between layers.
        bias: whether layers have one.

    Raises:
        JobError: for widths below 1 or a dropout outside 0 .. 1.

    Examples:
        >>> model = MLP(inputs=3, hidden=(8,), outputs=1)
        >>> [tuple(p.shape) for p in model.init(seed=0).values()]
        [(8, 3), (8,), (1, 8), (1,)]
    """

    inputs: int | tuple[int, ...]
    hidden: tuple[int, ...] = (64, 64)
    outputs: int = 1
    dropout: float = 0.0
    activation: Literal["relu", "tanh"] = "relu"
    bias: bool = True

    def __post_init__(self) -> None:
        require_positive(self, "inputs", "hidden", "outputs")
        if not 0.0 <= self.dropout < 1.0:
            raise JobError(
                "the model's dropout is out of range",
                expected="0 <= dropout < 1",
                received=str(self.dropout),
            )
        if self.activation not in ("relu", "tanh"):
            raise JobError(
                "unknown activation of the model",
                expected="relu or tanh",
                received=str(self.activation),
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """Inputs, hidden layers, outputs."""
        return (
            self.inputs if isinstance(self.inputs, int) else prod(self.inputs),
            *self.hidden,
            self.outputs,
        )

    @property
    def layers(self) -> int:
        """Number of dense layers."""
        return len(self.hidden) + 1

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`: the last layer is the head."""
        return {
            "body": tuple(f"layers.{layer}." for layer in range(self.layers - 1)),
            "head": (f"layers.{self.layers - 1}.",),
        }

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        key = root(seed, INIT)
        params: Params = {}
        for layer, (fan_in, fan_out) in enumerate(
            zip(self.widths[:-1], self.widths[1:], strict=True)
        ):
            params |= start_affine(
                fold(key, layer), f"layers.{layer}", (fan_out, fan_in), dtype, bias=self.bias
            )
        return params

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; differentiable by autograd."""
        return self.forward(params, x, noise)[0]

    def forward(
        self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None
    ) -> tuple[Tensor, _Saved]:
        """See `DifferentiatedModel.forward`."""
        if not isinstance(self.inputs, int):
            x = x.flatten(-len(self.inputs))
        inputs: list[Tensor] = []
        factors: list[Tensor | None] = [None]
        for layer in range(self.layers):
            inputs.append(x)
            x = dense(params[f"layers.{layer}.weight"], params.get(f"layers.{layer}.bias"), x)
            if layer + 1 < self.layers:
                x = torch.relu_(x) if self.activation == "relu" else torch.tanh_(x)
                factor = self._factor(noise, layer, x)
                factors.append(factor)
                x = x if factor is None else x * factor
        return x, _Saved(inputs, factors)

    def backward(
        self, params: Mapping[str, Tensor], saved: _Saved, gradient: Tensor
    ) -> dict[str, Gradient]:
        """See `DifferentiatedModel.backward`; needs inputs of three dimensions."""
        gradients: dict[str, Gradient] = {}
        for layer, own in self._gradients(params, saved, gradient):
            gradients[f"layers.{layer}.weight"] = OuterProduct(own, saved.inputs[layer])
            if self.bias:
                gradients[f"layers.{layer}.bias"] = own.sum(1)
        return gradients

    def sample_gradients(
        self, params: Mapping[str, Tensor], saved: _Saved, gradient: Tensor
    ) -> list[SampleGradients]:
        """See `SampleDifferentiatedModel.sample_gradients`."""
        return [
            AffineSampleGradients(
                f"layers.{layer}.weight",
                f"layers.{layer}.bias" if self.bias else None,
                own,
                saved.inputs[layer],
            )
            for layer, own in self._gradients(params, saved, gradient)
        ]

    def _gradients(
        self, params: Mapping[str, Tensor], saved: _Saved, gradient: Tensor
    ) -> Iterator[tuple[int, Tensor]]:
        """Each layer from the last to the first, and the derivative by its output, [C, B, O]."""
        for layer in reversed(range(self.layers)):
            yield layer, gradient
            if layer:
                gradient = torch.bmm(gradient, params[f"layers.{layer}.weight"])
                gradient = self._through(gradient, saved.inputs[layer], saved.factors[layer])

    def _through(self, gradient: Tensor, value: Tensor, factor: Tensor | None) -> Tensor:
        """The gradient before dropout and activation, from the one after them, `value`, which is
        overwritten.
        """
        if self.activation == "relu":
            # A value is positive iff the activation is on and dropout kept it: one mask for both.
            gradient = torch.ops.aten.threshold_backward.grad_input(
                gradient, value, 0, grad_input=gradient
            )
            return gradient if factor is None else gradient.mul_(1.0 / (1.0 - self.dropout))
        if factor is None:
            return gradient * (1.0 - value * value)
        inner = value * (1.0 - self.dropout)
        return gradient * factor * (1.0 - inner * inner)

    def _factor(self, noise: Noise | None, layer: int, x: Tensor) -> Tensor | None:
        if noise is None or not self.dropout:
            return None
        keep = noise.keep_mask(layer, (x.shape[0], x.shape[1], x.shape[2]), self.dropout)
        return keep.to(x.dtype) * (1.0 / (1.0 - self.dropout))


def softmax_regression(inputs: int | tuple[int, ...], outputs: int, *, bias: bool = True) -> MLP:
    """Softmax (multinomial logistic) regression: one dense layer from the sample's values to the
    class scores.

    Examples:
        >>> [tuple(p.shape) for p in softmax_regression((1, 28, 28), 10).init(seed=0).values()]
        [(10, 784), (10,)]
    """
    return MLP(inputs=inputs, hidden=(), outputs=outputs, bias=bias)
