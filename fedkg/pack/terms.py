"""Terms: the numeric expressions of a skeleton, one class for each kind.

A skeleton holds neither numbers nor columns. A `Slot` says "the i-th column of this bank row", a
`Param` "the j-th number of this bank row"; both are looked up in the bank's columns, so that
thousands of rules of one shape are one skeleton. Terms are evaluated in the order in which they are
written (thresholds sit exactly on decimal data, so re-association would change verdicts).

`fedkg.pack.node` says what the methods of a term are for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from typing_extensions import override

from fedkg.pack.formula_writer_protocol import (
    ATOM,
    OPEN,
    POWER,
    PRODUCT,
    SIGN,
    SUM,
    Writer,
    number_text,
)
from fedkg.pack.node import MANY, MembersIndex, ParamIndex, Reach, Sign, SlotIndex, TermPart, Wanted
from fedkg.pack.numeric import intervals
from fedkg.pack.numeric.intervals import Interval, Ranges
from fedkg.pack.numeric.members import reduce_members
from fedkg.pack.numeric.reproducible_powers import is_multiplication, multiplied
from fedkg.pack.numeric.scope import Scope
from fedkg.pack.numeric.three_valued_logic import Float, are_whole, finite
from fedkg.pack.numeric.window_values import over_steps, since_event

if TYPE_CHECKING:
    from fedkg.pack.contract import Column
    from fedkg.pack.formulas import Formula

Role = Literal["input", "output"]
Function = Literal[
    "min", "max", "abs", "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil", "round"
]
UNARY: dict[str, Callable[[Float], Float]] = {
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
}
VARIADIC = ("min", "max")
RISING = ("sqrt", "exp", "log", "tanh", "floor", "ceil", "round", *VARIADIC)
"""Functions that never fall in any of their arguments."""
BoundsOf = Callable[["Term", Ranges], Interval]
SignOf = Callable[["Term"], Sign]


class Slot(TermPart):
    """The value of the row's column number `index`: data for an input, the model's word for an
    output.
    """

    kind: Literal["slot"] = "slot"
    index: SlotIndex
    role: Role = "input"

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        return write.slot(self.index, "y" if self.role == "output" else "x"), ATOM

    @override
    def value(self, scope: Scope) -> Float:
        return np.asarray(scope.slots[self.index])

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        return ranges.slot(self.index)

    @override
    def wanted_columns(self) -> Iterator[Wanted]:
        yield Wanted(slot=self.index, fits=self._fits, name=self.role)

    def _fits(self, column: Column) -> bool:
        return column.role == self.role


class Param(TermPart):
    """The row's number `index`: a threshold, a fact of the graph, a conversion factor."""

    kind: Literal["param"] = "param"
    index: ParamIndex

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        return write.param(self.index), ATOM

    @override
    def value(self, scope: Scope) -> Float:
        return np.asarray(scope.params[self.index])

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        return ranges.param(self.index)


class Sum(TermPart):
    """Left-to-right sum of two or more terms."""

    kind: Literal["sum"] = "sum"
    args: tuple[Term, ...]

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        first, *rest = self.args
        signed = (
            (
                f"- {write.term(arg.arg, PRODUCT)}"
                if isinstance(arg, Negate)
                else f"+ {write.term(arg, SUM)}"
            )
            for arg in rest
        )
        return " ".join([write.term(first, SUM), *signed]), SUM

    @override
    def value(self, scope: Scope) -> Float:
        total = self.args[0].value(scope)
        for arg in self.args[1:]:
            total = finite(total + arg.value(scope))
        return total

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        low, high = np.zeros(ranges.count), np.zeros(ranges.count)
        for one, other in [of(arg, ranges) for arg in self.args]:
            low, high = low + one, high + other
        return low, high

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        return (1,) * len(self.args)

    @override
    def degree(self, degrees: Sequence[int]) -> int:
        return max(degrees)

    @override
    def wrong_shape(self) -> str:
        return _without_parts(self)


