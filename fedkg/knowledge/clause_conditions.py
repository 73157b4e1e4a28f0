"""Evaluation of the conditions of clauses, and of the numbers in them, on data.

Letters: V views, B samples, C columns of the contract, R rows of a condition's bank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.pack import Bank, Compare, Pack, Param, Term
from fedkg.pack.knowledge_models import Clause, Network

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConditionVerdict:
    """Verdict of a clause's condition, bool [B, R] each; both are false if it is violated or does
    not apply to the sample.
    """

    holds: Bool
    unknown: Bool


class Conditions(Protocol):
    """Input of clauses and networks for B samples: from an array, or in `knowledge_modules` from
    tensors.
    """

    @property
    def samples(self) -> int:
        """Number of samples, B."""
        ...

    @property
    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """The pack's arrays by name: the weights of networks."""
        ...

    def verdict(self, clause: Clause) -> ConditionVerdict:
        """The verdict of a clause's condition."""
        ...

    def numbers(self, clause: Clause, term: Term) -> Float:
        """The value of one of a clause's terms, [B, R]; NaN if it is unknown."""
        ...

    def inputs(self, network: Network) -> Float:
        """A network's inputs in source units, [B, inputs]."""
        ...


class ArrayConditions:
    """Conditions on an array of values.

    Args:
        values: float64 [V, B, C] in source units.
        timing: position of each sample in time, for conditions over time; None: the samples are the
            consecutive steps of one trace.
    """

    def __init__(self, pack: Pack, values: Float, timing: Timing | None = None) -> None:
        self._pack, self._values = pack, values
        self._timing = (
            Timing.rows(values.shape[1], pack.manifest.contract.end) if timing is None else timing
        )

    @property
    def samples(self) -> int:
        """See `Conditions.samples`."""
        return int(self._values.shape[1])

    @property
    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """See `Conditions.arrays`."""
        return self._pack.arrays

    def verdict(self, clause: Clause) -> ConditionVerdict:
        """See `Conditions.verdict`."""
        found = evaluate_bank(self._pack.conditions[clause.bank], self._values, self._timing)
        return ConditionVerdict(holds=found.satisfied, unknown=found.unknown)

    def numbers(self, clause: Clause, term: Term) -> Float:
        """See `Conditions.numbers`."""
        return evaluate_bank(
            term_bank(self._pack.conditions[clause.bank], term), self._values, self._timing
        ).robustness

    def inputs(self, network: Network) -> Float:
        """See `Conditions.inputs`."""
        bank = self._pack.conditions[network.bank]
        return np.asarray(self._values[bank.views[0], :, bank.slots[0]].T)


def term_bank(bank: Bank, term: Term) -> Bank:
    """A bank of ``0 <= term`` over the columns of another bank, with the term as its robustness.

    Terms then need no second evaluator.
    """
    zero, one = bank.params.shape[1], bank.params.shape[1] + 1
    return replace(
        bank,
        skeleton=Compare(op="le", left=Param(index=zero), right=term, scale=one),
        params=np.concatenate(
            [bank.params, np.zeros((bank.rows, 1)), np.ones((bank.rows, 1))], axis=1
        ),
    )
