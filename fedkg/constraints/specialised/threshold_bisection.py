"""Where a verdict turns: thresholds found among the floating-point numbers themselves.

Rounding keeps the order, so a verdict that rises or falls with a number before rounding does so
after it, too. Bisection with the verdict as it is evaluated finds the one number where it turns,
and a comparison with that number says the same for every value, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def turning_points(verdict: Callable[[Tensor], Tensor], low: Tensor) -> tuple[Tensor, Tensor]:
    """Where a verdict turns as its number rises from `low` (negative) to `-low`.

    Returns:
        The first number at which it has turned, -inf where it does not, and the verdict from there
            on; both in the shape of `low`.
    """
    below, above = _rank(low), _rank(-low)
    first, last = verdict(low), verdict(-low)
    for _ in range(8 * low.element_size()):
        middle = (below >> 1) + (above >> 1) + (below & above & 1)
        turned = verdict(_of_rank(middle, low.dtype)) == last
        below, above = torch.where(turned, below, middle), torch.where(turned, middle, above)
    return torch.where(first == last, -math.inf, _of_rank(above, low.dtype)), last


def _rank(values: Tensor) -> Tensor:
    """The place of floating-point numbers among all of their kind, int64: 0 for zero, 1 for the
    next one.
    """
    bits = values.view(torch.int32 if values.dtype == torch.float32 else torch.int64)
    return torch.where(bits >= 0, bits, torch.iinfo(bits.dtype).min - bits).to(torch.int64)


def _of_rank(ranks: Tensor, dtype: torch.dtype) -> Tensor:
    bits = ranks.to(torch.int32 if dtype == torch.float32 else torch.int64)
    return torch.where(bits >= 0, bits, torch.iinfo(bits.dtype).min - bits).view(dtype)
