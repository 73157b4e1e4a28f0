"""Forecasting tasks for small federations.

Clients at different levels, a linear forecaster, and rules that require ranges.

Letters: N clients, S windows of each, P past steps, T steps of a forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

import fedkg
from fedkg.federated import Clients, Problem, SquaredError
from fedkg.federated.temporal.client_property_mining import Inferred, inferred
from fedkg.models import Gradient, Noise, OuterProduct, Params

PAST, STEPS = 12, 6
LAYOUT = fedkg.columns(["x"])


@dataclass(frozen=True)
class Linear:
    """Two linear layers: a shared body [4, P] and a head [T, 4].

    Of x [C, B, P] or [B, P] it reads a fifth.
    """

    past: int = PAST
    steps: int = STEPS

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        generator = torch.Generator().manual_seed(seed)
        body = torch.randn(4, self.past, generator=generator, dtype=torch.float64) / self.past
        head = torch.randn(self.steps, 4, generator=generator, dtype=torch.float64) / 2
        return {
            "body.weight": body.to(dtype),
            "head.weight": head.to(dtype),
            "head.bias": torch.zeros(self.steps, dtype=dtype),
        }

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        return self.forward(params, x, noise)[0]

    def forward(
        self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None
    ) -> tuple[Tensor, Any]:
        rows = 0.2 * x
        hidden = rows @ params["body.weight"].transpose(1, 2)
        return hidden @ params["head.weight"].transpose(1, 2) + params["head.bias"].unsqueeze(1), (
            rows,
            hidden,
        )

    def backward(
        self, params: Mapping[str, Tensor], saved: Any, slope: Tensor
    ) -> dict[str, Gradient]:
        rows, hidden = saved
        into = slope @ params["head.weight"]
        return {
            "body.weight": OuterProduct(into, rows),
            "head.weight": OuterProduct(slope, hidden),
            "head.bias": slope.sum(1),
        }


def task(
    levels: Sequence[float], *, samples: int = 40, seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Problem, Clients]:
    """A forecasting problem with clients that oscillate around different levels.

    Also returns test windows of the same clients.
    """
    generator = torch.Generator().manual_seed(seed)
    whole: list[tuple[Tensor, Tensor]] = []
    for place, level in enumerate(levels):
        own = samples + 3 * (place % 3)  # clients of unequal size
        time = torch.arange(PAST + STEPS, dtype=torch.float64)
        phase = 6.28 * torch.rand(2 * own, 1, generator=generator, dtype=torch.float64)
        noise = 0.1 * torch.randn(2 * own, PAST + STEPS, generator=generator, dtype=torch.float64)
        series = (level + torch.sin(time / 2 + phase) + noise).to(dtype)
        whole.append((series[:, :PAST], series[:, PAST:]))
    names = tuple(f"road_{place}" for place in range(len(levels)))
    train = Clients(
        names=names,
        x=tuple(x[: len(x) // 2] for x, _ in whole),
        y=tuple(y[: len(y) // 2] for _, y in whole),
    )
    test = Clients(
        names=names,
        x=tuple(x[len(x) // 2 :] for x, _ in whole),
        y=tuple(y[len(y) // 2 :] for _, y in whole),
    )
    return Problem(model=Linear(), loss=SquaredError(), clients=train), test


@cache
def ranges(per: str = "client", windows: int = 3) -> fedkg.Pack:
    """Rules that find the range of x in windows of two steps."""
    found = "".join(
        f"infer range_{i} per {per} find ?low, ?high in operational_range(x, ?low, ?high, {2 * i},"
        f" {2 * i + 1})\n"
        for i in range(windows)
    )
    head = (
        "timeline step 1 h ends clip\nsignal x in % span -100 .. 100\nuse rules"
        " templates.operational_range\n"
    )
    return fedkg.compile(text=head + found)


def properties(problem: Problem, *, share: float = 0.1, pack: fedkg.Pack | None = None) -> Inferred:
    return inferred(pack or ranges(), problem.clients, LAYOUT, steps=STEPS, share=share)
