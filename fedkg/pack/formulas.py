"""Formulas: what must hold, over terms. Each has a truth value (satisfied, violated, unknown) and a robustness.

| formula | robustness | satisfied when |
|---|---|---|
| `Compare` le, lt | right - left + tolerance | left <= right + tolerance, left < right + tolerance |
| `Compare` eq | tolerance - abs(left - right) | abs(left - right) <= tolerance |
| `Compare` ne | abs(left - right) - tolerance | abs(left - right) > tolerance |
| `ClassIn` | best score inside - best score outside | it is >= 0, or > 0 when strict |
| `CategoryIs` | +inf or -inf | the category code equals the parameter |
| `Not` | the negative | the argument is violated |
| `And`, `Or` | minimum, maximum | Kleene's three-valued conjunction, disjunction |
| `Implies` | max(-antecedent, consequent) | antecedent violated or consequent satisfied |
| `Known` | +inf or -inf | the slot has a value |
| `AtLeast` | the count-th largest of the members' | so many members satisfy it |
| `Temporal` | minimum or maximum over the window | Kleene's, over the steps of the window |
| `Until` | max over t' of min(right at t', min of left before t') | see the class |
| `Initially` | the argument's at the first step | the argument holds there |

A yes/no decision is infinitely far from the other verdict: no change of a number turns it. So where the guard of an implication is such
a decision and holds, the implication's robustness is its consequent's margin, and where it does not hold +inf: kept whatever the numbers.

Steps are those of one trace, and of one entity where keys select table rows. A step that is missing inside a trace is unknown. A window
that reaches beyond the trace meets unknown steps there (`DataContract.end` "strict") or ends with the trace ("clip": nothing is left of
it makes `always` true and `eventually` false); a window without an end always ends with the trace (sources: An, Johnson and Ma 2024,
section 2; Maler and Nickovic 2004).

A slot that is NaN, or a term that is not finite, makes its comparison unknown: any robustness in [-inf, +inf]. The connectives work on
those intervals; a formula is known when the interval lies on one side of zero, and its robustness is then the end nearest to zero
(the value that is guaranteed), else NaN.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fedkg.pack import terms
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
    """A categorical input column, or one of truth values, has the category whose code is the row's parameter `param`."""

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


class Known(Node):
    """The slot has a value in this row; never unknown itself. Robustness is +inf or -inf."""

    kind: Literal["known"] = "known"
    slot: int


class AtLeast(Node):
    """The argument holds for enough members of a set: all of them (`count` None), or as many as the row's parameter `count` says.

    `members` is the position of the set's table among the bank's `members`; inside `arg`, slots and parameters are those of the member
    table. Robustness is the count-th largest of the members' (the least for all); fewer members than `count`: -inf, all of none: +inf.
    """

    kind: Literal["at_least"] = "at_least"
    count: int | None
    members: int
    arg: Formula


class Temporal(Node):
    """The argument holds at every step (`always`, `historically`) or at some step (`eventually`, `once`) of a window.

    Attributes:
        low, high: parameters with the window's first and last step, counted from now: forwards for `always` and `eventually`, backwards
            for the other two; whole numbers, ``0 <= low <= high``, or ``high = -1`` for no end.
    """

    kind: Literal["temporal"] = "temporal"
    op: Literal["always", "eventually", "historically", "once"]
    low: int
    high: int
    arg: Formula


class Until(Node):
    """`right` holds at some step of the window, and `left` at every step from now to just before it (with `closed`: to that step).

    `since` is its mirror image: `right` held at some step of the window backwards, and `left` at every step after it up to now (with
    `closed`: from that step). `low` and `high` are as in `Temporal`.
    """

    kind: Literal["until"] = "until"
    op: Literal["until", "since"]
    low: int
    high: int
    left: Formula
    right: Formula
    closed: bool = False


class Initially(Node):
    """The argument holds at the first step of the trace. At the top of a rule it says that the rule applies at that step alone."""

    kind: Literal["initially"] = "initially"
    arg: Formula


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

vars(terms)["Formula"] = Formula
"""A `Choose` holds a formula: now its annotation can be resolved, which pydantic does when a model is first used."""
