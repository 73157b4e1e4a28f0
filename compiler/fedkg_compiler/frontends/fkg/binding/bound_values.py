"""What an expression is once its names and units are known.

Letter: R bank rows of the rule (or of the part of its rows that share all units).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Term
from fedkg.units.unit import Unit
from fedkg_compiler.diagnostics.record import Span


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fixed:
    """A number known at compile time: float64 [R].

    Without a unit it is bare: it takes the unit of what it meets.
    """

    values: NDArray[np.float64]
    unit: Unit | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moving:
    """A number known only row by row of the data.

    Attributes:
        unit: None where every signal in it is bare.
        plain: a signal, or sums and differences of signals in one unit: comparisons take its unit.
        told: where the unit was concluded from, if no declaration says it.
        bare: ids [R] of the columns, one array for each reading, that take a unit as soon as one is
            known for the whole.
    """

    term: Term
    unit: Unit | None
    span: Span
    plain: bool = False
    told: Span | None = None
    bare: tuple[NDArray[np.int64], ...] = ()


Value = Fixed | Moving
