"""Many updates into one.

Letters: C clients of a stack, G groups (models the server holds).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.federated.per_client_broadcast import per_client
from fedkg.models.batched_products import has_compiled_loops
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
    def needs_root(self) -> bool:
        """See `AggregationRule.needs_root`."""
        return False

    def begin(self, models: Params, root: Params | None = None) -> Sums:
        """See `AggregationRule.begin`."""
        first = next(iter(models.values()))
        weight = torch.zeros(first.shape[0], dtype=torch.float64, device=first.device)
        return Sums(
            update={name: torch.zeros_like(value) for name, value in models.items()}, weight=weight
        )

    def add(self, fold: Sums, update: Params, weights: Tensor, groups: Tensor) -> Sums:
        """See `AggregationRule.add`."""
        sent = [name for name in fold.update if name in update]
        if (
            all(has_compiled_loops(fold.update[name]) for name in sent)
            and len({value.dtype for name in sent for value in (fold.update[name], update[name])})
            == 1
        ):
            from fedkg.models.loops.client_sums import add_to

            sums = {
                name: total.clone(memory_format=torch.contiguous_format)
                for name, total in fold.update.items()
            }
            add_to([sums[name] for name in sent], [update[name] for name in sent], weights, groups)
        else:
            sums = dict(fold.update) | _added(
                {name: fold.update[name] for name in sent}, update, weights, groups
            )
        return Sums(update=sums, weight=fold.weight.index_add(0, groups, weights))

    def finish(self, fold: Sums) -> Params:
        """See `AggregationRule.finish`."""
        inverse = torch.where(fold.weight > 0, 1.0 / fold.weight, 0.0)
        return {name: total * per_client(inverse, total) for name, total in fold.update.items()}

    def counted(self, fold: Sums) -> Tensor | None:
        """See `AggregationRule.counted`."""
        return None


def _added(totals: Params, update: Params, weights: Tensor, groups: Tensor) -> Params:
    """Totals [G, ...] with ``sum_c w_c update_c`` of each group, in tensor operations."""
    sums: Params = {}
    for name, total in totals.items():
        share = torch.zeros((len(total), len(weights)), dtype=torch.float64, device=weights.device)
        share.scatter_(0, groups.unsqueeze(0), weights.unsqueeze(0))
        flat = update[name].reshape(len(weights), -1)
        sums[name] = torch.addmm(total.reshape(len(total), -1), share.to(total.dtype), flat).view(
            total.shape
        )
    return sums
