"""Tensors that compiled loops can read in place."""

from __future__ import annotations

from torch import Tensor
from torch.autograd import forward_ad


def is_plain(part: Tensor) -> bool:
    """Whether a tensor has memory and no forward-mode derivatives: loops compute only backward
    ones.
    """
    try:
        part.data_ptr()
        # torch declares it without types
        return forward_ad.unpack_dual(part).tangent is None  # type: ignore[no-untyped-call]
    except RuntimeError:  # tensors of torch.func transforms have no storage
        return False


def is_near(part: Tensor) -> bool:
    """Whether numbers are contiguous in CPU memory, without a pending sign flip."""
    return part.is_cpu and part.is_contiguous() and not part.is_neg() and is_plain(part)
