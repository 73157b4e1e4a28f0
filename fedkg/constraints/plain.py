"""Which tensors can be read where they stand in memory."""

from __future__ import annotations

from torch import Tensor
from torch.autograd import forward_ad


def is_plain(part: Tensor) -> bool:
    """Whether a tensor's numbers stand in memory, and carry no derivatives forward: loops know those in the other direction alone."""
    try:
        part.data_ptr()
        return forward_ad.unpack_dual(part).tangent is None  # type: ignore[no-untyped-call]  # torch declares it without types
    except RuntimeError:  # tensors of torch.func transforms have no storage
        return False


def is_near(part: Tensor) -> bool:
    """Whether numbers stand one after the other in the memory of the CPU, and as they are: not with their signs to be turned."""
    return part.is_cpu and part.is_contiguous() and not part.is_neg() and is_plain(part)
