"""Counts of verdicts by rule, and by entity (which of the things that a rule is bound to violate
it), added up over banks and chunks of a table.

Letters: B table rows, R rows of a bank, N rules, P pairs of rule and entity.
"""

from __future__ import annotations

import math
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule is worst: its robustness there, whether that is a violation, the table row (from
    0), the bank and its row.
    """

    robustness: float
    violated: bool
    row: int
    bank: Bank
    at: int

    def rank(self) -> tuple[bool, bool, float, int]:
        """Smaller is worse: a violation is worse than none, then a margin than none, then the
        smaller margin, then the earlier row.
        """
        return (not self.violated, math.isinf(self.robustness), self.robustness, self.row)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """Counts by rule.

    Attributes:
        satisfied: int64 [N], number of evaluations that satisfy each rule.
        violated: int64 [N], number of evaluations that violate each rule.
        unknown: int64 [N], number of evaluations without a verdict.
        fired: int64 [N], number of evaluations in which the antecedent of an ``if ... then`` holds;
            for other rules, all evaluations.
        worst: for each rule, where it is nearest to, or farthest into, violation; None as long as
            there is no verdict.
    """

    satisfied: NDArray[np.int64]
    violated: NDArray[np.int64]
    unknown: NDArray[np.int64]
    fired: NDArray[np.int64]
    worst: tuple[Place | None, ...]

    @staticmethod
    def empty(rules: int) -> Tally:
        """No evaluation yet of any of the `rules` rules."""
        return Tally(
            satisfied=np.zeros(rules, dtype=np.int64),
            violated=np.zeros(rules, dtype=np.int64),
            unknown=np.zeros(rules, dtype=np.int64),
            fired=np.zeros(rules, dtype=np.int64),
            worst=(None,) * rules,
        )

    def evaluations(self, rule: int) -> int:
        """How often a rule was evaluated."""
        return int(self.satisfied[rule] + self.violated[rule] + self.unknown[rule])

    def with_bank(self, bank: Bank, values: BankValues, at: NDArray[np.int64]) -> Tally:
        """This tally with the verdicts of a bank added.

        `at` int64 [B] says which table rows they are about.
        """
        worst = list(self.worst)
        for rule, place in _worst_places(bank, values, at):
            known = worst[rule]
            if known is None or place.rank() < known.rank():
                worst[rule] = place
        return Tally(
            satisfied=self.satisfied + _by_rule(bank, values.satisfied, len(worst)),
            violated=self.violated + _by_rule(bank, values.violated, len(worst)),
            unknown=self.unknown + _by_rule(bank, values.unknown, len(worst)),
            fired=self.fired + _by_rule(bank, values.fired, len(worst)),
            worst=tuple(worst),
        )


def least_margin(robustness: NDArray[np.float64], among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The places, int64 [R], of the least finite robustness [B, R] among those marked.

    Of the first marked one where none is finite.

    An infinite robustness is that of a yes/no decision, which no number measures: a case with a
    number tells more.
    """
    finite = among & np.isfinite(robustness)
    first, least = among.argmax(axis=0), np.where(finite, robustness, np.inf).argmin(axis=0)
    return np.asarray(np.where(finite.any(axis=0), least, first))


def _by_rule(bank: Bank, verdicts: NDArray[np.bool_], rules: int) -> NDArray[np.int64]:
    counts = np.zeros(rules, dtype=np.int64)
    np.add.at(counts, bank.rule, verdicts.sum(axis=0, dtype=np.int64))
    return counts


def _worst_places(bank: Bank, values: BankValues, at: NDArray[np.int64]) -> list[tuple[int, Place]]:
    """For each rule with a known verdict, where it is worst in this bank."""
    broken: NDArray[np.bool_] = np.asarray(values.violated.any(axis=0))
    fired = values.satisfied & values.fired
    held = np.where(
        fired.any(axis=0), fired, values.satisfied
    )  # an `if` that is false or unknown does not count as close
    looked = np.where(
        broken, values.violated, held
    )  # [B, R]: among these each bank row's worst is sought
    known = np.flatnonzero(looked.any(axis=0))
    if not known.size:
        return []
    lowest = least_margin(values.robustness[:, known], looked[:, known])
    least = values.robustness[lowest, known]
    order = np.lexsort((at[lowest], least, np.isinf(least), ~broken[known], bank.rule[known]))
    rules, first = np.unique(bank.rule[known][order], return_index=True)
    found = []
    for rule, position in zip(rules.tolist(), order[first].tolist(), strict=True):
        row = int(known[position])
        place = Place(
            float(least[position]), bool(broken[row]), int(at[lowest[position]]), bank, row
        )
        found.append((int(rule), place))
    return found
