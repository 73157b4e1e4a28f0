"""Aggregates that a few clients cannot pull where they like.

They count clients, not samples: a number of samples is a claim.

All but `TrustedMean` must see the updates of a round together and keep them until it is over.

Letters: C clients of a stack, K clients of a group in a round, P parameters, G groups (models the
server holds).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import JobError
from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.server.weighted_mean import Sums, WeightedMean
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """The updates of a round so far: stacks of them with their groups int64 [C] and weights float64
    [C], for the server's models [G, ...].
    """

    models: Params
    updates: tuple[Params, ...] = ()
    groups: tuple[Tensor, ...] = ()
    weights: tuple[Tensor, ...] = ()

    def joined(self, updates: Params, groups: Tensor, weights: Tensor) -> Kept:
        """These and one more stack, copied: what an executor hands on holds until its next
        stack.
        """
        updates = {name: value.clone() for name, value in updates.items()}
        return Kept(
            models=self.models,
            updates=(*self.updates, updates),
            groups=(*self.groups, groups.clone()),
            weights=(*self.weights, weights.clone()),
        )


class _Together(ABC):
    """An aggregate that keeps the updates of a round until all are there, and then in each group
    averages what it chooses of them.
    """

    __slots__ = ()

    @property
    def is_scored(self) -> bool:
        """Whether weights in 0 .. 1 scale the shares of the updates."""
        return False

    @property
    def needs_server_update(self) -> bool:
        """See `AggregationRule.needs_server_update`."""
        return False

    def begin(self, models: Params, server_update: Params | None = None) -> Kept:
        """See `AggregationRule.begin`."""
        return Kept(models=models)

    def add(self, fold: Kept, update: Params, weights: Tensor, groups: Tensor) -> Kept:
        """See `AggregationRule.add`."""
        return fold.joined(update, groups, weights)

    def finish(self, fold: Kept) -> Params:
        """See `AggregationRule.finish`: the plain mean of what is chosen; zeros for a group without
        updates.
        """
        groups, updates = _combine(fold)
        scores = torch.cat(fold.weights) if self.is_scored else None
        mean = WeightedMean()
        result = {name: torch.zeros_like(value) for name, value in fold.models.items()}
        for group in sorted(set(groups.tolist())):
            members = groups == group
            left, kept = self._chosen({name: value[members] for name, value in updates.items()})
            if scores is not None:
                left = _scaled(left, scores[members][kept])
            count = int(kept.sum())
            sums = mean.begin({name: value[:1] for name, value in fold.models.items()})
            equal = torch.full((count,), 1.0 / count, dtype=torch.float64, device=groups.device)
            for name, value in mean.finish(
                mean.add(sums, left, equal, torch.zeros_like(groups[:count]))
            ).items():
                result[name][group] = value[0]
        return result

    @abstractmethod
    def _chosen(self, update: Params) -> tuple[Params, Tensor]:
        """What is averaged of a group's updates [K, ...], and as many True, bool [K], as there are
        values of it in each coordinate.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedMean(_Together):
    """The coordinate-wise mean without the largest and the smallest values.

    Yin et al., "Byzantine-robust distributed learning", 2018, definitions 1 and 2. Of K updates,
    ``floor(trim K)`` values are removed at each end, but at least one value remains (two if K is
    even), so a trim of 1/2 is the coordinate-wise median. With a trim of 0 and equal numbers of
    samples, it is FedAvg's mean, bit for bit if all clients are in one stack.

    Args:
        trim: the share of values to remove at each end, 0 .. 1/2.
    """

    trim: float

    def __post_init__(self) -> None:
        if not 0 <= self.trim <= 0.5:
            raise JobError(
                "`trim`, the share of updates to leave out at either end, is out of range",
                expected="0 .. 0.5",
                received=str(self.trim),
            )

    def counted(self, fold: Kept) -> Tensor | None:
        """See `AggregationRule.counted`: each client alike, since which values are taken away
        differs from coordinate to coordinate.
        """
        return torch.ones(sum(len(groups) for groups in fold.groups), dtype=torch.float64)

    @override
    def _chosen(self, update: Params) -> tuple[Params, Tensor]:
        count = len(next(iter(update.values())))
        cut = min(math.floor(self.trim * count + 1e-9), (count - 1) // 2)
        left = {
            name: _sorted(value)[cut : count - cut] if cut else value
            for name, value in update.items()
        }
        return left, torch.ones(count - 2 * cut, dtype=torch.bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Krum(_Together):
    """The mean of the updates that lie closest to their neighbours.

    Blanchard et al., "Machine learning with adversaries", 2017, section 4. An update's score is the
    sum of its squared distances to the ``K - attackers - 2`` nearest other updates (at least one).
    The server averages the updates with the least scores. If scores are equal, the first client's
    counts as the least, as in the paper. Proven for at least ``2 attackers + 3`` clients.

    Args:
        attackers: f, how many of the clients in a round may be corrupt.
        keep: m, how many updates are averaged: 1 is Krum, more multi-Krum; None is ``K -
            attackers``.
        scored: whether weights s_k in 0 .. 1 scale the shares of the averaged updates: with M, what
            is averaged, the result is ``sum_{k in M} s_k u_k / m``, so that no share grows.
    """

    attackers: int
    keep: int | None = 1
    scored: bool = False

    def __post_init__(self) -> None:
        if self.attackers < 0:
            raise JobError(
                "`attackers`, the number of attackers, must not be negative",
                received=str(self.attackers),
            )
        if self.keep is not None and self.keep < 1:
            raise JobError(
                "`keep`, the number of averaged updates, must be at least 1",
                received=str(self.keep),
            )

    @property
    @override
    def is_scored(self) -> bool:
        return self.scored

    def counted(self, fold: Kept) -> Tensor | None:
        """See `AggregationRule.counted`: 1 for those that are kept, 0 for the others; if `scored`,
        the shares ``s_k / m``.
        """
        groups, updates = _combine(fold)
        kept = torch.zeros(len(groups), dtype=torch.float64, device=groups.device)
        for group in sorted(set(groups.tolist())):
            members = (groups == group).nonzero().flatten()
            kept[members] = self._chosen({name: value[members] for name, value in updates.items()})[
                1
            ].to(torch.float64)
        return kept * torch.cat(fold.weights) / kept.sum() if self.scored else kept

    @override
    def _chosen(self, update: Params) -> tuple[Params, Tensor]:
        distance = _squared_distances(update)
        count = len(distance)
        keep = min(count, max(1, count - self.attackers) if self.keep is None else self.keep)
        if keep == count:
            return update, torch.ones(count, dtype=torch.bool, device=distance.device)
        near = min(count - 1, max(1, count - self.attackers - 2))
        score = distance.fill_diagonal_(torch.inf).sort(1).values[:, :near].sum(1)
        kept = torch.zeros(count, dtype=torch.bool, device=distance.device)
        kept[score.argsort(stable=True)[:keep]] = True
        return {name: value[kept] for name, value in update.items()}, kept


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trusted:
    """Sums so far, the trust in and the weight of each client, and the server's update [1, ...]."""

    sums: Sums
    server_update: Params
    counted: tuple[Tensor, ...] = ()
    scores: tuple[Tensor, ...] = ()


@dataclass(frozen=True, slots=True)
class TrustedMean:
    """The mean of updates of equal length, weighted by their cosine similarity with the server's
    own update (FLTrust).

    Cao et al., "FLTrust", 2021, equations 2 to 4: ``sum_k t_k (|r| / |u_k|) u_k / sum_k t_k``, with
    the server's update r on its labelled rows and the trust ``t_k = max(0, cos(u_k, r))``. If no
    update is trusted, the model stays unchanged.

    Args:
        scored: whether weights s_k in 0 .. 1 scale the shares: ``sum_k t_k s_k (|r| / |u_k|) u_k /
            sum_k t_k``, so that no share grows.
    """

    scored: bool = False

    @property
    def needs_server_update(self) -> bool:
        """See `AggregationRule.needs_server_update`."""
        return True

    def begin(self, models: Params, server_update: Params | None) -> Trusted:
        """See `AggregationRule.begin`."""
        assert server_update is not None
        return Trusted(sums=WeightedMean().begin(models), server_update=server_update)

    def add(self, fold: Trusted, update: Params, weights: Tensor, groups: Tensor) -> Trusted:
        """See `AggregationRule.add`."""
        length, own = _length(update), _length(fold.server_update)
        product = torch.stack(
            [
                (
                    value.flatten(1).to(torch.float64)
                    * fold.server_update[name].flatten(1).to(torch.float64)
                ).sum(1)
                for name, value in update.items()
            ]
        ).sum(0)
        known = (length > 0) & (own > 0)
        trust = torch.where(known, product / torch.where(known, length * own, 1.0), 0.0).clamp(
            min=0
        )
        scale = torch.where(known, own / torch.where(known, length, 1.0), 0.0)
        scaled = _scaled(update, scale * weights if self.scored else scale)
        sums = WeightedMean().add(fold.sums, scaled, trust, groups)
        return Trusted(
            sums=sums,
            server_update=fold.server_update,
            counted=(*fold.counted, trust),
            scores=(*fold.scores, weights.clone()),
        )

    def finish(self, fold: Trusted) -> Params:
        """See `AggregationRule.finish`."""
        return WeightedMean().finish(fold.sums)

    def counted(self, fold: Trusted) -> Tensor | None:
        """See `AggregationRule.counted`: the trust in each; if `scored`, the shares ``t_k s_k /
        sum t``.
        """
        trust = torch.cat(fold.counted)
        if not self.scored:
            return trust
        total = trust.sum()
        return trust * torch.cat(fold.scores) / torch.where(total > 0, total, 1.0)


def _scaled(updates: Params, factor: Tensor) -> Params:
    """Updates [C, ...], each times its factor [C]."""
    return {name: value * per_client(factor, value) for name, value in updates.items()}


def _sorted(value: Tensor) -> Tensor:
    """The values [K, ...] of each coordinate in rising order."""
    if value.device.type != "cpu":
        return value.sort(0).values
    # NumPy sorts short rows side by side in vector registers: ten times as fast as the tensor
    # library does the columns.
    rows = np.sort(np.ascontiguousarray(value.flatten(1).numpy().T), axis=1)
    return torch.from_numpy(rows).t().reshape(value.shape)


def _combine(fold: Kept) -> tuple[Tensor, Params]:
    groups = torch.cat(fold.groups)
    return groups, {
        name: torch.cat([one[name] for one in fold.updates]) for name in fold.updates[0]
    }


def _squared_distances(update: Params) -> Tensor:
    """Squared distances between all updates, float64 [K, K]."""
    total: Tensor | None = None
    for value in update.values():
        flat = value.flatten(1)
        # What all have in common would only cost digits. Not the mean: one huge update would move
        # it, and blur how far others are apart.
        flat = flat.to(torch.float64) - _sorted(flat)[len(flat) // 2].to(torch.float64)
        part = flat @ flat.t()
        total = part if total is None else total + part
    assert total is not None
    # A matrix product rounds the two halves differently, and clients that tie must tie exactly:
    # then the first one is taken.
    total = (total + total.t()) / 2
    square = total.diagonal()
    return (square.unsqueeze(0) + square.unsqueeze(1) - 2 * total).clamp_(min=0)


def _length(update: Params) -> Tensor:
    """The norms [C] of updates, float64."""
    return (
        torch.stack(
            [value.flatten(1).to(torch.float64).square().sum(1) for value in update.values()]
        )
        .sum(0)
        .sqrt()
    )
