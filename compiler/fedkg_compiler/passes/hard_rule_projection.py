"""Which hard rules can become projections: those that are affine in what they read from the
model.
"""

from __future__ import annotations

from fedkg.pack import Compare, Formula, Slot, subterms
from fedkg.pack.walk import everywhere, reads_output, sides
from fedkg_compiler.passes.affine import affine_in


def bent_comparisons(formula: Formula) -> list[Compare]:
    """The comparisons of a formula, those of its members included, that are not affine in its
    outputs.
    """
    bent = []
    for _, atom in everywhere(formula):
        if not isinstance(atom, Compare) or not reads_output(atom):
            continue
        outputs = frozenset(
            term.index
            for side in sides(atom)
            for term in subterms(side)
            if isinstance(term, Slot) and term.role == "output"
        )
        if not affine_in(atom, outputs):
            bent.append(atom)
    return bent
