"""Exact minima, maxima and until over windows as single loops: for graphs that are traced and
compiled for an accelerator.

`sliding` takes few passes over numbers in memory, which suits a processor. A compiler of kernels
can do without: each window is one loop that computes the numbers which it compares where it
compares them, so that neither they nor blocks of them are ever written. That costs their
computation once for each step of the window, out of caches, which an accelerator has to spare while
windows are short. Rows with different windows are one loop all the same. Narrow windows are
*written out*, step by step, so that what they say is not written either. Values, and which value
gets the gradient, are those of `sliding`.

Letters: R rows, n traces of T places, w steps of the widest window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from fedkg._internal.vmap_dims import move_batch_dim_first
from fedkg.constraints.engine.device_constants import constant
from fedkg.constraints.engine.sliding import until_within

LONGEST = 64
"""Windows of more steps are left to `sliding`: it takes about log2(w) passes where a loop computes
w values, and an accelerator does some dozens of operations in the time in which its memory gives
one number."""

WRITTEN_OUT = 16
"""Windows up to this number of steps are unrolled for the compiler. Compile time grows with the
steps, but the result is fused with its use, where a separate loop has to write it first. Until has
no other loop: beyond, `sliding` evaluates it, too."""

At = Callable[[int], Tensor]
"""Values shifted by each number of steps (negative: back), the fill value beyond the trace: [R, n,
T]."""


class Ends(NamedTuple):
    """The windows of R rows.

    Attributes:
        each: float64 [R, 3], for each row the first and the last step of its window (counted from
            the current step, ahead or back) and the value beyond the trace.
        past: whether the windows look back.
        begin: the lowest step of each window relative to the current step, negative before it: [R,
            1, 1], or a number if it is the same for all rows.
        end: the highest step of each window, in the form of `begin`.
        beyond: the value beyond the trace, [R, 1, 1], or a number if it is the same for all rows.
    """

    each: NDArray[np.float64]
    past: bool
    begin: Tensor | int
    end: Tensor | int
    beyond: Tensor | float

    @property
    def width(self) -> int:
        """w."""
        return int((self.each[:, 1] - self.each[:, 0]).max()) + 1

    @property
    def shifts(self) -> range:
        """The steps that are in some row's window, counted from now."""
        first, last = int(self.each[:, 0].min()), int(self.each[:, 1].max())
        return range(-last, 1 - first) if self.past else range(first, last + 1)

    def rows_at(self, by: int) -> Tensor | bool:
        """Rows with a window that contains this step: bool [R, 1, 1], or the same for all rows."""
        own = (self.each[:, 0] <= abs(by)) & (abs(by) <= self.each[:, 1])
        if own.all() or not own.any():
            return bool(own.all())
        inside = (self.begin <= by) & (self.end >= by)
        assert isinstance(inside, Tensor), "windows differ"
        return inside


def spans(windows: NDArray[np.float64], steps: int) -> NDArray[np.int64]:
    """Windows [R, 2] on traces of `steps` steps, as from `sliding.clamped`: [R, 2]."""
    first = np.minimum(windows[:, 0], steps)
    last = np.where(windows[:, 1] < 0, steps - 1, np.minimum(windows[:, 1], steps))
    return np.stack([first, np.maximum(first, last)], axis=1).astype(np.int64)


def ends_of(each: NDArray[np.float64], like: Tensor, *, past: bool) -> Ends:
    """The windows of `Ends.each`, looking back where `past`, for values of the type and on the
    device of `like`.
    """
    first, last, beyond = each.T
    begin, end = (-last, -first) if past else (first, last)

    def number(numbers: NDArray[Any], kind: type) -> Any:
        if (numbers == numbers[0]).all():
            return kind(numbers[0])
        return constant(
            numbers.astype(np.int64 if kind is int else np.float64)[:, None, None], like.device
        )

    outside = number(beyond, float)
    return Ends(
        each,
        past,
        number(begin, int),
        number(end, int),
        outside.to(like.dtype) if isinstance(outside, Tensor) else outside,
    )


def extreme(values: Tensor, ends: Ends, *, lowest: bool, at: At | None = None) -> Tensor:
    """Minimum or maximum over each step's window of values [R, n, T], to which what is beyond the
    trace belongs: [R, n, T].

    Args:
        at: the values, to write the windows out.
    """
    with torch.no_grad():
        found = _by_loop(values, ends, lowest) if at is None else _written_out(at, ends, lowest)
    if not values.requires_grad:
        return found
    # torch gives it no types
    followed: Tensor = _Extreme.apply(values, found, ends, lowest)  # type: ignore[no-untyped-call]
    return followed


