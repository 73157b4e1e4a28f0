"""Bound rows of one shape become one bank.

Letters: R rows, s slots, p parameters, k key columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, MemberTable, skeleton_hash
from fedkg_compiler.column_registry import Book, BookColumn
from fedkg_compiler.ir import BoundRows, Codes, MemberRows, Rows, Timing
from fedkg_compiler.lowering.contract import Numbering, make_contract


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """Everything of a pack that comes from bound rows."""

    numbering: Numbering
    banks: tuple[Bank, ...]
    conditions: tuple[Bank, ...]
    entities: tuple[str, ...]
    units: tuple[str, ...]


def lower(
    bound: Sequence[BoundRows],
    conditions: Sequence[BoundRows],
    rules: Mapping[str, int],
    book: Book,
    timing: Timing,
) -> Lowered:
    """The banks of all bound rows.

    Args:
        bound: the bound constraints, in the order of the rules.
        conditions: bound formulas other than constraints; each becomes a separate bank.
        rules: the position of each rule, by name.
        book: the registry of table columns.
        timing: the timeline of the table rows.
    """
    everything = [*bound, *conditions]
    keys = _key_columns(everything, book)
    slots = [slot for part in everything for slot in part.rows.slots_read()]
    used = {*keys.values()}.union(*(slot.columns.tolist() for slot in slots))
    views: set[int] = set().union(*(slot.views.tolist() for slot in slots))
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
    hashes = {
        key: skeleton_hash(formula)
        for key, formula in {id(part.formula): part.formula for part in bound}.items()
    }
    groups: dict[str, list[BoundRows]] = {}
    for part in bound:
        groups.setdefault(hashes[id(part.formula)], []).append(part)
    banks = tuple(_bank(parts, tables) for parts in groups.values())
    asides = tuple(_bank([part], tables) for part in conditions)
    return Lowered(
        numbering=numbering, banks=banks, conditions=asides, entities=entities, units=units
    )


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
    """Return the column of each header that selects table rows; register the required texts."""
    pairs = sorted({pair for part in bound for row in part.keys for pair in row})
    names = {column.source: column.name for column in book.columns if column.type == "category"}
    ids: dict[str, int] = {}
    for header, text in pairs:
        if header not in ids:
            ids[header] = book.column(
                BookColumn(name=names.get(header, header), source=header, type="category")
            )
        book.say(ids[header], text)
    return ids


def _bank(parts: Sequence[BoundRows], tables: _Tables) -> Bank:
    rows, counts = [part.rows for part in parts], [part.rows.count for part in parts]
    keys, codes = _keys(parts, tables)
    return Bank(
        skeleton=parts[0].formula,
        slots=_slots(rows, tables),
        views=_views(rows, tables),
        params=_params(rows, tables),
        members=tuple(
            _members(tables_of, tables)
            for tables_of in zip(*(item.members for item in rows), strict=True)
        ),
        keys=keys,
        codes=codes,
        weight=np.repeat(
            np.array([tables.weights.get(part.rule.name, 0.0) for part in parts], dtype=np.float64),
            counts,
        ),
        rule=np.repeat(
            np.array([tables.rules.get(part.rule.name, 0) for part in parts], dtype=np.int32),
            counts,
        ),
        entity=np.array(
            [tables.entities[entity] for part in parts for entity in part.entities], dtype=np.int32
        ),
        unit=np.repeat(
            np.array([tables.units[part.unit] for part in parts], dtype=np.int32), counts
        ),
    )


def _renumbered(
    pieces: Sequence[Sequence[NDArray[np.int64]]],
    positions: Mapping[int, int],
    parts: Sequence[Rows],
) -> NDArray[np.int32]:
    """Numbers of the book, of each part one array for each slot, as those of the contract: int32
    [R, s].
    """
    columns = [
        [positions[i] for piece in column for i in piece.tolist()]
        for column in zip(*pieces, strict=True)
    ]
    return (
        np.array(columns, dtype=np.int32).T.copy()
        if columns
        else np.zeros((_count(parts), 0), dtype=np.int32)
    )


def _count(parts: Sequence[Rows]) -> int:
    return sum(rows.count for rows in parts)


def _slots(parts: Sequence[Rows], tables: _Tables) -> NDArray[np.int32]:
    return _renumbered(
        [[slot.columns for slot in rows.slots] for rows in parts], tables.numbering.columns, parts
    )


def _views(parts: Sequence[Rows], tables: _Tables) -> NDArray[np.int32]:
    return _renumbered(
        [[slot.views for slot in rows.slots] for rows in parts], tables.numbering.views, parts
    )


def _params(parts: Sequence[Rows], tables: _Tables) -> NDArray[np.float64]:
    columns = [
        np.concatenate(
            [_codes(piece, tables) if isinstance(piece, Codes) else piece for piece in pieces]
        )
        for pieces in zip(*(rows.params for rows in parts), strict=True)
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((_count(parts), 0))


def _members(parts: Sequence[MemberRows], tables: _Tables) -> MemberTable:
    """The same set of members of all parts, one after the other."""
    sizes = np.concatenate([part.offsets[1:] - part.offsets[:-1] for part in parts])
    rows = [part.rows for part in parts]
    return MemberTable(
        parent=parts[0].parent,
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        slots=_slots(rows, tables),
        views=_views(rows, tables),
        params=_params(rows, tables),
    )


def _codes(param: Codes, tables: _Tables) -> NDArray[np.float64]:
    return np.array(
        [
            tables.numbering.code(int(column), text)
            for column, text in zip(param.columns, param.texts, strict=True)
        ],
        dtype=np.float64,
    )


def _keys(
    parts: Sequence[BoundRows], tables: _Tables
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Columns and codes that select the table rows of each row, int32 [R, k], -1 where there is
    none.
    """
    width = max((len(row) for part in parts for row in part.keys), default=0)
    keys = np.full((_count([part.rows for part in parts]), width), -1, dtype=np.int32)
    codes = keys.copy()
    start = 0
    for part in parts:
        for i, row in enumerate(part.keys, start):
            for j, (header, text) in enumerate(row):
                column = tables.keys[header]
                keys[i, j], codes[i, j] = (
                    tables.numbering.columns[column],
                    tables.numbering.code(column, text),
                )
        start += part.rows.count
    return keys, codes