class Product(TermPart):
    """Left-to-right product of two or more terms."""

    kind: Literal["product"] = "product"
    args: tuple[Term, ...]

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        return " * ".join(write.term(arg, PRODUCT) for arg in self.args), PRODUCT

    @override
    def value(self, scope: Scope) -> Float:
        product = self.args[0].value(scope)
        for arg in self.args[1:]:
            product = finite(product * arg.value(scope))
        return product

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        result = of(self.args[0], ranges)
        for arg in self.args[1:]:
            result = intervals.product(result, of(arg, ranges))
        return result

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        found: list[Sign] = []
        for i in range(len(self.args)):
            own: Sign = 1
            for j, other in enumerate(self.args):
                own = own if i == j else times(own, sign(other))
            found.append(own)
        return tuple(found)

    @override
    def degree(self, degrees: Sequence[int]) -> int:
        return min(MANY, sum(degrees))

    @override
    def wrong_shape(self) -> str:
        return _without_parts(self)


class Negate(TermPart):
    """The negative of a term.

    ``a - b`` is ``Sum(a, Negate(b))``, which is the same number in IEEE arithmetic.
    """

    kind: Literal["negate"] = "negate"
    arg: Term

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        return f"-{write.term(self.arg, POWER)}", SIGN

    @override
    def value(self, scope: Scope) -> Float:
        return -self.arg.value(scope)

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        low, high = of(self.arg, ranges)
        return -high, -low

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        return (-1,)

    @override
    def degree(self, degrees: Sequence[int]) -> int:
        return degrees[0]


class Quotient(TermPart):
    """A term divided by another; a division by zero is unknown."""

    kind: Literal["quotient"] = "quotient"
    numerator: Term
    denominator: Term

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        if self.is_unknown(write):
            return "unknown", ATOM
        return (
            f"{write.term(self.numerator, PRODUCT)} / {write.term(self.denominator, SIGN)}",
            PRODUCT,
        )

    def is_unknown(self, write: Writer) -> bool:
        """Whether this is ``0 / 0``, the encoding of "no value".

        In a skeleton a parameter divided by the same parameter.
        """
        above, below = self.numerator, self.denominator
        return (
            isinstance(above, Param)
            and isinstance(below, Param)
            and {write.param(above.index), write.param(below.index)} in ({"0"}, {f"p{above.index}"})
        )

    @override
    def value(self, scope: Scope) -> Float:
        return finite(self.numerator.value(scope) / self.denominator.value(scope))

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        low, high = of(self.denominator, ranges)
        safe = (low > 0) | (high < 0)
        least, most = intervals.quotient(of(self.numerator, ranges), (low, high))
        return np.where(safe, least, -np.inf), np.where(safe, most, np.inf)

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        by = sign(self.denominator)
        falls = None if by is None else times(-1, sign(self.numerator))
        return by, falls

    @override
    def degree(self, degrees: Sequence[int]) -> int:
        return degrees[0] if degrees[1] == 0 else MANY


class Power(TermPart):
    """A term to a fixed power; a result that is not a real number is unknown."""

    kind: Literal["power"] = "power"
    base: Term
    exponent: float

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        return f"{write.term(self.base, ATOM)}^{number_text(self.exponent)}", POWER

    @override
    def value(self, scope: Scope) -> Float:
        base = self.base.value(scope)
        if is_multiplication(self.exponent):
            return finite(multiplied(base, int(self.exponent)))
        power = np.sqrt(base) if self.exponent == 0.5 else np.power(base, self.exponent)
        return finite(np.asarray(power, dtype=np.float64))

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        return intervals.power(of(self.base, ranges), self.exponent)

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        if self.exponent == 0:
            return (0,)
        even = self.exponent.is_integer() and int(self.exponent) % 2 == 0
        if self.exponent > 0 and not even:
            return (1,)
        base = sign(self.base)
        way = base if even or base is None else 1
        return (way if self.exponent > 0 else times(-1, way),)

    @override
    def degree(self, degrees: Sequence[int]) -> int:
        if degrees[0] == 0:
            return 0
        whole = self.exponent.is_integer() and self.exponent >= 0
        return int(min(MANY, degrees[0] * self.exponent)) if whole else MANY

    @override
    def wrong_shape(self) -> str:
        return "" if np.isfinite(self.exponent) else "a power that is not finite"


