"""Operations of the programs that `fedkg.kernels.numba_formula_interpreter` runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Operations = NDArray[np.int64]

(
    SLOT,
    PARAM,
    FILL,
    FIRST,
    ADD,
    MULTIPLY,
    LESS,
    NEGATE,
    ABSOLUTE,
    SHARE,
    STRICT,
    KNOWN,
    DECIDED,
    LEAST,
    LARGEST,
    WINDOW,
    UNTIL,
) = range(17)
"""Operations. Loading: SLOT, PARAM, FILL by the constant, FIRST by the value at step 0. Arithmetic:
ADD, MULTIPLY, LESS (the upper register minus the lower one), NEGATE, ABSOLUTE, SHARE (divided by
the constant). Verdicts: STRICT (0 becomes the constant), KNOWN (NaN unless finite), DECIDED (the
constant or its negative). LEAST, LARGEST of two registers; WINDOW and UNTIL along the steps.
"""

OP, TO, FROM, BEGIN, END, LOW, HIGH, FLAG = range(8)
"""Columns of an operation: its kind; the register; the slot or parameter; its first and last step;
for WINDOW and UNTIL the ends of the window counted from each step, with larger numbers for later
steps; FLAG: ADD and MULTIPLY turn non-finite results into NaN, WINDOW takes the least, UNTIL 1 for
the formula, 2 for a closed one, 4 for one of the past, added up.
"""
