"""Cases of shapes: a focus node on a table row is one case, however many bound rows check it.

A constraint of a shape is a conjunction, and each conjunct becomes a separate bound row. A case
is violated when one of its bound rows is, else unknown when one is, else satisfied. In a table
from a graph an empty cell means that there is no such value: a case with a satisfied bound row is
satisfied, whatever is unknown beside it, because a node may have fewer values than another.

With `rows are CLASS` the table row is a focus node itself; entities of the graph that are one too
have these very rows, so that a table row is one case there.

Letters: B table rows, R rows of a bank, N rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import BankValues
from fedkg.evaluation.table_readings import Readings
from fedkg.evaluation.tally import EntityTally, Tally
from fedkg.pack import Bank, Pack

SATISFIED, UNKNOWN, VIOLATED, FIRED = 1, 2, 4, 8
"""What the bound rows of a case say, as bits."""

Key = tuple[tuple[int, int], ...]
"""Key columns and the code that each must have, by column."""

Group = tuple[int, int, Key]
"""A rule, an entity, and the key that selects the entity's table rows."""


class Cases:
    """Joint verdicts of the bound rows of shapes, filled bank by bank.

    Other bound rows are not changed.

    Attributes:
        sizes: for each rule that came from a shape, how many bound rows each of its groups has.
        whole: of these the rules that are about the table row itself, and about entities that a key
            selects rows for.

    Memory is one byte for each case.
    """

    def __init__(self, pack: Pack, readings: Readings, *, from_graph: bool = False) -> None:
        self._from_graph = from_graph
        self.sizes: dict[int, Counter[Group]] = {rule: Counter() for rule in _of_shapes(pack)}
        for bank in pack.banks if self.sizes else ():
            for group in _groups(bank):
                if group[0] in self.sizes:
                    self.sizes[group[0]][group] += 1
        self.names, self.base = pack.manifest.entities, readings.base
        self.whole = {
            rule
            for rule, own in self.sizes.items()
            if any(key for _, _, key in own) and any(map(self._is_row, own))
        }
        self.rows: dict[Key, NDArray[np.int64]] = {}
        self.said: dict[Group, NDArray[np.uint8]] = {}
        self.raw: dict[Group, NDArray[np.int64]] = {}

    def add(self, bank: Bank, values: BankValues, at: NDArray[np.int64]) -> None:
        """Add the verdicts [B, R] of a bank.

        `at` int64 [B] says which table rows they are about, in rising order.
        """
        if not any(rule in self.sizes for rule in np.unique(bank.rule).tolist()):
            return
        bits = [
            (SATISFIED, values.satisfied),
            (VIOLATED, values.violated),
            (UNKNOWN, values.unknown),
            (FIRED, values.fired),
        ]
        for row, group in enumerate(_groups(bank)):
            own = self.sizes.get(group[0])
            if own is None or (own[group] < 2 and group[0] not in self.whole):
                continue
            selected = self._rows(group[2])
            said = self.said.setdefault(group, np.zeros(selected.size, dtype=np.uint8))
            raw = self.raw.setdefault(group, np.zeros(4, dtype=np.int64))
            raw += [int(verdicts[:, row].sum()) for _, verdicts in bits]
            here = values.applicable[:, row]
            said[np.searchsorted(selected, at[here])] |= sum(
                verdicts[here, row].astype(np.uint8) * np.uint8(bit) for bit, verdicts in bits
            )

    def settle(self, tally: Tally, entities: EntityTally) -> None:
        """Let counts that were made bound row by bound row be of cases instead.

        Writes into them.
        """
        for group, said in self.said.items():
            entities.counts[:, entities.place(group[0], group[1])] += (
                self._counts(said) - self.raw[group]
            )[:3]
        for rule in {group[0] for group in self.said}:
            own = [group for group in self.said if group[0] == rule]
            together = [group for group in own if rule in self.whole and self._is_one(group)]
            change = sum(
                self._counts(self.said[group]) for group in own if group not in together
            ) - sum(self.raw[group] for group in own)
            change = change + self._counts(self._merged(together))
            for counts, more in zip(
                (tally.satisfied, tally.violated, tally.unknown, tally.fired),
                change.tolist(),
                strict=True,
            ):
                counts[rule] += more

    def bound_to(self, rule: int, bound_rows: int) -> int:
        """How many things a rule is bound to, where the bound rows of one focus node count once."""
        if rule not in self.sizes:
            return bound_rows
        own = self.sizes[rule]
        return (
            len(own)
            if rule not in self.whole
            else 1 + sum(not self._is_one(group) for group in own)
        )

    def _is_row(self, group: Group) -> bool:
        """Whether a group is about the table row itself."""
        return not self.names[group[1]] and not group[2]

    def _is_one(self, group: Group) -> bool:
        """Whether a group's cases are table rows: those of the table row itself, and those of an
        entity with a key.
        """
        return self._is_row(group) or bool(group[2])

    def _merged(self, groups: list[Group]) -> NDArray[np.uint8]:
        """What groups say together of each table row, uint8 [all table rows]."""
        found = np.zeros(self.base.shape[0], dtype=np.uint8)
        for group in groups:
            found[self._rows(group[2])] |= self.said[group]
        return found

    def _counts(self, said: NDArray[np.uint8]) -> NDArray[np.int64]:
        """How many cases are satisfied, violated, unknown and fired, int64 [4]."""
        violated, unknown, satisfied = ((said & bit) > 0 for bit in (VIOLATED, UNKNOWN, SATISFIED))
        if self._from_graph:
            unknown &= ~satisfied
        verdicts = (
            satisfied & ~unknown & ~violated,
            violated,
            unknown & ~violated,
            (said & FIRED) > 0,
        )
        return np.array([int(verdict.sum()) for verdict in verdicts], dtype=np.int64)

    def _rows(self, key: Key) -> NDArray[np.int64]:
        """The table rows that have a key."""
        if key not in self.rows:
            columns, codes = [column for column, _ in key], [code for _, code in key]
            self.rows[key] = np.flatnonzero((self.base[:, columns] == codes).all(axis=1))
        return self.rows[key]


def _of_shapes(pack: Pack) -> set[int]:
    """The rules that constraints of shapes became."""
    files = {source.name for source in pack.manifest.provenance.sources if source.kind == "shapes"}
    names = {
        placement.rule
        for placement in pack.manifest.placements
        if placement.source in files and placement.where == "rows"
    }
    return {place for place, rule in enumerate(pack.manifest.rules) if rule.name in names}


def _groups(bank: Bank) -> Iterator[Group]:
    """The group of each bound row."""
    for rule, entity, columns, codes in zip(
        bank.rule.tolist(),
        bank.entity.tolist(),
        bank.keys.tolist(),
        bank.codes.tolist(),
        strict=True,
    ):
        yield (
            rule,
            entity,
            tuple(
                sorted(
                    (column, code)
                    for column, code in zip(columns, codes, strict=True)
                    if column >= 0
                )
            ),
        )
