"""Translation of a formula to a program of `fedkg.kernels.numba_formula_interpreter`, as an
alternative to `first_step`.

Programs exist for comparisons of sums and products of signals and parameters, connectives and
windows. Tensor operations evaluate all other formulas.

Letters: T steps, n operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from fedkg.constraints.engine.unknown_value_encoding import strict_step
from fedkg.mining import formula_opcodes
from fedkg.mining.first_step_robustness import Steps
from fedkg.pack.formulas import (
    And,
    Compare,
    Formula,
    Implies,
    Initially,
    Negate,
    Not,
    Or,
    Param,
    Product,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
)

Slope = Callable[[Compare], float | None]
"""The derivative of a comparison's margin by the parameter, for a comparison with a level; None for
one with a verdict.
"""


class NoProgram(Exception):
    """The kernel has no operations for the formula."""


class Lowering:
    """Writes the program of one formula.

    Args:
        steps: the windows.
        slope: for levels; None for robustness.
        target: the parameter of the levels; its value counts as 0.
        always: the level of a comparison that is true for every value.
    """

    def __init__(
        self,
        steps: Steps,
        slope: Slope | None = None,
        target: int | None = None,
        always: float = math.inf,
    ) -> None:
        self._steps, self._slope, self._target, self._always = steps, slope, target, always
        self._operations: list[tuple[int, ...]] = []
        self._constants: list[float] = []

    def program(
        self, formula: Formula
    ) -> tuple[formula_opcodes.Operations, formula_opcodes.Numbers]:
        """The operations [n, 8] and their constants [n]; they leave the formula's value in the
        lowest register at step 0.

        Raises:
            NoProgram: the kernel has no operations for a part of it.
        """
        self._formula(formula, True, 0, 0, 0)
        return np.array(self._operations, np.int64).reshape(-1, 8), np.array(self._constants)

    def _do(
        self,
        kind: int,
        to: int,
        first: int,
        last: int,
        *,
        place: int = 0,
        low: int = 0,
        high: int = 0,
        flag: int = 0,
        number: float = 0.0,
    ) -> None:
        self._operations.append((kind, to, place, first, last, low, high, flag))
        self._constants.append(number)

    def _formula(self, formula: Formula, positive: bool, first: int, last: int, to: int) -> None:
        """Write the formula, or its negation, at steps first..last, into a register."""
        match formula:
            case Temporal() | Until() if self._steps.param in (formula.low, formula.high):
                number = self._steps.number if positive else -self._steps.number
                self._do(formula_opcodes.FILL, to, first, last, number=number)
            case Compare():
                self._compare(formula, positive, first, last, to)
            case Not():
                self._formula(formula.arg, not positive, first, last, to)
            case And() | Or():
                least = isinstance(formula, And) == positive
                for place, arg in enumerate(formula.args):
                    self._formula(arg, positive, first, last, to + (place > 0))
                    if place:
                        self._do(
                            formula_opcodes.LEAST if least else formula_opcodes.LARGEST,
                            to,
                            first,
                            last,
                        )
            case Implies():
                self._formula(formula.antecedent, not positive, first, last, to)
                self._formula(formula.consequent, positive, first, last, to + 1)
                self._do(
                    formula_opcodes.LARGEST if positive else formula_opcodes.LEAST, to, first, last
                )
            case Initially():
                self._formula(formula.arg, positive, 0, 0, to)
                self._do(formula_opcodes.FIRST, to, first, last)
            case Temporal():
                self._temporal(formula, positive, first, last, to)
            case Until():
                self._until(formula, positive, first, last, to)
            case _:
                raise NoProgram

    def _temporal(self, formula: Temporal, positive: bool, first: int, last: int, to: int) -> None:
        least = (formula.op in ("always", "historically")) == positive
        begin, end = self._steps.window(formula, first)[0], self._steps.window(formula, last)[1]
        if begin > end:
            self._do(formula_opcodes.FILL, to, first, last, number=math.inf if least else -math.inf)
            return
        self._formula(formula.arg, positive, begin, end, to)
        low, high = self._ends(formula)
        self._do(formula_opcodes.WINDOW, to, first, last, low=low, high=high, flag=least)

    def _until(self, formula: Until, positive: bool, first: int, last: int, to: int) -> None:
        begin, end = self._steps.window(formula, first)[0], self._steps.window(formula, last)[1]
        if begin > end:
            self._do(
                formula_opcodes.FILL, to, first, last, number=-math.inf if positive else math.inf
            )
            return
        past = formula.op == "since"
        self._formula(formula.left, positive, begin if past else first, last if past else end, to)
        self._formula(formula.right, positive, begin, end, to + 1)
        low, high = self._ends(formula)
        self._do(
            formula_opcodes.UNTIL,
            to,
            first,
            last,
            low=low,
            high=high,
            flag=positive + 2 * formula.closed + 4 * past,
        )

    def _ends(self, formula: Temporal | Until) -> tuple[int, int]:
        """The ends of a window counted from each step, at most one trace length away."""
        numbers, count = self._steps.numbers, self._steps.count
        low, high = int(numbers[formula.low]), int(numbers[formula.high])
        near, far = min(low, count), count if high < 0 else min(high, count)
        return (near, far) if formula.op in ("always", "eventually", "until") else (-far, -near)

    def _compare(self, atom: Compare, positive: bool, first: int, last: int, to: int) -> None:
        slope = None if self._slope is None else self._slope(atom)
        if slope is not None:
            self._margin(atom, True, first, last, to, guarded=False)
            self._do(formula_opcodes.SHARE, to, first, last, number=abs(slope))
            if not positive:
                self._do(formula_opcodes.NEGATE, to, first, last)
            return
        self._margin(atom, positive, first, last, to, guarded=True)
        if (atom.op in ("lt", "ne")) == positive:
            self._do(formula_opcodes.STRICT, to, first, last, number=-strict_step(torch.float64))
        self._do(formula_opcodes.KNOWN, to, first, last)
        if self._slope is not None:
            self._do(formula_opcodes.DECIDED, to, first, last, number=self._always)

    def _margin(
        self, atom: Compare, positive: bool, first: int, last: int, to: int, *, guarded: bool
    ) -> None:
        """Write the margin of a comparison or of its negation."""
        straight = atom.op in ("le", "lt") and positive
        for place, side in enumerate(
            (atom.left, atom.right) if straight else (atom.right, atom.left)
        ):
            self._term(side, first, last, to + place, guarded)
        self._do(formula_opcodes.LESS, to, first, last)
        wider = straight
        if atom.op in ("eq", "ne"):
            self._do(formula_opcodes.ABSOLUTE, to, first, last)
            wider = (atom.op == "eq") == positive
            if wider:
                self._do(formula_opcodes.NEGATE, to, first, last)
        if atom.tolerance is not None:
            self._term(atom.tolerance, first, last, to + 1, guarded)
            if not wider:
                self._do(formula_opcodes.NEGATE, to + 1, first, last)
            self._do(formula_opcodes.ADD, to, first, last)

    def _term(self, term: Term, first: int, last: int, to: int, guarded: bool) -> None:
        match term:
            case Slot():
                self._do(formula_opcodes.SLOT, to, first, last, place=term.index)
            case Param() if term.index == self._target and not guarded:
                self._do(formula_opcodes.FILL, to, first, last)
            case Param():
                self._do(formula_opcodes.PARAM, to, first, last, place=term.index)
            case Sum():
                self._joined(term.args, formula_opcodes.ADD, first, last, to, guarded)
            case Product():
                self._joined(term.args, formula_opcodes.MULTIPLY, first, last, to, guarded)
            case Negate():
                self._term(term.arg, first, last, to, guarded)
                self._do(formula_opcodes.NEGATE, to, first, last)
            case _:
                raise NoProgram

    def _joined(
        self, args: Sequence[Term], kind: int, first: int, last: int, to: int, guarded: bool
    ) -> None:
        for place, arg in enumerate(args):
            self._term(arg, first, last, to + (place > 0), guarded)
            if place:
                self._do(kind, to, first, last, flag=guarded)
