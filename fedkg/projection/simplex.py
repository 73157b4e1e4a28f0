"""The simplex, and the simplex with a cap on every entry.

Letters: [...] any leading shape, n the length of a point.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import SetError
from fedkg.projection.declared_field_shapes import number_field
from fedkg.projection.projection_set import ProjectionSet, numbers
from fedkg.projection.simplex_threshold import above_threshold


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
                "the total of a simplex must be above 0",
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
        cap: at least 0, a number, [n] or [..., n].
        total: a number or [...], at most the sum of the caps.

    Raises:
        SetError: caps below 0, or with a sum below the total (a common cap is checked with the
            point).
    """

    cap: Tensor | float = field(metadata=number_field("n|1", finite=False, each=True))
    total: Tensor | float = field(default=1.0, metadata=number_field(each=True))

    @override
    def __post_init__(self) -> None:
        cap, total = torch.as_tensor(self.cap), torch.as_tensor(self.total)
        if bool((cap < 0).any()) or bool((total < 0).any()):
            raise SetError(
                "caps and totals of a simplex must be at least 0",
                received=f"a cap of {float(cap.min()):g}"
                if bool((cap < 0).any())
                else f"a total of {float(total.min()):g}",
            )
        if cap.ndim and cap.shape[-1] > 1:
            _require_reachable(cap.sum(-1), total)

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`.

        The sum of ``clamp(v - t, 0, cap)`` falls in t, linearly between the 2 n values at which an
        entry leaves a bound. These are sorted, and the sums at them locate the piece with the
        total.
        """
        one = torch.as_tensor(self.cap)
        if not one.ndim or one.shape[-1] == 1:
            _require_reachable(
                (one * point.shape[-1]).reshape(one.shape[:-1]), torch.as_tensor(self.total)
            )
        cap = numbers(self.cap, point).expand(point.shape)
        total = numbers(self.total, point).expand(point.shape[:-1])
        with torch.no_grad():
            breaks, order = torch.sort(torch.cat([point, point - cap], -1), dim=-1, descending=True)
            turns = torch.where(order < point.shape[-1], 1.0, -1.0).to(
                point.dtype
            )  # the sum grows below an entry's upper break
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
        # an entry between its bounds moves with the point, minus the mean of these movements
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


def _require_reachable(sums: Tensor, total: Tensor) -> None:
    """Raise SetError if sums of caps are below the total by more than rounding."""
    sums, total = torch.broadcast_tensors(sums, total)  # type: ignore[no-untyped-call]  # torch's
    is_short = sums < total * (1 - 1e-6)
    if bool(is_short.any()):
        row = tuple(is_short.nonzero()[0].tolist())
        raise SetError(
            "the caps do not reach the total",
            received=f"caps that add up to {float(sums[row]):g}{_row_name(row)}",
            expected=f"at least the total {float(total[row]):g}",
            help="raise the caps, or lower the total",
        )


def _row_name(row: tuple[int, ...]) -> str:
    return f" in row {', '.join(str(place) for place in row)}" if row else ""