def until(left: Tensor, right: Tensor, ends: Ends, *, lowest: bool, at: tuple[At, At]) -> Tensor:
    """`sliding.until_within` of values [R, n, T], or looking back its mirror image: [R, n, T].

    Args:
        at: the values of both sides. What is beyond the trace belongs to them.
    """
    with torch.no_grad():
        found = _until_written_out(*at, ends, lowest)
    if not (left.requires_grad or right.requires_grad):
        return found
    # torch gives it no types
    result: Tensor = _Until.apply(left, right, found, ends, lowest)  # type: ignore[no-untyped-call]
    return result


def _written_out(at: At, ends: Ends, lowest: bool) -> Tensor:
    """`extreme`, step by step."""
    most = torch.minimum if lowest else torch.maximum
    found: Tensor | None = None
    for by in ends.shifts:
        reached = _where_in(ends, by, at(by), lowest)
        if reached is not None:
            found = reached if found is None else most(found, reached)
    assert found is not None, "a window has a step"
    return found


def _until_written_out(left: At, right: At, ends: Ends, lowest: bool) -> Tensor:
    """`until`, step by step from now to the end of the farthest window."""
    least, most = (torch.maximum, torch.minimum) if lowest else (torch.minimum, torch.maximum)
    found: Tensor | None = None
    kept: Tensor | None = None
    for ahead in range(int(ends.each[:, 1].max()) + 1):
        by = -ahead if ends.past else ahead
        holds, there = left(by), right(by)
        reached = _where_in(ends, by, there if kept is None else least(kept, there), lowest)
        if reached is not None:
            found = reached if found is None else most(found, reached)
        kept = holds if kept is None else least(kept, holds)
    assert found is not None, "a window has a step"
    return found


def _where_in(ends: Ends, by: int, values: Tensor, lowest: bool) -> Tensor | None:
    """Values in rows with a window that contains this step, the neutral value in others.

    None if no row has it.
    """
    inside = ends.rows_at(by)
    if isinstance(inside, bool):
        return values if inside else None
    return torch.where(inside, values, _nothing(values, lowest))


class _Extreme(torch.autograd.Function):
    """What `extreme` has found.

    For the gradient the deciding value is looked for, and each step adds up the windows it decides.
    """

    @staticmethod
    @override
    def forward(values: Tensor, found: Tensor, ends: Ends, lowest: bool) -> Tensor:
        return found.clone()

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """The values alone are kept."""
        ctx.save_for_backward(inputs[0])
        ctx.form = inputs[2:]

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: Any, values: Tensor, found: Tensor, *form: Any
    ) -> tuple[Tensor, int]:
        """One dimension more in front."""
        parts = move_batch_dim_first((values, found), in_dims, info.batch_size)
        # torch gives it no types
        followed: Tensor = _Extreme.apply(*parts, *form)  # type: ignore[no-untyped-call]
        return followed, 0

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        ends, lowest = ctx.form
        decided = _decided(ctx.saved_tensors[0].detach(), ends, lowest)
        return _gathered(gradients[0], decided, ends), None, None, None


def _by_loop(values: Tensor, ends: Ends, lowest: bool) -> Tensor:
    """`extreme`, as a reduction."""
    best, bound, nowhere = _parts(values, ends, lowest)
    best = torch.minimum(best, bound) if lowest else torch.maximum(best, bound)
    return best if nowhere is None else torch.where(nowhere, ends.beyond, best)


