"""Terms: the numeric expressions of a skeleton.

A skeleton holds no number and no column of its own. A `Slot` says "the i-th column of this bank row", a `Param` "the j-th number of
this bank row"; both are looked up in the bank's columns, so that thousands of rules of one shape are one skeleton. Terms are evaluated
in the order in which they are written (thresholds sit exactly on decimal data, so re-association would change verdicts).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedkg.pack.node import Node

Role = Literal["input", "output"]
Function = Literal["min", "max", "abs", "sqrt", "exp", "log", "sin", "cos", "tan", "tanh", "floor", "ceil", "round"]


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


Term = Annotated[Slot | Param | Sum | Product | Negate | Quotient | Power | Call, Field(discriminator="kind")]

for _model in (Sum, Product, Negate, Quotient, Power, Call):
    _model.model_rebuild()
