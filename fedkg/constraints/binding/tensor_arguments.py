"""Convert the arguments of a call (batches, answers to project, weights) to tensors, or reject
them.

Letters: B batch, T steps of a window, F features, H outputs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedkg._internal.torch_compat import being_traced
from fedkg._internal.value_description import describe_value
from fedkg.errors import LayoutError


def batch_of(x: Any) -> Tensor:
    """`x` as a tensor of real numbers. Raises LayoutError."""
    batch: Tensor = x if isinstance(x, Tensor) else _as_tensor(x)
    if batch.is_complex():
        raise LayoutError(
            "x has complex numbers, but rules read real numbers",
            received=str(batch.dtype),
            help="pass real numbers: x.real or x.abs()",
        )
    return batch


def _as_tensor(x: Any) -> Tensor:
    if callable(x):
        raise LayoutError(
            "x must be a batch, not a model or another function",
            received=type(x).__name__,
            help="pass the batch first: rules(x, model)",
        )
    try:
        return torch.as_tensor(x)  # follows `torch.set_default_device`
    except (TypeError, ValueError, RuntimeError) as error:
        raise LayoutError(
            "x is not a batch of numbers",
            received=f"{type(x).__name__}: {str(error).splitlines()[0]}",
            help="pass a tensor or an array",
        ) from error


def check_floating(y: Any) -> None:
    """Raise LayoutError where answers are whole or complex numbers: what is nearest to them is made
    of neither.
    """
    if isinstance(y, Tensor) and not y.is_floating_point():
        raise LayoutError(
            "the answers that rules correct must be floating-point numbers",
            expected="float32 or float64",
            received=describe_value(y),
            help=f"pass {'y.real' if y.is_complex() else 'y.float()'}",
        )


def weights_of(weight: Any, shape: tuple[int, ...], device: torch.device) -> Tensor:
    """The weight of each row of a batch of this shape: [B], or for windows of each step, [B * T].

    Numbers are looked at on a processor, and neither while they are being traced nor in transforms.

    Raises:
        LayoutError: no numbers, another shape, a weight that is negative or not finite.
    """
    try:
        given = (
            weight
            if isinstance(weight, Tensor)
            else torch.as_tensor(weight, dtype=torch.get_default_dtype(), device=device)
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise LayoutError(
            "sample_weight is not a tensor of numbers",
            received=f"{type(weight).__name__}: {str(error).splitlines()[0]}",
            help="pass a tensor with one number of 0 or more for each row",
        ) from error
    if given.shape != shape and (len(shape) == 1 or given.shape != shape[:1]):
        expected = f"shape {list(shape)}" + (f" or {list(shape[:1])}" if len(shape) == 2 else "")
        raise LayoutError(
            "sample_weight does not fit the batch",
            expected=expected,
            received=f"shape {list(given.shape)}",
            help="pass one number for each row of x"
            + (", or for each step of each window" if len(shape) == 2 else ""),
        )
    if row := _wrong(given):
        raise LayoutError(
            "sample_weight contains a number that cannot be a weight",
            expected="finite numbers, 0 or more",
            received=f"{float(given.flatten()[row[0]])} at position {row[0]}",
            help="0 leaves a row out",
        )
    return given.repeat_interleave(shape[1]) if given.shape != shape else given.flatten()


def _wrong(weight: Tensor) -> list[int]:
    """The position of the first invalid weight; empty if all are valid.

    Also empty if the numbers may not be inspected.
    """
    if weight.device.type != "cpu" or being_traced():
        return []
    try:
        fine = (weight >= 0) & weight.isfinite()
        return [] if bool(fine.all()) else [int((~fine).flatten().int().argmax())]
    except RuntimeError:  # torch.func transforms and tracing refuse to turn a tensor into a number
        return []
