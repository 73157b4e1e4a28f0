"""Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedkg_compiler.syntax.tree.node import Tree, Word
from fedkg_compiler.syntax.tree.quantifiers import InClass, Pattern


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
    """``temperature(?zone)``, ``value(?tag)``, ``max(a, b)``, ``l1_ball(radius = ?r)``: which of them is decided by binding."""

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
class Negative(Tree):
    """``-x``."""

    arg: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised(Tree):
    """``x ^ 2``."""

    base: Expression
    exponent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Past(Tree):
    """``past x``: the history of a forecast variable."""

    arg: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Tree):
    """``sum of flow(?p) over ?p where { ... }``, ``max of level(?v) over ?v in class isa95:StorageUnit``."""

    function: Word
    body: Expression
    variable: Word
    source: Pattern | InClass


Expression = (
    Quantity | Reference | Variable | Apply | Arithmetic | Negative | Raised | Past | Aggregate
)
