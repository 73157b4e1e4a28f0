"""Bound rows with keys that match no table row, and table rows that no key selects.

Both point to missing rows of the table or to typing mistakes.

Letters: B table rows, R rows of a bank, k key columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import nearest_header
from fedkg.evaluation.table_readings import Readings
from fedkg.pack import Pack
from fedkg.tables import Table, is_unknown

TOLD = 3
"""Unmatched keys are reported one by one up to this number; of more, this number of names follows.
"""

MEANT = 20
"""Limits on keys and on texts of the table for the search of similar spellings."""


@dataclass(frozen=True, slots=True)
class Key:
    """What selects table rows for a bound row: positions of columns in the contract, and the code
    each must have.
    """

    columns: tuple[int, ...]
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one rule, or of all: by key the entities that it selects for, and whether any
    table row has it.
    """

    entities: dict[Key, tuple[str, ...]]
    found: dict[Key, bool]

    def without(self) -> list[Key]:
        """The keys that no table row has."""
        return [key for key in self.entities if not self.found[key]]


def keys_by_rule(pack: Pack, readings: Readings) -> dict[int, Keys]:
    """The keys of each rule's bound rows, without those that read a column which the table
    lacks.
    """
    seen: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    found: dict[Key, bool] = {}
    named: dict[int, dict[Key, dict[str, None]]] = {}
    for bank in pack.banks:
        rows = np.column_stack([bank.rule, bank.entity, bank.keys, bank.codes])
        width = bank.keys.shape[1]
        for rule, entity, *pairs in np.unique(rows, axis=0).tolist():
            both = [
                (column, code)
                for column, code in zip(pairs[:width], pairs[width:], strict=True)
                if column >= 0
            ]
            key = Key(tuple(column for column, _ in both), tuple(code for _, code in both))
            if not both or readings.missing.intersection(key.columns):
                continue
            if key.columns not in seen:
                seen[key.columns] = _present(readings, key.columns)
            found[key] = key.codes in seen[key.columns]
            named.setdefault(rule, {}).setdefault(key, {})[pack.manifest.entities[entity]] = None
    return {
        rule: Keys({key: tuple(names) for key, names in keys.items()}, found)
        for rule, keys in named.items()
    }


def _present(readings: Readings, columns: tuple[int, ...]) -> set[tuple[int, ...]]:
    """The codes that table rows have in these columns together."""
    codes = readings.base[:, list(columns)]
    known = codes[~np.isnan(codes).any(axis=1)].astype(np.int64)
    return set(map(tuple, np.unique(known, axis=0).tolist()))


def all_keys(parts: Iterable[Keys]) -> Keys:
    """The keys of several rules together."""
    entities: dict[Key, dict[str, None]] = {}
    found: dict[Key, bool] = {}
    for part in parts:
        found |= part.found
        for key, names in part.entities.items():
            entities.setdefault(key, {}).update(dict.fromkeys(names))
    return Keys({key: tuple(names) for key, names in entities.items()}, found)


class Meant:
    """The text in a table that a key of one column probably means: one that no rule knows, since a
    known one is another entity.
    """

    def __init__(self, readings: Readings, table: Table) -> None:
        self._readings, self._table = readings, table
        self._foreign: dict[int, list[str]] = {}
        self._known: dict[Key, str | None] = {}

    def __call__(self, key: Key) -> str | None:
        """The text, or None."""
        if len(key.columns) != 1:
            return None
        if key not in self._known:
            self._known[key] = nearest_header(
                text_of(key, self._readings), self._texts(key.columns[0])
            )
        return self._known[key]

    def _texts(self, column: int) -> list[str]:
        if column not in self._foreign:
            entry = self._readings.contract.columns[column]
            texts = dict.fromkeys(self._table.texts(entry.source))
            self._foreign[column] = [
                text for text in texts if text not in entry.vocabulary and not is_unknown(text)
            ][:MEANT]
        return self._foreign[column]


