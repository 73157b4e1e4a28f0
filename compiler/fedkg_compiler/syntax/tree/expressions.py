"""Values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, Self

from typing_extensions import override

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.syntax.tree.node import Tree, Word
from fedkg_compiler.syntax.tree.quantifiers import InClass, Pattern

if TYPE_CHECKING:
    from fedkg_compiler.syntax.tree.conditions import Condition

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
        return cls(span=span, **dict(zip(names, parts, strict=True)))

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
    """``x 10 min ago``: the value of an expression a duration, or a number of steps, earlier."""

    branch = "ago"
    arg: Expression
    by: Expression

    @override
    def written(self, write: WriteAt) -> tuple[int, str]:
        return POWER, f"{write(self.arg, OPERAND)} {write(self.by, OPERAND)} ago"


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
