"""Counts of verdicts by entity: which of the things a rule is bound to break it.

Letters: R rows of a bank, P pairs of rule and entity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import BankValues
from fedkg.pack import Bank, Pack

MOST = 100
"""At most this number of entities per rule is named in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityCounts:
    """One entity under one rule; counts are of evaluations."""

    entity: str
    satisfied: int
    violated: int
    unknown: int

    def to_json(self) -> dict[str, Any]:
        """The entity as plain data. `Any`: a text and numbers."""
        return {
            "entity": self.entity,
            "satisfied": self.satisfied,
            "violated": self.violated,
            "unknown": self.unknown,
        }


@dataclass(frozen=True, slots=True, eq=False)
class EntityTally:
    """Counts by rule and entity, filled bank by bank.

    Attributes:
        pairs: int64 [P], ``rule * entities + entity`` for each pair, in ascending order.
        entities: number of entities in the pack.
        counts: int64 [3, P], number of satisfied, violated and unknown evaluations of each pair;
            `add` writes into it.
    """

    pairs: NDArray[np.int64]
    entities: int
    counts: NDArray[np.int64]

    @staticmethod
    def empty(pack: Pack) -> EntityTally:
        """No evaluation yet of any of the pack's bound rows."""
        entities = len(pack.manifest.entities)
        pairs = np.unique(
            np.concatenate(
                [np.zeros(0, dtype=np.int64), *(_pairs(bank, entities) for bank in pack.banks)]
            )
        )
        return EntityTally(pairs, entities, np.zeros((3, pairs.shape[0]), dtype=np.int64))

    def add(self, bank: Bank, values: BankValues) -> None:
        """Add the verdicts of a bank."""
        at = np.searchsorted(self.pairs, _pairs(bank, self.entities))
        for counts, verdicts in zip(
            self.counts, (values.satisfied, values.violated, values.unknown), strict=True
        ):
            np.add.at(counts, at, verdicts.sum(axis=0, dtype=np.int64))

    def place(self, rule: int, entity: int) -> int:
        """The position of the counts of a rule's entity."""
        return int(np.searchsorted(self.pairs, rule * self.entities + entity))

    def broken(self, rule: int, names: tuple[str, ...]) -> tuple[EntityCounts, ...]:
        """The named entities that violate a rule, most violations first.

        `names` are the pack's entities.
        """
        low, high = np.searchsorted(self.pairs, [rule * self.entities, (rule + 1) * self.entities])
        pairs, counts = self.pairs[low:high].tolist(), self.counts[:, low:high].T.tolist()
        found = [
            EntityCounts(entity=name, satisfied=satisfied, violated=violated, unknown=unknown)
            for pair, (satisfied, violated, unknown) in zip(pairs, counts, strict=True)
            if violated and (name := names[pair % self.entities])
        ]
        return tuple(sorted(found, key=lambda one: -one.violated))


def _pairs(bank: Bank, entities: int) -> NDArray[np.int64]:
    return bank.rule.astype(np.int64) * entities + bank.entity