class Call(TermPart):
    """A named function of one or more terms; outside its domain the result is unknown."""

    kind: Literal["call"] = "call"
    function: Function
    args: tuple[Term, ...]

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        return f"{self.function}({', '.join(write.term(arg) for arg in self.args)})", ATOM

    @override
    def value(self, scope: Scope) -> Float:
        args = [arg.value(scope) for arg in self.args]
        if self.function not in VARIADIC:
            return finite(UNARY[self.function](args[0]))
        pick = np.minimum if self.function == "min" else np.maximum
        result = args[0]
        for arg in args[1:]:
            result = np.asarray(pick(result, arg))
        return result

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        return intervals.function(self.function, [of(arg, ranges) for arg in self.args])

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        if self.function in RISING:
            return (1,) * len(self.args)
        return (sign(self.args[0]) if self.function == "abs" else None,)

    @override
    def wrong_shape(self) -> str:
        fits = self.args and (self.function in VARIADIC or len(self.args) == 1)
        return "" if fits else f"a call with {len(self.args)} parts"


class Reduce(TermPart):
    """A number made of one value for each member of a set: the flows of all pipes of a vessel.

    `members` is the position of the set's table among the bank's `members`; inside `arg`, slots and
    parameters are those of the member table. The empty set: sum and count 0; mean, min and max
    unknown. One member with an unknown value makes the whole unknown, or is left out with `skip`
    (as SPARQL does for missing values). `count` is the number of members with a known value, and
    always known.
    """

    kind: Literal["reduce"] = "reduce"
    op: Literal["sum", "mean", "min", "max", "count"]
    members: MembersIndex
    arg: Term
    skip: bool = False

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        """``sum of flow over 3 members``.

        Where members are chosen, ``count of (60 < torque) over 3 members``.
        """
        arg, inner, over = self.arg, write.inside(self.members), write.over(self.members)
        if not (self.skip and isinstance(arg, Choose) and arg.is_filter(inner)):
            known = " where known" if self.skip else ""
            return f"{self.op} of {inner.term(arg, ATOM)} {over}{known}", OPEN
        condition = f"({inner.formula(arg.condition, outer=True)})"
        if self.op == "count" and isinstance(arg.then, Param):
            return f"count of {condition} {over}", OPEN
        return f"{self.op} of {inner.term(arg.then, ATOM)} {over} where {condition}", OPEN

    @override
    def value(self, scope: Scope) -> Float:
        inside = scope.members(self.members)
        members = np.broadcast_to(self.arg.value(inside), inside.shape)
        return reduce_members(self.op, self.skip, members, scope.offsets(self.members))

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        inside, offsets = ranges.members(self.members)
        if self.op == "count":
            return np.zeros(ranges.count), np.diff(offsets).astype(np.float64)
        return intervals.reduce_members(self.op, self.skip, of(self.arg, inside), offsets)


class Choose(TermPart):
    """One term where a condition holds, another where it fails; unknown where the condition is."""

    kind: Literal["choose"] = "choose"
    condition: Formula
    then: Term
    otherwise: Term

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        condition = write.formula(self.condition, outer=True)
        return (
            f"if {condition} then {write.term(self.then)} else {write.term(self.otherwise)}",
            OPEN,
        )

    def is_filter(self, write: Writer) -> bool:
        """Whether it has no value where the condition fails."""
        return isinstance(self.otherwise, Quotient) and self.otherwise.is_unknown(write)

    @override
    def value(self, scope: Scope) -> Float:
        condition = self.condition.verdict(scope)
        otherwise = np.where(condition.fails, self.otherwise.value(scope), np.nan)
        return np.where(condition.holds, self.then.value(scope), otherwise)

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        return intervals.hull([of(self.then, ranges), of(self.otherwise, ranges)])

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        return None, 1, 1


