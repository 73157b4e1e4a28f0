"""The formulas of packs: trees of nodes, one class for each kind of node, and walks through them.

A class holds what defines its node: its fields, its text, its meaning in NumPy, its interval, how
it depends on its parts, and how far it looks in time. Tree walkers ask the node instead of listing
the kinds. Only its tensor form is elsewhere, in `fedkg/constraints/engine/evaluation.py`, because a
pack loads without torch. The file has four parts: `Part` and its fields, what every node can be
asked; terms; formulas; walks.

Terms are the numeric expressions of a skeleton. A skeleton holds neither numbers nor columns. A
`Slot` says "the i-th column of this bank row", a `Param` "the j-th number of this bank row"; both
are looked up in the bank's columns, so that thousands of rules of one shape are one skeleton. Terms
are evaluated in the order in which they are written (thresholds sit exactly on decimal data, so
re-association would change verdicts).

A formula says what must hold. It has a truth value (satisfied, violated, unknown) and a robustness.

| formula | robustness | satisfied when |
|---|---|---|
| `Compare` le, lt | right - left + tolerance | left <= or < right + tolerance |
| `Compare` eq | tolerance - abs(left - right) | abs(left - right) <= tolerance |
| `Compare` ne | abs(left - right) - tolerance | abs(left - right) > tolerance |
| `ClassIn` | best score inside - best score outside | it is >= 0, or > 0 when strict |
| `CategoryIs` | +inf or -inf | the category code equals the parameter |
| `Not` | the negative | the argument is violated |
| `And`, `Or` | minimum, maximum | Kleene's three-valued conjunction, disjunction |
| `Implies` | max(-antecedent, consequent) | antecedent violated or consequent satisfied |
| `Known` | +inf or -inf | the slot has a value |
| `AtLeast` | the count-th largest of the members' | count members satisfy it |
| `Temporal` | minimum or maximum over the window | Kleene's, over the steps of the window |
| `Until` | max over t' of min(right at t', min of left before t') | see the class |
| `Initially` | the argument's at the first step | the argument holds there |

A yes/no decision is infinitely far from the other verdict: no change of a number turns it. So where
the guard of an implication is such a decision and holds, the implication's robustness is its
consequent's margin, and where it does not hold +inf: kept whatever the numbers.

Steps are those of one trace, and of one entity where keys select table rows. A step that is missing
inside a trace is unknown. A window that reaches beyond the trace meets unknown steps there
(`DataContract.end` "strict") or ends with the trace ("clip": nothing is left of it makes `always`
true and `eventually` false); a window without an end always ends with the trace (sources: An,
Johnson and Ma 2024, section 2; Maler and Nickovic 2004).

A slot that is NaN, or a term that is not finite, makes its comparison unknown: any robustness in
[-inf, +inf]. The connectives work on those intervals; a formula is known when the interval lies on
one side of zero, and its robustness is then the end nearest to zero (the value that is guaranteed),
else NaN.

Walks find the parts of formulas and terms, and which slots and parameters they read. Indices of
slots and parameters mean something in one table alone: that of the bank's rows (-1), or a member
table (its position in `Bank.members`). `terms_of`, `atoms`, `subterms`, `used_slots` and
`used_params` stay in the table where they begin; `everywhere` enters the members' terms too and
gives the table of each part, and `renumbered` gives all of them new indices. Walks name no kind of
node, except atoms: `layout` says which fields of a node are its parts and indices.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
)

import numpy as np
from pydantic import Field
from typing_extensions import override

from fedkg.pack.contract import TRUTHS, Node, Role
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
from fedkg.pack.numeric import intervals
from fedkg.pack.numeric.evaluation_context import Scope
from fedkg.pack.numeric.intervals import Interval, Ranges
from fedkg.pack.numeric.members import at_least, reduce_members
from fedkg.pack.numeric.reproducible_powers import is_multiplication, multiplied
from fedkg.pack.numeric.temporal_operators import initially, temporal, until
from fedkg.pack.numeric.three_valued_logic import (
    Float,
    Verdict,
    are_whole,
    either,
    finite,
    opposite,
)
from fedkg.pack.numeric.window_values import over_steps, since_event

if TYPE_CHECKING:
    from fedkg.pack.contract import Column


Sign = int | None
"""How one thing depends on another: 1 never falls, -1 never rises, 0 does not depend on it, None
unknown."""

BEYOND = 1e30
"""The margin of a constant condition, which is larger than that of any data and fits 32 bits."""

MANY = 99
"""The degree of a term that is not known to be a polynomial of a lower degree."""


class FieldRole(Enum):
    """What a field of a node is."""

    PART = "part"
    SLOT = "slot"
    PARAM = "param"
    MEMBERS = "members"


SlotIndex = Annotated[int, FieldRole.SLOT]
ParamIndex = Annotated[int, FieldRole.PARAM]
MembersIndex = Annotated[int, FieldRole.MEMBERS]
"""The position of a member table in `Bank.members`. The parts of a node with such a field read that
table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How many steps before and after its own a verdict may depend on.

    Infinite where a window without an end holds one that reaches on.
    """

    back: float = 0.0
    ahead: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requirement on the column in a slot: `fits` decides, messages contain `name`."""

    slot: int
    fits: Callable[[Column], bool]
    name: str