def _parts(values: Tensor, ends: Ends, lowest: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Of each step's window the extreme of the values, what is beyond the trace (or nothing), and
    whether all is (None: nowhere).
    """
    steps = values.shape[-1]
    taken = _read(values, _window_places(ends, steps, values.device))
    now = torch.arange(steps, device=values.device)
    bound = torch.where(
        (now + ends.end >= steps) | (now + ends.begin < 0), ends.beyond, _nothing(values, lowest)
    ).to(values.dtype)
    within = (
        isinstance(ends.begin, int) and isinstance(ends.end, int) and ends.begin <= 0 <= ends.end
    )
    nowhere = None if within else (now + ends.begin >= steps) | (now + ends.end < 0)
    return taken.amin(-1) if lowest else taken.amax(-1), bound, nowhere


def _nothing(like: Tensor, lowest: bool) -> Tensor:
    return like.new_full((), torch.inf if lowest else -torch.inf)


def _shifts(ends: Ends, device: torch.device) -> tuple[Tensor, Tensor | int]:
    """The steps of the widest window counted from now, [w] or [R, 1, 1, w], and the last one of
    each row's own.
    """
    begin, end = (
        part[..., None] if isinstance(part, Tensor) else part for part in (ends.begin, ends.end)
    )
    return begin + torch.arange(ends.width, device=device), end


def _window_places(ends: Ends, steps: int, device: torch.device) -> Tensor:
    """Where each step's window reads, within the trace: int64 [R or 1, 1, T, w].

    Its last places over and over where it is shorter.
    """
    shifts, end = _shifts(ends, device)
    shifts = torch.minimum(shifts, end) if isinstance(end, Tensor) else shifts.clamp(max=end)
    return _of_rows((torch.arange(steps, device=device)[:, None] + shifts).clamp(0, steps - 1))


def _of_rows(places: Tensor) -> Tensor:
    return places if places.dim() == 4 else places[None, None]


def _read(values: Tensor, places: Tensor) -> Tensor:
    """Values [..., R, n, T] at places [R or 1, 1, T, w]: [..., R, n, T, w]."""
    rows, traces = (torch.arange(size, device=values.device) for size in values.shape[-3:-1])
    return values[..., rows[:, None, None, None], traces[:, None, None], places]


def _decided(values: Tensor, ends: Ends, lowest: bool) -> Tensor:
    """The place of the first value that decides each step's window, int32 [..., R, n, T]; -1 where
    what is beyond the trace does.
    """
    steps = values.shape[-1]
    best, bound, nowhere = _parts(values, ends, lowest)
    wins = torch.lt if lowest else torch.gt
    beyond = (
        ~wins(best, bound) if ends.past else wins(bound, best)
    )  # in the past what is beyond comes first
    beyond = beyond if nowhere is None else beyond | nowhere
    places = _window_places(ends, steps, values.device)
    first = (
        torch.where(_read(values, places) == best[..., None], places, steps)
        .to(torch.int32)
        .amin(-1)
    )
    return torch.where(beyond, -1, first)


def _gathered(gradient: Tensor, decided: Tensor, ends: Ends) -> Tensor:
    """What each place gets of the gradients of the windows that it decides, in their order."""
    steps = gradient.shape[-1]
    now = torch.arange(steps, device=gradient.device)[:, None]
    shifts, end = _shifts(ends, gradient.device)
    there = now - shifts  # the step with this place in its window at that shift
    inside = (shifts <= end) & (there >= 0) & (there < steps)
    places = _of_rows(torch.where(inside, there, 0))
    own = (_read(decided, places) == now) & inside
    return torch.where(own, _read(gradient, places), 0.0).sum(-1)


class _Until(torch.autograd.Function):
    """What `until` has found, with the gradient of `sliding`."""

    @staticmethod
    @override
    def forward(left: Tensor, right: Tensor, found: Tensor, ends: Ends, lowest: bool) -> Tensor:
        return found.clone()

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        """The values alone are kept."""
        ctx.save_for_backward(*inputs[:2])
        ctx.form = inputs[3:]

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: Any, left: Tensor, right: Tensor, found: Tensor, *form: Any
    ) -> tuple[Tensor, int]:
        """One dimension more in front."""
        parts = move_batch_dim_first((left, right, found), in_dims, info.batch_size)
        # torch gives it no types
        followed: Tensor = _Until.apply(*parts, *form)  # type: ignore[no-untyped-call]
        return followed, 0

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Any) -> Any:
        ends, lowest = ctx.form
        slopes = torch.func.vjp(
            lambda *sides: _by_row(sides, ends, lowest),
            *(side.detach() for side in ctx.saved_tensors),
        )[1]
        return *slopes(gradients[0]), None, None, None


def _by_row(sides: Sequence[Tensor], ends: Ends, lowest: bool) -> Tensor:
    """`until` by `sliding`, the rows of each window separately."""
    sides = [side.flip(-1) for side in sides] if ends.past else sides
    kinds, which = np.unique(ends.each, axis=0, return_inverse=True)
    order, parts = np.argsort(which.ravel(), kind="stable"), []
    for kind, (first, last, beyond) in enumerate(kinds.tolist()):
        index = constant(np.flatnonzero(which.ravel() == kind), sides[0].device)
        left, right = (side.index_select(-3, index) for side in sides)
        parts.append(until_within(left, right, int(first), int(last), beyond, lowest=lowest))
    found = torch.cat(parts, dim=-3).index_select(
        -3, constant(np.argsort(order, kind="stable"), sides[0].device)
    )
    return found.flip(-1) if ends.past else found
