"""Which hard rules can become projections: those that are affine in what they read from the model."""

from __future__ import annotations

from fedkg.pack import Compare, Formula, Slot, atoms, subterms
from fedkg_compiler.passes.affine import affine_in


def bent_comparisons(formula: Formula) -> list[Compare]:
    """The comparisons of a formula that are not affine in its outputs."""
    bent = []
    for atom in atoms(formula):
        if not isinstance(atom, Compare):
            continue
        outputs = frozenset(
            term.index for side in (atom.left, atom.right) for term in subterms(side) if isinstance(term, Slot) and term.role == "output"
        )
        if outputs and not affine_in(atom, outputs):
            bent.append(atom)
    return bent
