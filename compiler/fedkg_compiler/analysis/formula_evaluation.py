"""Whether formulas hold of many values at once, where values may be missing, and by how much their
comparisons are met.

The nodes define what they mean (`fedkg.pack.formulas`). The interpreter of packs evaluates them on
[steps, rows] of one table; here each row is evaluated at points with separate variables.

Letters: P points, M rows of a bank or members of a table, s slots, p parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Compare, Formula
from fedkg.pack.numeric.padded_trace_rows import Grid
from fedkg.pack.numeric.three_valued_logic import Bool, Float, Verdict, finite

Truth = tuple[Bool, Bool]
"""Where a formula holds, and where it fails: bool [P, M] each, never both; neither where it is
unknown."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scope:
    """What formulas are evaluated on.

    Attributes:
        slots: float64 [s, P, M], the values that the slots read.
        params: float64 [p, M], the parameters of the rows.
        inside: for each member table, by number, the scope of its members and the offsets of their
            owners, int64 [M + 1].
    """

    slots: Float
    params: Float
    inside: Mapping[int, tuple[Scope, NDArray[np.int64]]]

    @property
    def shape(self) -> tuple[int, int]:
        """(P, M)."""
        return self.slots.shape[1], self.params.shape[1]

    @property
    def steps(self) -> Grid:
        """None: windows have no truth at a point."""
        raise AssertionError("windows have no truth at a point")

    def members(self, table: int) -> Scope:
        """The scope of a member table."""
        return self.inside[table][0]

    def offsets(self, table: int) -> NDArray[np.int64]:
        """The offsets of each owner's members in a member table: int64 [M + 1]."""
        return self.inside[table][1]

    def atom(self, margin: Float, *, strict: bool) -> Verdict:
        """An atom's verdict from its margin.

        Where it is unknown both ends of its robustness are NaN, and neither is used.
        """
        margin = np.broadcast_to(margin, self.shape)
        holds, fails = (margin > 0, margin <= 0) if strict else (margin >= 0, margin < 0)
        return Verdict(margin, margin, holds, fails)

    def best(self, lead: Float, *, strict: bool) -> Verdict:
        """As `atom`, but undecided where two classes tie."""
        lead = np.broadcast_to(lead, self.shape)
        return Verdict(lead, lead, lead > 0, lead < 0)


def truth(formula: Formula, at: Scope) -> Truth:
    """Where a formula without time holds, and where it fails."""
    with np.errstate(all="ignore"):
        verdict = formula.verdict(at)
    return verdict.holds, verdict.fails


def margin(atom: Compare, at: Scope) -> Float:
    """By how much a comparison is met: float64 [P, M], negative where it is missed, NaN where it is
    unknown.
    """
    with np.errstate(all="ignore"):
        return atom.verdict(at).low


def gap(atom: Compare, at: Scope) -> tuple[Float, Float, Float]:
    """left - right of a comparison, its tolerance, and the larger of the sizes of both sides:
    float64 [P, M] each, NaN where unknown.
    """
    with np.errstate(all="ignore"):
        left, right = atom.left.value(at), atom.right.value(at)
        tolerance = np.zeros(()) if atom.tolerance is None else atom.tolerance.value(at)
        parts = left - right, tolerance, np.maximum(np.abs(left), np.abs(right))
        apart, room, size = (np.broadcast_to(finite(part), at.shape) for part in parts)
        return apart, room, size