class Coalesce(TermPart):
    """The first of its terms that is known."""

    kind: Literal["coalesce"] = "coalesce"
    args: tuple[Term, ...]

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        return f"coalesce({', '.join(write.term(arg) for arg in self.args)})", ATOM

    @override
    def value(self, scope: Scope) -> Float:
        found = self.args[0].value(scope)
        for arg in self.args[1:]:
            found = np.where(np.isnan(found), arg.value(scope), found)
        return found

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        return intervals.hull([of(arg, ranges) for arg in self.args])

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        return (1,) * len(self.args)

    @override
    def wrong_shape(self) -> str:
        return _without_parts(self)


class Lag(TermPart):
    """The value of a term some steps earlier in its trace: ``temp 10 min ago``.

    It is unknown where the trace does not reach back that far, and where that step is missing from
    the trace.

    Attributes:
        steps: the parameter with the number of steps, a whole number of at least 0.
    """

    over_time: ClassVar[bool] = True
    kind: Literal["lag"] = "lag"
    steps: ParamIndex
    arg: Term

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        return f"{write.term(self.arg, ATOM)} {write.duration(self.steps)} ago", POWER

    @override
    def value(self, scope: Scope) -> Float:
        at = scope.steps.at  # [N, L]
        width = scope.shape[1]
        now = np.broadcast_to(self.arg.value(scope), scope.shape).reshape(*at.shape, width)
        now = np.where(at[:, :, None] < 0, np.nan, now)
        earlier = np.full_like(now, np.nan)
        steps = scope.params[self.steps].astype(np.int64)
        for count in np.unique(steps[steps < at.shape[1]]).tolist():
            rows = steps == count
            earlier[:, count:, rows] = now[:, : at.shape[1] - count, rows]
        return earlier.reshape(scope.shape)

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        return of(self.arg, ranges)

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        return (1,)

    @override
    def step_params(self) -> tuple[int, ...]:
        return (self.steps,)

    @override
    def reach(self, inner: Reach, params: Sequence[float]) -> Reach:
        steps = params[self.steps]
        return Reach(back=inner.back + steps, ahead=max(0.0, inner.ahead - steps))

    @override
    def wrong_numbers(self, params: Float) -> str:
        steps = params[:, self.steps]
        fits = are_whole(steps) and bool(((steps >= 0) & (steps < 2**53)).all())
        return "" if fits else "a lag that is not a whole number of steps"


