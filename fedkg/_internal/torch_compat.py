"""The only uses of PyTorch's private interfaces; `PRIVATE` lists each with its reason.

`tests/fedkg/test_torch_compat.py` names those that a version of PyTorch lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar, cast

import torch

F = TypeVar("F", bound=Callable[..., object])

PRIVATE = {
    "torch._C._are_functorch_transforms_active": "a transform of torch.func shows no numbers, and "
    "what is computed in it must not be kept; no public function tells of one",
    "torch._C._len_torch_dispatch_stack": "a fast test that nothing is traced, in every call",
    "torch._guards.detect_fake_mode": "whether tensors are the placeholders of a tracer",
    "torch.utils._python_dispatch._disable_current_modes": "a constant that is kept after tracing "
    "needs numbers, not placeholders",
    "torch._dynamo.nonstrict_trace": "a function whose tensor operations torch.compile traces "
    "without reading its Python; documented, but not exported publicly",
}
"""Why fedkg uses each interface."""


def are_transforms_active() -> bool:
    """Whether the code runs inside a transform of `torch.func`."""
    return bool(torch._C._are_functorch_transforms_active())


def being_traced() -> bool:
    """Whether tensors are symbolic: placeholders for the arguments of a compiled function."""
    if torch._C._len_torch_dispatch_stack() == 0:
        return False
    from torch._guards import detect_fake_mode

    return detect_fake_mode() is not None


def outside_of_tracing() -> AbstractContextManager[None]:
    """Inside the block, operations compute numbers even if a tracer is active."""
    from torch.utils._python_dispatch import _disable_current_modes

    return cast("AbstractContextManager[None]", _disable_current_modes())


def trace_without_python(function: F) -> F:
    """Let `torch.compile` trace the tensor operations of a function, not its Python."""
    return cast("F", torch._dynamo.nonstrict_trace(function))
