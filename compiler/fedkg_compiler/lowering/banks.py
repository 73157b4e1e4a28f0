"""Bound rows of one shape become one bank.

Letters: R rows, s slots, p parameters, k key columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, skeleton_hash
from fedkg_compiler.binding.book import Book, BookColumn
from fedkg_compiler.binding.names import Timing
from fedkg_compiler.binding.rule import BoundRows
from fedkg_compiler.lowering.contract import Numbering, make_contract
from fedkg_compiler.lowering.rows import Codes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """Everything of a pack that comes from bound rows."""

    numbering: Numbering
    banks: tuple[Bank, ...]
    entities: tuple[str, ...]
    units: tuple[str, ...]


def lower(bound: Sequence[BoundRows], rules: Mapping[str, int], weights: Mapping[str, float], book: Book, timing: Timing) -> Lowered:
    """The banks of all bound rows.

    Args:
        bound: in the order of the rules. rules: position of each rule, by name. weights: the weight of each rule, shared by its rows.
    """
    keys = _key_columns(bound, book)
    slots = [slot for part in bound for slot in part.rows.slots]
    used = {*np.unique(np.concatenate([slot.columns for slot in slots])).tolist(), *keys.values()} if slots else set(keys.values())
    views = np.unique(np.concatenate([slot.views for slot in slots])).tolist() if slots else []
    numbering = make_contract(book, used, views, timing)
    entities = ("", *sorted({entity for part in bound for entity in part.entities} - {""}))
    units = ("", *sorted({part.unit for part in bound} - {""}))
    share: dict[str, int] = {}
    for part in bound:
        share[part.rule.rule.name.text] = share.get(part.rule.rule.name.text, 0) + part.rows.count
    tables = _Tables(
        numbering=numbering,
        keys=keys,
        rules=rules,
        weights={name: weights[name] / count for name, count in share.items()},
        entities={entity: i for i, entity in enumerate(entities)},
        units={unit: i for i, unit in enumerate(units)},
    )
    groups: dict[str, list[BoundRows]] = {}
    for part in bound:
        groups.setdefault(skeleton_hash(part.formula), []).append(part)
    banks = tuple(_bank(parts, tables) for parts in groups.values())
    return Lowered(numbering=numbering, banks=banks, entities=entities, units=units)


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
        slots=_stack([_slots(part, tables) for part in parts]),
        views=_stack([_views(part, tables) for part in parts]),
        params=np.concatenate([_params(part, tables) for part in parts]),
        keys=_stack([keys for keys, _ in selected]),
        codes=_stack([codes for _, codes in selected]),
        weight=np.concatenate([np.full(part.rows.count, tables.weights[part.rule.rule.name.text]) for part in parts]),
        rule=_stack([np.full(part.rows.count, tables.rules[part.rule.rule.name.text]) for part in parts]),
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


def _slots(part: BoundRows, tables: _Tables) -> NDArray[np.int64]:
    return _columns([_renumber(slot.columns, tables.numbering.columns) for slot in part.rows.slots], part.rows.count)


def _views(part: BoundRows, tables: _Tables) -> NDArray[np.int64]:
    return _columns([_renumber(slot.views, tables.numbering.views) for slot in part.rows.slots], part.rows.count)


def _params(part: BoundRows, tables: _Tables) -> NDArray[np.float64]:
    columns = [_codes(param, tables) if isinstance(param, Codes) else param for param in part.rows.params]
    return np.stack(columns, axis=1) if columns else np.zeros((part.rows.count, 0))


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
