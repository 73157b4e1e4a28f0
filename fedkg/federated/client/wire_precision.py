"""In which precision updates travel to the server.

Letters: C clients of a stack.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedkg.federated.executors.protocol import Updates, Work
from fedkg.federated.privacy.update_noise import NoPrivacy
from fedkg.federated.settings import Wire
from fedkg.models.model_protocols import Params

TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def sent(updates: Updates, wire: Wire | None) -> Updates:
    """The updates as the server reads them: each number rounded to the nearest (to even) of what
    travels, then in the models' type again.

    Sums are taken in the models' type. A number beyond what float16 can hold becomes infinite,
    which the guard finds.
    """
    if wire is None:
        return updates
    return replace(
        updates, update=_rounded(updates.update, wire), shared=_rounded(updates.shared, wire)
    )


def wire_of(work: Work) -> Wire | None:
    """The precision in which updates travel; None if that of the models: where privacy clips
    updates after their rounding, too.
    """
    return work.settings.wire if isinstance(work.algorithm.privacy, NoPrivacy) else None


def size(tensors: Params, wire: Wire | None) -> int:
    """Bytes of tensors on their way to the server."""
    return sum(value.numel() * _bytes(value, wire) for value in tensors.values())


def _bytes(value: Tensor, wire: Wire | None) -> int:
    return value.element_size() if wire is None else min(2, value.element_size())


def _rounded(tensors: Params, wire: Wire) -> Params:
    return {name: value.to(TYPES[wire]).to(value.dtype) for name, value in tensors.items()}
