"""The steps of traces, laid out as a grid over which windows slide.

Letters: N traces of similar length, L steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Traces as rows of a grid of steps, all beginning at its left edge.

    Attributes:
        at: int64 [N, L], the table row of each step; -1 where a step is missing or the trace is
            over.
        inside: bool [N, L], the step belongs to the trace.
        end: what a window beyond the trace meets: unknown steps (``strict``), or nothing
            (``clip``).
        rows: int64 [n], the n table rows in this grid.
        cells: int64 [n], the position of each of these rows in the flattened grid.
    """

    at: NDArray[np.int64]
    inside: NDArray[np.bool_]
    end: Literal["strict", "clip"]
    rows: NDArray[np.int64]
    cells: NDArray[np.int64]
