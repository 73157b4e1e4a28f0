"""Compares the results of the loops with those of the engine, for tests of the loops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from fedkg.constraints import ConstraintModule, compiled_loop_warmup

VERDICTS = ("satisfied", "violated", "unknown", "fired", "applicable")
FORMS = ("hinge", "squared", "log_barrier")


@contextmanager
def computed_by(loops: bool) -> Iterator[None]:
    """Use loops for everything that has them, or for nothing."""
    with patch.object(compiled_loop_warmup, "SMALLEST", 0 if loops else 1 << 60):
        yield


def slopes(value: Tensor, leaves: tuple[Tensor, ...]) -> list[Tensor]:
    """The gradients of a number with respect to some leaves; 0 where it does not depend on them."""
    if not value.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(value, leaves, allow_unused=True)
    return [
        torch.zeros_like(leaf) if slope is None else slope
        for slope, leaf in zip(found, leaves, strict=True)
    ]


def evaluate_module(
    module: ConstraintModule, x: Tensor, y: Tensor, loops: bool, **call: Any
) -> dict[str, Tensor]:
    """Verdicts, robustness, penalties in all exact forms, and the gradients of both.

    Gradients are with respect to features and answers.
    """
    found: dict[str, Tensor] = {}
    with computed_by(loops):
        report = module(x, y, **call)
        found |= {name: getattr(report, name) for name in VERDICTS}
        found["robustness"], found["at steps"] = report.robustness, report.at_steps.robustness
        x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
        steps = module(x, y, **call).at_steps.robustness
        dice = torch.Generator().manual_seed(1)
        share = torch.randint(-2, 3, steps.shape, generator=dice).to(steps.dtype)
        known = torch.where(torch.isfinite(steps), steps, 0.0)
        found["slopes by x"], found["slopes by y"] = slopes((known * share).sum(), (x, y))
        for form in FORMS:
            penalty = module(x, y, form=form, **call).penalty
            found[form] = penalty.detach()
            found[f"{form} by x"], found[f"{form} by y"] = slopes(penalty, (x, y))
    return found


def agree(
    module: ConstraintModule, x: Tensor, y: Tensor, *, rounded: bool = False, **call: Any
) -> dict[str, Tensor]:
    """The results of the loops, after asserting that they equal the engine's.

    Values and verdicts agree to the bit, sums and gradients up to rounding, with ties or without.

    Args:
        rounded: values agree only up to rounding: torch does not round square roots in float32
            correctly.
    """
    ours, theirs = (evaluate_module(module, x, y, loops, **call) for loops in (True, False))
    rounding = (
        {"rtol": 1e-12, "atol": 1e-12} if x.dtype == torch.float64 else {"rtol": 2e-5, "atol": 2e-6}
    )
    for name, value in ours.items():
        exact = name in (*VERDICTS, "robustness", "at steps")
        tolerance = {"rtol": 0.0, "atol": 0.0} if exact and not rounded else rounding

        def describe_mismatch(text: str, name: str = name) -> str:
            return f"{name}: {text}"

        torch.testing.assert_close(
            value, theirs[name], equal_nan=True, msg=describe_mismatch, **tolerance
        )
    return ours
