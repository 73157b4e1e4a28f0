"""Shares of a whole: the simplex, and the simplex with a cap on every entry.

Letters: [...] any leading shape, n the length of a point.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import SetError
from fedkg.projection.declared_shapes import number_field
from fedkg.projection.projection_set import ProjectionSet, numbers
from fedkg.projection.thresholds import above_threshold


@dataclass(frozen=True, slots=True, eq=False)
class Simplex(ProjectionSet):
    """``v >= 0, sum v = total``.

    Args:
        total: above 0, a number or [...].
    """

    total: Tensor | float = field(default=1.0, metadata=number_field())

    @override
    def __post_init__(self) -> None:
        if not bool((torch.as_tensor(self.total) > 0).all()):
            raise SetError(
                "the total of a simplex is above 0",
                received=f"{float(torch.as_tensor(self.total).min()):g}",
            )

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        return above_threshold(point, self.total)

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return torch.maximum(-point.amin(-1), (point.sum(-1) - numbers(self.total, point)).abs())


@dataclass(frozen=True, slots=True, eq=False)
class CappedSimplex(ProjectionSet):
    """``0 <= v <= cap, sum v = total``.

    Args:
        cap: at least 0, a number, [n] or [..., n]. total: a number or [...], at most the sum of the caps.

    Raises:
        SetError: caps below 0, or which do not reach the total (a cap for all entries is looked at with the point).
    """

    cap: Tensor | float = field(metadata=number_field("n|1", finite=False, each=True))
    total: Tensor | float = field(default=1.0, metadata=number_field(each=True))

    @override
    def __post_init__(self) -> None:
        cap, total = torch.as_tensor(self.cap), torch.as_tensor(self.total)
        if bool((cap < 0).any()) or bool((total < 0).any()):
            raise SetError("caps and totals of a simplex are at least 0")
        if cap.ndim and cap.shape[-1] > 1:
            _reached(cap.sum(-1), total)

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`.

        The sum of ``clamp(v - t, 0, cap)`` falls in t, linearly between the 2 n values at which an entry leaves a bound: these are
        sorted, and the piece with the total is found in the sums at them.
        """
        one = torch.as_tensor(self.cap)
        if not one.ndim or one.shape[-1] == 1:
            _reached((one * point.shape[-1]).reshape(one.shape[:-1]), torch.as_tensor(self.total))
        cap = numbers(self.cap, point).expand(point.shape)
        total = numbers(self.total, point).expand(point.shape[:-1])
        with torch.no_grad():
            breaks, order = torch.sort(torch.cat([point, point - cap], -1), dim=-1, descending=True)
            turns = torch.where(order < point.shape[-1], 1.0, -1.0).to(
                point.dtype
            )  # below an entry's upper break it grows
            slopes = turns.cumsum(-1)
            gains = slopes[..., :-1] * (breaks[..., :-1] - breaks[..., 1:])
            sums = torch.nn.functional.pad(gains.cumsum(-1), (1, 0))
            piece = ((sums <= total.unsqueeze(-1)).sum(-1, keepdim=True) - 1).clamp(
                0, sums.shape[-1] - 2
            )
            slope = slopes.gather(-1, piece).clamp(min=1)
            level = (
                breaks.gather(-1, piece) - (total.unsqueeze(-1) - sums.gather(-1, piece)) / slope
            )
            shifted = point - level
            free = (shifted > 0) & (shifted < cap)
        # between the bounds an entry moves with the point and against the level, the mean movement of all such entries
        count = free.sum(-1, keepdim=True).clamp(min=1)
        moving = torch.where(free, point, 0).sum(-1, keepdim=True)
        level = level + (moving - moving.detach()) / count
        return torch.where(
            free, point - level, torch.clamp(shifted.detach(), torch.zeros_like(cap), cap)
        )

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        ends = torch.maximum(-point, point - numbers(self.cap, point)).amax(-1)
        return torch.maximum(ends, (point.sum(-1) - numbers(self.total, point)).abs())


def _reached(sums: Tensor, total: Tensor) -> None:
    """Raise where sums of caps stay below the total, by more than rounding."""
    if bool((sums < total * (1 - 1e-6)).any()):
        raise SetError(
            "the caps do not reach the total",
            received=f"{float(sums.min()):g}",
            expected=f"{float(total.max()):g}",
        )
