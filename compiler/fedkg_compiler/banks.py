"""Bound rows of one shape become one bank.

Letters: R rows, s slots, p parameters, k key columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, DataContract, MemberTable, TableRows, View, skeleton_hash
from fedkg.pack.contract import TRUTHS
from fedkg_compiler.ir import (
    BookColumn,
    BoundRows,
    Codes,
    Columns,
    MemberRows,
    Program,
    RowKeys,
    Rows,
    Timing,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """Everything of a pack that comes from bound rows."""

    numbering: Numbering
    banks: tuple[Bank, ...]
    conditions: tuple[Bank, ...]
    entities: tuple[str, ...]
    units: tuple[str, ...]


def lower(program: Program) -> Lowered:
    """The banks of a program after all passes.

    Rows that share a formula are one bank; each condition is a separate bank. Rules are numbered in
    the order of their first rows.
    """
    bound, columns = program.rows, program.columns
    everything = [*bound, *program.conditions]
    slots = [slot for part in everything for slot in part.rows.slots_read()]
    used = {*columns.keys.values()}.union(*(slot.columns.tolist() for slot in slots))
    views: set[int] = set().union(*(slot.views.tolist() for slot in slots))
    numbering = _make_contract(columns, used, views, program.timing)
    entities = ("", *sorted({entity for part in everything for entity in part.entities} - {""}))
    units = ("", *sorted({part.unit for part in everything} - {""}))
    share: dict[str, int] = {}
    for part in bound:
        share[part.rule.name] = share.get(part.rule.name, 0) + part.rows.count
    tables = _Tables(
        numbering=numbering,
        keys=columns.keys,
        rules={name: i for i, name in enumerate(share)},
        weights={part.rule.name: part.rule.weight / share[part.rule.name] for part in bound},
        entities={entity: i for i, entity in enumerate(entities)},
        units={unit: i for i, unit in enumerate(units)},
    )
    hashes = {
        key: skeleton_hash(formula)
        for key, formula in {id(part.formula): part.formula for part in bound}.items()
    }
    groups: dict[Hashable, list[BoundRows]] = {}
    for part in bound:
        groups.setdefault((hashes[id(part.formula)], _table_rows_read(part)), []).append(part)
    return Lowered(
        numbering=numbering,
        banks=tuple(_bank(parts, tables) for parts in groups.values()),
        conditions=tuple(_bank([part], tables) for part in program.conditions),
        entities=entities,
        units=units,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """Positions of everything that bank rows refer to."""

    numbering: Numbering
    keys: Mapping[str, int]
    rules: Mapping[str, int]
    weights: Mapping[str, float]
    entities: Mapping[str, int]
    units: Mapping[str, int]


def _bank(parts: Sequence[BoundRows], tables: _Tables) -> Bank:
    rows, counts = [part.rows for part in parts], [part.rows.count for part in parts]
    keys, codes = _keys([part.keys for part in parts], tables)
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
    """The registry's numbers, for each part one array for each slot, as numbers of the contract:
    int32 [R, s].
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
    selected = [part.keys for part in parts if part.keys is not None]
    depths = [slot.depth for slot in rows[0].slots]
    return MemberTable(
        parent=parts[0].parent,
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        slots=_slots(rows, tables),
        views=_views(rows, tables),
        params=_params(rows, tables),
        table_rows=_table_rows(selected, depths, tables) if selected or any(depths) else None,
    )


def _table_rows(
    selected: Sequence[Sequence[RowKeys]], depths: Sequence[int], tables: _Tables
) -> TableRows:
    """From which table rows members are read; without `selected`, from those of their owners."""
    keys, codes = _keys(selected, tables)
    return TableRows(
        own=bool(selected), keys=keys, codes=codes, depths=np.array(depths, dtype=np.int32)
    )


