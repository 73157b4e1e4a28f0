"""Measured memory of a model during training.

Letters: B batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.models.model_protocols import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Numbers stored between the forward and the backward pass, besides the parameters.

    Attributes:
        client: of each stacked model, for any batch.
        sample: of each sample.
    """

    client: int
    sample: int


def footprint(model: Model, params: Mapping[str, Tensor], x: Tensor) -> Footprint:
    """Measure the memory of training one model, from the saved tensors and outputs for one sample
    and for two.

    Args:
        params: of one stacked model or more, each [C, ...]; measures the first.
        x: some samples [B, ...]; measures with the first.
    """
    first = {name: value[:1].detach().clone().requires_grad_() for name, value in params.items()}
    one, two = (
        _saved(model, first, x[:1].expand(1, count, *x.shape[1:]).contiguous()) for count in (1, 2)
    )
    return Footprint(client=max(0, 2 * one - two), sample=max(0, two - one))


def _saved(model: Model, params: Mapping[str, Tensor], x: Tensor) -> int:
    """Numbers in the storages of saved tensors and outputs, each storage once, without parameters
    and inputs.
    """
    known = {value.untyped_storage()._cdata for value in (*params.values(), x)}
    held: list[Tensor] = []

    def pack(value: Tensor) -> Tensor:
        held.append(value)  # also prevents reuse of the storage during the count
        return value

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        held.append(model.apply(params, x))
    dense = [value for value in held if value.layout is torch.strided]
    sizes = {
        value.untyped_storage()._cdata: value.untyped_storage().nbytes() // value.element_size()
        for value in dense
    }
    return sum(size for place, size in sizes.items() if place not in known)
