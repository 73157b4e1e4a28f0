"""What people give to sets and to their methods: taken as tensors of floating-point numbers, or refused with what would be right.

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

from fedkg._internal.messages import describe_value
from fedkg.errors import SetError
from fedkg.projection.declared_shapes import check_fields, check_fit

ON_POINTS = ("project", "excess", "distance2", "contains")
"""The methods of a set that take points."""


def check_arguments_of(cls: type) -> None:
    """What a set's class defines looks at its points first, and makes tensors of the set's own numbers before it looks at them."""
    for name, wrapped in (
        *((name, _on_points) for name in ON_POINTS),
        ("__post_init__", _on_numbers),
    ):
        method = vars(cls).get(name)
        if (
            method is not None and "takes" not in method.__dict__
        ):  # a dataclass with slots is made twice
            setattr(cls, name, wrapped(method))


# `Any` from here on: what people give may be anything.
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
    """Raise SetError unless points are a floating-point tensor [..., n]: what is nearest to whole numbers is not made of whole numbers."""
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
        f"`{where}` takes points as a tensor of floating-point numbers",
        expected="float32 [..., n], or float64",
        received=describe_value(point),
        help=right,
    )


def convert_fields(made: Any) -> None:
    """The fields of a set that are declared to be tensors, as `numbers_given` takes them, and held to what else is declared of them."""
    for field in fields(made):
        if field.init and "Tensor" in str(field.type):
            value = convert_numbers(
                getattr(made, field.name), f"{type(made).__name__}.{field.name}", str(field.type)
            )
            object.__setattr__(made, field.name, value)
    check_fields(made)


def convert_numbers(value: Any, where: str, declared: str) -> Any:
    """Numbers of a set: whole ones, lists and arrays as float64 tensors, numbers and floating-point tensors as they are.

    Args:
        declared: the type, as text: whether one number (`float`) or nothing (`None`) will do in place of a tensor.

    Raises:
        SetError: it cannot be taken as what is declared.
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
        ):  # of unequal lengths, no numbers, tensors with a gradient or on a device
            found = None
    if isinstance(found, Tensor) and not found.is_complex() and (found.ndim or number):
        return found if found.is_floating_point() else found.to(torch.float64)
    raise SetError(
        f"`{where}` is made of numbers",
        expected="a number, or a tensor of numbers"
        if number
        else "a tensor of numbers with a dimension or more",
        received=describe_value(value),
        help="torch.tensor([0.5, 2.0]); of tensors: torch.stack([...])",
    )
