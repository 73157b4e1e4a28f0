"""A federation on another device: every tensor that a problem, an algorithm or a state holds, moved
there.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fedkg.errors import JobError

T = TypeVar("T")


def device_named(name: str, field: str = "training.device") -> torch.device:
    """The device that a job names: ``cpu``, ``cuda:1``, or ``cuda``, which is the first one, and
    under `torchrun` each rank's own.

    Args:
        field: of the job file, which messages name.

    Raises:
        JobError: when there is no such device, or torch was built without it.
    """
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        why, instead = (
            ("torch sees no CUDA device", "check the driver with `nvidia-smi`")
            if torch.version.cuda
            else ("the installed torch supports only the CPU", "install a torch with CUDA")
        )
        raise JobError(
            f"{field}: this computer has no device {name}",
            received=why,
            help=f"remove this field to use the CPU, or {instead}",
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise JobError(
            f"{field}: this computer has no device {name}",
            expected="cuda:0"
            + (f" .. cuda:{last}" if (last := torch.cuda.device_count() - 1) else ""),
        )
    if device.type == "cuda" and device.index is None:
        return torch.device(
            "cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
        )
    return device


def on_device(value: T, device: torch.device) -> T:
    """The value with every tensor in it on the device; itself where there is none.

    Dataclasses, mappings and tuples are gone through; modules are copied; what says how it is moved
    (`to`) is asked. What is held twice
    is moved once.
    """
    moved: T = _moved(value, device, {})
    return moved


def _moved(value: Any, device: torch.device, known: dict[int, tuple[Any, Any]]) -> Any:
    """`known`: what was moved before by its identity, itself beside it so that no identity is given
    away twice.
    """
    if id(value) in known:
        return known[id(value)][1]
    match value:
        case Tensor():
            found: Any = value.to(device)
        case nn.Module():
            found = copy.deepcopy(value).to(device)
        case Mapping():
            parts = {name: _moved(part, device, known) for name, part in value.items()}
            found = parts if any(parts[name] is not part for name, part in value.items()) else value
        case tuple() if not hasattr(value, "_fields"):
            each = tuple(_moved(part, device, known) for part in value)
            found = (
                each if any(new is not old for new, old in zip(each, value, strict=True)) else value
            )
        case _ if not isinstance(value, type) and callable(to := getattr(value, "to", None)):
            found = to(device)
        case _ if is_dataclass(value) and not isinstance(value, type):
            before = {one.name: getattr(value, one.name) for one in fields(value) if one.init}
            after = {name: _moved(part, device, known) for name, part in before.items()}
            changed = {name: part for name, part in after.items() if part is not before[name]}
            found = replace(value, **changed) if changed else value
        case _:
            found = value
    known[id(value)] = (value, found)
    return found
