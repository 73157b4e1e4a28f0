"""What the meaning of a node is computed on.

Letters: B table rows or steps, M rows of a bank or members of a table, s slots, p parameters.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.numeric.padded_trace_rows import Grid
from fedkg.pack.numeric.three_valued_logic import Float, Verdict


class Scope(Protocol):
    """The numbers that the rows of a bank, or the members of a table, read at B places."""

    @property
    def slots(self) -> Float:
        """float64 [s, B, M]; NaN where unknown."""

    @property
    def params(self) -> Float:
        """float64 [p, M]."""

    @property
    def shape(self) -> tuple[int, int]:
        """(B, M)."""

    @property
    def steps(self) -> Grid:
        """The traces with the B places as steps. Only nodes over time may request them."""

    def members(self, table: int) -> Scope:
        """The same places for the members of a table."""

    def offsets(self, table: int) -> NDArray[np.int64]:
        """int64 [M + 1]: the members of owner i are ``offsets[i]:offsets[i + 1]``."""

    def atom(self, margin: Float, *, strict: bool) -> Verdict:
        """The verdict of an atom that holds at a margin of at least (strict: above) 0.

        NaN is unknown.
        """

    def best(self, lead: Float, *, strict: bool) -> Verdict:
        """The verdict of an atom that compares class scores: `atom`, except that a scope may leave
        ties open.
        """
