"""Bound rows of one shape become one bank.

Letters: R rows, s slots, p parameters, k key columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, Column, DataContract, MemberTable, View, skeleton_hash
from fedkg.pack.contract import TRUTHS
from fedkg_compiler.column_registry import Book, BookColumn
from fedkg_compiler.ir import BoundRows, Codes, MemberRows, Rows, Timing


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
    numbering = _make_contract(book, used, views, timing)
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
    rows = [row for part in parts for row in part.keys]
    numbers = {
        (header, text): (
            tables.numbering.columns[tables.keys[header]],
            tables.numbering.code(tables.keys[header], text),
        )
        for header, text in {pair for row in rows for pair in row}
    }
    sizes = np.array([len(row) for row in rows], dtype=np.int64)
    found = np.full((2, len(rows), sizes.max(initial=0)), -1, dtype=np.int32)
    pairs = np.array([numbers[pair] for row in rows for pair in row], dtype=np.int32)
    found[:, np.arange(found.shape[2]) < sizes[:, None]] = pairs.reshape(-1, 2).T
    return found[0], found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbering:
    """The positions of columns, views and category texts in the contract."""

    contract: DataContract
    columns: dict[int, int]
    views: dict[int, int]
    codes: dict[int, dict[str, int]]

    def code(self, column: int, text: str) -> int:
        """The code of a text in the book's column number `column`."""
        return self.codes[column][text]


def _make_contract(
    book: Book, used: Iterable[int], used_views: Iterable[int], timing: Timing
) -> Numbering:
    """The contract over the columns and views that bound rows read.

    Their order does not depend on that of the files.
    """
    views = sorted({0, *used_views})
    raised = {book.views[view].column for view in views}
    used = {*used}
    labels = {column.label for i in used if (column := book.columns[i]).type == "score"}
    used |= {
        i
        for i, column in enumerate(book.columns)
        if column.type == "score" and column.label in labels
    }  # a label has all its classes
    ids = sorted(
        {*used, *(column for column in raised if column is not None)},
        key=lambda i: _order(book.columns[i]),
    )
    columns = {column: position for position, column in enumerate(ids)}
    ordered = sorted(views, key=lambda i: _view_order(book, columns, i))
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
                _column(book, i, names) for i, names in zip(ids, _names(book, ids), strict=True)
            ),
            "views": tuple(_view(book, columns, i) for i in ordered),
        }
    )
    codes = {
        i: {text: code for code, text in enumerate(contract.columns[position].vocabulary)}
        for i, position in columns.items()
    }
    return Numbering(
        contract=contract,
        columns=columns,
        views={view: position for position, view in enumerate(ordered)},
        codes=codes,
    )


def _order(column: BookColumn) -> tuple[bool, str, str, str]:
    return column.role == "output", column.name, column.type, column.source


def _names(book: Book, ids: list[int]) -> list[str]:
    """Unique names: where a header is read as a number and as a category, the category says so."""
    plain = [book.columns[i].name for i in ids]
    return [
        f"{name} (category)"
        if book.columns[i].type == "category" and plain.count(name) > 1
        else name
        for i, name in zip(ids, plain, strict=True)
    ]


def _column(book: Book, i: int, name: str) -> Column:
    column = book.columns[i]
    return Column(
        name=name,
        source=column.source,
        type=column.type,
        role=column.role,
        unit=column.unit.text if column.unit else "",
        span=column.span,
        vocabulary=TRUTHS
        if column.type == "boolean"
        else tuple(sorted(book.vocabulary.get(i, ()))),
        label=column.label,
        category=column.category,
    )


def _view_order(
    book: Book, columns: dict[int, int], i: int
) -> tuple[int, tuple[str, ...], bool, int, float]:
    view = book.views[i]
    kind = ("base", "previous", "raised").index(view.kind)
    return (
        kind,
        view.groups,
        view.steps,
        -1 if view.column is None else columns[view.column],
        view.delta,
    )


def _view(book: Book, columns: dict[int, int], i: int) -> View:
    view = book.views[i]
    column = None if view.column is None else columns[view.column]
    return View(
        kind=view.kind, groups=view.groups, steps=view.steps, column=column, delta=view.delta
    )
