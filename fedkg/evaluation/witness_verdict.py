"""One constraint on values that somebody made up: does the interpreter agree?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.pack import Pack


def replay(pack: Pack, bank: int, row: int, values: NDArray[np.float64], step: int = 0) -> str:
    """``satisfied``, ``violated`` or ``unknown``: the verdict of a bound row.

    Args:
        values: float64 [V, B, C], as `evaluate_bank` takes them, the B steps of one trace; `step`
            is the one that is asked about.
    """
    timing = Timing.rows(values.shape[1], pack.manifest.contract.end)
    result = evaluate_bank(pack.banks[bank].take(np.array([row])), values, timing)
    return (
        "satisfied"
        if result.satisfied[step, 0]
        else "violated"
        if result.violated[step, 0]
        else "unknown"
    )
