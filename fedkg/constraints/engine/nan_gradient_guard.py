"""Gradients that are not numbers stop here."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override


class _Shield(torch.autograd.Function):
    """The identity; where the incoming gradient is NaN or infinite it passes on 0, a legitimate
    choice at the edge of a domain.
    """

    generate_vmap_rule = True

    @staticmethod
    @override
    def forward(value: Tensor) -> Tensor:
        return value.view_as(value)

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Nothing is saved."""

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        return torch.nan_to_num(gradients[0], nan=0.0, posinf=0.0, neginf=0.0)


def shield(value: Tensor) -> Tensor:
    """`value`, with every gradient that is not a finite number replaced by 0, element by element.

    Put on a variable just before ``sqrt``, ``log`` or a division, it keeps an element at the edge
    of the domain (where the derivative is infinite) or outside it (where it is NaN, and NaN times a
    zero gradient is NaN again) from spoiling the sum over all the others.
    """
    # torch declares `apply` without types
    shielded: Tensor = _Shield.apply(value)  # type: ignore[no-untyped-call]
    return shielded
