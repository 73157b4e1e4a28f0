"""Skeletons as programs: a list of operations on registers, each a run of numbers, that one loop
carries out row by row.

Every register is written once. The first registers are the slots that the skeleton reads. Letters:
R rows of a bank, O operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.pack.formulas import Term


class Op(IntEnum):
    """An operation on numbers x, y of registers and s, k of the row.

    Results that are not finite become NaN, unless stated.

    Those of formulas work on numbers that encode the unknown (`engine.unknown_value_encoding`).
    """

    ADD = 0  # x + y
    SUB = 1  # x - y
    MUL = 2  # x * y
    DIV = 3  # x / y
    LEAST = 4  # the smaller; NaN when one is
    MOST = 5
    ADD_S = 6  # x + s
    SUB_S = 7  # x - s
    S_SUB = 8  # s - x
    MUL_S = 9
    DIV_S = 10
    S_DIV = 11  # s / x
    NEG = 12
    ABS = 13
    SQRT = 14
    FLOOR = 15
    CEIL = 16
    ROUND = 17
    FILL = 18  # s
    COALESCE = 19  # x, or y where x is NaN
    MARGIN = 20  # x - y + shift; 0 becomes `at_zero`, what is not finite the mark
    MARGIN_S = 21  # x - s
    S_MARGIN = 22  # s - x
    SCALED = 23  # x / s + shift, then as MARGIN
    KNOWN = 24  # +inf where x is known, -inf where it is not, or (flag) the other way round
    CATEGORY = (
        25  # +inf where x is s, else -inf, or (flag) the other way round; the mark where x is NaN
    )
    MIN = 26  # of two or more registers
    MAX = 27
    WINDOW_MIN = 28  # over the steps of a window
    WINDOW_MAX = 29
    UNTIL = 30  # max(y, min(x, the same one step on)) from here to the trace's end
    RELEASE = 31  # min(y, max(x, the same one step on))
    FIRST = 32  # x at the trace's first step
    ENDS_MIN = 33  # x, an extreme over a window already, where the window reaches beyond the trace
    ENDS_MAX = 34
    # a verdict x as what is missing: out of reach where violated, as far on the other side where
    # satisfied
    DECIDE = 35
    # nothing is missing where the verdict x does not hold; where it holds nowhere, nothing of the
    # row is left to do
    GUARD = 36


PAST, EDGE_HIGH, MISSING, NAN_TOO, TO_SECOND, TO_LAST = 1, 2, 4, 8, 16, 32
"""Flags of operations: a window looks back; the value beyond the trace is +inf rather than -inf;
numbers are violations, not robustness (so that the mark of the unknown is positive); NaN is looked
for (`MIN`, `MAX` of slots); of two that are equal the second has the gradient (`MIN`, `MAX`), which
they share otherwise; of equals the last has it (windows), which the first has otherwise."""

OTHER = 1
"""Flag of `KNOWN` and `CATEGORY`: the other way round."""

HAIR_UP, HAIR_DOWN, STRICT, BOUNDLESS = 1, 2, 8, 16
"""Flags of margins besides `MISSING`: a hair is added or taken, 0 is moved to below it, infinite is
a number like others."""


Part = Literal["all", "before", "at", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The steps of a window, by parameters of the row.

    Attributes:
        part: "all": from low to high. What an until consists of besides: "before": from now to
            before low, none where that is now; "at": low alone; "length": from now to high - low.
    """

    low: int
    high: int
    part: Part = "all"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FusedProgram:
    """A skeleton as a list of operations.

    Attributes:
        inputs: the number of input slots that it reads. Their registers come first.
        outputs: the number of output slots that it reads. Their registers come next.
        code: int64 [O, 8]: for each operation its kind, the register of its result, three operands
            (registers; for `MIN` and `MAX` a range of `operands`), a number or a window of the row,
            flags, and whether the result depends on an output.
        operands: int64, the registers that `MIN` and `MAX` read.
        scalars: the constants, and the terms over parameters alone; each row has a number for each.
        windows: the windows; each row has its steps for each.
        registers: the number of registers.
        result: the register of the formula's value.
        refuted: the register that tells how far an implication's antecedent is from being violated;
            -1 for other formulas.
    """

    inputs: int
    outputs: int
    code: NDArray[np.int64]
    operands: NDArray[np.int64]
    scalars: tuple[Term | float, ...]
    windows: tuple[Window, ...]
    registers: int
    result: int
    refuted: int = -1


class NotFused(Exception):  # no error: it says that the engine does it
    """A skeleton has a part without an operation."""
