"""Numbers that are known before any batch, on the device where they are used: taken there once."""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg._internal.torch_compat import being_traced, outside_of_tracing


def constant(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """An array as a tensor on a device.

    What was taken to an accelerator stays there for the next call: a copy from the processor waits
    for it, cannot be captured in a CUDA graph, and would be a copy in every run of a compiled
    function.
    """
    if device.type == "cpu":
        return torch.from_numpy(np.ascontiguousarray(array))
    known = _taken(array.tobytes(), array.dtype.str, array.shape, device)
    return lift(known) if being_traced() else known


def lift(known: Tensor) -> Tensor:
    """Numbers as a graph that is being traced takes them in: as its own."""
    own: Tensor = torch.ops.aten.lift_fresh_copy.default(known)
    return own


@lru_cache(maxsize=4096)
def _taken(numbers: bytes, kind: str, shape: tuple[int, ...], device: torch.device) -> Tensor:
    array = np.frombuffer(bytearray(numbers), dtype=kind).reshape(shape)
    # what is kept has numbers
    traced = outside_of_tracing() if being_traced() else nullcontext()
    with torch.inference_mode(mode=False), traced:
        return torch.from_numpy(array).to(device)
