"""Where rules meet: rows that are about the same table rows and read the same variables, place by
place.

A *place* is one choice of table rows (by their key columns) and the rows in force there that hang
together through the variables they read. Places that are equal but for their names are looked at
once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

import numpy as np
from numpy.typing import NDArray

from fedkg_compiler.analysis.single_column_bounds import Bounds, Float, Keys, RowTable

MOST_PLACES, WIDEST = 100_000, 300
"""Limits on choices of table rows and on rows at one place. If more rows share a variable that very
many rows read, the place is cut there."""


@dataclass(slots=True, kw_only=True)
class Place:
    """Rows that meet.

    Attributes:
        keys: the columns and codes that select the table rows of the place.
        rows: numbers of the rows, in the order of the rules.
        names: the name of each place that is equal to this one, this one included.
        alike: the `rows` of each of these places, in the order of `names`.
        cut: the places that this place and those equal to it are parts of, as (keys, rows), if such
            a place has more than `WIDEST` rows; else empty.
        linear: whether the place has more than `WIDEST` rows and is not cut because all of them are
            linear.
    """

    keys: Keys
    rows: tuple[int, ...]
    names: list[str] = field(default_factory=list)
    alike: list[tuple[int, ...]] = field(default_factory=list)
    cut: list[tuple[Keys, tuple[int, ...]]] = field(default_factory=list)
    linear: bool = False


def find_places(table: RowTable, bounds: Bounds, general: Sequence[int]) -> tuple[list[Place], int]:
    """The distinct places at which rows meet, and how many places were left out.

    Args:
        general: the numbers of the rows that intervals do not decide, at least one.
    """
    tight, fingerprints = _tight_rows(table, bounds), _Fingerprints(table)
    found: dict[Hashable, Place] = {}
    left_out = seen = 0
    reads = table.all_reads(general)
    keysets = [table.keysets[number] for number in table.keyset.tolist()]
    for group in _components(general, reads):
        by_keys: dict[Keys, list[int]] = defaultdict(list)
        for row in group:
            by_keys[keysets[row]].append(row)
        for keys in _contexts(list(by_keys)):
            seen += 1
            if seen > MOST_PLACES:
                left_out += 1
                continue
            here = [row for part in _subsets(keys) for row in by_keys.get(part, ())]
            whole = len(here) == len(group) <= WIDEST
            for rows, cut in [(here, [])] if whole else _split(here, reads, bounds.linear):
                place = _with_bounds(table, rows, reads, keys, tight)
                place.linear = not cut and len(rows) > WIDEST
                first = found.setdefault(fingerprints.of(place), place)
                if cut:
                    first.cut.append((keys, _with_bounds(table, cut, reads, keys, tight).rows))
                first.names.append(_name(table, rows, keys))
                first.alike.append(place.rows)
    return list(found.values()), left_out


def _tight_rows(table: RowTable, bounds: Bounds) -> dict[tuple[int, Keys], set[int]]:
    """The rows with the tightest bounds of each variable, for each selection of table rows."""
    ends = bounds.ends.take(bounds.plain[bounds.ends.row])
    if not ends.row.size:
        return {}
    groups = (ends.variable * (len(table.keysets) + 1) + table.keyset[ends.row]) * 2 + (
        ends.sign > 0
    )
    order = np.lexsort((ends.row, ~ends.strict, ends.value, groups))
    _, first = np.unique(groups[order], return_index=True)
    found: dict[tuple[int, Keys], set[int]] = defaultdict(set)
    rows = ends.row[order[first]]
    variables, keysets = ends.variable[order[first]], table.keyset[rows]
    for row, variable, keyset in zip(
        rows.tolist(), variables.tolist(), keysets.tolist(), strict=True
    ):
        found[variable, table.keysets[keyset]].add(row)
    return found


def _components(rows: Sequence[int], reads: Mapping[int, set[int]]) -> list[list[int]]:
    parent: dict[int, int] = {}

    def root(variable: int) -> int:
        top = variable
        while parent.setdefault(top, top) != top:
            top = parent[top]
        while parent[variable] != top:
            parent[variable], variable = top, parent[variable]
        return top

    for row in rows:
        first, *others = reads[row] or {-1 - row}
        for other in others:
            parent[root(other)] = root(first)
    groups: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        groups[root(next(iter(reads[row] or {-1 - row})))].append(row)
    return list(groups.values())


def _split(
    rows: list[int], reads: Mapping[int, set[int]], linear: NDArray[np.bool_]
) -> Iterator[tuple[list[int], list[int]]]:
    """The parts of a place that do not meet.

    One that is too wide is cut at the variables that most rows read: then with all its rows.
    """
    for group in _components(rows, reads):
        if len(group) <= WIDEST or linear[group].all():
            yield group, []
            continue
        degree: dict[int, int] = defaultdict(int)
        for row in group:
            for variable in reads[row]:
                degree[variable] += 1
        hubs = {variable for variable, rows_of in degree.items() if rows_of > WIDEST // 10}
        for part in _components(group, {row: reads[row] - hubs for row in group}):
            yield part[:WIDEST], group


def _contexts(keysets: Sequence[Keys]) -> list[Keys]:
    """The choices of table rows that must be looked at: every selection, joined with those of other
    columns that go with it.
    """
    if len(keysets) == 1:
        return list(keysets)
    by_columns: dict[tuple[int, ...], list[Keys]] = defaultdict(list)
    for keys in keysets:
        by_columns[tuple(column for column, _ in keys)].append(keys)
    contexts: list[Keys] = [()]
    for columns in sorted(by_columns, key=lambda columns: (-len(columns), columns)):
        joined: dict[Keys, None] = {}
        met: set[Keys] = set()
        indexed: dict[tuple[int, ...], dict[Keys, list[Keys]]] = {}
        for context in contexts:
            known = dict(context)
            shared = tuple(column for column in columns if column in known)
            if shared not in indexed:
                indexed[shared] = defaultdict(list)
                for keys in by_columns[columns]:
                    indexed[shared][tuple(pair for pair in keys if pair[0] in shared)].append(keys)
            matching = indexed[shared].get(tuple((column, known[column]) for column in shared), [])
            met.update(matching)
            joined.update(
                {tuple(sorted({**known, **dict(keys)}.items())): None for keys in matching}
                or {context: None}
            )
        joined.update({keys: None for keys in by_columns[columns] if keys not in met})
        contexts = list(joined)
        if len(contexts) > 2 * MOST_PLACES:
            break
    return list(dict.fromkeys([*contexts, *sorted(keysets)]))


def _subsets(keys: Keys) -> Iterator[Keys]:
    for size in range(len(keys) + 1):
        yield from combinations(keys, size)


def _with_bounds(
    table: RowTable,
    rows: list[int],
    reads: Mapping[int, set[int]],
    keys: Keys,
    tight: Mapping[tuple[int, Keys], set[int]],
) -> Place:
    """The place of these rows, with the bounds on what they read."""
    parts = list(_subsets(keys))
    everything = set(rows).union(
        *(
            tight.get((variable, part), ())
            for variable in set().union(*(reads[row] for row in rows))
            for part in parts
        )
    )
    return Place(keys=keys, rows=tuple(sorted(everything, key=table.order.__getitem__)))


def _name(table: RowTable, rows: Sequence[int], keys: Keys) -> str:
    entities = (table.pack.manifest.entities[int(table.entity[row])] for row in rows)
    return table.keys_name(keys) or next(filter(None, entities), "")


class _Fingerprints:
    """What rows of places read, laid out once for each bank and its member tables."""

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self._rule, self._bank = table.rule.tolist(), table.bank.tolist()
        self._starts = table.starts.tolist()
        self._read: list[dict[int, tuple[list[list[int]], list[bytes]]]] = []
        for readers in table.readers:
            used = {number: (each, list(each.used)) for number, each in readers.items()}
            self._read.append(
                {
                    number: (
                        each.variables[:, of].tolist(),
                        _lines(np.concatenate([each.shifts[:, of], each.params], axis=1)),
                    )
                    for number, (each, of) in used.items()
                }
            )

    def of(self, place: Place) -> Hashable:
        """Equal for places that are equal but for the names of what they read."""
        table = self.table
        local: dict[int, int] = {}
        parts: list[Hashable] = []
        for row in place.rows:
            bank = self._bank[row]
            index = row - self._starts[bank]
            parts += (self._rule[row], bank)
            for number, (variables, numbers) in self._read[bank].items():
                if number < 0:
                    read, said = variables[index], numbers[index]
                else:
                    where = table.members(bank, number, index)
                    read, said = list(chain(*variables[where])), b"".join(numbers[where])
                    parts.append(table.member_sizes(bank, number, index))
                parts += [local.setdefault(variable, len(local)) for variable in read]
                parts.append(said)
        fixed = {table.variables.place(0, column)[0]: code for column, code in place.keys}
        for variable in local:
            entry = table.variables.items[variable]
            parts += (entry.type, entry.span, entry.codes, fixed.get(variable))
        return tuple(parts)


def _lines(array: Float) -> list[bytes]:
    """The bytes of each row of an array."""
    body, width = array.tobytes(), array.shape[1] * array.itemsize
    return [body[start : start + width] for start in range(0, len(array) * width, width or 1)] or [
        b""
    ] * len(array)
