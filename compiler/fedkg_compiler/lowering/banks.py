"""Bound rows of one shape become one bank.

Letters: R rows, s slots, p parameters, k key columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, MemberTable, skeleton_hash
from fedkg_compiler.binding.book import Book, BookColumn
from fedkg_compiler.binding.names import Timing
from fedkg_compiler.binding.rule import BoundRows
from fedkg_compiler.lowering.contract import Numbering, make_contract
from fedkg_compiler.lowering.rows import Codes, MemberRows, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """Everything of a pack that comes from bound rows."""

    numbering: Numbering
    banks: tuple[Bank, ...]
    conditions: tuple[Bank, ...]
    entities: tuple[str, ...]
    units: tuple[str, ...]


def lower(bound: Sequence[BoundRows], conditions: Sequence[BoundRows], rules: Mapping[str, int], book: Book, timing: Timing) -> Lowered:
    """The banks of all bound rows.

    Args:
        bound: in the order of the rules. conditions: bound formulas that are no constraints; each becomes a bank of its own.
        rules: position of each rule, by name.
    """
    everything = [*bound, *conditions]
    keys = _key_columns(everything, book)
    slots = [slot for part in everything for slot in part.rows.slots_read()]
    used = {*np.unique(np.concatenate([slot.columns for slot in slots])).tolist(), *keys.values()} if slots else set(keys.values())
    views = np.unique(np.concatenate([slot.views for slot in slots])).tolist() if slots else []
    numbering = make_contract(book, used, views, timing)
    entities = ("", *sorted({entity for part in everything for entity in part.entities} - {""}))
    units = ("", *sorted({part.unit for part in everything} - {""}))
    share: dict[str, int] = {}
    for part in bound:
        share[part.rule.name] = share.get(part.rule.name, 0) + part.rows.count
    tables = _Tables(
        numbering=numbering,
        keys=keys,
        rules=rules,
        weights={part.rule.name: part.rule.weight / share[part.rule.name] for part in bound},
        entities={entity: i for i, entity in enumerate(entities)},
        units={unit: i for i, unit in enumerate(units)},
    )
    groups: dict[str, list[BoundRows]] = {}
    for part in bound:
        groups.setdefault(skeleton_hash(part.formula), []).append(part)
    banks = tuple(_bank(parts, tables) for parts in groups.values())
    asides = tuple(_bank([part], tables) for part in conditions)
    return Lowered(numbering=numbering, banks=banks, conditions=asides, entities=entities, units=units)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """Positions of everything that bank rows refer to."""

    numbering: Numbering
    keys: dict[str, int]
    rules: Mapping[str, int]
    weights: Mapping[str, float]
    entities: Mapping[str, int]
    units: Mapping[str, int]


def _key_columns(bound: Sequence[BoundRows], book: Book) -> dict[str, int]:
    """The book's column for each header that selects table rows; the texts it must know are said."""
    pairs = sorted({pair for part in bound for row in part.keys for pair in row})
    names = {column.source: column.name for column in book.columns if column.type == "category"}
    ids: dict[str, int] = {}
    for header, text in pairs:
        if header not in ids:
            ids[header] = book.column(BookColumn(name=names.get(header, header), source=header, type="category"))
        book.say(ids[header], text)
    return ids


def _bank(parts: Sequence[BoundRows], tables: _Tables) -> Bank:
    width = max((len(row) for part in parts for row in part.keys), default=0)
    selected = [_keys(part, width, tables) for part in parts]
    return Bank(
        skeleton=parts[0].formula,
        slots=_stack([_slots(part.rows, tables) for part in parts]),
        views=_stack([_views(part.rows, tables) for part in parts]),
        params=np.concatenate([_params(part.rows, tables) for part in parts]),
        members=tuple(_members(tables_of, tables) for tables_of in zip(*(part.rows.members for part in parts), strict=True)),
        keys=_stack([keys for keys, _ in selected]),
        codes=_stack([codes for _, codes in selected]),
        weight=np.concatenate([np.full(part.rows.count, tables.weights.get(part.rule.name, 0.0)) for part in parts]),
        rule=_stack([np.full(part.rows.count, tables.rules.get(part.rule.name, 0)) for part in parts]),
        entity=_stack([np.array([tables.entities[entity] for entity in part.entities]) for part in parts]),
        unit=_stack([np.full(part.rows.count, tables.units[part.unit]) for part in parts]),
    )


def _stack(arrays: Sequence[NDArray[np.int64]]) -> NDArray[np.int32]:
    return np.concatenate(arrays).astype(np.int32)


def _columns(arrays: Sequence[NDArray[np.int64]], rows: int) -> NDArray[np.int64]:
    return np.stack(arrays, axis=1) if arrays else np.zeros((rows, 0), dtype=np.int64)


def _renumber(ids: NDArray[np.int64], positions: Mapping[int, int]) -> NDArray[np.int64]:
    distinct, where = np.unique(ids, return_inverse=True)
    return np.array([positions[i] for i in distinct.tolist()], dtype=np.int64)[where]


def _slots(rows: Rows, tables: _Tables) -> NDArray[np.int64]:
    return _columns([_renumber(slot.columns, tables.numbering.columns) for slot in rows.slots], rows.count)


def _views(rows: Rows, tables: _Tables) -> NDArray[np.int64]:
    return _columns([_renumber(slot.views, tables.numbering.views) for slot in rows.slots], rows.count)


def _params(rows: Rows, tables: _Tables) -> NDArray[np.float64]:
    columns = [_codes(param, tables) if isinstance(param, Codes) else param for param in rows.params]
    return np.stack(columns, axis=1) if columns else np.zeros((rows.count, 0))


def _members(parts: Sequence[MemberRows], tables: _Tables) -> MemberTable:
    """The same set of members of all parts, one after the other."""
    sizes = np.concatenate([part.offsets[1:] - part.offsets[:-1] for part in parts])
    return MemberTable(
        parent=parts[0].parent,
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        slots=_stack([_slots(part.rows, tables) for part in parts]),
        views=_stack([_views(part.rows, tables) for part in parts]),
        params=np.concatenate([_params(part.rows, tables) for part in parts]),
    )


def _codes(param: Codes, tables: _Tables) -> NDArray[np.float64]:
    return np.array(
        [tables.numbering.code(int(column), text) for column, text in zip(param.columns, param.texts, strict=True)], dtype=np.float64
    )


def _keys(part: BoundRows, width: int, tables: _Tables) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    keys = np.full((part.rows.count, width), -1, dtype=np.int64)
    codes = np.full((part.rows.count, width), -1, dtype=np.int64)
    for i, row in enumerate(part.keys):
        for j, (header, text) in enumerate(row):
            column = tables.keys[header]
            keys[i, j], codes[i, j] = tables.numbering.columns[column], tables.numbering.code(column, text)
    return keys, codes
