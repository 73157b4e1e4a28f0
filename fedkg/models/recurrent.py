"""Forecasters with recurrent layers (plain, gated, long short-term memory), with closed-form
derivatives.

The cells are our own, because PyTorch's recurrent layers cannot be batched over clients with
different weights. Computations that do not depend on the previous step are outside the loop over
time: one matrix product for all inputs before it, and one for the gradients of all weights after
it. The loop has one product per step, in both passes.

Letters: C clients of a stack, B batch, T steps of the history, F features of a step, N steps of the
cells, W width of the state, I input width of a layer, G gates of a cell (1, 3, 4), P steps of the
forecast, O values of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.batched_products import affine, outer_sums
from fedkg.models.layers import (
    INIT,
    broadcast_samples,
    dense,
    require_positive,
    start_affine,
    uniform_start,
)
from fedkg.models.model_protocols import Gradient, Params, SampleGradients
from fedkg.models.random_streams import Noise, fold, root
from fedkg.models.recurrent_cells import CELLS, CellTrace
from fedkg.models.sample_gradients import StepwiseSampleGradients


@dataclass(frozen=True, slots=True, eq=False)
class _Saved:
    """Of each layer its input [C, N * B, I] and the trace of its cell; the head's input [C, J, W],
    step-major if it reads all states.
    """

    inputs: list[Tensor]
    trails: list[CellTrace]
    read: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrent:
    """Layers of recurrent cells over a window [B, T, F] and a dense head; the outputs are [C, B, P
    * O], step by step.

    Without `window`, the cells run over the T steps, and the head computes all P * O values from
    the last state. With `window`, they run P steps, each of which reads `window` consecutive past
    steps at once, the last of them up to the end of the window, and the head computes O values from
    every state. The second form is that of FedSTL's experiments (An, Johnson and Ma, 2024: 120 h of
    history, 24 steps that each read 96 h, two layers of width 16).

    Parameters have PyTorch's names, ``cells.0.weight_ih`` [G W, I], ``weight_hh`` [G W, W],
    ``bias_ih``, ``bias_hh`` [G W], with its order of gates, and ``head.weight``. All start uniform
    in plus/minus 1/sqrt(W), including the head. The cells are the body (see `PartitionedModel`).

    Args:
        cell: ``rnn`` (tanh), ``gru`` or ``lstm``.
        features: F.
        history: T.
        horizon: P.
        outputs: O.
        window: past steps that one step of the cells reads, or None.
        hidden: W.
        layers: number of recurrent layers.

    Raises:
        JobError: a width is below 1, or the history is too short for the windows.
    """

    cell: Literal["rnn", "gru", "lstm"]
    features: int = 1
    history: int = 120
    horizon: int = 24
    outputs: int = 1
    window: int | None = None
    hidden: int = 16
    layers: int = 2

    def __post_init__(self) -> None:
        if self.cell not in CELLS:
            raise JobError(
                "unknown recurrent cell", expected=" or ".join(CELLS), received=str(self.cell)
            )
        sizes = ("features", "history", "horizon", "outputs", "hidden", "layers", "window")
        require_positive(self, *sizes)
        if self.window is not None and self.window + self.horizon - 1 > self.history:
            raise JobError(
                "the history is too short for the model's windows",
                expected="history of at least window + horizon - 1 = "
                f"{self.window + self.horizon - 1}",
                received=f"history {self.history}",
            )

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`."""
        return {"body": ("cells.",), "head": ("head.",)}

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`."""
        key, bound, gates = root(seed, INIT), self.hidden**-0.5, CELLS[self.cell].gates
        params: Params = {}
        for layer in range(self.layers):
            inputs = self.features * (self.window or 1) if layer == 0 else self.hidden
            own = fold(key, layer)
            shapes = {
                "weight_ih": (inputs,),
                "weight_hh": (self.hidden,),
                "bias_ih": (),
                "bias_hh": (),
            }
            for part, (name, rest) in enumerate(shapes.items()):
                params[f"cells.{layer}.{name}"] = uniform_start(
                    fold(own, part), (gates * self.hidden, *rest), bound, dtype
                )
        wide = self.outputs * (1 if self.window else self.horizon)
        return params | start_affine(fold(key, self.layers), "head", (wide, self.hidden), dtype)

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; x [C, B, T, F] or [B, T, F]. Differentiable by autograd."""
        value = self._steps(broadcast_samples(x, params["head.bias"].shape[0], 2))
        for layer in range(self.layers):
            drive, weight, bias = self._driven(
                dense, params, layer, value.flatten(1, 2), value.shape[1]
            )
            value = CELLS[self.cell].run(drive, weight, bias)
        return self._answer(params, value.flatten(1, 2) if self.window else value[:, -1])

    def forward(
        self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None
    ) -> tuple[Tensor, _Saved]:
        """See `DifferentiatedModel.forward`."""
        value = self._steps(broadcast_samples(x, params["head.bias"].shape[0], 2))
        inputs, trails = [], []
        for layer in range(self.layers):
            inputs.append(value.flatten(1, 2))
            trails.append(
                CELLS[self.cell].trace(
                    *self._driven(affine, params, layer, inputs[-1], value.shape[1])
                )
            )
            value = trails[-1].states[:, 1:]
        read = value.flatten(1, 2) if self.window else value[:, -1]
        return self._answer(params, read), _Saved(inputs, trails, read)

    def backward(
        self, params: Mapping[str, Tensor], saved: _Saved, gradient: Tensor
    ) -> dict[str, Gradient]:
        """See `DifferentiatedModel.backward`."""
        gradients: dict[str, Gradient] = {}
        for name, left, right in self._factors(params, saved, gradient):
            gradients[name], gradients[_bias_of(name)] = outer_sums(
                left.flatten(1, 2), right.flatten(1, 2)
            )
        return {name: gradients[name] for name in params}

    def sample_gradients(
        self, params: Mapping[str, Tensor], saved: _Saved, gradient: Tensor
    ) -> list[SampleGradients]:
        """See `SampleDifferentiatedModel.sample_gradients`."""
        return [
            StepwiseSampleGradients(name, _bias_of(name), left, right)
            for name, left, right in self._factors(params, saved, gradient)
        ]

    def _factors(
        self, params: Mapping[str, Tensor], saved: _Saved, gradient: Tensor
    ) -> Iterator[tuple[str, Tensor, Tensor]]:
        """For each weight, the derivative by its product, [C, N, B, O], and its input, [C, N, B,
        I]; all have a bias.
        """
        clients, batch = gradient.shape[:2]
        gradient = (
            gradient.view(clients, batch, self.horizon, self.outputs).transpose(1, 2)
            if self.window
            else gradient.unsqueeze(1)
        )
        read = saved.read.view(clients, -1, batch, self.hidden)
        yield "head.weight", gradient, read
        flat = gradient.flatten(1, 2)
        states = torch.bmm(flat, params["head.weight"]).view(clients, -1, batch, self.hidden)
        for layer in reversed(range(self.layers)):
            trail = saved.trails[layer]
            by_input, by_state = CELLS[self.cell].backward(
                trail, states, params[f"cells.{layer}.weight_hh"]
            )
            yield (
                f"cells.{layer}.weight_ih",
                by_input,
                saved.inputs[layer].view(*by_input.shape[:3], -1),
            )
            yield f"cells.{layer}.weight_hh", by_state, trail.before
            if layer:
                states = torch.bmm(by_input.flatten(1, 2), params[f"cells.{layer}.weight_ih"]).view(
                    clients, -1, batch, self.hidden
                )

    def _driven(
        self,
        product: Callable[[Tensor, Tensor, Tensor], Tensor],
        params: Mapping[str, Tensor],
        layer: int,
        flat: Tensor,
        steps: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The contribution of the inputs [C, N * B, I] to a layer's gates, [C, N, B, G W], and the
        weight and bias of the state.
        """
        weight_ih, weight_hh, bias_ih, bias_hh = (
            params[f"cells.{layer}.{name}"] for name in _NAMES
        )
        drive = product(weight_ih, bias_ih, flat)
        return drive.view(drive.shape[0], steps, -1, drive.shape[2]), weight_hh, bias_hh

    def _answer(self, params: Mapping[str, Tensor], read: Tensor) -> Tensor:
        """The head's outputs [C, B, P * O] from the last states [C, B, W], or from all, step-major
        [C, P * B, W].
        """
        out = dense(params["head.weight"], params["head.bias"], read)
        if self.window:
            out = out.view(out.shape[0], self.horizon, -1, self.outputs).transpose(1, 2).flatten(2)
        return out

    def _steps(self, x: Tensor) -> Tensor:
        """Input of the first layer at its steps, [C, N, B, I], from [C, B, T, F]."""
        if self.window is None:
            return x.transpose(1, 2)
        tail = x[:, :, self.history - self.window - self.horizon + 1 :]
        return tail.unfold(2, self.window, 1).permute(0, 2, 1, 4, 3).flatten(3)


def _bias_of(weight: str) -> str:
    """The name of the bias of a weight."""
    return weight.replace("weight", "bias")


_NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
