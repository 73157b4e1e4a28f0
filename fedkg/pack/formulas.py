"""Formulas: what must hold, over terms. Each has a truth value (satisfied, violated, unknown) and a robustness.

| formula | robustness | satisfied when |
|---|---|---|
| `Compare` le, lt | right - left + tolerance | left <= right + tolerance, left < right + tolerance |
| `Compare` eq | tolerance - abs(left - right) | abs(left - right) <= tolerance |
| `Compare` ne | abs(left - right) - tolerance | abs(left - right) > tolerance |
| `ClassIn` | best score inside - best score outside | it is >= 0, or > 0 when strict |
| `CategoryIs` | +1 or -1 | the category code equals the parameter |
| `Not` | the negative | the argument is violated |
| `And`, `Or` | minimum, maximum | Kleene's three-valued conjunction, disjunction |
| `Implies` | max(-antecedent, consequent) | antecedent violated or consequent satisfied |

A slot that is NaN, or a term that is not finite, makes its comparison unknown: any robustness in [-inf, +inf]. The connectives work on
those intervals; a formula is known when the interval lies on one side of zero, and its robustness is then the end nearest to zero
(the value that is guaranteed), else NaN.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedkg.pack.node import Node
from fedkg.pack.terms import Term


class Compare(Node):
    """Two terms compared, both in the comparison's unit.

    Attributes:
        scale: number (index into the row's parameters) by which the margin is divided in penalties, so that a penalty of one bar and
            one of one kilopascal are comparable; positive.
    """

    kind: Literal["compare"] = "compare"
    op: Literal["le", "lt", "eq", "ne"]
    left: Term
    right: Term
    tolerance: Term | None = None
    scale: int


class ClassIn(Node):
    """The predicted class lies in a set: `inside` and `outside` are slots (of output score columns)."""

    kind: Literal["class_in"] = "class_in"
    inside: tuple[int, ...]
    outside: tuple[int, ...]
    strict: bool = False


class CategoryIs(Node):
    """A categorical input column has the category whose code is the row's parameter `param`."""

    kind: Literal["category_is"] = "category_is"
    slot: int
    param: int


class Not(Node):
    """Negation."""

    kind: Literal["not"] = "not"
    arg: Formula


class And(Node):
    """Conjunction of two or more."""

    kind: Literal["and"] = "and"
    args: tuple[Formula, ...]


class Or(Node):
    """Disjunction of two or more."""

    kind: Literal["or"] = "or"
    args: tuple[Formula, ...]


class Implies(Node):
    """If the antecedent holds, the consequent does. At the top of a rule the antecedent says where the rule *applies*."""

    kind: Literal["implies"] = "implies"
    antecedent: Formula
    consequent: Formula


Formula = Annotated[Compare | ClassIn | CategoryIs | Not | And | Or | Implies, Field(discriminator="kind")]

for _model in (Not, And, Or, Implies):
    _model.model_rebuild()
