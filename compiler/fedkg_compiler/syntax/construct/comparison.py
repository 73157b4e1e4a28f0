"""Comparisons, chained ones too: the direction of a chain and the place of a tolerance are checked
here.
"""

from __future__ import annotations

from itertools import pairwise

from fedkg_compiler.syntax.construct.expression_nodes import expression
from fedkg_compiler.syntax.construct.statement_context import Statement, branches, tokens
from fedkg_compiler.syntax.parse_tree_nodes import Branch
from fedkg_compiler.syntax.tree import Comparison, Word

_SAME = {"≤": "<=", "≥": ">=", "≠": "!="}
_UP, _DOWN = {"<", "<="}, {">", ">="}


def comparison(at: Statement, branch: Branch) -> Comparison:
    """``a <= b < c +/- t``, its operators written the plain way."""
    *operands, last = branches(branch)
    tolerance = branches(last)[0] if last.data == "tolerance" else None
    if tolerance is None:
        operands.append(last)
    operators = tuple(
        Word(span=at.span(sign), text=_SAME.get(str(sign), str(sign)))
        for sign in tokens(branch, "CMP")
    )
    _check_direction(at, operators)
    if tolerance is not None and any(sign.text != "==" for sign in operators):
        wrong = next(sign for sign in operators if sign.text != "==")
        at.report(
            "FKG033",
            at.span(last),
            f"a tolerance belongs to ==, not to {wrong.text}",
            "move the bound itself, or write == ... +/- ...",
        )
    return Comparison(
        span=at.span(branch),
        operands=tuple(expression(at, operand) for operand in operands),
        operators=operators,
        tolerance=expression(at, tolerance) if tolerance is not None else None,
    )


def _check_direction(at: Statement, operators: tuple[Word, ...]) -> None:
    """Check a chain: all operators point one way, and ``!=`` compares two values only."""
    if len(operators) == 1:
        return
    for sign in operators:
        if sign.text == "!=":
            at.report(
                "FKG032",
                sign.span,
                "`!=` cannot be part of a chain",
                "write the two comparisons and join them by `and`",
            )
            return
    signs = [sign for sign in operators if sign.text != "=="]
    for before, sign in pairwise(signs):
        if (before.text in _UP) != (sign.text in _UP):
            at.report(
                "FKG032",
                sign.span,
                f"this chain turns round: {before.text} and then {sign.text}",
                "write the two comparisons and join them by `and`",
            )
            return
