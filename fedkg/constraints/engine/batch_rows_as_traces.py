"""Rows of a batch as consecutive steps of traces, aligned for sliding windows.

Letters: B rows of a batch, R rows of a bank, M members; n traces of T places, the longest of T
steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkg.constraints.engine.evaluation_inputs import Steps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traces:
    """The traces of a batch.

    Attributes:
        count: n.
        steps: T.
        place: int64 [n * T], the row of the batch at each place (any row at places of padding);
            None if each row is at the place of the same number.
        back: int64 [B], the place of each row; None if `place` is.
        inside: bool [n * T], the places that are steps instead of padding; None if all are.
        clip: whether a window ends with its trace; otherwise values beyond the trace are unknown.
    """

    count: int
    steps: int
    place: Tensor | None
    back: Tensor | None
    inside: Tensor | None
    clip: bool

    @property
    def rows_inside(self) -> Tensor | None:
        """bool [B]: the rows that are steps of a trace; None when all are."""
        return self.inside if self.place is None else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lined:
    """The order of places in which some rows of a bank see the batch.

    Attributes:
        order: int64 [R, n * T] or [1, n * T], the row of the batch at each place; None: as it is.
        back: int64 [R, B] or [1, B], the place of each row of the batch.
    """

    steps: Steps
    order: Tensor | None
    back: Tensor | None

    def there(self, values: Tensor) -> Tensor:
        """Values [R, B] of rows of the batch, by place: [R, n * T]."""
        return values if self.order is None else _taken(values, self.order)

    def again(self, values: Tensor) -> Tensor:
        """Values [R, n * T] of places, by row of the batch: [R, B]."""
        return values if self.back is None else _taken(values, self.back)

    def first(self, device: torch.device) -> Tensor:
        """bool [R, B] or [1, B]: the rows that are the first step of their trace."""
        back = (
            torch.arange(self.steps.places, device=device)[None] if self.back is None else self.back
        )
        return back % max(1, self.steps.count) == 0

    def of_members(self, owner: Tensor) -> Lined:
        """The same for the members of each row; `owner` int64 [M]."""
        if self.order is None or self.order.shape[0] == 1:
            return self
        length = self.steps.length
        steps = replace(
            self.steps, length=None if length is None else length.index_select(0, owner)
        )
        return Lined(steps=steps, order=self.order.index_select(0, owner), back=None)


def _taken(values: Tensor, places: Tensor) -> Tensor:
    if places.shape[0] == 1:
        return values.index_select(1, places[0])
    return values.gather(1, places)


def windows(count: int, steps: int, weight: Tensor | None, *, clip: bool) -> Traces:
    """A batch of `count` traces of `steps` steps each, one after the other.

    Args:
        weight: [count, steps] or None. What lies before the first and after the last step of
            positive weight is padding, no step of the trace.
    """
    inside = None
    if weight is not None:
        some = (weight > 0).to(torch.int64)
        inside = ((some.cumsum(dim=1) > 0) & (some.flip(1).cumsum(dim=1).flip(1) > 0)).flatten()
    return Traces(count=count, steps=steps, place=None, back=None, inside=inside, clip=clip)


def labelled(labels: Tensor, *, clip: bool) -> Traces:
    """Rows in order of time, those with the same label [B] being one trace."""
    if not labels.shape[0]:
        return Traces(count=0, steps=1, place=labels, back=labels, inside=labels.bool(), clip=clip)
    names, number, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    order = torch.argsort(number, stable=True)
    starts = torch.cumsum(sizes, 0) - sizes
    steps = int(sizes.max())
    at = (
        number[order] * steps
        + torch.arange(labels.shape[0], device=labels.device)
        - starts[number[order]]
    )
    place = labels.new_zeros(names.shape[0] * steps, dtype=torch.int64).index_put((at,), order)
    inside = torch.zeros_like(place, dtype=torch.bool).index_fill(0, at, True)
    back = torch.empty_like(order).index_put((order,), at)
    return Traces(
        count=names.shape[0], steps=steps, place=place, back=back, inside=inside, clip=clip
    )


def repeat_traces(traces: Traces, times: int) -> Traces:
    """The traces of a batch repeated `times` times."""

    def again(index: Tensor | None, size: int) -> Tensor | None:
        if index is None:
            return None
        return (index + size * torch.arange(times, device=index.device)[:, None]).flatten()

    places = traces.count * traces.steps
    rows = places if traces.back is None else int(traces.back.shape[0])
    inside = None if traces.inside is None else traces.inside.repeat(times)
    return replace(
        traces,
        count=times * traces.count,
        place=again(traces.place, rows),
        back=again(traces.back, places),
        inside=inside,
    )


def line_up(traces: Traces, applies: Tensor | None) -> Lined:
    """The order in which bank rows see the batch: of each trace the rows of the batch to which they
    apply, then the others.

    Args:
        applies: bool [R, B]; None when all rows apply everywhere.
    """
    places = traces.count * traces.steps
    steps = Steps(places=places, count=traces.steps, length=None, clip=traces.clip)
    if applies is None and traces.inside is None:
        return Lined(steps=steps, order=traces.place, back=traces.back)
    if traces.inside is not None:
        device = traces.inside.device
    else:
        assert applies is not None
        device = applies.device
    there = torch.ones((1, places), dtype=torch.bool, device=device) if applies is None else applies
    if applies is not None and traces.place is not None:
        there = applies.index_select(1, traces.place)
    if traces.inside is not None:
        there = there & traces.inside
    laid = there.reshape(there.shape[0], traces.count, traces.steps)
    kept_first = torch.argsort(laid.logical_not().to(torch.uint8), dim=2, stable=True)
    order = (
        kept_first + torch.arange(traces.count, device=device)[:, None] * traces.steps
    ).flatten(1)
    back = torch.argsort(order, dim=1)
    if traces.back is not None:
        back = back.index_select(1, traces.back)
    if traces.place is not None:
        order = traces.place[order]
    return Lined(steps=replace(steps, length=laid.sum(dim=2, keepdim=True)), order=order, back=back)


def again(values: Tensor, rows: int, lined: Lined | None) -> Tensor:
    """Values by place, or broadcast to it, by row of the batch."""
    return values if lined is None else lined.again(values.expand(rows, lined.steps.places))
