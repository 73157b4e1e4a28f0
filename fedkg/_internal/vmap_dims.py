"""What `torch.func.vmap` gives an operation of one's own: tensors with the dimension that it is over anywhere, or nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def move_batch_dim_first(
    sides: Sequence[Tensor], dims: Sequence[int | None], size: int
) -> list[Tensor]:
    """Sides as `vmap` gives them, the dimension that it is over (None: none, the same for all) in front, of so many."""
    pairs = zip(sides, dims, strict=False)
    return [
        side.expand(size, *side.shape) if at is None else side.movedim(at, 0) for side, at in pairs
    ]
