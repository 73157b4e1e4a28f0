"""Numbers and verdicts over the members of sets: sums, extremes, counts, and "at least n of them".

Letters: M members, P their owners, B batch. Members of one owner are adjacent.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from fedkg.constraints.engine.generalised_mean_extrema import norm_from_sums, weighed
from fedkg.constraints.engine.window_operators import Truth, settle


def reduce_members(
    op: Literal["sum", "mean", "min", "max", "count"],
    skip: bool,
    values: Tensor,
    owner: Tensor,
    owners: int,
) -> Tensor:
    """One number for each owner, [P, B], of the members' values [M, B] (NaN: unknown), added up in
    their order.

    Of nobody sum and count are 0, the others unknown. `skip` leaves unknown members out; otherwise
    one of them makes the whole unknown. A `count` is of the known members and never unknown.
    """
    known = ~torch.isnan(values)
    count = _added(known.to(values.dtype), owner, owners)
    if op == "count":
        return count
    if op in ("sum", "mean"):
        result = _added(torch.where(known, values, 0.0), owner, owners)
        if op == "mean":
            result = torch.where(count > 0, result / count.clamp(min=1.0), math.nan)
    else:
        bottom = math.inf if op == "min" else -math.inf
        result = _extreme(torch.where(known, values, bottom), owner, owners, op == "min", bottom)
    result = torch.where(torch.isfinite(result), result, math.nan)
    if skip:
        return result
    size = values.new_zeros(owners).index_add(0, owner, values.new_ones(owner.shape[0]))
    return torch.where(count == size[:, None], result, math.nan)


def ranked(
    values: Tensor,
    wanted: Tensor | None,
    owner: Tensor,
    offsets: Tensor,
    truth: Truth,
    *,
    falling: bool,
) -> Tensor:
    """Of each owner's members' values [M, B] the one of rank `wanted` [P], [P, B].

    Unknown where unknown ones leave the verdict open.

    Args:
        wanted: counted from the largest when `falling`, else from the smallest; None for the last,
            which holds for all members at once. Of rank 0 or less the edge on the side counted
            from; of a rank that there is not, the opposite edge.
    """
    if truth.sound:
        return _norm_of_rank(values, wanted, owner, offsets, truth.edge, lowest=falling)
    if truth.temperature is None:
        return _ranked(values, wanted, owner, offsets, truth, falling)
    ends = (
        torch.where(torch.isnan(values), anything, values) for anything in (-truth.edge, truth.edge)
    )
    low, high = (_ranked(end, wanted, owner, offsets, truth, falling) for end in ends)
    return settle(low, high, truth)


def _ranked(
    values: Tensor,
    wanted: Tensor | None,
    owner: Tensor,
    offsets: Tensor,
    truth: Truth,
    falling: bool,
) -> Tensor:
    if wanted is not None:
        return _of_rank(values, wanted, owner, offsets, truth.edge, falling=falling)
    nobody = truth.edge if falling else -truth.edge
    if truth.temperature is None:
        return _extreme(values, owner, offsets.shape[0] - 1, falling, nobody)
    return _log_sum_exp(
        values, owner, offsets, -truth.temperature if falling else truth.temperature, nobody
    )


def _added(values: Tensor, owner: Tensor, owners: int) -> Tensor:
    return values.new_zeros((owners, values.shape[1])).index_add(0, owner, values)


def _extreme(values: Tensor, owner: Tensor, owners: int, lowest: bool, nobody: float) -> Tensor:
    """Minimum or maximum of each owner's members; ties share the gradient."""
    start = values.new_full((owners, values.shape[1]), nobody)
    return start.scatter_reduce(
        0,
        owner[:, None].expand(values.shape),
        values,
        "amin" if lowest else "amax",
        include_self=True,
    )


def _of_rank(
    values: Tensor, wanted: Tensor, owner: Tensor, offsets: Tensor, edge: float, *, falling: bool
) -> Tensor:
    top = edge if falling else -edge
    size, wanted = (offsets[1:] - offsets[:-1])[:, None], wanted[:, None]
    shape = (wanted.shape[0], values.shape[1])
    if not values.shape[0]:
        return torch.where(wanted <= 0, top, -top).to(values.dtype).expand(shape)
    order = _order(values, owner, falling)
    place = (offsets[:-1, None] + wanted - 1).clamp(0, values.shape[0] - 1)
    found = values.gather(0, order.gather(0, place.expand(shape)))
    return torch.where(wanted <= 0, top, torch.where(wanted > size, -top, found))


def _order(values: Tensor, owner: Tensor, falling: bool) -> Tensor:
    """Which member has each rank, those of one owner one after the other: int64 [M, B]."""
    by_value = torch.argsort(values.detach(), dim=0, descending=falling, stable=True)
    return by_value.gather(0, torch.argsort(owner[by_value], dim=0, stable=True))


def _norm_of_rank(
    values: Tensor,
    wanted: Tensor | None,
    owner: Tensor,
    offsets: Tensor,
    edge: float,
    *,
    lowest: bool,
) -> Tensor:
    """The norm in place of the value of a rank: of the members before that rank together with the
    opposite norm of all others.

    "At least k" are the k - 1 best of all and any of the rest: the conjunction for the last rank,
    the disjunction for the first.
    """

    def summed(sums: Tensor) -> Tensor:
        return sums.new_zeros((2, offsets.shape[0] - 1, sums.shape[2])).index_add(1, owner, sums)

    if wanted is None:
        return norm_from_sums(summed(weighed(values, edge, lowest=lowest)), edge, lowest=lowest)
    ranked = values.gather(0, _order(values, owner, lowest))
    rank = torch.arange(1, values.shape[0] + 1, device=values.device) - offsets[owner]
    before = (rank < wanted[owner])[:, None].to(values.dtype)
    rest = norm_from_sums(
        summed(weighed(ranked, edge, lowest=not lowest) * (1.0 - before)), edge, lowest=not lowest
    )
    best = summed(weighed(ranked, edge, lowest=lowest) * before)
    found = norm_from_sums(best + weighed(rest, edge, lowest=lowest), edge, lowest=lowest)
    return torch.where((wanted <= 0)[:, None], edge if lowest else -edge, found)


def _log_sum_exp(
    values: Tensor, owner: Tensor, offsets: Tensor, scale: float, nobody: float
) -> Tensor:
    """``scale * log(sum(exp(values / scale)))`` over each owner's members."""
    owners = offsets.shape[0] - 1
    scaled = values / scale
    with torch.no_grad():
        top = _extreme(scaled, owner, owners, False, -math.inf)
        top = torch.where(torch.isfinite(top), top, 0.0)
    total = _added(torch.exp(scaled - top.index_select(0, owner)), owner, owners)
    empty = (offsets[1:] == offsets[:-1])[:, None]
    return torch.where(empty, nobody, scale * (torch.log(torch.where(empty, 1.0, total)) + top))
