"""Negation normal form of a formula, and its top-level parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Power,
    Quotient,
    Reduce,
    Temporal,
)
from fedkg.pack.node import TermPart
from fedkg.pack.walk import everywhere, is_temporal
from fedkg_compiler.formulas.formula_algebra import opposite_comparison


def at_any_step(
    formula: Formula, starts_now: Callable[[Temporal], bool] = lambda _: True
) -> Formula:
    """What the formula says of a single step: a rule holds at every step anyway, so `always` at its
    top goes.

    `starts_now`: whether a window begins at the step itself. One that begins later says nothing of
    the first steps of a trace.
    """
    while (
        isinstance(formula, Temporal)
        and formula.op in ("always", "historically")
        and starts_now(formula)
    ):
        formula = formula.arg
    return formula


def without_time(formula: Formula) -> Formula | None:
    """What the formula says of a trace on which nothing changes and which has no ends.

    None where that takes more than its shape.
    """
    if not is_temporal(formula):
        return formula
    still = _still(formula)
    return None if is_temporal(still) else still


def _still(formula: Formula) -> Formula:
    match formula:
        case Temporal() | Initially():
            return _still(formula.arg)
        case Not() | AtLeast():
            return formula.model_copy(update={"arg": _still(formula.arg)})
        case And() | Or():
            return formula.model_copy(update={"args": tuple(_still(arg) for arg in formula.args)})
        case Implies():
            return formula.model_copy(
                update={
                    "antecedent": _still(formula.antecedent),
                    "consequent": _still(formula.consequent),
                }
            )
        case _:
            return formula


def conjunction(formula: Formula, positive: bool = True) -> Iterator[tuple[Formula, bool]]:
    """The parts that must all hold, each positive (True) or negated (False)."""
    if isinstance(formula, Not):
        yield from conjunction(formula.arg, not positive)
    elif isinstance(formula, And if positive else Or):
        for arg in formula.args:
            yield from conjunction(arg, positive)
    elif isinstance(formula, Implies) and not positive:
        yield from conjunction(formula.antecedent)
        yield from conjunction(formula.consequent, False)
    elif positive and isinstance(formula, Temporal) and formula.op in ("always", "historically"):
        yield from conjunction(formula.arg)
    else:
        yield formula, positive


def comparisons(formula: Formula, *, positive: bool = True) -> tuple[Compare, ...] | None:
    """The comparisons that the formula, or (not `positive`) its negation, is a conjunction of, else
    None.

    That of windows at its top which begin at the step itself: see `at_any_step`.
    """
    parts = []
    for part, holds in conjunction(at_any_step(formula), positive):
        if not isinstance(part, Compare):
            return None
        compare = part if holds else opposite_comparison(part)
        if compare.op == "ne":
            return None
        parts.append(compare)
    return tuple(parts)


def implications(formula: Formula) -> tuple[Implies, ...]:
    """The top-level `if ... then ...` parts of a rule."""
    top = at_any_step(formula)
    if isinstance(top, Initially):
        top = top.arg
    return tuple(
        part for part, positive in conjunction(top) if positive and isinstance(part, Implies)
    )


def sure(formula: Formula) -> bool:
    """Whether the formula has a truth value wherever all that it reads is known: it divides by
    nothing, takes no root, reads no other step.
    """
    return not any(
        isinstance(part, Quotient | Power | Reduce)
        or (isinstance(part, TermPart) and part.over_time)
        or (isinstance(part, Call) and part.function in ("log", "sqrt", "tan"))
        for _, part in everywhere(formula)
    )


def looks_for_gaps(formula: Formula) -> bool:
    """Whether a missing value can decide the formula: it asks what is known, or passes over what is
    not.
    """
    return any(
        isinstance(part, Known | Coalesce) or (isinstance(part, Reduce) and part.skip)
        for _, part in everywhere(formula)
    )
