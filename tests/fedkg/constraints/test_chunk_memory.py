"""Peak memory: intermediate results stay within the user's limit for any number of constraints."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from strategies import X, Y, bank_of, pack_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedkg.constraints import ConstraintModule
from fedkg.pack import And, Bank, Compare, Formula, Param, Slot, Temporal, Until

OUT, OTHER = Slot(index=0, role="output"), Slot(index=1, role="output")
ROWS, WINDOWS, STEPS = 400, 16, 32


class Peak(TorchDispatchMode):
    """Measures the peak number of bytes of the tensors created inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if (
                isinstance(tensor, torch.Tensor)
                and tensor.untyped_storage()._cdata not in self.seen
            ):
                storage = tensor.untyped_storage()
                self.seen.add(storage._cdata)
                self.now += storage.nbytes()
                self.most = max(self.most, self.now)
                weakref.finalize(storage, self._gone, storage._cdata, storage.nbytes())
        return out

    def _gone(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.now -= size


def le(left: object, right: object) -> Compare:
    return Compare.model_validate({"op": "le", "left": left, "right": right, "scale": 1})


def module(memory: float) -> ConstraintModule:
    """Hundreds of rows of a nested formula and of an until."""
    inner = Temporal(op="eventually", low=2, high=3, arg=le(OUT, OTHER))
    always: Formula = Temporal(
        op="always", low=2, high=3, arg=And(args=(inner, le(OUT, Param(index=0))))
    )
    banks = []
    for skeleton in (
        always,
        Until(op="until", low=2, high=3, left=le(OUT, Param(index=0)), right=le(OUT, OTHER)),
    ):
        one = bank_of(skeleton, [0.5, 1.0, 0.0, 6.0], [4, 5])
        grown = {name: np.repeat(getattr(one, name), ROWS, axis=0) for name in one.tensors()}
        grown["params"][:, 0] = np.linspace(0.0, 1.0, ROWS)  # no two rows are equal
        banks.append(Bank(**grown, skeleton=skeleton))
    return ConstraintModule(pack_of(banks), x=X, y=Y, memory=memory)


def work(rules: ConstraintModule, backward: bool) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    x, y = (
        torch.zeros(WINDOWS, STEPS, 4),
        torch.randn(WINDOWS, STEPS, 5, generator=generator, requires_grad=backward),
    )
    return lambda: (
        torch.autograd.grad(rules(x, y).penalty, y)[0] if backward else rules(x, y).penalty
    )


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("memory", [0.25, 1.0])
def test_intermediate_results_stay_within_the_setting(memory: float, backward: bool) -> None:
    peaks, values = {}, {}
    for setting in (memory, 64.0):
        run = work(module(setting), backward)
        with Peak() as peak:
            values[setting] = run()
        peaks[setting] = peak.most / 2**20
    given = WINDOWS * STEPS * 20 * 4 / 2**20  # inputs, outputs, conditions, and gradients of them
    assert peaks[memory] < memory + given
    assert peaks[64.0] > 4 * peaks[memory]
    assert torch.allclose(values[memory], values[64.0], atol=1e-6)
