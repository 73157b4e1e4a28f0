"""Formulas: what must hold, over terms, one class for each kind.

Each has a truth value (satisfied, violated, unknown) and a robustness.

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

`fedkg.pack.node` says what the methods of a formula are for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field
from typing_extensions import override

from fedkg.pack import terms
from fedkg.pack.contract import TRUTHS
from fedkg.pack.formula_writer_protocol import OPEN, SUM, Writer
from fedkg.pack.node import FormulaPart, MembersIndex, ParamIndex, Reach, Sign, SlotIndex, Wanted
from fedkg.pack.numeric.members import at_least
from fedkg.pack.numeric.scope import Scope
from fedkg.pack.numeric.three_valued_logic import (
    Float,
    Verdict,
    are_whole,
    either,
    finite,
    opposite,
)
from fedkg.pack.numeric.windows import initially, temporal, until
from fedkg.pack.terms import Term

if TYPE_CHECKING:
    from fedkg.pack.contract import Column

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

vars(terms)["Formula"] = Formula
"""A `Choose` holds a formula: now its annotation can be resolved, which pydantic does when a model
is first used."""
