"""What a call says of a batch besides the model's answers.

Letters: B rows of the batch (for windows: all their steps, one after the other), F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.binding.model_run_inputs import (
    Before,
    Keys,
    Previous,
    flat_keys,
    key_codes,
    rows_before,
    traces_of,
)
from fedkg.constraints.binding.plan import STEPS, Plan
from fedkg.constraints.binding.rule_input_values import InputNumbers, answers_known, input_numbers
from fedkg.constraints.engine.batch_rows_as_traces import Traces


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """The features, keys and traces of a batch, as rules read them.

    Attributes:
        plan: the pack bound to its layouts.
        x: [B, F], the features.
        shape: (B,), or for windows (number of windows, steps of a window).
        codes: int64 [B] by position of a contract column: the category codes that the call gives as
            keys.
        before: by contract view that looks back: the row before each row, for the views that the
            call provides.
        has: bool [B] by contract view: which rows have the view; see `answers_known`.
        traces: which rows are the steps of each trace; None if the call does not say.
    """

    plan: Plan
    x: Tensor
    shape: tuple[int, ...]
    codes: Mapping[int, Tensor]
    before: Mapping[int, Before]
    has: Mapping[int, Tensor]
    traces: Traces | None

    @property
    def at_hand(self) -> set[int]:
        """Which views that look back there are, and `STEPS`."""
        return {*self.before, *(() if self.traces is None else (STEPS,))}

    def numbers(self, wires: Mapping[str, Tensor], dtype: torch.dtype) -> InputNumbers:
        """What rules read of the inputs."""
        return input_numbers(
            self.plan, wires, self.x, self.codes, self.before, dtype, steps=self.traces is not None
        )


def read_batch(
    plan: Plan, x: Tensor, keys: Keys | None, previous: Previous, weight: Tensor | None = None
) -> Batch:
    """The batch x [B, F] or [n, T, F] of a call, its arguments as in `ConstraintModule.forward`.

    `weight` [B].
    """
    shape, flat = tuple(x.shape[:-1]), x.flatten(0, -2)
    keys = flat_keys(keys or {}, shape)
    traces = traces_of(
        plan, shape, flat, keys, previous, None if weight is None else weight.reshape(shape)
    )
    earlier = (
        previous.flatten(0, -2) if isinstance(previous, Tensor) and previous.ndim > 2 else previous
    )
    found = {
        view: rows_before(plan, view, flat, keys, earlier, traces if len(shape) == 2 else None)
        for view in plan.groups
    }
    before = {view: rows for view, rows in found.items() if rows is not None}
    codes = key_codes(plan, keys, flat.shape[0], x.device)
    return Batch(
        plan=plan,
        x=flat,
        shape=shape,
        codes=codes,
        before=before,
        has=answers_known(plan, flat, before),
        traces=traces,
    )