class Part(Node):
    """A node of a formula.

    The type of a field says what the field is. `Term` and `Formula` (also optional, or a tuple of
    them) are parts. `SlotIndex`, `ParamIndex` and `MembersIndex` point into the bank. Anything else
    is a setting. Every traversal is derived from this, in the order of the fields.
    """

    over_time: ClassVar[bool] = False
    """Whether the node reads other steps than the one at which it is evaluated."""

    def step_params(self) -> tuple[int, ...]:
        """The parameters that count steps: the ends of a window."""
        return ()

    def reach(self, inner: Reach, params: Sequence[float]) -> Reach:
        """How far the node looks in time if its parts look as far as `inner`."""
        return inner

    def wrong_shape(self) -> str:
        """What is wrong with the number of parts or with a setting; "" if nothing is."""
        return ""

    def wrong_numbers(self, params: Float) -> str:
        """What is wrong with the numbers of the bank's rows, float64 [R, p]; "" if nothing is."""
        return ""

    def wanted_columns(self) -> Iterator[Wanted]:
        """What the columns in the node's slots must be."""
        return iter(())


class TermPart(Part):
    """A number at each row or step."""

    @abstractmethod
    def text(self, write: Writer) -> tuple[str, int]:
        """The term on one line, and how tightly its operator binds (`writing.OPEN` ..
        `writing.ATOM`).
        """

    @abstractmethod
    def value(self, scope: Scope) -> Float:
        """The value, float64 [B, M] or broadcast to it.

        NaN where it or any part of it is not a finite number.
        """

    @abstractmethod
    def interval(self, of: Callable[[Term, Ranges], Interval], ranges: Ranges) -> Interval:
        """Between which numbers the value lies, never too narrow.

        `of` gives the interval of a part.
        """

    def slopes(self, sign: Callable[[Term], Sign]) -> tuple[Sign, ...]:
        """How the value depends on each part; `sign` gives the sign that a part always has.

        By default unknown.
        """
        return (None,) * len(parts_of(self))

    def degree(self, degrees: Sequence[int]) -> int:
        """The degree in some variables, given the degrees of the parts.

        `MANY` if it is not a polynomial.
        """
        return MANY if any(degrees) else 0


class FormulaPart(Part):
    """Satisfied, violated or unknown at each row or step."""

    @abstractmethod
    def text(self, write: Writer, *, outer: bool) -> str:
        """The formula on one line; in parentheses if its operator needs them, unless `outer`."""

    @abstractmethod
    def verdict(self, scope: Scope) -> Verdict:
        """The truth value and the robustness, [B, M]."""

    def polarity(self) -> tuple[int, ...]:
        """For each sub-formula 1 if the formula holds more often when that one does, -1 if less
        often.
        """
        return (1,) * sum(isinstance(part, FormulaPart) for part in parts_of(self))

    def param_signs(self) -> dict[int, Sign]:
        """For each parameter that decides satisfaction: 1 if a larger value makes it easier, -1 if
        harder.
        """
        return {}

    def is_strict(self, positive: bool) -> bool:
        """Whether the formula, or (not `positive`) its negation, is an atom that is violated at a
        margin of 0.
        """
        return False