class WindowReduce(TermPart):
    """A number made of the values at several steps: ``mean of flow over last 1 h``.

    With `count`, the window has that many steps: the step itself and those before it, or with
    `ahead` those after it. With `since`, it has the steps from the latest one at which the
    condition holds, up to the step itself.

    It is unknown where the window reaches beyond the trace, where a step of it is missing or has an
    unknown value, and with `since` where no event was seen or where an unknown condition may have
    been a later one.

    Attributes:
        count: the parameter with the number of steps, a whole number of at least 1.
    """

    over_time: ClassVar[bool] = True
    kind: Literal["window_reduce"] = "window_reduce"
    op: Literal["sum", "mean", "min", "max"]
    count: ParamIndex | None = None
    ahead: bool = False
    arg: Term
    since: Formula | None = None

    @override
    def text(self, write: Writer) -> tuple[str, int]:
        """``mean of flow over last 1 h``; of an indicator ``count of (flow > 5) over last 1 h``."""
        op, inner = self._indicator(write) or (self.op, write.term(self.arg, ATOM))
        if self.since is not None:
            return f"{op} of {inner} since ({write.formula(self.since, outer=True)})", OPEN
        assert self.count is not None, "checked by wrong_shape"
        way = "next" if self.ahead else "last"
        return f"{op} of {inner} over {way} {write.duration(self.count)}", OPEN

    def _indicator(self, write: Writer) -> tuple[str, str] | None:
        """The word and the text of a condition that is counted, None where none is."""
        arg = self.arg
        if not (
            self.op in ("sum", "mean")
            and isinstance(arg, Choose)
            and isinstance(arg.then, Param)
            and isinstance(arg.otherwise, Param)
            and write.param(arg.otherwise.index) == "0"
        ):
            return None
        one = write.param(arg.then.index) == "1"
        if self.op == "mean" and not one:
            return None
        word = "share" if self.op == "mean" else "count" if one else "duration"
        return word, f"({write.formula(arg.condition, outer=True)})"

    @override
    def value(self, scope: Scope) -> Float:
        at = scope.steps.at  # [N, L]
        shape = (*at.shape, scope.shape[1])
        values = np.broadcast_to(self.arg.value(scope), scope.shape).reshape(shape)
        values = np.where(at[:, :, None] < 0, np.nan, values)
        if self.since is None:
            assert self.count is not None, "checked by wrong_shape"
            counts = scope.params[self.count].astype(np.int64)
            return over_steps(self.op, values, counts, ahead=self.ahead).reshape(scope.shape)
        event = self.since.verdict(scope)
        holds, fails = (
            np.broadcast_to(part, scope.shape).reshape(shape) for part in (event.holds, event.fails)
        )
        return since_event(self.op, values, holds, fails).reshape(scope.shape)

    @override
    def interval(self, of: BoundsOf, ranges: Ranges) -> Interval:
        low, high = of(self.arg, ranges)
        if self.op in ("min", "max"):
            return low, high
        if self.op == "mean":
            return intervals.outwards(low, high)
        if self.count is not None:
            count, _ = ranges.param(self.count)
            return intervals.outwards(low * count, high * count)
        return np.where(low < 0, -np.inf, low), np.where(high > 0, np.inf, high)

    @override
    def slopes(self, sign: SignOf) -> tuple[Sign, ...]:
        return (1,) if self.since is None else (1, None)

    @override
    def step_params(self) -> tuple[int, ...]:
        return () if self.count is None else (self.count,)

    @override
    def reach(self, inner: Reach, params: Sequence[float]) -> Reach:
        if self.count is None:
            return Reach(back=math.inf if inner.back else 0.0, ahead=inner.ahead)
        more = params[self.count] - 1
        if self.ahead:
            return Reach(back=inner.back, ahead=inner.ahead + more)
        return Reach(back=inner.back + more, ahead=inner.ahead)

    @override
    def wrong_shape(self) -> str:
        if (self.count is None) == (self.since is None):
            return "a window with both or none of a length and an event"
        return (
            "a window that begins at an event and lies ahead" if self.since and self.ahead else ""
        )

    @override
    def wrong_numbers(self, params: Float) -> str:
        if self.count is None:
            return ""
        count = params[:, self.count]
        fits = are_whole(count) and bool(((count >= 1) & (count < 2**53)).all())
        return "" if fits else "a window whose length is not a whole number of steps"


def times(sign: Sign, other: Sign) -> Sign:
    """The sign of a product."""
    return None if sign is None or other is None else sign * other


def _without_parts(term: Sum | Product | Coalesce) -> str:
    return "" if term.args else f"a {term.kind} with 0 parts"


Term = Annotated[
    Slot
    | Param
    | Sum
    | Product
    | Negate
    | Quotient
    | Power
    | Call
    | Reduce
    | Choose
    | Coalesce
    | Lag
    | WindowReduce,
    Field(discriminator="kind"),
]
"""Complete once `fedkg.pack.formulas` is imported: a `Choose` holds a formula."""
