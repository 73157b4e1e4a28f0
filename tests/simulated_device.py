"""A fake second device: its tensors are in CPU memory, but may not be mixed with CPU tensors.

Without an accelerator, this shows that code stays on the device of its inputs. A constant created
on the CPU, an index that was not moved, or an array read from the device's memory raises here as on
an accelerator. Numbers are the CPU's, so results must be equal to the bit. It uses torch's
registration of backends written in Python (PrivateUse1).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_NAME = "far"
_setup_privateuseone_for_python_backend(_NAME)
FAR = torch.device(_NAME, 0)
_MOVES = ("aten::_to_copy", "aten::copy_")
"""Functions that move tensors from one device to another."""


class FarTensor(torch.Tensor):
    """A tensor of the second device; `held` is the same tensor on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> FarTensor:
        shape = {
            "strides": held.stride(),
            "storage_offset": held.storage_offset(),
            "dtype": held.dtype,
        }
        made: FarTensor = torch.Tensor._make_wrapper_subclass(cls, held.size(), device=FAR, **shape)
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def tolist(self) -> Any:
        """Copies to the CPU, as on every accelerator."""
        return self.held.tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError(
            "a tensor of the second device has no array in the processor's memory; .cpu() copies it"
        )

    def data_ptr(self) -> int:
        raise TypeError("an address of the second device was asked for")


class _Run(TorchDispatchMode):
    """Operations without a tensor of the device among their arguments.

    For example `torch.zeros(3, device=FAR)`.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    name, flat = func._schema.name, tree_flatten((args, kwargs))[0]
    far = any(isinstance(one, FarTensor) for one in flat)
    if far and name not in _MOVES:
        for one in flat:
            if isinstance(one, Tensor) and not isinstance(one, FarTensor) and one.dim() > 0:
                raise RuntimeError(
                    f"{name}: a tensor {list(one.shape)} of the processor meets one of the second"
                    " device"
                )
    result = func(*tree_map(_here, args), **tree_map(_here, kwargs))
    if name == "aten::copy_":
        return args[0]
    asked = kwargs.get("device")
    if not (far if asked is None else asked.type == _NAME):
        return result
    there = tree_map(lambda one: FarTensor(one) if isinstance(one, Tensor) else one, result)
    return return_and_correct_aliasing(func, args, kwargs, there)


def _here(value: Any) -> Any:
    if isinstance(value, FarTensor):
        return value.held
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == _NAME else value


@contextmanager
def second_device() -> Iterator[None]:
    """Inside the block, tensors can be created on `FAR` or moved there."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(
        True
    )  # `torch.tensor([1.0], device=FAR)` is created on the CPU and moved by a visible operation
    try:
        with _Run():
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