def _table_rows_read(part: BoundRows) -> Hashable:
    """What rows in one bank have in common besides the skeleton: in which table rows their members
    are read.
    """
    return tuple(
        (table.keys is not None, *(slot.depth for slot in table.rows.slots))
        for table in part.rows.members
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
    parts: Sequence[Sequence[RowKeys]], tables: _Tables
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Columns and codes that select the table rows of each row or member, int32 [R, k], -1 where
    there is none.
    """
    distinct: dict[RowKeys, int] = {}  # thousands of queries select the same table rows
    at = [distinct.setdefault(row, len(distinct)) for part in parts for row in part]
    found = np.full((2, len(distinct), max(map(len, distinct), default=0)), -1, dtype=np.int32)
    for row, i in distinct.items():
        for k, (header, text) in enumerate(row):
            column = tables.keys[header]
            found[:, i, k] = tables.numbering.columns[column], tables.numbering.code(column, text)
    where = np.array(at, dtype=np.int64)
    return found[0, where], found[1, where]


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """The positions of columns, views and category texts in the contract.

    `codes`: of the columns that have texts.
    """

    contract: DataContract
    columns: dict[int, int]
    views: dict[int, int]
    codes: dict[int, dict[str, int]]

    def code(self, column: int, text: str) -> int:
        """The code of a text in the column with the registry's number `column`."""
        return self.codes[column][text]


def _make_contract(
    registry: Columns, used: Iterable[int], used_views: Iterable[int], timing: Timing
) -> Numbering:
    """The contract over the columns and views that bound rows read; other outputs are `unread`.

    Their order does not depend on that of the files.
    """
    views = sorted({0, *used_views})
    raised = {registry.views[view].column for view in views}
    used = {*used}
    labels = {column.label for i in used if (column := registry.columns[i]).type == "score"}
    used |= {
        i
        for i, column in enumerate(registry.columns)
        if column.type == "score" and column.label in labels
    }  # a label has all its classes
    ids = sorted(
        {*used, *(column for column in raised if column is not None)},
        key=lambda i: _order(registry.columns[i]),
    )
    outputs = {i for i, column in enumerate(registry.columns) if column.role == "output"}
    unread = sorted(outputs - {*ids}, key=lambda i: _order(registry.columns[i]))
    columns = {column: position for position, column in enumerate(ids)}
    ordered = sorted(views, key=lambda i: _view_order(registry, columns, i))
    kind = (
        "panel"
        if timing.trace
        else "trace"
        if timing.time or timing.step or timing.ordered
        else "table"
    )
    contract = DataContract.model_validate(
        {
            "kind": kind,
            "time": timing.time,
            "step": timing.step,
            "trace": timing.trace,
            "end": timing.end,
            "columns": tuple(
                _column(registry, i, names)
                for i, names in zip(ids, _names(registry, ids), strict=True)
            ),
            "views": tuple(_view(registry, columns, i) for i in ordered),
            "unread": tuple(_column(registry, i, registry.columns[i].name) for i in unread),
        }
    )
    codes = {
        i: {text: code for code, text in enumerate(contract.columns[position].vocabulary)}
        for i, position in columns.items()
        if contract.columns[position].vocabulary
    }
    return Numbering(
        contract=contract,
        columns=columns,
        views={view: position for position, view in enumerate(ordered)},
        codes=codes,
    )


def _order(column: BookColumn) -> tuple[bool, str, str, str]:
    return column.role == "output", column.name, column.type, column.source


def _names(registry: Columns, ids: list[int]) -> list[str]:
    """Unique names: where a header is read as a number and as a category, the category says so."""
    plain = [registry.columns[i].name for i in ids]
    return [
        f"{name} (category)"
        if registry.columns[i].type == "category" and plain.count(name) > 1
        else name
        for i, name in zip(ids, plain, strict=True)
    ]


def _column(registry: Columns, i: int, name: str) -> dict[str, Any]:
    """The fields of a `Column`, which the contract makes: for thousands of columns faster than one
    by one.
    """
    column = registry.columns[i]
    fields: dict[str, Any] = {
        "name": name,
        "source": column.source,
        "type": column.type,
        "role": column.role,
        "unit": column.unit.text if column.unit else "",
        "span": column.span,
        "vocabulary": TRUTHS,
        "label": column.label,
        "category": column.category,
    }
    if column.type != "boolean":
        texts = registry.vocabulary.get(i)
        fields["vocabulary"] = tuple(sorted(texts)) if texts else ()
    return fields


def _view_order(
    registry: Columns, columns: dict[int, int], i: int
) -> tuple[int, tuple[str, ...], bool, int, float]:
    view = registry.views[i]
    kind = ("base", "previous", "raised").index(view.kind)
    return (
        kind,
        view.groups,
        view.steps,
        -1 if view.column is None else columns[view.column],
        view.delta,
    )


def _view(registry: Columns, columns: dict[int, int], i: int) -> View:
    view = registry.views[i]
    column = None if view.column is None else columns[view.column]
    return View(
        kind=view.kind, groups=view.groups, steps=view.steps, column=column, delta=view.delta
    )
