"""Until by norms: few passes over signed squares, and a gradient that keeps none of them.

As `sliding` doubles the exact one: over w steps from now it is found_w, and `left` holds for all of
them by kept_w; what m and n steps say joins into what m + n say. Norms do not distribute over each
other, so that the value depends on the brackets, and these on the width of the window alone; the
sign is that of the exact until in any of them.

Letters: N traces of T steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from typing_extensions import override

from fedkg._internal.vmap_dims import move_batch_dim_first
from fedkg.constraints.engine.generalised_mean_extrema import (
    signed_roots,
    signed_squares,
    upper_shares,
    upper_square,
)
from fedkg.constraints.engine.sliding import growth
from fedkg.constraints.engine.unknown_value_encoding import between


def norm_until(
    left: Tensor, right: Tensor, first: int, last: int, beyond: float, edge: float, *, lowest: bool
) -> Tensor:
    """A smooth until over windows for violations, [..., T].

    It replaces minima and maxima by norms in: the maximum over t' in t + first .. t + last of the
    lesser of `right` at t' and the minimum of `left` from t + first to before t'.

    Args:
        left: [..., T], violations of the left side: positive where violated.
        right: [..., T], violations of the right side.
        first: the first step of the window, counted from the current step.
        last: the last step of the window, counted from the current step.
        beyond: the value of both sides beyond the trace.
        edge: a number above all violations; one of at least half this size was decided by inputs
            alone.
        lowest: whether to compute the dual, which exchanges minima and maxima.
    """
    sign = -1.0 if lowest else 1.0
    before, there = (sign * signed_squares(side, edge).flatten(0, -2) for side in (left, right))
    after = (
        0.0
        if beyond == between(right.dtype)
        else sign * float("inf") * (1.0 if beyond > 0 else -1.0)
    )
    run = _NormUntil.apply if before.requires_grad or there.requires_grad else _NormUntil.forward
    found: Tensor = run(before, there, first, last, after)
    return signed_roots(sign * found, edge).reshape(right.shape)


Levels = list[tuple[Tensor, Tensor]]


def _risen(left: Tensor, right: Tensor, first: int, last: int, beyond: float) -> Levels:
    """Kept and found after each pass."""
    base = pad(left, (0, last), value=beyond), pad(right, (0, last), value=beyond)
    levels = [base]
    for width, doubles in growth(last - first + 1):
        (kept, found), shift = (levels[-1], width) if doubles else (base, 1)
        kept_on, found_on = (side[..., shift:] for side in levels[-1])
        kept, found = kept[..., : kept_on.shape[-1]], found[..., : kept_on.shape[-1]]
        levels.append((_lower(kept, kept_on), upper_square(found, _lower(kept, found_on))))
    return levels


def _lower(left: Tensor, right: Tensor) -> Tensor:
    return -upper_square(-left, -right)


def _fallen(levels: Levels, first: int, last: int, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of both sides."""
    steps = gradient.shape[-1]
    of_found = pad(gradient, (first, levels[-1][1].shape[-1] - first - steps))
    of_kept = torch.zeros_like(of_found)
    of_left = of_right = torch.zeros_like(levels[0][0])
    passes = growth(last - first + 1)
    for (width, doubles), below, above in zip(
        reversed(passes), levels[-2::-1], levels[:0:-1], strict=True
    ):
        here, shift = (below, width) if doubles else (levels[0], 1)
        kept_on, found_on = (side[..., shift:] for side in below)
        kept, found = (side[..., : kept_on.shape[-1]] for side in here)
        both = _lower(kept, found_on)
        to_found, of_both = (of_found * upper_shares(above[1], part) for part in (found, both))
        to_kept = of_both * upper_shares(-both, -kept) + of_kept * upper_shares(-above[0], -kept)
        to_found_on, to_kept_on = (
            of_both * upper_shares(-both, -found_on),
            of_kept * upper_shares(-above[0], -kept_on),
        )
        of_kept, of_found = pad(to_kept_on, (shift, 0)), pad(to_found_on, (shift, 0))
        if doubles:
            of_kept, of_found = (
                of_kept + pad(to_kept, (0, shift)),
                of_found + pad(to_found, (0, shift)),
            )
        else:
            rest = of_left.shape[-1] - to_kept.shape[-1]
            of_left, of_right = (
                of_left + pad(to_kept, (0, rest)),
                of_right + pad(to_found, (0, rest)),
            )
    return (of_left + of_kept)[..., :steps], (of_right + of_found)[..., :steps]


class _NormUntil(torch.autograd.Function):
    """The until of signed squares [N, T], for `beyond` as such a square."""

    @staticmethod
    @override
    def forward(left: Tensor, right: Tensor, first: int, last: int, beyond: float) -> Tensor:
        return _risen(left, right, first, last, beyond)[-1][1][
            ..., first : first + right.shape[-1]
        ].clone()

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """The sides alone are kept."""
        ctx.save_for_backward(*inputs[:2])
        ctx.window = inputs[2:]

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: Any, left: Tensor, right: Tensor, *window: Any
    ) -> tuple[Tensor, int]:
        """More traces."""
        sides = move_batch_dim_first((left, right), in_dims, info.batch_size)
        traces = [side.flatten(0, 1) for side in sides]
        # torch gives it no types
        found: Tensor = _NormUntil.apply(*traces, *window)  # type: ignore[no-untyped-call]
        return found.reshape(info.batch_size, -1, found.shape[1]), 0

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        (left, right), (first, last, beyond) = ctx.saved_tensors, ctx.window
        of_left, of_right = _fallen(
            _risen(left, right, first, last, beyond), first, last, gradients[0]
        )
        return of_left, of_right, None, None, None
