"""What is unknown as a number: between all that violates and all that satisfies.

A value that is unknown may be anything. Formulas are made of minima and maxima of their parts, and
such a function of one unknown lies between its values at both ends: it is the median of the two and
the unknown value. Place the unknown between the negative numbers and zero. Then the function gives
this number exactly where both ends differ in their verdict, and elsewhere the end nearer to zero:
one evaluation without a branch says what two and a comparison say (the interval semantics of the
interpreter; the median formula: Grätzer 1979, for every lattice polynomial).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

SUBNORMAL = 5e-324
"""Equal to 0 where the processor flushes such numbers."""

GRAPH_STEP, GRAPH_STEP_RATIO = 2.0**-99, 2.0**-20
"""Step and ratio of the unknown value to it in exported graphs. ONNX files contain the numbers of
formulas in float32, and runtimes flush subnormal numbers."""


def strict_step(dtype: torch.dtype) -> float:
    """What a strict comparison that misses by nothing is short of: below any margin of practical
    data, above `between`.
    """
    return GRAPH_STEP if torch.compiler.is_exporting() else 2 * torch.finfo(dtype).tiny


def between(dtype: torch.dtype) -> float:
    """The magnitude that encodes an unknown value: below any margin, even of strict comparisons."""
    if torch.compiler.is_exporting():
        return GRAPH_STEP * GRAPH_STEP_RATIO
    limits = torch.finfo(dtype)
    return limits.tiny * limits.eps if SUBNORMAL > 0 else limits.tiny


def marked(
    value: Tensor, mark: float, *, infinite: bool = True, mirror: Tensor | None = None
) -> Tensor:
    """`value` with `mark` where it is NaN or, when `infinite`, not finite.

    Args:
        mirror: -value, computed separately, to inspect instead: a compiler computes `value` at each
            read, but may read this once.

    The gradient passes through: where the mark decides nothing there is none, and where it does
    `unmarked` takes it away.
    """
    if not value.requires_grad:
        return _replaced(value, mark, infinite, mirror)
    # torch declares `apply` without types
    result: Tensor = _Mark.apply(value, mark, infinite, mirror)  # type: ignore[no-untyped-call]
    return result


def unmarked(value: Tensor, mark: float) -> Tensor:
    """`value` with NaN where it is `mark`, and no gradient there."""
    if torch.compiler.is_exporting():  # ONNX optimisers drop a subtraction of a tiny number
        return torch.where((value < 0) & (value >= mark), math.nan, value)
    if not value.requires_grad:
        return _Unmark.forward(value, mark)
    # torch declares `apply` without types
    result: Tensor = _Unmark.apply(value, mark)  # type: ignore[no-untyped-call]
    return result


def _replaced(value: Tensor, mark: float, infinite: bool, mirror: Tensor | None) -> Tensor:
    if mirror is not None:
        return torch.where(
            torch.abs(mirror) < math.inf if infinite else mirror == mirror, value, mark
        )
    return torch.nan_to_num(
        value,
        nan=mark,
        posinf=mark if infinite else math.inf,
        neginf=mark if infinite else -math.inf,
    )


class _Mark(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    @override
    def forward(value: Tensor, mark: float, infinite: bool, mirror: Tensor | None) -> Tensor:
        return _replaced(value, mark, infinite, mirror)

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """Nothing is saved."""

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None, None, None


class _Unmark(torch.autograd.Function):
    """By 0 / 0 where the mark is: selecting by a mask costs several times as much on a CPU."""

    generate_vmap_rule = True

    @staticmethod
    @override
    def forward(value: Tensor, mark: float) -> Tensor:
        side = torch.sign(value - mark)
        return value * side / side

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """The result says where nothing is known."""
        ctx.save_for_backward(output)

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        return torch.where(torch.isnan(ctx.saved_tensors[0]), 0.0, gradients[0]), None
