"""Two packs as one, so that their rules can be held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Bank, CategoryIs, Column, MemberTable, Pack, TableRows, View
from fedkg.pack.walk import ROWS, everywhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The banks of both packs over one contract.

    `pack` has the rules of the first, then those of the second, and all the entities.

    Attributes:
        rules: how many rules are the first pack's.
    """

    pack: Pack
    rules: int


def join(old: Pack, new: Pack) -> Joint:
    """Both packs over the columns and views of both.

    Columns are the same where header, type, role and unit are.
    """
    packs = (old, new)
    columns: dict[tuple[object, ...], Column] = {}
    for column in (column for pack in packs for column in pack.manifest.contract.columns):
        key = _key(column)
        known = columns.get(key)
        words = tuple(sorted({*column.vocabulary, *(known.vocabulary if known else ())}))
        columns[key] = (known or column).model_copy(update={"vocabulary": words})
    position = {key: i for i, key in enumerate(columns)}
    views: dict[View, int] = {View(): 0}
    entities: dict[str, int] = {"": 0}
    units: dict[str, int] = {"": 0}
    banks: list[Bank] = []
    for pack, rules in zip(packs, (0, len(old.manifest.rules)), strict=True):
        contract = pack.manifest.contract
        where = np.array([position[_key(column)] for column in contract.columns], dtype=np.int32)
        seen = np.array(
            [views.setdefault(_moved(view, where), len(views)) for view in contract.views],
            dtype=np.int32,
        )
        names = np.array(
            [entities.setdefault(name, len(entities)) for name in pack.manifest.entities],
            dtype=np.int32,
        )
        marks = np.array(
            [units.setdefault(unit, len(units)) for unit in pack.manifest.units], dtype=np.int32
        )
        codes = [
            np.array(
                [columns[_key(column)].vocabulary.index(word) for word in column.vocabulary] or [0],
                dtype=np.int32,
            )
            for column in contract.columns
        ]
        banks += [_bank(bank, rules, where, seen, names, marks, codes) for bank in pack.banks]
    manifest = old.manifest.model_copy(
        update={
            "contract": old.manifest.contract.model_copy(
                update={"columns": tuple(columns.values()), "views": tuple(views)}
            ),
            "rules": (*old.manifest.rules, *new.manifest.rules),
            "skeletons": tuple(bank.skeleton for bank in banks),
            "entities": tuple(entities),
            "units": tuple(units),
        }
    )
    return Joint(pack=Pack(manifest=manifest, banks=tuple(banks)), rules=len(old.manifest.rules))


def _key(column: Column) -> tuple[object, ...]:
    return column.source, column.type, column.role, column.unit, column.label, column.category


def _moved(view: View, where: NDArray[np.int32]) -> View:
    return (
        view if view.column is None else view.model_copy(update={"column": int(where[view.column])})
    )


def _bank(
    bank: Bank,
    rules: int,
    where: NDArray[np.int32],
    views: NDArray[np.int32],
    names: NDArray[np.int32],
    units: NDArray[np.int32],
    codes: Sequence[NDArray[np.int32]],
) -> Bank:
    keys, selected = _keys(bank, where, codes)
    params = {
        ROWS: bank.params.copy(),
        **{i: table.params.copy() for i, table in enumerate(bank.members)},
    }
    for table, part in everywhere(bank.skeleton):
        if isinstance(part, CategoryIs):
            slots = bank.slots if table == ROWS else bank.members[table].slots
            old = params[table][:, part.param].astype(np.int64)
            params[table][:, part.param] = [
                codes[column][code]
                for column, code in zip(slots[:, part.slot].tolist(), old.tolist(), strict=True)
            ]
    members: tuple[MemberTable, ...] = tuple(
        replace(
            table,
            slots=where[table.slots],
            views=views[table.views],
            params=params[i],
            table_rows=_table_rows(table.table_rows, where, codes),
        )
        for i, table in enumerate(bank.members)
    )
    return replace(
        bank,
        slots=where[bank.slots],
        views=views[bank.views],
        keys=keys,
        codes=selected,
        params=params[ROWS],
        rule=(bank.rule + rules).astype(np.int32),
        entity=names[bank.entity],
        unit=units[bank.unit],
        members=members,
    )


def _keys(
    of: Bank | TableRows, where: NDArray[np.int32], codes: Sequence[NDArray[np.int32]]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The key columns and codes of rows or members in the joint contract."""
    keyed, selected = of.keys >= 0, of.codes.copy()
    for row, place in np.argwhere(keyed).tolist():
        selected[row, place] = codes[int(of.keys[row, place])][int(of.codes[row, place])]
    return np.where(keyed, where[of.keys], -1).astype(np.int32), selected


def _table_rows(
    of: TableRows | None, where: NDArray[np.int32], codes: Sequence[NDArray[np.int32]]
) -> TableRows | None:
    if of is None:
        return None
    keys, selected = _keys(of, where, codes)
    return replace(of, keys=keys, codes=selected)
