"""Sets of clients, one for each row of a bank and each sample, as thresholds on predicted numbers.

Letters: R rows of a bank, P samples (rows, or steps of windows).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fixed:
    """All clients or none: bool [R, P]."""

    mask: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """The clients whose number reaches a threshold, or stays below it.

    Attributes:
        core: int64 [R], which number. down: bool [R], those below the threshold.
        threshold: [R, P] or [R, 1]; infinite where all clients are in the set, or none.
    """

    core: Tensor
    down: Tensor
    threshold: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Join:
    """The clients in every one of some sets, or in any of them; no part is `Fixed`."""

    parts: tuple[Reach | Join, ...]
    every: bool


Clients = Fixed | Reach | Join


def joined(parts: Sequence[Clients], every: bool) -> Clients:
    """The clients in every one of some sets, or in any; masks become thresholds that all reach, or none."""
    masks = [part.mask for part in parts if isinstance(part, Fixed)]
    rest = [part for part in parts if not isinstance(part, Fixed)]
    mask = None
    for one in masks:
        mask = one if mask is None else mask & one if every else mask | one
    if not rest:
        assert mask is not None, "something is joined"
        return Fixed(mask=mask)
    if mask is not None:
        rest[0] = settled(rest[0], ~mask if every else mask, everybody=not every)
    return rest[0] if len(rest) == 1 else Join(parts=tuple(rest), every=every)


def settled(clients: Reach | Join, where: Tensor, *, everybody: bool) -> Reach | Join:
    """The same set, with everybody in it, or nobody, `where` that is so; bool [R, P] or [P]."""
    if isinstance(clients, Reach):
        end = torch.where(clients.down == everybody, math.inf, -math.inf).to(clients.threshold)
        return replace(clients, threshold=torch.where(where, end[:, None], clients.threshold))
    first, *others = clients.parts
    first = settled(first, where, everybody=everybody)
    if clients.every == everybody:
        others = [settled(part, where, everybody=everybody) for part in others]
    return replace(clients, parts=(first, *others))


def reaches(clients: Reach | Join) -> Iterator[Reach]:
    """The thresholds of a set, from left to right."""
    if isinstance(clients, Reach):
        yield clients
    else:
        for part in clients.parts:
            yield from reaches(part)
