"""From which call on a constraint module uses compiled loops."""

from __future__ import annotations

import torch

from fedkg.kernels.background_compilation import compile_ahead
from fedkg.kernels.compiled_loop_policy import can_compile_loops, round_uses_loops, waits_for_loops

SMALLEST = 1 << 8
"""Fewer bound rows times samples are always left to tensor operations, which take as long."""

WORTH_CELLS = 1 << 27
"""Bound rows times samples that a module evaluates by tensor operations first, which takes a few
seconds: about as long as the compilation of the loops."""


class LoopUse:
    """Counts what a module evaluates outside rounds of training.

    A module that evaluates little never loads compiled loops. The count does not depend on measured
    times or on caches, so that the same calls give the same bits.
    """

    def __init__(self) -> None:
        self._cells = 0

    def is_worth(self, cells: int) -> bool:
        """Return whether loops evaluate a batch with this number of bound rows times samples."""
        if cells < SMALLEST or not can_compile_loops():
            return False
        if waits_for_loops():
            return True
        in_round = round_uses_loops()
        return self._cells + cells >= WORTH_CELLS if in_round is None else in_round

    def count(self, cells: int, dtype: torch.dtype) -> None:
        """Count a batch that tensor operations evaluate; halfway, a background process starts to
        compile the loops for its data type.
        """
        if cells < SMALLEST or not can_compile_loops() or round_uses_loops() is not None:
            return
        before = self._cells
        self._cells += cells
        if before < WORTH_CELLS // 2 <= self._cells:
            compile_ahead(["formulas" if dtype == torch.float32 else "formulas-float64"])
