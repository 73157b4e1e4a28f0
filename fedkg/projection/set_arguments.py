"""Conversion and checks of the arguments of sets and of their methods.

Letters: [...] any leading shape of points, n their length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkg._internal.value_description import describe_value
from fedkg.errors import SetError
from fedkg.projection.declared_field_shapes import check_fields, check_fit

ON_POINTS = ("project", "excess", "distance2", "contains")
"""The methods of a set that take points."""


def check_arguments_of(cls: type) -> None:
    """Make the methods of a set's class check their points, and its `__post_init__` convert its
    numbers to tensors.
    """
    for name, wrapped in (
        *((name, _on_points) for name in ON_POINTS),
        ("__post_init__", _on_numbers),
    ):
        method = vars(cls).get(name)
        if (
            method is not None and "takes" not in method.__dict__
        ):  # `dataclass(slots=True)` creates the class twice
            setattr(cls, name, wrapped(method))


# `Any` from here on: these functions check values of any type
def _on_points(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def checked(self: object, point: Any, *args: Any, **named: Any) -> Any:
        check_points(point, f"{type(self).__name__}.{method.__name__}")
        check_fit(self, point)
        return method(self, point, *args, **named)

    checked.__dict__["takes"] = "points"
    return checked


def _on_numbers(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def checked(self: object) -> None:
        convert_fields(self)
        method(self)

    checked.__dict__["takes"] = "numbers"
    return checked


def check_points(point: Any, where: str) -> None:
    """Raise SetError unless points are a floating-point tensor [..., n].

    Integer points are rejected, because their nearest points are not integers.
    """
    if isinstance(point, Tensor) and point.is_floating_point() and point.ndim:
        return
    if isinstance(point, Tensor):
        right = (
            "point.to(torch.float32)"
            if point.ndim
            else "point.unsqueeze(0), for a point of one entry"
        )
    else:
        right = (
            "torch.tensor(point, dtype=torch.float32)"
            if isinstance(point, list | tuple | np.ndarray)
            else "torch.tensor([0.5, 2.0])"
        )
    raise SetError(
        f"`{where}` needs the points as a tensor of floating-point numbers",
        expected="float32 [..., n], or float64",
        received=describe_value(point),
        help=right,
    )


def convert_fields(made: Any) -> None:
    """Convert the tensor fields of a set with `convert_numbers`, and check their declared
    shapes."""
    for field in fields(made):
        if field.init and "Tensor" in str(field.type):
            value = convert_numbers(
                getattr(made, field.name), f"{type(made).__name__}.{field.name}", str(field.type)
            )
            object.__setattr__(made, field.name, value)
    check_fields(made)


def convert_numbers(value: Any, where: str, declared: str) -> Any:
    """Convert integers, lists and arrays to float64 tensors; keep numbers and floating-point
    tensors.

    Args:
        declared: the type, as text: whether one number (`float`) or nothing (`None`) is allowed
            instead of a tensor.

    Raises:
        SetError: the value cannot be converted to the declared type.
    """
    number = "float" in declared
    if (value is None and "None" in declared) or (number and isinstance(value, Real)):
        return value
    found = value
    if isinstance(value, list | tuple | np.ndarray):
        try:
            found = torch.from_numpy(np.array(value, dtype=np.float64))
        except (
            TypeError,
            ValueError,
            RuntimeError,
        ):  # unequal lengths, not numbers, tensors with a gradient or on a device
            found = None
    if isinstance(found, Tensor) and not found.is_complex() and (found.ndim or number):
        return found if found.is_floating_point() else found.to(torch.float64)
    raise SetError(
        f"`{where}` must be made of numbers",
        expected="a number, or a tensor of numbers"
        if number
        else "a tensor of numbers with at least one dimension",
        received="a list of numbers and other values, or of rows of unequal length"
        if isinstance(value, list | tuple)
        else describe_value(value),
        help="torch.tensor([0.5, 2.0]); for a list of tensors: torch.stack([...])",
    )