@cache
def layout(kind: type[Part]) -> tuple[tuple[str, FieldRole], ...]:
    """The fields of a kind of node that are parts or indices, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    roles = ((name, _role(hints[name])) for name in kind.model_fields)
    return tuple((name, role) for name, role in roles if role is not None)


def _role(hint: Any) -> FieldRole | None:
    """What a field of this type is; None for a setting."""
    if isinstance(hint, type) and issubclass(hint, Part):
        return FieldRole.PART
    if isinstance(hint, FieldRole):
        return hint
    return next((role for arg in get_args(hint) if (role := _role(arg)) is not None), None)


def parts_of(node: Part) -> tuple[Part, ...]:
    """The direct parts of a node, in the order of its fields."""
    found: list[Part] = []
    for name, role in layout(type(node)):
        if role is FieldRole.PART:
            value = getattr(node, name)
            found += value if isinstance(value, tuple) else () if value is None else (value,)
    return tuple(found)


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


SYMBOLS = {"le": "<=", "lt": "<", "eq": "==", "ne": "!="}
NEIGHBOUR = {"eventually": "next", "once": "previous"}


class Compare(FormulaPart):
    """Two terms compared, both in the comparison's unit.

    Attributes:
        scale: number (index into the row's parameters) by which the margin is divided in penalties,
            so that a penalty of one bar and one of one kilopascal are comparable; positive.
    """

    kind: Literal["compare"] = "compare"
    op: Literal["le", "lt", "eq", "ne"]
    left: Term
    right: Term
    tolerance: Term | None = None
    scale: ParamIndex

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        sides = f"{write.term(self.left, OPEN)} {SYMBOLS[self.op]} {write.term(self.right, OPEN)}"
        return sides if self.tolerance is None else f"{sides} +/- {write.term(self.tolerance, SUM)}"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        left, right = self.left.value(scope), self.right.value(scope)
        tolerance = np.zeros(()) if self.tolerance is None else self.tolerance.value(scope)
        if self.op in ("le", "lt"):
            margin = right - left + tolerance
        elif self.op == "eq":
            margin = tolerance - np.abs(left - right)
        else:
            margin = np.abs(left - right) - tolerance
        return scope.atom(finite(margin), strict=self.is_strict(True))

    @override
    def is_strict(self, positive: bool) -> bool:
        return (self.op in ("lt", "ne")) == positive

    @override
    def wrong_numbers(self, params: Float) -> str:
        positive = bool((params[:, self.scale] > 0).all())
        return "" if positive else "a scale that is not positive"


class ClassIn(FormulaPart):
    """The predicted class lies in a set: `inside` and `outside` are slots (of output score
    columns).
    """

    kind: Literal["class_in"] = "class_in"
    inside: tuple[SlotIndex, ...]
    outside: tuple[SlotIndex, ...]
    strict: bool = False

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        inside = ", ".join(write.slot(i, "y") for i in self.inside)
        return f"class in {{{inside}}}{' strictly' if self.strict else ''}"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        """Best score inside minus best outside; infinite if one of the sets is empty.

        Unknown if any score is.
        """
        inside, outside = list(self.inside), list(self.outside)
        unknown = np.isnan(scope.slots[inside + outside]).any(axis=0)
        if inside and outside:
            lead = scope.slots[inside].max(axis=0) - scope.slots[outside].max(axis=0)
        else:
            lead = np.full(scope.shape, np.inf if inside else -np.inf)
        return scope.best(np.where(unknown, np.nan, lead), strict=self.strict)

    @override
    def is_strict(self, positive: bool) -> bool:
        return self.strict == positive

    @override
    def wanted_columns(self) -> Iterator[Wanted]:
        for slot in (*self.inside, *self.outside):
            yield Wanted(slot=slot, fits=_is_score, name="class score")


class CategoryIs(FormulaPart):
    """A categorical or Boolean input column equals the category with the code in parameter
    `param`.
    """

    kind: Literal["category_is"] = "category_is"
    slot: SlotIndex
    param: ParamIndex

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        return f"{write.slot(self.slot)} is {write.category(self.slot, self.param)}"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        code, wanted = scope.slots[self.slot], scope.params[self.param]
        decided = np.where(code == wanted, np.inf, -np.inf)
        return scope.atom(np.where(np.isnan(code + wanted), np.nan, decided), strict=False)

    @override
    def wanted_columns(self) -> Iterator[Wanted]:
        yield Wanted(slot=self.slot, fits=_has_codes, name="category")


class Not(FormulaPart):
    """Negation."""

    kind: Literal["not"] = "not"
    arg: Formula

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        arg = self.arg
        if isinstance(arg, ClassIn | CategoryIs):
            return f"not {write.formula(arg)}"
        if isinstance(arg, AtLeast) and arg.count is not None and write.param(arg.count) == "1":
            return f"none{write.formula(arg).removeprefix('any')}"
        return f"not ({write.formula(arg, outer=True)})"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        return opposite(self.arg.verdict(scope))

    @override
    def polarity(self) -> tuple[int, ...]:
        return (-1,)


class And(FormulaPart):
    """Conjunction of two or more."""

    kind: Literal["and"] = "and"
    args: tuple[Formula, ...]

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        return _joined(" and ", self.args, write, outer)

    @override
    def verdict(self, scope: Scope) -> Verdict:
        return opposite(either(tuple(opposite(arg.verdict(scope)) for arg in self.args)))

    @override
    def wrong_shape(self) -> str:
        return "" if self.args else "a connective of nothing"


class Or(FormulaPart):
    """Disjunction of two or more."""

    kind: Literal["or"] = "or"
    args: tuple[Formula, ...]

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        return _joined(" or ", self.args, write, outer)

    @override
    def verdict(self, scope: Scope) -> Verdict:
        return either(tuple(arg.verdict(scope) for arg in self.args))

    @override
    def wrong_shape(self) -> str:
        return "" if self.args else "a connective of nothing"


class Implies(FormulaPart):
    """If the antecedent holds, the consequent does.

    At the top of a rule the antecedent says where the rule *applies*.
    """

    kind: Literal["implies"] = "implies"
    antecedent: Formula
    consequent: Formula

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        parts = (write.formula(part, outer=True) for part in (self.antecedent, self.consequent))
        text = "if {} then {}".format(*parts)
        return text if outer else f"({text})"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        return either((opposite(self.antecedent.verdict(scope)), self.consequent.verdict(scope)))

    @override
    def polarity(self) -> tuple[int, ...]:
        return -1, 1


class Known(FormulaPart):
    """The slot has a value in this row; never unknown itself. Robustness is +inf or -inf."""

    kind: Literal["known"] = "known"
    slot: SlotIndex

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        return f"{write.slot(self.slot)} is known"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        decided = np.where(np.isnan(scope.slots[self.slot]), -np.inf, np.inf)
        return scope.atom(decided, strict=False)


class AtLeast(FormulaPart):
    """The argument holds for enough members of a set: all of them (`count` None), or as many as the
    row's parameter `count` says.

    `members` is the position of the set's table among the bank's `members`; inside `arg`, slots and
    parameters are those of the member table. Robustness is the count-th largest of the members'
    (the least for all); fewer members than `count`: -inf, all of none: +inf.
    """

    kind: Literal["at_least"] = "at_least"
    count: ParamIndex | None
    members: MembersIndex
    arg: Formula

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        count = "all" if self.count is None else f"at least {write.param(self.count)}"
        inner = write.inside(self.members).formula(self.arg, outer=True)
        quantity = "any" if count == "at least 1" else count
        return f"{quantity} of ({inner}) {write.over(self.members)}"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        members = self.arg.verdict(scope.members(self.members))
        count = None if self.count is None else scope.params[self.count]
        return at_least(members, count, scope.offsets(self.members))

    @override
    def param_signs(self) -> dict[int, Sign]:
        return {} if self.count is None else {self.count: -1}

    @override
    def wrong_numbers(self, params: Float) -> str:
        if self.count is None:
            return ""
        count = params[:, self.count]
        fits = are_whole(count) and bool(((count >= 0) & (count < 2**53)).all())
        return "" if fits else "a count that is not a whole number"


class _Windowed(FormulaPart):
    """What formulas over a window of steps have in common."""

    over_time: ClassVar[bool] = True
    universal: ClassVar[tuple[str, ...]] = ("always", "historically")
    backwards: ClassVar[tuple[str, ...]] = ("historically", "once", "since")
    if TYPE_CHECKING:  # the fields of the subclasses, in the order of storage
        op: str
        low: ParamIndex
        high: ParamIndex

    @property
    def looks_back(self) -> bool:
        """Whether the window lies behind."""
        return self.op in self.backwards

    @override
    def step_params(self) -> tuple[int, ...]:
        return self.low, self.high

    @override
    def reach(self, inner: Reach, params: Sequence[float]) -> Reach:
        low, high = params[self.low], params[self.high]
        on, off = (inner.back, inner.ahead) if self.looks_back else (inner.ahead, inner.back)
        on = (math.inf if on else 0.0) if high < 0 else on + high
        off = max(0.0, off - low) if isinstance(self, Temporal) else off
        back, ahead = (on, off) if self.looks_back else (off, on)
        return Reach(back=back, ahead=ahead)

    @override
    def param_signs(self) -> dict[int, Sign]:
        wider = -1 if self.op in self.universal else 1
        return {self.low: -wider, self.high: wider} if self.low != self.high else {self.low: None}

    @override
    def wrong_numbers(self, params: Float) -> str:
        low, high = params[:, self.low], params[:, self.high]
        fits = are_whole(low) and are_whole(high) and bool((low >= 0).all())
        fits = fits and bool(((high >= low) | (high == -1)).all())
        return "" if fits else "a window that is none"


class Temporal(_Windowed):
    """The argument holds at every step (`always`, `historically`) or at some step (`eventually`,
    `once`) of a window.

    Attributes:
        op: the operator. Steps of the window are counted from now, forwards for `always` and
            `eventually`, backwards for the other two.
        low: the parameter with the nearest step of the window, a whole number of at least 0.
        high: the parameter with the farthest step of the window, a whole number of at least the
            nearest one, or -1 for no end.
        arg: the argument.
    """

    kind: Literal["temporal"] = "temporal"
    op: Literal["always", "eventually", "historically", "once"]
    low: ParamIndex
    high: ParamIndex
    arg: Formula

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        inner = write.formula(self.arg, outer=True)
        ends = write.param(self.low), write.param(self.high)
        if ends == ("1", "1") and self.op in NEIGHBOUR:
            return f"{NEIGHBOUR[self.op]} ({inner})"
        window = write.window(self.low, self.high)
        return f"{self.op} {window}{' ' if window else ''}({inner})"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        low, high = scope.params[self.low], scope.params[self.high]
        return temporal(self.op, self.arg.verdict(scope), low, high, scope.steps)


class Until(_Windowed):
    """`right` holds at some step of the window, and `left` at every step from now to just before it
    (with `closed`: to that step).

    `since` is its mirror image: `right` held at some step of the window backwards, and `left` at
    every step after it up to now (with `closed`: from that step). `low` and `high` are as in
    `Temporal`.
    """

    kind: Literal["until"] = "until"
    op: Literal["until", "since"]
    low: ParamIndex
    high: ParamIndex
    left: Formula
    right: Formula
    closed: bool = False

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        words = (self.op, "closed" if self.closed else "", write.window(self.low, self.high))
        between = " ".join(filter(None, words))
        text = f"{write.formula(self.left)} {between} {write.formula(self.right)}"
        return text if outer else f"({text})"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        left, right = self.left.verdict(scope), self.right.verdict(scope)
        low, high = scope.params[self.low], scope.params[self.high]
        return until(self.op, left, right, low, high, self.closed, scope.steps)


class Initially(FormulaPart):
    """The argument holds at the first step of the trace.

    At the top of a rule it says that the rule applies at that step alone.
    """

    over_time: ClassVar[bool] = True
    kind: Literal["initially"] = "initially"
    arg: Formula

    @override
    def text(self, write: Writer, *, outer: bool) -> str:
        return f"initially ({write.formula(self.arg, outer=True)})"

    @override
    def verdict(self, scope: Scope) -> Verdict:
        return initially(self.arg.verdict(scope), scope.steps)


def _joined(word: str, args: Sequence[Formula], write: Writer, outer: bool) -> str:
    text = word.join(write.formula(arg) for arg in args)
    return text if outer else f"({text})"


def _is_score(column: Column) -> bool:
    return column.type == "score" and column.role == "output"


def _has_codes(column: Column) -> bool:
    return column.type == "category" or (column.type == "boolean" and column.vocabulary == TRUTHS)


Formula = Annotated[
    Compare
    | ClassIn
    | CategoryIs
    | Not
    | And
    | Or
    | Implies
    | Known
    | AtLeast
    | Temporal
    | Until
    | Initially,
    Field(discriminator="kind"),
]


Atom = Compare | ClassIn | CategoryIs | Known
ROWS = -1
"""The table of the bank's own rows."""
AnyPart = TypeVar("AnyPart", bound=Part)


def children(part: Formula | Term) -> tuple[Formula | Term, ...]:
    """The direct parts of a formula or term, in the order in which they are read."""
    return cast(tuple[Formula | Term, ...], parts_of(part))


def with_parts(part: AnyPart, of: Callable[[Any], Any]) -> AnyPart:
    """The same node with `of(child)` in place of each direct part."""
    update: dict[str, Any] = {}
    for name, role in layout(type(part)):
        value = getattr(part, name)
        if role is FieldRole.PART and value is not None:
            update[name] = tuple(map(of, value)) if isinstance(value, tuple) else of(value)
    return part.model_copy(update=update) if update else part


def member_table(part: Formula | Term) -> int | None:
    """The member table that the parts of a node read; None if they read the table of the node."""
    names = (name for name, role in layout(type(part)) if role is FieldRole.MEMBERS)
    name = next(names, None)
    return None if name is None else cast(int, getattr(part, name))


def own_params(part: Formula | Term) -> frozenset[int]:
    """The parameters that a node reads itself, in its own table.

    Those of its parts are not among them.
    """
    names = (name for name, role in layout(type(part)) if role is FieldRole.PARAM)
    return frozenset(value for name in names if (value := getattr(part, name)) is not None)


def term_children(term: Term) -> tuple[Term, ...]:
    """The direct sub-terms of a term, in its own table: none of a `Reduce`.

    Of a `Choose` the two results.
    """
    return tuple(part for part in _in_own_table(term) if isinstance(part, TermPart))


def subterms(term: Term) -> Iterator[Term]:
    """The term and every term inside it in its own table, outermost first.

    The terms of a `Choose`'s condition are among them.
    """
    yield term
    for part in _in_own_table(term):
        for inner in (part,) if isinstance(part, TermPart) else terms_of(part):
            yield from subterms(inner)


def formula_children(formula: Formula) -> tuple[Formula, ...]:
    """The direct sub-formulas of a formula, in its own table: none of an `AtLeast`."""
    return tuple(part for part in _in_own_table(formula) if isinstance(part, FormulaPart))


def _in_own_table(part: Formula | Term) -> tuple[Formula | Term, ...]:
    return children(part) if member_table(part) is None else ()


def subformulas(formula: Formula) -> Iterator[Formula]:
    """The formula and every formula inside it in its own table, outermost first, left to right.

    Not those inside terms.
    """
    yield formula
    for child in formula_children(formula):
        yield from subformulas(child)


def atoms(formula: Formula) -> Iterator[Atom]:
    """The atomic formulas of a formula in its own table, left to right; not those inside terms."""
    return (part for part in subformulas(formula) if isinstance(part, Atom))


def sides(atom: Compare) -> tuple[Term, ...]:
    """The terms of a comparison: left, right and, where there is one, the tolerance."""
    return (atom.left, atom.right, *(() if atom.tolerance is None else (atom.tolerance,)))


def terms_of(formula: Formula) -> Iterator[Term]:
    """The outermost terms of a formula, in its own table: the sides of its comparisons."""
    for part in subformulas(formula):
        yield from (side for side in _in_own_table(part) if isinstance(side, TermPart))


def everywhere(part: Formula | Term, table: int = ROWS) -> Iterator[tuple[int, Formula | Term]]:
    """Every formula and term inside `part`, itself first, each with the table of its slots and
    parameters.
    """
    yield table, part
    members = member_table(part)
    for child in children(part):
        yield from everywhere(child, table if members is None else members)


def reads_output(part: Formula | Term) -> bool:
    """Whether a prediction is read anywhere inside, by members too."""
    return any(
        (isinstance(one, Slot) and one.role == "output") or isinstance(one, ClassIn)
        for _, one in everywhere(part)
    )


def is_temporal(part: Formula | Term) -> bool:
    """Whether a verdict or a value depends on other steps than its own."""
    return any(one.over_time for _, one in everywhere(part))


def reach(part: Formula | Term, params: Sequence[float] = ()) -> Reach:
    """How far a formula or term looks in time, its windows being those of `params`.

    members' windows are not looked at.

    A window without an end ends with the trace: it adds nothing.
    """
    parts = [reach(child, params) for child in _in_own_table(part)]
    back = max((one.back for one in parts), default=0.0)
    ahead = max((one.ahead for one in parts), default=0.0)
    return part.reach(Reach(back=back, ahead=ahead), params)


def used_slots(formula: Formula, table: int = ROWS) -> frozenset[int]:
    """Indices of all slots a formula reads in a table: that of the bank's rows, or a member
    table.
    """
    return indices(formula)[0].get(table, frozenset())


def used_params(formula: Formula, table: int = ROWS) -> frozenset[int]:
    """Indices of all parameters a formula reads in a table, scales, windows and counts included."""
    return indices(formula)[1].get(table, frozenset())


def indices(formula: Formula) -> tuple[dict[int, frozenset[int]], dict[int, frozenset[int]]]:
    """The slots and parameters read, by table.

    A table that only holds members to count has none.
    """
    found: dict[FieldRole, dict[int, set[int]]] = {
        FieldRole.SLOT: {ROWS: set()},
        FieldRole.PARAM: {ROWS: set()},
    }
    for table, part in everywhere(formula):
        for of_tables in found.values():
            of_tables.setdefault(table, set())
        for name, role in layout(type(part)):
            value = getattr(part, name)
            if role in found and value is not None:
                found[role][table].update(value if isinstance(value, tuple) else (value,))
    slots, params = (
        {table: frozenset(used) for table, used in of_tables.items()}
        for of_tables in found.values()
    )
    return slots, params


@dataclass(frozen=True, slots=True, kw_only=True)
class Renumbering:
    """New indices: `slot` and `param` are given a table, by its old position, and an old index.

    `members` the old position of a table.
    """

    slot: Callable[[int, int], int]
    param: Callable[[int, int], int]
    members: Callable[[int], int]


def renumbered(part: AnyPart, new: Renumbering, table: int = ROWS) -> AnyPart:
    """The formula or term with other indices, asked for in the order in which it is read: of a
    comparison left, right, tolerance, scale.
    """
    members = member_table(cast(Any, part))
    inside = table if members is None else members

    def one(role: FieldRole, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(one(role, entry) for entry in value)
        if value is None:
            return None
        match role:
            case FieldRole.SLOT:
                return new.slot(table, value)
            case FieldRole.PARAM:
                return new.param(table, value)
            case FieldRole.MEMBERS:
                return new.members(value)
            case FieldRole.PART:
                return renumbered(value, new, inside)

    fields = layout(type(part))
    return part.model_copy(update={name: one(role, getattr(part, name)) for name, role in fields})
