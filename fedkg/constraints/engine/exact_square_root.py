"""Square roots that are the nearest number, as IEEE 754, NumPy and compiled loops have them."""

from __future__ import annotations

import torch
from torch import Tensor

from fedkg._internal.torch_compat import being_traced

HALVES = float((1 << 27) + 1)
"""Factor that splits a float64 into two of 26 bits (Dekker 1971) with exact products."""


def root(value: Tensor) -> Tensor:
    """The square root; its gradient is that of `torch.sqrt`.

    On a processor that is at times off by one in the last place, more often in float32: enough for
    a verdict to turn where a bound is met exactly.
    """
    found = torch.sqrt(value)
    if (
        value.device.type != "cpu"
        or value.dtype not in (torch.float32, torch.float64)
        or being_traced()
    ):
        return found
    with torch.no_grad():
        missing = (
            _missing_float32(value, found)
            if value.dtype == torch.float32
            else _missing_float64(value, found)
        )
        missing = missing.nan_to_num(0.0, 0.0, 0.0)
    return found + missing


def _missing_float32(value: Tensor, found: Tensor) -> Tensor:
    """By way of float64: its last place is too small to change a rounding."""
    return torch.sqrt(value.double()).float() - found


def _missing_float64(value: Tensor, found: Tensor) -> Tensor:
    """One step of Newton's from what the square lacks, which is known without rounding."""
    cut = HALVES * found
    high = cut - (cut - found)
    low = found - high
    square = found * found
    beyond = ((high * high - square) + 2.0 * high * low) + low * low
    return ((value - square) - beyond) / (2.0 * found)
