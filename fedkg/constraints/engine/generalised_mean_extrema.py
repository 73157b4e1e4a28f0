"""Smooth minima and maxima with exact signs: norms of the violated parts, and of the satisfied
parts.

Numbers say what is missing: positive where violated, up to 0 where satisfied, beyond reach where
inputs alone decide. The maximum, what is missing of all parts together, becomes

- ``sqrt(sum(m**2))`` over the parts that are violated, when one is: each has its share of the
  gradient;
- ``-1 / sqrt(sum(1 / m**2))`` when all are satisfied: less than the narrowest of them has to spare,
  and never more than 0.

The minimum is its mirror image. Both keep the sign of the exact extreme, are continuous, never rise
as a part falls, agree however parts are put in brackets, and give no part a gradient above 1. Of n
violated parts the maximum is between the exact one and sqrt(n) times it.

Chains of them need no roots in between: of *signed squares*, ``u = m * |m|``, the maximum is the
sum of the positive ones or, where there is none, minus the inverse of the sum of their inverses; 0
is unknown, and what inputs alone decide is infinite. All of these are then rules of arithmetic.

They are generalised means (Mehdipour, Vasile and Belta 2019, "Arithmetic-geometric mean
robustness"; Uzun, Elango, Garoche and Acikmese 2024, "Optimization with temporal and logical
specifications via generalized mean-based smooth robustness measures") of the powers 2 and -2,
without the division by the number of parts: so a step that violates a rule counts the same however
long the window is, and two steps joined to a third are three steps. The arithmetic-geometric mean
is not continuous where a part becomes satisfied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.constraints.engine.unknown_value_encoding import between

NEAR, FAR = 1e-10, 1e12
"""Sizes, in scales, are clipped to this range: their cubes and inverse cubes fit float32."""

BEYOND, UNKNOWN = 1e34, 1e-34
"""What a part adds to the sum of squares that inputs alone have decided, or that is unknown: above
and below any sum of others."""


def norm_of(parts: Sequence[Tensor], edge: float, *, lowest: bool) -> Tensor:
    """The smooth maximum of what is missing (`lowest`: minimum) of some parts, broadcast to each
    other.
    """
    if len(parts) == 1:
        return parts[0]
    sums = weighed(parts[0], edge, lowest=lowest)
    for part in parts[1:]:
        sums = sums + weighed(part, edge, lowest=lowest)
    return norm_from_sums(sums, edge, lowest=lowest)


def weighed(missing: Tensor, edge: float, *, lowest: bool) -> Tensor:
    """The contribution of each number to the two sums of a norm, [2, ...]; sums over no numbers are
    0.

    The first sum is of squares of the parts that decide alone (the violated ones in a maximum), the
    second of inverse squares of the others.

    Args:
        missing: [...], the violation of each part: positive where violated, `between` where
            unknown.
        edge: a number above all violations; one of at least half this size was decided by inputs
            alone.
        lowest: whether the norm replaces a minimum instead of a maximum.
    """
    violated, satisfied = missing > between(missing.dtype), missing <= 0
    alone, others = (satisfied, violated) if lowest else (violated, satisfied)
    size = -missing if lowest else missing
    decided = size.detach().abs() >= edge / 2
    strong, inverse = size.clamp(0.0, FAR) + NEAR, 1.0 / ((-size).clamp(0.0, FAR) + NEAR)
    squares = torch.where(
        alone, torch.where(decided, BEYOND, strong * strong), torch.where(others, 0.0, UNKNOWN)
    )
    return torch.stack([squares, torch.where(others & ~decided, inverse * inverse, 0.0)])


def norm_from_sums(sums: Tensor, edge: float, *, lowest: bool) -> Tensor:
    """The norm from its sums, [...].

    Out of reach if every part is, `between` if unknown parts leave the verdict open.
    """
    squares, inverse = sums
    sign = -1.0 if lowest else 1.0
    known, reached = squares > NEAR**2 / 2, squares < BEYOND / 2
    strong = torch.where(known & reached, squares, 1.0).sqrt()
    weak = torch.where(inverse > 0, inverse, 1.0).rsqrt()
    result = torch.where(inverse > 0, -sign * weak, -sign * edge)
    result = torch.where(squares > 0, between(sums.dtype), result)
    return torch.where(known, torch.where(reached, sign * strong, sign * edge), result)


def signed_squares(missing: Tensor, edge: float) -> Tensor:
    """``m * |m|`` of each number: 0 where it is `between`, infinite where it is half of `edge` or
    more.
    """
    side = (missing > between(missing.dtype)).to(missing.dtype) - (missing <= 0).to(missing.dtype)
    size = (side * missing).clamp(max=FAR) + NEAR
    return torch.where(missing.detach().abs() >= edge / 2, side * math.inf, side * size * size)


def signed_roots(squares: Tensor, edge: float) -> Tensor:
    """The number with this signed square, for each; the inverse of `signed_squares`."""
    plain = (squares != 0) & ~torch.isinf(squares)
    size = torch.where(plain, squares.abs(), 1.0).sqrt()
    side = torch.sign(squares.detach())
    return torch.where(
        plain, side * size, torch.where(squares == 0, between(squares.dtype), side * edge)
    )


class _UpperSquare(torch.autograd.Function):
    """`upper_square`; where a part is 0 or infinite its formula has a derivative, but none that the
    chain rule finds.
    """

    generate_vmap_rule = True

    @staticmethod
    @override
    def forward(left: Tensor, right: Tensor) -> Tensor:
        violated = left.clamp(min=0.0) + right.clamp(min=0.0)
        return torch.where(violated > 0, violated, -1.0 / (1.0 / left.abs() + 1.0 / right.abs()))

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """The shares follow from the result and the parts."""
        ctx.save_for_backward(output, *inputs)

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        found, *parts = ctx.saved_tensors
        return tuple(gradients[0] * upper_shares(found, part) for part in parts)


def upper_square(left: Tensor, right: Tensor) -> Tensor:
    """The signed square of the norm that replaces the maximum of two numbers, given theirs."""
    # torch declares `apply` without types
    found: Tensor = _UpperSquare.apply(left, right)  # type: ignore[no-untyped-call]
    return found


def upper_shares(found: Tensor, part: Tensor) -> Tensor:
    """The derivative of `upper_square` by one of its parts."""
    plain = torch.isfinite(found) & torch.isfinite(part) & (part != 0)
    ratio = torch.where(plain, found, 0.0) / torch.where(plain, part, 1.0)
    return torch.where(found > 0, (part > 0).to(part.dtype), ratio.square())
