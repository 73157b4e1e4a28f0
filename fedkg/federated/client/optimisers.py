"""Local optimisers.

Letters: C clients of a stack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.round_steps import Outcome, Setting
from fedkg.models.model_protocols import Gradient, OuterProduct, Params, match_parameters


class LocalSteps:
    """Base of local updates: nothing is remembered or shared, the variables are the parameters of
    the model, and the update is their change since the start.
    """

    __slots__ = ()

    def initial_memory(self, models: Params, population: int) -> Params:
        """See `LocalUpdate.initial_memory`."""
        return {}

    def shared(self, models: Params) -> Params:
        """See `LocalUpdate.shared`."""
        return {}

    def point(self, variables: Params) -> Params:
        """See `LocalUpdate.point`."""
        return variables

    def finish(self, setting: Setting, variables: Params, carry: Params) -> Outcome:
        """See `LocalUpdate.finish`: the update is the change since the start."""
        return change(setting, variables)


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(LocalSteps):
    """Stochastic gradient descent: ``v <- momentum v + (g + decay w);  w <- w - rate v``.

    Args:
        momentum: at least 0 and below 1; its memory starts at 0 in every round.
        weight_decay: pull towards 0.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.momentum < 1.0:
            raise JobError(
                "`momentum` is out of range",
                expected="0 <= momentum < 1",
                received=str(self.momentum),
            )
        if self.weight_decay < 0:
            raise JobError("`weight_decay` must not be negative", received=str(self.weight_decay))

    def begin(self, setting: Setting, variables: Params) -> Params:
        """See `LocalUpdate.begin`."""
        return (
            {name: torch.zeros_like(value) for name, value in variables.items()}
            if self.momentum
            else {}
        )

    def advance(
        self,
        variables: Params,
        gradient: Mapping[str, Gradient],
        carry: Params,
        rate: float | Tensor,
    ) -> None:
        """See `LocalUpdate.advance`."""
        for name, slope in gradient.items():
            value = variables[name]
            if not self.momentum and not self.weight_decay:
                descend(value, slope, rate)
                continue
            slope = slope.dense() if isinstance(slope, OuterProduct) else slope
            if self.weight_decay:
                slope = slope + self.weight_decay * value
            if self.momentum:
                slope = carry[name].mul_(self.momentum).add_(slope)
            descend(value, slope, rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(LocalSteps):
    """Adam (Kingma and Ba 2015, algorithm 1) with its memory begun anew in every round.

    ``m <- beta1 m + (1 - beta1) g;  v <- beta2 v + (1 - beta2) g^2;
    w <- w - rate m' / (sqrt(v') + tau)``, with m' and v' the two divided by one minus their beta to
    the power of the number of steps.

    Args:
        beta1: the decay rate of m, at least 0 and below 1.
        beta2: the decay rate of v, at least 0 and below 1.
        tau: a number above 0 that limits the step if v' is small.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    tau: float = 1e-8

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise JobError(
                    f"`{name}` is out of range",
                    expected=f"0 <= {name} < 1",
                    received=str(getattr(self, name)),
                )
        if not self.tau > 0:
            raise JobError("`tau` must be above 0", received=str(self.tau))

    def begin(self, setting: Setting, variables: Params) -> Params:
        """See `LocalUpdate.begin`: m, v, and the steps made, float64 [C]."""
        memory = {
            f"{part}/{name}": torch.zeros_like(value)
            for name, value in variables.items()
            for part in "mv"
        }
        return memory | {"steps": torch.zeros_like(setting.steps, dtype=torch.float64)}

    def advance(
        self,
        variables: Params,
        gradient: Mapping[str, Gradient],
        carry: Params,
        rate: float | Tensor,
    ) -> None:
        """See `LocalUpdate.advance`."""
        steps = carry["steps"].add_(1)
        first, second = 1 - self.beta1**steps, (1 - self.beta2**steps).sqrt()
        for name, slope in gradient.items():
            slope = slope.dense() if isinstance(slope, OuterProduct) else slope
            m = carry[f"m/{name}"].mul_(self.beta1).add_(slope, alpha=1 - self.beta1)
            v = carry[f"v/{name}"].mul_(self.beta2).addcmul_(slope, slope, value=1 - self.beta2)
            size = per_client(rate, m) if isinstance(rate, Tensor) else rate
            variables[name].sub_(
                size * (m / per_client(first, m)) / (v.sqrt() / per_client(second, v) + self.tau)
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFirst(LocalSteps):
    """Gradient descent in two phases (FedRep: Collins et al., "Exploiting shared representations",
    2021, algorithm 1).

    The first steps of a client move its private layers alone, the others the shared ones alone.

    Args:
        private: which parameters are private: prefixes of their names.
        share: how many of a client's steps are the first phase, 0 .. 1, rounded to whole steps
            (half up).
    """

    private: tuple[str, ...]
    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise JobError(
                "`share`, the share of steps that train private layers, is out of range",
                expected="0 .. 1",
                received=str(self.share),
            )

    def begin(self, setting: Setting, variables: Params) -> Params:
        """See `LocalUpdate.begin`: how many steps of the first phase each client still has to make,
        int64 [C].
        """
        return {
            "first": (self.share * setting.steps.to(torch.float64) + 0.5).floor().to(torch.int64)
        }

    def advance(
        self,
        variables: Params,
        gradient: Mapping[str, Gradient],
        carry: Params,
        rate: float | Tensor,
    ) -> None:
        """See `LocalUpdate.advance`."""
        first = carry["first"] > 0
        private = match_parameters(self.private, variables)
        phases = bool(first.any()), bool((~first).any())
        for name, slope in gradient.items():
            moves = first if name in private else ~first
            if not phases[0 if name in private else 1]:
                continue
            if all(phases):
                factor = per_client(moves, variables[name])
                slope = (
                    OuterProduct(slope.left * factor.view(-1, 1, 1), slope.right)
                    if isinstance(slope, OuterProduct)
                    else slope * factor
                )
            descend(variables[name], slope, rate)
        carry["first"].sub_(1)


def change(setting: Setting, variables: Params) -> Outcome:
    """The change of the variables since the start, written into them."""
    return Outcome(
        update={
            name: value.sub_(setting.start.variables[name]) for name, value in variables.items()
        }
    )


def descend(value: Tensor, slope: Gradient, rate: float | Tensor) -> None:
    """value -= rate * slope, the rate one for all or [C]; a factored slope is multiplied out
    straight into the value.
    """
    if isinstance(rate, Tensor):
        slope = (
            OuterProduct(slope.left * per_client(rate, slope.left), slope.right)
            if isinstance(slope, OuterProduct)
            else slope * per_client(rate, slope)
        )
        rate = 1.0
    if not isinstance(slope, OuterProduct):
        value.sub_(slope, alpha=rate)
    elif value.shape[0] == 1:
        value[0].addmm_(slope.left[0].t(), slope.right[0], alpha=-rate)
    else:
        value.baddbmm_(slope.left.transpose(1, 2), slope.right, alpha=-rate)
