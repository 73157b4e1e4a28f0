"""Conditions, which are satisfied or violated, and the values in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Self

from typing_extensions import override

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.syntax.tree.node import Head, Tree, Word
from fedkg_compiler.frontends.fkg.syntax.tree.quantifiers import InClass, Pattern

SUM, PRODUCT, FACTOR, POWER, OPERAND = range(5)
"""How tightly the operators bind, loosest first."""
WriteAt = Callable[["Expression", int], str]
"""Writes a part, in parentheses if its operator binds less tightly than the level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator(Tree, ABC):
    """A value that is made of other values alone.

    It says which branch of the grammar it is, and how it is written.

    The values in the branch are its fields, in their order.
    """

    branch = ""
    """The name of the branch in `fkg.lark`."""

    @classmethod
    def of(cls, span: Span, parts: Sequence[Expression]) -> Self:
        """The node with these parts."""
        names = (field.name for field in fields(cls) if field.name != "span")
        return cls(span=span, **dict(zip(names, parts, strict=False)))

    @abstractmethod
    def written(self, write: WriteAt) -> tuple[int, str]:
        """How tightly it binds, and its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity(Tree):
    """A number, with its unit where one is written. Never negative: the sign is a `Negative`."""

    value: float
    unit: Word | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference(Tree):
    """A bare name, plain or `` `quoted` ``: a signal, an output, a template parameter."""

    name: str
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable(Tree):
    """``?low``: a value of the quantifier."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply(Tree):
    """``temperature(?zone)``, ``value(?tag)``, ``max(a, b)``, ``l1_ball(radius = ?r)``: which of
    them is decided by binding.
    """

    name: Word
    args: tuple[Expression, ...]
    named: tuple[tuple[Word, Expression], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic(Tree):
    """Two expressions joined by ``+``, ``-``, ``*`` or ``/``."""

    op: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Negative(Operator):
    """``-x``."""

    branch = "negative"
    arg: Expression

    @override
    def written(self, write: WriteAt) -> tuple[int, str]:
        return FACTOR, f"-{write(self.arg, POWER)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised(Tree):
    """``x ^ 2``."""

    base: Expression
    exponent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Past(Operator):
    """``past x``: the history of a forecast variable."""

    branch = "past"
    arg: Expression

    @override
    def written(self, write: WriteAt) -> tuple[int, str]:
        return OPERAND, f"past {write(self.arg, OPERAND)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ago(Operator):
    """``x 10 min ago``: the value of an expression a duration, or a number of steps, earlier.

    ``x 10 min ago initially 0`` has the value `initial` where the trace does not reach back.
    """

    branch = "ago"
    arg: Expression
    by: Expression
    initial: Expression | None = None

    @override
    def written(self, write: WriteAt) -> tuple[int, str]:
        earlier = f"{write(self.arg, OPERAND)} {write(self.by, OPERAND)} ago"
        match self.initial:
            case None:
                return POWER, earlier
            case Negative(arg=arg):
                return POWER, f"{earlier} initially -{write(arg, OPERAND)}"
            case initial:
                return POWER, f"{earlier} initially {write(initial, OPERAND)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Tree):
    """``sum of flow(?p) over ?p where { ... }``, ``max of level(?v) over ?v in class
    fkg-isa95:StorageUnit``.
    """

    function: Word
    body: Expression
    variable: Word
    source: Pattern | InClass


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime(Tree):
    """``mean of flow over last 1 h``, ``count of (flow > 5 kg/h) since (valve becomes on)``: a
    number made of the values, or of a condition, at several steps.

    Attributes:
        lasting: the duration or number of steps of ``over last`` and ``over next``.
        event: the condition of ``since``.
    """

    function: Word
    body: Expression | Condition
    direction: Literal["last", "next", "since"]
    lasting: Expression | None = None
    event: Condition | None = None


Expression = (
    Quantity
    | Reference
    | Variable
    | Apply
    | Arithmetic
    | Negative
    | Raised
    | Past
    | Ago
    | Aggregate
    | OverTime
)

OPERATORS: dict[str, type[Negative | Past | Ago]] = {
    kind.branch: kind for kind in (Negative, Past, Ago)
}
"""The operators by the branch of the grammar that each is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Tree):
    """``a <= b < c``, chained; operators are normalised to ``<= >= == != < >``; len(operators) ==
    len(operands) - 1.
    """

    operands: tuple[Expression, ...]
    operators: tuple[Word, ...]
    tolerance: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsClass(Tree):
    """``grade is D``, ``grade is not "L"``, ``variant is ?p``."""

    subject: Expression
    negated: bool
    value: Word
    form: Literal["name", "string", "variable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership(Tree):
    """``grade in A, B``, ``grade not in C, "D"``: one of the classes of a label, or of the texts of
    a category.
    """

    subject: Expression
    negated: bool
    values: tuple[Word, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Follows(Tree):
    """``follows operational_range(volume, 10, 90, 2 h)``: the condition of a template."""

    call: Apply


@dataclass(frozen=True, slots=True, kw_only=True)
class OverMembers(Tree):
    """``all of (c) over ?p where { ... }``, ``any of (c) over ?p in class T``, ``at least 2 of (c)
    over ...``.

    `least` is how many members: None for all, 1 for any.
    """

    arg: Condition
    least: int | None
    variable: Word
    source: Pattern | InClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Monotone(Tree):
    """``x never falls [per group] [as feature rises]``; `group` names a signal, or a table
    header.
    """

    subject: Expression
    direction: Literal["falls", "rises"]
    group: Word | None = None
    feature: Head | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation(Tree):
    """``not c``."""

    arg: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class AllOf(Tree):
    """``a and b and c``."""

    args: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf(Tree):
    """``a or b or c``."""

    args: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IfThen(Tree):
    """``if a then b``."""

    antecedent: Condition
    consequent: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Tree):
    """``[low, high]``; ``within t`` is a window with low None."""

    low: Expression | None
    high: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal(Tree):
    """A prefix word with its body: ``always [0 h, 2 h] c``.

    `weak` makes ``next`` true at the last step and ``previous`` true at the first.
    """

    mode: Literal["always", "eventually", "once", "historically", "next", "previous", "initially"]
    window: Window | None
    arg: Condition
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Until(Tree):
    """``a [weak] until [closed] [window] b`` or ``a [weak] since [closed] [window] b``.

    `closed`: `a` holds at the step of `b` too. `weak`: `b` may never come if `a` always holds.
    """

    mode: Literal["until", "since"]
    left: Condition
    window: Window | None
    right: Condition
    closed: bool = False
    weak: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence(Tree):
    """``a iff b``: both hold or neither does. ``a xor b``: exactly one of them holds."""

    word: Literal["iff", "xor"]
    left: Condition
    right: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class AtEdge(Tree):
    """``at the start``, ``at the end``: the step is the first or the last one of its trace."""

    edge: Literal["start", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyAfter(Tree):
    """``effect only after cause within t``."""

    effect: Condition
    cause: Condition
    within: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting(Tree):
    """``c for at least 15 min``: c has held for that long."""

    arg: Condition
    duration: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Becomes(Tree):
    """``c becomes true``, ``valve becomes on``: c holds, and did not hold in the step before."""

    arg: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Begins(Tree):
    """``c begins``: c holds, and did not hold in the step before or there is no step before."""

    arg: Condition


Condition = (
    Comparison
    | IsClass
    | Membership
    | Monotone
    | Negation
    | AllOf
    | AnyOf
    | IfThen
    | Temporal
    | Until
    | OnlyAfter
    | Follows
    | OverMembers
    | Lasting
    | Becomes
    | Begins
    | Equivalence
    | AtEdge
)
