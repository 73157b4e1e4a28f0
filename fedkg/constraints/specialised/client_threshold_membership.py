"""Sets of clients, one for each row of a bank and each sample, as thresholds on predicted numbers.

Letters: R rows of a bank, P samples (rows, or steps of windows), C numbers ("cores"), K clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fixed:
    """All clients or none: bool [R, P]."""

    mask: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """The clients with a number that reaches a threshold or, where `above` is False, the others.

    Attributes:
        core: int64 [R], which of the C numbers each row compares.
        threshold: [R, P] or [R, 1]; every number reaches -inf.
        above: bool, in the shape of `threshold`.
    """

    core: Tensor
    threshold: Tensor
    above: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Join:
    """The clients in every one of some sets, or in any of them.

    One part at most is `Fixed`, and that is the last.
    """

    parts: tuple[Clients, ...]
    every: bool


Clients = Fixed | Reach | Join


def joined(parts: Sequence[Clients], every: bool) -> Clients:
    """The clients in every one of some sets, or in any."""
    flat = [
        one
        for part in parts
        for one in (part.parts if isinstance(part, Join) and part.every == every else (part,))
    ]
    masks = [part.mask for part in flat if isinstance(part, Fixed)]
    rest: list[Clients] = [part for part in flat if not isinstance(part, Fixed)]
    if masks:
        rest.append(Fixed(mask=_folded(masks, every)))
    return rest[0] if len(rest) == 1 else Join(parts=tuple(rest), every=every)


def within(clients: Clients, rows: slice, values: Tensor) -> Tensor:
    """Whether each client is in the sets of some rows, for the numbers [C, K, P] of its cores: bool
    [r, K, P].
    """
    match clients:
        case Fixed():
            return clients.mask[rows, None]
        case Reach():
            reached = values[clients.core[rows]] >= clients.threshold[rows, None]
            return reached == clients.above[rows, None]
        case Join():
            return _folded([within(part, rows, values) for part in clients.parts], clients.every)


def _folded(masks: Sequence[Tensor], every: bool) -> Tensor:
    found = masks[0]
    for mask in masks[1:]:
        found = found & mask if every else found | mask
    return found
