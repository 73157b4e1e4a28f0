"""What the server makes of an aggregated update.

Letters: G models the server holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class AddUpdate:
    """``models + rate * update``; the rate is 1 in FedAvg and SCFA."""

    rate: float = 1.0

    def begin(self, models: Params) -> Params:
        """See `ServerStep.begin`."""
        return {}

    def apply(self, models: Params, update: Params, memory: Params) -> tuple[Params, Params]:
        """See `ServerStep.apply`."""
        if self.rate == 1.0:
            return {name: value + update[name] for name, value in models.items()}, memory
        return {name: value + self.rate * update[name] for name, value in models.items()}, memory


Memory = Literal["adam", "yogi", "adagrad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveStep:
    """The server's update d taken as a gradient by an adaptive optimiser (Reddi et al., "Adaptive
    federated optimization", algorithm 2).

    ``m <- beta1 m + (1 - beta1) d;  model <- model + rate m / (sqrt(v) + tau)``, where v begins at
    tau^2 and becomes

    - adam: ``beta2 v + (1 - beta2) d^2``
    - yogi: ``v - (1 - beta2) d^2 sign(v - d^2)``
    - adagrad: ``v + d^2``

    With beta1 = 0, beta2 = 1, tau = 1/2 and rate 1, adam and yogi add d itself; so does adagrad in
    the limit of a large tau and rate = 2 tau.

    Args:
        memory: the rule for v: ``adam``, ``yogi`` or ``adagrad``.
        rate: learning rate of the server, above 0.
        beta1: at least 0 and below 1.
        beta2: 0 .. 1.
        tau: above 0; a smaller value makes the step more adaptive.

    Raises:
        JobError: an option is out of its range; the message names it.
    """

    memory: Memory
    rate: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        if self.memory not in get_args(Memory):
            raise JobError(
                "`memory`, the kind of the server's optimiser, has an unknown value",
                expected=", ".join(get_args(Memory)),
                received=repr(self.memory),
            )
        for name, holds, expected in (
            ("rate", self.rate > 0, "above 0"),
            ("beta1", 0 <= self.beta1 < 1, "0 <= beta1 < 1"),
            ("beta2", 0 <= self.beta2 <= 1, "0 .. 1"),
            ("tau", self.tau > 0, "above 0"),
        ):
            if not holds:
                raise JobError(
                    f"`{name}` of the server's optimiser is out of range",
                    expected=expected,
                    received=str(getattr(self, name)),
                )

    def begin(self, models: Params) -> Params:
        """See `ServerStep.begin`."""
        first = {f"m/{name}": torch.zeros_like(value) for name, value in models.items()}
        return first | {
            f"v/{name}": torch.full_like(value, self.tau**2) for name, value in models.items()
        }

    def apply(self, models: Params, update: Params, memory: Params) -> tuple[Params, Params]:
        """See `ServerStep.apply`."""
        after: Params = {}
        for name, change in update.items():
            after[f"m/{name}"] = self.beta1 * memory[f"m/{name}"] + (1 - self.beta1) * change
            after[f"v/{name}"] = self._second(memory[f"v/{name}"], change.square())
        step = {
            name: self.rate * after[f"m/{name}"] / (after[f"v/{name}"].sqrt() + self.tau)
            for name in update
        }
        return {name: value + step[name] for name, value in models.items()}, after

    def _second(self, v: Tensor, square: Tensor) -> Tensor:
        match self.memory:
            case "adam":
                return self.beta2 * v + (1 - self.beta2) * square
            case "yogi":
                return v - (1 - self.beta2) * square * torch.sign(v - square)
            case "adagrad":
                return v + square
