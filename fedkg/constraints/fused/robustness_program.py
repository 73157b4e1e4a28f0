"""A skeleton's robustness as a program: what `engine.evaluation` computes, in negation normal form
likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import assert_never

from fedkg.constraints.engine.precomputed_subformula import InputFormula
from fedkg.constraints.engine.shared_window_extremes import OverExtreme
from fedkg.constraints.fused.program import (
    EDGE_HIGH,
    HAIR_DOWN,
    HAIR_UP,
    PAST,
    STRICT,
    TO_LAST,
    TO_SECOND,
    FusedProgram,
    NotFused,
    Op,
    Part,
    Window,
)
from fedkg.constraints.fused.program_builder import Writing
from fedkg.pack.formulas import (
    And,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Temporal,
    Until,
)

Inner = Callable[[Formula, bool], int]
"""Writes a sub-formula or its negation."""


@lru_cache(maxsize=1024)
def robustness_program(
    formula: Formula, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> FusedProgram | None:
    """The program of a formula over slots; None where the engine has to do it."""
    writing = Writing(inputs, outputs)
    try:
        if not isinstance(formula, Implies):
            return writing.program(verdict(writing, formula, True))
        refuted = verdict(writing, formula.antecedent, False)
        return writing.program(
            writing.picked((refuted, verdict(writing, formula.consequent, True)), lowest=False),
            refuted,
        )
    except NotFused:
        return None


def verdict(writing: Writing, formula: Formula, positive: bool, offset: bool = False) -> int:
    """The register of a formula's robustness, or of its negation's.

    Args:
        offset: margins are moved by a hair, so that none is 0, instead of by the strict step where
            a strict one is.
    """

    def inner(part: Formula, sign: bool) -> int:
        return verdict(writing, part, sign, offset)

    match formula:
        case Compare():
            return writing.margin(
                formula, positive, _nudge((formula.op in ("lt", "ne")) == positive, offset)
            )
        case InputFormula():
            raise NotFused
        case ClassIn():
            return writing.class_margin(
                formula, positive, _nudge(formula.strict == positive, offset)
            )
        case CategoryIs() | Known():
            return writing.decision(formula, positive)
        case Not() | And() | Or() | Implies():
            return connected(writing, formula, positive, inner, least=True)
        case Temporal() | Until() | Initially():
            return timed(writing, formula, positive, inner, 0)
        case _:
            raise NotFused


def _nudge(strict: bool, offset: bool) -> int:
    if offset:
        return HAIR_DOWN if strict else HAIR_UP
    return STRICT if strict else 0


def connected(
    writing: Writing,
    formula: Not | And | Or | Implies,
    positive: bool,
    inner: Inner,
    *,
    least: bool,
) -> int:
    """A connective; `least` says whether a conjunction is a minimum, as for robustness, or a
    maximum, as for what is missing.
    """
    match formula:
        case Not():
            return inner(formula.arg, not positive)
        case And():
            return writing.picked(
                [inner(arg, positive) for arg in formula.args], lowest=positive == least
            )
        case Or():
            return writing.picked(
                [inner(arg, positive) for arg in formula.args], lowest=positive != least
            )
        case Implies():
            parts = inner(formula.antecedent, not positive), inner(formula.consequent, positive)
            return writing.picked(parts, lowest=positive != least)
    assert_never(formula)


def timed(
    writing: Writing, formula: Temporal | Until | Initially, positive: bool, inner: Inner, mark: int
) -> int:
    """A formula over time; `mark`: `MISSING` where numbers say what is missing."""
    least = positive != bool(mark)
    match formula:
        case Initially():
            return writing.put(Op.FIRST, inner(formula.arg, positive))
        case Temporal():
            lowest = (formula.op in ("always", "historically")) == least
            past = PAST if formula.op in ("historically", "once") else 0
            value, window = (
                inner(formula.arg, positive),
                writing.window(Window(low=formula.low, high=formula.high)),
            )
            flags = mark | past | (EDGE_HIGH if lowest else 0)
            ops = (
                (Op.ENDS_MIN, Op.ENDS_MAX)
                if isinstance(formula, OverExtreme)
                else (Op.WINDOW_MIN, Op.WINDOW_MAX)
            )
            return writing.put(ops[0] if lowest else ops[1], value, number=window, flags=flags)
        case Until():
            return _until(writing, formula, positive, inner, mark, lowest=not least)
    assert_never(formula)


def _until(
    writing: Writing, formula: Until, positive: bool, inner: Inner, mark: int, *, lowest: bool
) -> int:
    """p until [a, b] q as (p before a) and, at a, (eventually [0, b - a] q) and (p until q) (Donzé,
    Ferrère and Maler 2013, section 3).
    """
    left, right = inner(formula.left, positive), inner(formula.right, positive)
    if formula.closed:
        right = writing.picked((left, right), lowest=not lowest)
    flags = (
        mark | (PAST | TO_LAST if formula.op == "since" else 0) | (EDGE_HIGH if lowest else 0)
    )  # the first is the nearest

    def over(op: Op, register: int, part: Part) -> int:
        return writing.put(
            op,
            register,
            number=writing.window(Window(low=formula.low, high=formula.high, part=part)),
            flags=flags,
        )

    ever = writing.put(
        Op.RELEASE if lowest else Op.UNTIL,
        left,
        right,
        number=writing.window(Window(low=formula.low, high=formula.high)),
        flags=flags,
    )
    within = over(Op.WINDOW_MIN if lowest else Op.WINDOW_MAX, right, "length")
    # Where the two are equal it is `ever` that knows the first value that decides: `within` knows
    # of the right side alone.
    there = over(
        Op.WINDOW_MIN, writing.picked((within, ever), lowest=not lowest, flags=TO_SECOND), "at"
    )
    before = over(Op.WINDOW_MAX if lowest else Op.WINDOW_MIN, left, "before")
    return writing.picked((before, there), lowest=not lowest)
