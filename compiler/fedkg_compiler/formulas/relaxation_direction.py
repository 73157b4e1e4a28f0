"""The direction in which a parameter relaxes a formula, from the polarity of its occurrences.

Each node says how it depends on its parts (`TermPart.slopes`, `FormulaPart.polarity`); here signs
are multiplied and joined.

A sign is +1 (grows with the parameter, or does not shrink), -1, 0 (does not depend on it), or None
(unknown).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fedkg.pack import Compare, Formula, Param, Term
from fedkg.pack.formulas import (
    FormulaPart,
    Sign,
    children,
    everywhere,
    member_table,
    own_params,
    times,
)
from fedkg.pack.numeric.intervals import Ranges
from fedkg_compiler.formulas.formula_algebra import interval


def direction(formula: Formula, param: int, ranges: Ranges) -> Sign:
    """The sign of satisfaction in a parameter: +1 where a larger value is never harder to
    satisfy.
    """
    if isinstance(formula, Compare):
        return _comparison(formula, param, ranges)
    own = formula.param_signs().get(param, 0)
    if member_table(formula) is not None:
        return own  # members have separate parameters
    parts = [part for part in children(formula) if isinstance(part, FormulaPart)]
    signs = (
        times(way, direction(part, param, ranges))
        for way, part in zip(formula.polarity(), parts, strict=True)
    )
    return _both((own, *signs))


def _comparison(atom: Compare, param: int, ranges: Ranges) -> Sign:
    left, right = slope(atom.left, param, ranges), slope(atom.right, param, ranges)
    tolerance = 0 if atom.tolerance is None else slope(atom.tolerance, param, ranges)
    if atom.op in ("le", "lt"):
        return _both((times(-1, left), right, tolerance))
    if left != 0 or right != 0:
        return None
    return tolerance if atom.op == "eq" else times(-1, tolerance)


def slope(term: Term, param: int, ranges: Ranges) -> Sign:
    """The sign of a term in a parameter."""
    if isinstance(term, Param):
        return int(term.index == param)
    if param in own_params(term):
        return None
    if member_table(term) is not None:
        return 0
    inner = [_slope_of_part(part, param, ranges) for part in children(term)]
    if not any(sign != 0 for sign in inner):
        return 0
    outer = term.slopes(lambda part: _sign(part, ranges))
    pairs = zip(outer, inner, strict=True)
    return _both(0 if own == 0 else times(way, own) for way, own in pairs)


def _slope_of_part(part: Formula | Term, param: int, ranges: Ranges) -> Sign:
    """The sign of a part; of a condition no more than whether it reads the parameter."""
    if not isinstance(part, FormulaPart):
        return slope(part, param, ranges)
    reads = any(isinstance(one, Param) and one.index == param for _, one in everywhere(part))
    return None if reads else 0


def _sign(term: Term, ranges: Ranges) -> Sign:
    """The sign of a term's own value inside the declared spans; None where it may have both."""
    low, high = interval(term, ranges)
    if bool(np.all(low >= 0)):
        return 1
    return -1 if bool(np.all(high <= 0)) else None


def _both(signs: Iterable[Sign]) -> Sign:
    """The sign of a sum of parts: theirs where they agree."""
    known = set(signs) - {0}
    if not known:
        return 0
    return known.pop() if len(known) == 1 else None
