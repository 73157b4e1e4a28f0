"""Conditions: the parts of a rule that are satisfied or violated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedkg_compiler.syntax.tree.expressions import Apply, Expression
from fedkg_compiler.syntax.tree.node import Head, Tree, Word
from fedkg_compiler.syntax.tree.quantifiers import InClass, Pattern


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
