"""Terms: the numeric expressions of a skeleton.

A skeleton holds no number and no column of its own. A `Slot` says "the i-th column of this bank row", a `Param` "the j-th number of
this bank row"; both are looked up in the bank's columns, so that thousands of rules of one shape are one skeleton. Terms are evaluated
in the order in which they are written (thresholds sit exactly on decimal data, so re-association would change verdicts).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from fedkg.pack.node import Node

if TYPE_CHECKING:
    from fedkg.pack.formulas import Formula

Role = Literal["input", "output"]
Function = Literal[
    "min", "max", "abs", "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil", "round"
]


class Slot(Node):
    """The value of the row's column number `index`: data for an input, the model's word for an output."""

    kind: Literal["slot"] = "slot"
    index: int
    role: Role = "input"


class Param(Node):
    """The row's number `index`: a threshold, a fact of the graph, a conversion factor."""

    kind: Literal["param"] = "param"
    index: int


class Sum(Node):
    """Left-to-right sum of two or more terms."""

    kind: Literal["sum"] = "sum"
    args: tuple[Term, ...]


class Product(Node):
    """Left-to-right product of two or more terms."""

    kind: Literal["product"] = "product"
    args: tuple[Term, ...]


class Negate(Node):
    """The negative of a term; ``a - b`` is ``Sum(a, Negate(b))``, which is the same number in IEEE arithmetic."""

    kind: Literal["negate"] = "negate"
    arg: Term


class Quotient(Node):
    """A term divided by another; a division by zero is unknown."""

    kind: Literal["quotient"] = "quotient"
    numerator: Term
    denominator: Term


class Power(Node):
    """A term to a fixed power; a result that is not a real number is unknown."""

    kind: Literal["power"] = "power"
    base: Term
    exponent: float


class Call(Node):
    """A named function of one or more terms; outside its domain the result is unknown."""

    kind: Literal["call"] = "call"
    function: Function
    args: tuple[Term, ...]


class Reduce(Node):
    """A number made of one value for each member of a set: the flows of all pipes of a vessel.

    `members` is the position of the set's table among the bank's `members`; inside `arg`, slots and parameters are those of the member
    table. The empty set: sum and count 0; mean, min and max unknown. A member whose value is unknown makes the whole unknown, or is left
    out with `skip` (as SPARQL does with what has no value). `count` is the number of members whose value is known, itself always known.
    """

    kind: Literal["reduce"] = "reduce"
    op: Literal["sum", "mean", "min", "max", "count"]
    members: int
    arg: Term
    skip: bool = False


class Choose(Node):
    """One term where a condition holds, another where it fails; unknown where the condition is."""

    kind: Literal["choose"] = "choose"
    condition: Formula
    then: Term
    otherwise: Term


class Coalesce(Node):
    """The first of its terms that is known."""

    kind: Literal["coalesce"] = "coalesce"
    args: tuple[Term, ...]


Term = Annotated[
    Slot | Param | Sum | Product | Negate | Quotient | Power | Call | Reduce | Choose | Coalesce,
    Field(discriminator="kind"),
]
"""Complete once `fedkg.pack.formulas` is imported: a `Choose` holds a formula."""
