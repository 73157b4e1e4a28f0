"""Terms and atoms written down as operations of a `FusedProgram`.

A place is where a term's value will be: a register, or (a term over parameters alone) among the
numbers of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedkg.constraints.fused.program import (
    BOUNDLESS,
    NAN_TOO,
    OTHER,
    FusedProgram,
    NotFused,
    Op,
    Window,
)
from fedkg.pack.contract import Node
from fedkg.pack.formulas import (
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Known,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
    subterms,
)
from fedkg.pack.numeric.reproducible_powers import is_multiplication

Number = Term | float
Place = int | Number

FUNCTIONS = {"abs": Op.ABS, "sqrt": Op.SQRT, "floor": Op.FLOOR, "ceil": Op.CEIL, "round": Op.ROUND}

OF_TWO = {  # register and register, register and number, number and register
    Op.ADD: (Op.ADD, Op.ADD_S, None),
    Op.SUB: (Op.SUB, Op.SUB_S, Op.S_SUB),
    Op.MUL: (Op.MUL, Op.MUL_S, None),
    Op.DIV: (Op.DIV, Op.DIV_S, Op.S_DIV),
    Op.MARGIN: (Op.MARGIN, Op.MARGIN_S, Op.S_MARGIN),
}


class Writing:
    """A program under construction; its methods append operations and return where the results will
    be.

    Args:
        inputs: the slots that read inputs.
        outputs: the slots that read outputs.
    """

    def __init__(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self._place = {slot: i for i, slot in enumerate((*inputs, *outputs))}
        self._counts = len(inputs), len(outputs)
        self._live = [i >= len(inputs) for i in range(len(self._place))]
        self._code: list[tuple[int, ...]] = []
        self._operands: list[int] = []
        self._scalars: list[Number] = []
        self._windows: list[Window] = []

    def program(self, result: int, refuted: int = -1) -> FusedProgram:
        """What has been written, with the register of the formula's number."""
        return FusedProgram(
            inputs=self._counts[0],
            outputs=self._counts[1],
            code=np.array(self._code, dtype=np.int64).reshape(-1, 8),
            operands=np.array(self._operands, dtype=np.int64),
            scalars=tuple(self._scalars),
            windows=tuple(self._windows),
            registers=len(self._live),
            result=result,
            refuted=refuted,
        )

    def put(self, op: Op, *read: int, number: int = 0, flags: int = 0) -> int:
        """An operation on registers; the register of its result."""
        self._live.append(any(self._live[register] for register in read))
        operands = (*read, 0, 0, 0)[:3]
        self._code.append((op, len(self._live) - 1, *operands, number, flags, int(self._live[-1])))
        return len(self._live) - 1

    def picked(self, parts: Sequence[int], lowest: bool, flags: int = 0) -> int:
        """The least or the greatest of some registers."""
        if len(parts) == 1:
            return parts[0]
        first = len(self._operands)
        self._operands += parts
        self._live.append(any(self._live[part] for part in parts))
        op = Op.MIN if lowest else Op.MAX
        self._code.append(
            (op, len(self._live) - 1, first, first + len(parts), 0, 0, flags, int(self._live[-1]))
        )
        return len(self._live) - 1

    def number(self, term: Number) -> int:
        """Which number of the row a constant or a term over parameters alone is."""
        if term not in self._scalars:
            self._scalars.append(term)
        return self._scalars.index(term)

    def window(self, window: Window) -> int:
        """Which window of the row one is."""
        if window not in self._windows:
            self._windows.append(window)
        return self._windows.index(window)

    def of_two(self, op: Op, left: Place, right: Place, flags: int = 0) -> int:
        """An operation on two places, which must not both be numbers of the row."""
        both, behind, before = OF_TWO[op]
        if isinstance(left, int) and isinstance(right, int):
            return self.put(both, left, right, flags=flags)
        if isinstance(left, int):
            assert not isinstance(right, int)
            return self.put(behind, left, number=self.number(right), flags=flags)
        right = self.register(right)
        if before is None:
            return self.put(behind, right, number=self.number(left), flags=flags)
        return self.put(before, right, number=self.number(left), flags=flags)

    def register(self, place: Place) -> int:
        """A place as a register."""
        return place if isinstance(place, int) else self.put(Op.FILL, number=self.number(place))

    def term(self, term: Term) -> Place:
        """The register of a term's value. Raises NotFused for terms without an operation."""
        if not any(isinstance(part, Slot | Reduce | Choose | Coalesce) for part in subterms(term)):
            return term
        match term:
            case Slot():
                return self._place[term.index]
            case Sum():
                return self._sum(term.args)
            case Product():
                place = self.term(term.args[0])
                for arg in term.args[1:]:
                    place = self._joined(
                        Op.MUL, place, self.term(arg), lambda a, b: Product(args=(a, b))
                    )
                return place
            case Negate():
                return self.put(Op.NEG, self.register(self.term(term.arg)))
            case Quotient():
                return self.of_two(Op.DIV, self.term(term.numerator), self.term(term.denominator))
            case Power():
                return self._power(self.register(self.term(term.base)), term.exponent)
            case Call():
                return self._call(term)
            case Coalesce():
                places = [self.register(self.term(arg)) for arg in term.args]
                while len(places) > 1:
                    places[-2:] = [self.put(Op.COALESCE, *places[-2:])]
                return places[0]
            case _:
                raise NotFused

    def _sum(self, args: Sequence[Term]) -> Place:
        place = self.term(args[0])
        for arg in args[1:]:
            if isinstance(arg, Negate):  # a + (-b) is a - b in IEEE arithmetic
                place = self._joined(
                    Op.SUB, place, self.term(arg.arg), lambda a, b: Sum(args=(a, Negate(arg=b)))
                )
            else:
                place = self._joined(Op.ADD, place, self.term(arg), lambda a, b: Sum(args=(a, b)))
        return place

    def _joined(
        self, op: Op, left: Place, right: Place, term: Callable[[Term, Term], Term]
    ) -> Place:
        if isinstance(left, Node) and isinstance(right, Node):
            return term(left, right)
        return self.of_two(op, left, right)

    def _power(self, base: int, exponent: float) -> int:
        if exponent == 0.5:
            return self.put(Op.SQRT, base)
        if not is_multiplication(exponent):
            raise NotFused
        if exponent == 0:
            return self.put(
                Op.ADD_S, self.put(Op.MUL_S, base, number=self.number(0.0)), number=self.number(1.0)
            )
        place = base
        for _ in range(abs(int(exponent)) - 1):
            place = self.put(Op.MUL, place, base)
        return place if exponent > 0 else self.put(Op.S_DIV, place, number=self.number(1.0))

    def _call(self, term: Call) -> int:
        places = [self.register(self.term(arg)) for arg in term.args]
        if term.function in ("min", "max"):
            while len(places) > 1:
                places[:2] = [
                    self.put(Op.LEAST if term.function == "min" else Op.MOST, *places[:2])
                ]
            return places[0]
        if term.function not in FUNCTIONS:
            raise NotFused
        return self.put(FUNCTIONS[term.function], places[0])

    def margin(self, atom: Compare, positive: bool, flags: int, scale: int | None = None) -> int:
        """The margin of a comparison or of its negation, marked.

        Divided by the scale where one is given.
        """
        left, right = self.term(atom.left), self.term(atom.right)
        tolerance: Place = 0.0 if atom.tolerance is None else self.term(atom.tolerance)
        if not isinstance(left, int) and not isinstance(right, int):
            right = self.register(right)
        if atom.op in ("le", "lt"):
            ends = (right, left) if positive else (left, right)
            if atom.tolerance is not None:
                off = self._negated(tolerance) if positive else tolerance
                ends = self.of_two(Op.SUB, *ends), off
        else:
            distance = self.put(Op.ABS, self.of_two(Op.SUB, left, right))
            ends = (tolerance, distance) if (atom.op == "eq") == positive else (distance, tolerance)
        if scale is None:
            return self.of_two(Op.MARGIN, *ends, flags=flags)
        nothing = isinstance(ends[1], float) and ends[1] == 0.0
        missing = ends[0] if isinstance(ends[0], int) and nothing else self.of_two(Op.SUB, *ends)
        return self.put(Op.SCALED, missing, number=self.number(Param(index=scale)), flags=flags)

    def _negated(self, place: Place) -> Place:
        if isinstance(place, int):
            return self.put(Op.NEG, place)
        return -place if isinstance(place, float) else Negate(arg=place)

    def class_margin(self, atom: ClassIn, positive: bool, flags: int) -> int:
        """Best score inside the set minus best outside, or its negative, marked."""
        if not atom.inside or not atom.outside:
            raise NotFused
        inside, outside = (
            self.picked([self._place[slot] for slot in part], lowest=False, flags=NAN_TOO)
            for part in (atom.inside, atom.outside)
        )
        ends = (inside, outside) if positive else (outside, inside)
        return self.put(Op.MARGIN, *ends, flags=flags | BOUNDLESS)

    def decision(self, atom: CategoryIs | Known, positive: bool) -> int:
        """A yes or no."""
        flags, slot = 0 if positive else OTHER, self._place[atom.slot]
        if isinstance(atom, Known):
            return self.put(Op.KNOWN, slot, flags=flags)
        return self.put(Op.CATEGORY, slot, number=self.number(Param(index=atom.param)), flags=flags)
