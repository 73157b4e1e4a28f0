"""Exact minima and maxima over windows, and until: few passes over contiguous values, few numbers
kept for the gradient.

All is made of minima and maxima of two shifted copies, the widths doubling: about log2(width)
passes whatever the window, in memory that does not grow with it. Results are bit for bit those of
the definition, for a minimum rounds nothing. The gradient goes to one of the values that decide,
the first of equals; it is found by walking the same passes back, so that it is the same on every
device and every run.

Letters: T steps; values are [..., T].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from typing_extensions import override

from fedkg._internal.vmap_dims import move_batch_dim_first


def extreme(
    values: Tensor, first: int, last: int, beyond: float, *, lowest: bool, past: bool = False
) -> Tensor:
    """Minimum or maximum of values[t + first .. t + last] for each t (`past`: of values[t - last ..
    t - first]), [..., T].

    Args:
        last: -1 for the end of the trace (its beginning, when `past`).
        beyond: the value beyond the trace.
    """
    steps = values.shape[-1]
    first, last = clamped(first, last, steps)
    around, start = ((last, 0), 0) if past else ((0, last), first)
    run = (
        _Window.apply if values.requires_grad else _Window.forward
    )  # `apply` costs as much as a pass
    found: Tensor = run(values, around, start, last - first + 1, beyond, lowest)
    return found


def until_within(
    left: Tensor, right: Tensor, first: int, last: int, beyond: float, *, lowest: bool
) -> Tensor:
    """The exact until over windows, [..., T].

    It is the maximum over t' in t + first .. t + last of the lesser of `right` at t' and the
    minimum of `left` from t to before t'. Windows with `first` > 0 have two parts: `left` up to
    there, and from there an until (Donzé, Ferrère and Maler 2013, section 3).

    Args:
        left: [..., T], the values of the left side.
        right: [..., T], the values of the right side.
        first: the first step of the window, counted from the current step.
        last: the last step of the window, counted from the current step; -1 for the end of the
            trace.
        beyond: the value of both sides beyond the trace.
        lowest: whether to compute the dual, which exchanges minima and maxima.
    """
    begin, end = clamped(first, last, right.shape[-1])
    run = _Until.apply if left.requires_grad or right.requires_grad else _Until.forward
    found: Tensor = run(left, right, begin, end, beyond, lowest)
    return (
        found
        if begin == 0
        else _picked(extreme(left, 0, begin - 1, beyond, lowest=not lowest), found, not lowest)
    )


def clamped(first: int, last: int, steps: int) -> tuple[int, int]:
    """A window on traces of `steps` steps: entirely beyond them is one step beyond; -1 is the last
    step.
    """
    first = min(first, steps)
    return first, max(first, steps - 1 if last < 0 else min(last, steps))


def _picked(left: Tensor, right: Tensor, lowest: bool) -> Tensor:
    return torch.minimum(left, right) if lowest else torch.maximum(left, right)


def _doubled(blocks: Tensor, size: int, lowest: bool) -> Tensor:
    """Blocks of twice the size."""
    rest = blocks.shape[-1] - size
    return _picked(blocks.narrow(-1, 0, rest), blocks.narrow(-1, size, rest), lowest)


def _chosen(left: Tensor, right: Tensor, lowest: bool) -> Tensor:
    """1 where the left one is picked (of equals, too), else 0."""
    # a gradient that is differentiated again, or inside transforms, which know no comparison in
    # place
    if torch.is_grad_enabled():
        return (left <= right if lowest else left >= right).to(left.dtype)
    return left.clone().le_(right) if lowest else left.clone().ge_(right)


class _Window(torch.autograd.Function):
    """`extreme`: blocks of 1, 2, 4, ... values, the last two overlapping."""

    @staticmethod
    @override
    def forward(
        values: Tensor, around: tuple[int, int], start: int, width: int, beyond: float, lowest: bool
    ) -> Tensor:
        steps = values.shape[-1]
        blocks, size = pad(values, around, value=beyond), 1
        while 2 * size <= width:
            blocks = _doubled(blocks, size, lowest)
            size *= 2
        near = blocks.narrow(-1, start, steps)
        return (
            near.clone()
            if width == size
            else _picked(near, blocks.narrow(-1, start + width - size, steps), lowest)
        )

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """The values alone are kept."""
        ctx.save_for_backward(inputs[0])
        ctx.window = inputs[1:]

    @staticmethod
    @override
    def vmap(info: Any, in_dims: Any, values: Tensor, *window: Any) -> tuple[Tensor, int]:
        """One dimension more in front."""
        moved = values.movedim(in_dims[0], 0)
        # torch gives it no types
        found: Tensor = _Window.apply(moved, *window)  # type: ignore[no-untyped-call]
        return found, 0

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        values, (around, start, width, beyond, lowest) = ctx.saved_tensors[0].detach(), ctx.window
        steps = values.shape[-1]
        levels = [pad(values, around, value=beyond)]
        size = 1
        while 2 * size <= width:
            levels.append(_doubled(levels[-1], size, lowest))
            size *= 2
        top, shift = levels.pop(), width - size
        behind = top.shape[-1] - start - steps
        if shift:
            near = gradients[0] * _chosen(
                top.narrow(-1, start, steps), top.narrow(-1, start + shift, steps), lowest
            )
            total = pad(near, (start, behind))
            total.narrow(-1, start + shift, steps).add_(gradients[0] - near)
        else:
            total = pad(gradients[0], (start, behind))
        for level in reversed(levels):
            size //= 2
            rest = total.shape[-1]
            near = total * _chosen(level.narrow(-1, 0, rest), level.narrow(-1, size, rest), lowest)
            far, total = total - near, pad(near, (0, size))
            total.narrow(-1, size, rest).add_(far)
        return total.narrow(-1, around[0], steps), *[None] * 5


class _Until(torch.autograd.Function):
    """`until_within` from the window's beginning on.

    Over w steps from now it is found_w, and `left` holds for all of them by kept_w. What m and n
    steps say joins into what m + n say:
    found = max(found_m, min(kept_m, found_n m steps on)), kept = min(kept_m, kept_n m steps on).
    The width grows by its binary digits.
    """

    @staticmethod
    @override
    def forward(
        left: Tensor, right: Tensor, first: int, last: int, beyond: float, lowest: bool
    ) -> Tensor:
        kept = left_there = pad(left, (0, last), value=beyond)
        found = right_there = pad(right, (0, last), value=beyond)
        for width, doubles in growth(last - first + 1):
            if doubles:
                kept, found = _joined(kept, found, kept, found, width, lowest)
            else:
                kept, found = _joined(left_there, right_there, kept, found, 1, lowest)
        return found[..., first : first + right.shape[-1]].clone()

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """The values alone are kept."""
        ctx.save_for_backward(*inputs[:2])
        ctx.window = inputs[2:]

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: Any, left: Tensor, right: Tensor, *window: Any
    ) -> tuple[Tensor, int]:
        """One dimension more in front."""
        sides = move_batch_dim_first((left, right), in_dims, info.batch_size)
        # torch gives it no types
        found: Tensor = _Until.apply(*sides, *window)  # type: ignore[no-untyped-call]
        return found, 0

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        left, right = (side.detach() for side in ctx.saved_tensors)
        first, last, beyond, lowest = ctx.window
        base = pad(left, (0, last), value=beyond), pad(right, (0, last), value=beyond)
        widths, levels = growth(last - first + 1), [base]
        for width, doubles in widths:
            levels.append(
                _joined(
                    *(levels[-1] if doubles else base), *levels[-1], width if doubles else 1, lowest
                )
            )
        steps = right.shape[-1]
        of_found = pad(gradients[0], (first, levels[-1][1].shape[-1] - first - steps))
        of_kept = torch.zeros_like(of_found)
        of_left, of_right = (
            torch.zeros_like(of_found[..., :1]).expand(base[0].shape).clone() for _ in range(2)
        )
        for (width, doubles), level in zip(reversed(widths), reversed(levels[:-1]), strict=True):
            if doubles:
                to_here, to_there = _parted(of_kept, of_found, level, level, width, lowest)
                of_kept, of_found = (pad(part, (0, width)) for part in to_here)
                for whole, part in zip((of_kept, of_found), to_there, strict=True):
                    whole.narrow(-1, width, part.shape[-1]).add_(part)
            else:
                to_here, to_there = _parted(of_kept, of_found, base, level, 1, lowest)
                for whole, part in zip((of_left, of_right), to_here, strict=True):
                    whole.narrow(-1, 0, part.shape[-1]).add_(part)
                of_kept, of_found = (pad(part, (1, 0)) for part in to_there)
        return (
            (of_left + of_kept)[..., :steps],
            (of_right + of_found)[..., :steps],
            None,
            None,
            None,
            None,
        )


def growth(width: int) -> list[tuple[int, bool]]:
    """How 1 grows to a width: (the width before, whether it is doubled, else 1 is put in front)."""
    steps, size = [], 1
    for digit in bin(width)[3:]:
        steps.append((size, True))
        size *= 2
        if digit == "1":
            steps.append((size, False))
            size += 1
    return steps


def _joined(
    kept: Tensor, found: Tensor, kept_on: Tensor, found_on: Tensor, shift: int, lowest: bool
) -> tuple[Tensor, Tensor]:
    """Kept and found over the steps of both, the second beginning `shift` steps on."""
    rest = kept_on.shape[-1] - shift
    kept_on, found_on = kept_on.narrow(-1, shift, rest), found_on.narrow(-1, shift, rest)
    kept, found = kept.narrow(-1, 0, rest), found.narrow(-1, 0, rest)
    found = _picked(found, _picked(kept, found_on, not lowest), lowest)
    return _picked(kept, kept_on, not lowest), found


def _parted(
    of_kept: Tensor,
    of_found: Tensor,
    here: tuple[Tensor, Tensor],
    there: tuple[Tensor, Tensor],
    shift: int,
    lowest: bool,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The gradients of `_joined`: (of kept, of found) here and there."""
    rest = of_found.shape[-1]
    kept_on, found_on = (part.narrow(-1, shift, rest) for part in there)
    kept, found = (part.narrow(-1, 0, rest) for part in here)
    to_found = of_found * _chosen(found, _picked(kept, found_on, not lowest), lowest)
    to_both = of_found - to_found
    to_kept = to_both * _chosen(kept, found_on, not lowest)
    to_here = of_kept * _chosen(kept, kept_on, not lowest)
    return (to_kept + to_here, to_found), (of_kept - to_here, to_both - to_kept)