def keys_notes(keys: Keys, readings: Readings, meant: Meant) -> tuple[str, ...]:
    """Notes about keys without a table row: each with similar texts, or a count and the first
    names.
    """
    lost = keys.without()
    if not readings.base.shape[0] or not lost:
        return ()
    if len(lost) <= TOLD:
        return tuple(_sentence(key, keys.entities[key], readings, meant) for key in lost)
    names = list(
        dict.fromkeys(name for key in lost for name in _names(key, keys.entities[key], readings))
    )
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    text = (
        f"no row is about {', '.join(names[:TOLD])}{more}: {len(lost)} of the "
        f"{len(keys.entities)} keys that the rules have"
    )
    near = next(((key, other) for key in lost[:MEANT] if (other := meant(key))), None)
    return (
        text
        if near is None
        else f"{text}; did you mean `{near[1]}` by `{text_of(near[0], readings)}`?",
    )


def strangers_notes(keys: Keys, readings: Readings, table: Table) -> tuple[str, ...]:
    """Notes about table rows that no key selects: their number for each set of key columns, and
    some names.

    Another note covers a column without any known text.
    """
    known: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for key in keys.entities:
        known.setdefault(key.columns, set()).add(key.codes)
    notes = []
    for columns, wanted in known.items():
        codes, row_of = np.unique(
            readings.base[:, list(columns)], axis=0, return_inverse=True, equal_nan=False
        )
        met = np.array([tuple(code) in wanted for code in codes.tolist()], dtype=np.bool_)[
            row_of.ravel()
        ]
        if met.any() and not met.all():
            notes.append(
                _strangers(
                    [readings.contract.columns[column].source for column in columns], ~met, table
                )
            )
    return tuple(notes)


def _strangers(headers: Sequence[str], strange: NDArray[np.bool_], table: Table) -> str:
    """``40 of 120 rows have a `Maschine` that no rule is bound to (K8, K9 and 3 more): what is
    asked of each ... is not checked there``.
    """
    cells = zip(*(table.texts(header) for header in headers), strict=True)
    texts = [row for row, is_strange in zip(cells, strange.tolist(), strict=True) if is_strange]
    empty = sum(any(is_unknown(text) for text in row) for row in texts)
    names = list(dict.fromkeys(" ".join(row) for row in texts if not any(map(is_unknown, row))))
    what = " and ".join(f"`{header}`" for header in headers)
    more = f" and {len(names) - TOLD:,} more" if len(names) > TOLD else ""
    about = (
        [
            (
                f"{_count_text(len(texts) - empty, table)} a {what} that no rule is bound to "
                f"({', '.join(names[:TOLD])}{more})"
            )
        ]
        if names
        else []
    )
    lacking = [f"{_count_text(empty, table)} no value in {what}"] if empty else []
    return f"{'; '.join([*about, *lacking])}: what is asked of each {what} is not checked there"


def _count_text(rows: int, table: Table) -> str:
    """``3 of 120 rows have``."""
    return f"{rows:,} of {table.rows:,} rows {'has' if rows == 1 else 'have'}"


def _sentence(key: Key, entities: Sequence[str], readings: Readings, meant: Meant) -> str:
    """``K1: no row has Maschine = Kessel1; did you mean `Kessel 1`?``"""
    named = [name for name in entities if name]
    who = ", ".join(named[:TOLD]) + (f" and {len(named) - TOLD} more" if len(named) > TOLD else "")
    columns = readings.contract.columns
    pairs = zip(key.columns, key.codes, strict=True)
    wanted = " and ".join(
        f"{columns[column].source} = {columns[column].vocabulary[code]}" for column, code in pairs
    )
    near = meant(key)
    return (
        (f"{who}: " if who else "")
        + f"no row has {wanted}"
        + (f"; did you mean `{near}`?" if near else "")
    )


def _names(key: Key, entities: Sequence[str], readings: Readings) -> list[str]:
    return [name for name in entities if name] or [text_of(key, readings)]


def text_of(key: Key, readings: Readings) -> str:
    """The texts that a key asks for: ``Kessel1``, or several with blanks between."""
    columns = readings.contract.columns
    return " ".join(
        columns[column].vocabulary[code]
        for column, code in zip(key.columns, key.codes, strict=True)
    )
