"""Writes hard rules so that they can become projections: limits on the least or largest of several
values become several limits. Reports the hard rules that are not affine in what they read from the
model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, product

import numpy as np

from fedkg.pack import And, Call, Compare, Formula, Term
from fedkg.pack.formulas import is_temporal, member_table, reads_output, with_parts
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.formulas.formula_algebra import is_nonlinear, nonlinear_comparisons
from fedkg_compiler.ir import BoundRows, Program


def linearise_hard_rules(program: Program) -> Program:
    """Split the limits of hard rules on a minimum or maximum; warn of those that stay nonlinear."""
    found: dict[int, tuple[Formula, int]] = {}
    rows: list[BoundRows] = []
    diagnostics: list[Diagnostic] = []
    for part in program.rows:
        if part.rule.hard:
            if id(part.formula) not in found:
                found[id(part.formula)] = _split(part)
            formula, scales = found[id(part.formula)]
            ones = (np.ones(part.rows.count),) * scales
            bound = replace(part.rows, params=(*part.rows.params, *ones))
            part = replace(part, formula=formula, rows=bound)
            diagnostics += _notes(part)
        rows.append(part)
    return replace(program, rows=tuple(rows), diagnostics=(*program.diagnostics, *diagnostics))


def _split(part: BoundRows) -> tuple[Formula, int]:
    """The formula of a part without extremes, and the number of scales that it needs more."""
    first = len(part.rows.params)
    number = count(first)
    formula = _without_extremes(part.formula, lambda: next(number))
    return formula, next(number) - first


def _notes(part: BoundRows) -> list[Diagnostic]:
    """What a hard rule cannot do: correct what is not affine, or single rows over several steps."""
    name, span = part.rule.name, part.span
    assert span is not None, "only rules of rule files and queries are hard"
    nonlinear = nonlinear_comparisons(part.formula)
    if nonlinear:
        what = "is not linear in what the model predicts"
        advice = "write it with sums of outputs, each times a number or an input"
        if any(is_temporal(comparison) for comparison in nonlinear):
            what = "compares an earlier value or a number over time"
            advice = "limit the value of each step: always within 1 h x <= 6"
        return [
            Diagnostic(
                code="FKG222",
                severity="warning",
                span=span,
                message=f"`{name}` is hard, but {what}: fedkg cannot enforce it, and only adds a "
                f"penalty and counts violations",
                help=f"{advice}, or remove `hard`",
            )
        ]
    if is_temporal(part.formula) and reads_output(part.formula):
        return [
            Diagnostic(
                code="FKG263",
                severity="info",
                span=span,
                message=f"`{name}` is hard and reads several steps: fedkg corrects forecasts to"
                " satisfy it, but not answers to single rows",
                help="for single rows write a rule about one step, or remove `hard`",
            )
        ]
    return []


def _without_extremes(formula: Formula, new_scale: Callable[[], int]) -> Formula:
    """The formula with ``a < min(b, c)`` as ``a < b and a < c``, and ``max(a, b) <= c`` likewise.

    Only where that makes a comparison affine in the outputs. The least margin of the parts is the
    margin of the whole. Where one part is violated and another one unknown, the whole is violated
    instead of unknown.

    Args:
        new_scale: makes a parameter for the scale of a comparison.
    """

    def split(part: Formula | Term) -> Formula | Term:
        if member_table(part) is not None:
            return part  # the parameters of members are in their own tables
        if not isinstance(part, Compare):
            return with_parts(part, split)
        if part.op not in ("le", "lt") or not is_nonlinear(part):
            return part
        pairs = list(product(_parts(part.left, "max"), _parts(part.right, "min")))
        if len(pairs) == 1:
            return part
        limits = tuple(
            part.model_copy(update={"left": left, "right": right, "scale": new_scale()})
            for left, right in pairs
        )
        return part if any(map(is_nonlinear, limits)) else And(args=limits)

    found: Formula = split(formula)  # type: ignore[assignment]
    return found


def _parts(term: Term, function: str) -> tuple[Term, ...]:
    """The arguments of a minimum or maximum, nested ones too; else the term itself."""
    if not isinstance(term, Call) or term.function != function:
        return (term,)
    return tuple(part for arg in term.args for part in _parts(arg, function))
