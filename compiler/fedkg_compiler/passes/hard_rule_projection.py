"""Which hard rules can become projections: those that are affine in what they read from the
model, once limits on the least or largest of several values are written as several limits.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from fedkg.pack import And, Call, Compare, Formula, Slot, Term, subterms
from fedkg.pack.walk import everywhere, member_table, reads_output, sides, with_parts
from fedkg_compiler.passes.affine import affine_in


def bent_comparisons(formula: Formula) -> list[Compare]:
    """The comparisons of a formula, those of its members included, that are not affine in its
    outputs.
    """
    atoms = (atom for _, atom in everywhere(formula) if isinstance(atom, Compare))
    return [atom for atom in atoms if _is_bent(atom)]


def without_extremes(formula: Formula, new_scale: Callable[[], int]) -> Formula:
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
        if part.op not in ("le", "lt") or not _is_bent(part):
            return part
        pairs = list(product(_parts(part.left, "max"), _parts(part.right, "min")))
        if len(pairs) == 1:
            return part
        limits = tuple(
            part.model_copy(update={"left": left, "right": right, "scale": new_scale()})
            for left, right in pairs
        )
        return part if any(map(_is_bent, limits)) else And(args=limits)

    found: Formula = split(formula)  # type: ignore[assignment]
    return found


def _parts(term: Term, function: str) -> tuple[Term, ...]:
    """The arguments of a minimum or maximum, nested ones too; else the term itself."""
    if not isinstance(term, Call) or term.function != function:
        return (term,)
    return tuple(part for arg in term.args for part in _parts(arg, function))


def _is_bent(atom: Compare) -> bool:
    if not reads_output(atom):
        return False
    outputs = frozenset(
        term.index
        for side in sides(atom)
        for term in subterms(side)
        if isinstance(term, Slot) and term.role == "output"
    )
    return not affine_in(atom, outputs)
