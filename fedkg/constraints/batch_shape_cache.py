"""What evaluations on batches of one shape have in common, where which conditions are met does not
depend on their numbers.

Letters: B rows of the batch, D conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.engine.batch_rows_as_traces import Traces

if TYPE_CHECKING:
    from fedkg.constraints.fused.bank_loop_arguments import Fused
    from fedkg.constraints.fused.batch_loop_arguments import FusedBatch, Places
    from fedkg.constraints.fused.call import Call


class BankLoops(NamedTuple):
    """A bank as its loops read it, and what calls them: not imported where there are none."""

    fused: Fused
    call: Callable[[Fused, FusedBatch, int, int], Call]


def bank_loops(bank: BankTensors, dtype: torch.dtype, missing: bool) -> BankLoops | None:
    """The loops of a bank for its robustness, or for what is missing of it, on batches in a dtype.

    None where there are none.
    """
    from fedkg.constraints.fused.bank_loop_arguments import fused
    from fedkg.constraints.fused.call import Call

    program = fused(bank, dtype, missing=missing)
    return None if program is None else BankLoops(program, Call)


@dataclass(frozen=True, slots=True, eq=False)
class BatchStructure:
    """The parts of an evaluation that all batches of one shape share, computed on first use.

    Attributes:
        met: bool [D, B], whether each row of the batch meets each condition.
        traces: the traces of the batch; None if it has none.
        dtype: the data type of the batch's numbers.
        kept: the parts that have been computed, by key.
    """

    met: Tensor
    traces: Traces | None
    dtype: torch.dtype
    kept: dict[Any, Any] = field(default_factory=dict)

    def loops(self, bank: BankTensors, missing: bool) -> BankLoops | None:
        """As `bank_loops`."""
        key = bank, missing
        if key not in self.kept:
            self.kept[key] = bank_loops(bank, self.dtype, missing)
        found: BankLoops | None = self.kept[key]
        return found

    def places(self, temporal: bool) -> Places | None:
        """The samples as loops read them; None if no loops exist for them."""
        if temporal not in self.kept:
            from fedkg.constraints.fused.batch_loop_arguments import fused_places

            with torch.inference_mode(mode=False):  # what is kept serves training too
                self.kept[temporal] = fused_places(
                    self.met, self.traces if temporal else None, self.dtype
                )
        found: Places | None = self.kept[temporal]
        return found

    @property
    def always_met(self) -> Tensor:
        """Which conditions all samples meet, bool [D]."""
        if "met" not in self.kept:
            with torch.inference_mode(mode=False):
                self.kept["met"] = self.met.all(dim=1)
        found: Tensor = self.kept["met"]
        return found
