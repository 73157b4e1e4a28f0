"""Gives every comparison the scale by which penalties divide its margin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import Compare
from fedkg.pack.formulas import ROWS, everywhere
from fedkg_compiler.formulas.formula_algebra import Declared, comparison_scale
from fedkg_compiler.ir import BookColumn, BoundRows, Program, Rows


def set_scales(program: Program) -> Program:
    """Fill in the scale parameters of all comparisons, those of members included."""
    parts = [*program.rows, *program.conditions]
    groups: dict[tuple[int, int], list[int]] = {}
    for i, part in enumerate(parts):  # thousands of queries may share one formula
        groups.setdefault((id(part.formula), id(part.conclusion)), []).append(i)
    for group in groups.values():
        scaled = _with_scales([parts[i] for i in group], program.columns.columns)
        for i, rows in zip(group, scaled, strict=True):
            parts[i] = replace(parts[i], rows=rows)
    count = len(program.rows)
    return replace(program, rows=tuple(parts[:count]), conditions=tuple(parts[count:]))


def _with_scales(parts: Sequence[BoundRows], columns: Sequence[BookColumn]) -> Iterator[Rows]:
    """The rows of parts that share a formula, with scales."""
    everything = [part.rows for part in parts]
    tables = [rows.members for rows in everything]
    scales: list[dict[int, dict[int, NDArray[np.float64]]]] = [{} for _ in parts]
    formulas = (parts[0].formula, parts[0].conclusion)
    for table, atom in (pair for one in formulas if one is not None for pair in everywhere(one)):
        if not isinstance(atom, Compare):
            continue
        readers = everything if table == ROWS else [members[table].rows for members in tables]
        found = comparison_scale(atom.left, atom.right, Declared(readers, tables, columns))
        ends = np.cumsum([rows.count for rows in readers])[:-1]
        for own, values in zip(scales, np.split(found, ends), strict=True):
            own.setdefault(table, {})[atom.scale] = values
    for rows, own in zip(everything, scales, strict=True):
        members = tuple(
            replace(table, rows=_with_params(table.rows, own[number])) if number in own else table
            for number, table in enumerate(rows.members)
        )
        yield _with_params(replace(rows, members=members), own.get(ROWS, {}))


def _with_params(rows: Rows, new: Mapping[int, NDArray[np.float64]]) -> Rows:
    return replace(rows, params=tuple(new.get(i, old) for i, old in enumerate(rows.params)))
