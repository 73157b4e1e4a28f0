"""Many updates into one.

Letters: C clients of a stack, G groups (models the server holds).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sums:
    """Weighted sums so far: of the updates, each [G, ...], and of the weights, float64 [G]."""

    update: Params
    weight: Tensor


@dataclass(frozen=True, slots=True)
class WeightedMean:
    """``sum_k w_k update_k / sum_k w_k`` in each group; one pass over the updates, none of them
    kept.
    """

    @property
    def needs_server_update(self) -> bool:
        """See `AggregationRule.needs_server_update`."""
        return False

    def begin(self, models: Params, server_update: Params | None = None) -> Sums:
        """See `AggregationRule.begin`."""
        first = next(iter(models.values()))
        weight = torch.zeros(first.shape[0], dtype=torch.float64, device=first.device)
        return Sums(
            update={name: torch.zeros_like(value) for name, value in models.items()}, weight=weight
        )

    def add(self, fold: Sums, update: Params, weights: Tensor, groups: Tensor) -> Sums:
        """See `AggregationRule.add`."""
        sent = [name for name in fold.update if name in update]
        sums = dict(fold.update) | {
            name: _add_weighted(fold.update[name], update[name], weights, groups) for name in sent
        }
        return Sums(update=sums, weight=fold.weight.index_add(0, groups, weights))

    def finish(self, fold: Sums) -> Params:
        """See `AggregationRule.finish`."""
        inverse = torch.where(fold.weight > 0, 1.0 / fold.weight, 0.0)
        return {name: total * per_client(inverse, total) for name, total in fold.update.items()}

    def counted(self, fold: Sums) -> Tensor | None:
        """See `AggregationRule.counted`."""
        return None


def _add_weighted(total: Tensor, update: Tensor, weights: Tensor, groups: Tensor) -> Tensor:
    """`total` [G, ...] plus ``sum_c w_c update_c`` of each group."""
    if total.device.type == "cpu":
        # Client by client: the sums do not depend on the stacks in which clients arrive.
        return total.index_add(0, groups, update * per_client(weights, update))
    share = torch.zeros((len(total), len(weights)), dtype=torch.float64, device=weights.device)
    share.scatter_(0, groups.unsqueeze(0), weights.unsqueeze(0))
    flat = update.reshape(len(weights), -1)
    return torch.addmm(total.reshape(len(total), -1), share.to(total.dtype), flat).view(total.shape)
