"""Batch dimensions of the inputs that `torch.func.vmap` passes to a custom autograd function."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def move_batch_dim_first(
    sides: Sequence[Tensor], dims: Sequence[int | None], size: int
) -> list[Tensor]:
    """Move each input's vmap dimension to the front, expanding unbatched inputs to `size`.

    Args:
        sides: the inputs.
        dims: the vmap dimension of each input; None for an input that all calls share.
        size: number of vmapped calls.
    """
    pairs = zip(sides, dims, strict=False)
    return [
        side.expand(size, *side.shape) if at is None else side.movedim(at, 0) for side, at in pairs
    ]
