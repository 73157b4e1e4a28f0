"""Conditions of clauses on data, and the numbers that stand in them.

Letters: V views, B samples, C columns of the contract, R rows of a condition's bank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.interpreter import evaluate_bank
from fedkg.constraints.timing import Timing
from fedkg.pack import Bank, Compare, Pack, Param, Term
from fedkg.pack.knowledge import Clause

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """Where a clause's condition holds, and where that is not known: bool [B, R]; neither where it fails or is not about the sample."""

    holds: Bool
    unknown: Bool


def held(pack: Pack, clause: Clause, values: Float, timing: Timing | None = None) -> Held:
    """The verdict of a clause's condition on samples, float64 [V, B, C] in source units.

    Args:
        timing: where each sample stands in time; None: the samples are the steps of one trace, in their order.
    """
    found = evaluate_bank(pack.conditions[clause.bank], values, _timing(pack, values, timing))
    return Held(holds=found.satisfied, unknown=found.unknown)


def _timing(pack: Pack, values: Float, timing: Timing | None) -> Timing:
    return Timing.rows(values.shape[1], pack.manifest.contract.end) if timing is None else timing


def numbers(pack: Pack, clause: Clause, term: Term, values: Float, timing: Timing | None = None) -> Float:
    """The value of one of a clause's terms, [B, R]; NaN where it is unknown.

    It is read off the margin of ``0 <= term``, so that no second way to evaluate terms exists.
    """
    bank = pack.conditions[clause.bank]
    zero, one = bank.params.shape[1], bank.params.shape[1] + 1
    shown: Bank = replace(
        bank,
        skeleton=Compare(op="le", left=Param(index=zero), right=term, scale=one),
        params=np.concatenate([bank.params, np.zeros((bank.rows, 1)), np.ones((bank.rows, 1))], axis=1),
    )
    return evaluate_bank(shown, values, _timing(pack, values, timing)).robustness
