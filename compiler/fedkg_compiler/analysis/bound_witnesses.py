"""Values that keep what bounds on single columns ask for: the witnesses of interval reasoning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fedkg.pack.walk import is_temporal
from fedkg_compiler.analysis.bound_row_table import RowTable
from fedkg_compiler.analysis.bounds import Bounds
from fedkg_compiler.analysis.verdict import Reading, Witness

INFINITE = float("inf")


def point_of(table: RowTable, bounds: Bounds, rows: Sequence[int]) -> Witness | None:
    """A value inside the spans that keeps all of these rows, which bound single columns.

    None where there is none, or where one step is not enough: with windows.
    """
    if any(is_temporal(table.skeleton(row)) for row in rows):
        return None
    limits: dict[int, list[tuple[float, bool, int]]] = {}
    ends = bounds.ends
    for row in rows:
        for i in bounds.of(row):
            limits.setdefault(int(ends.variable[i]), []).append(
                (float(ends.value[i]), bool(ends.strict[i]), int(ends.sign[i]))
            )
    readings: list[Reading] = []
    for number, asked in limits.items():
        entry = table.variables.items[number]
        low, high = entry.span
        tops = [(value, strict) for value, strict, sign in asked if sign > 0] + [(high, False)]
        floors = [(-value, strict) for value, strict, sign in asked if sign < 0] + [(low, False)]
        value = between(floors, tops)
        if value is None:
            return None
        readings += [
            Reading(0, view, column, value + shift) for view, column, shift in entry.readings
        ]
    readings += [
        Reading(0, 0, column, float(code))
        for row in rows
        for column, code in table.keysets[int(table.keyset[row])]
    ]
    return Witness(tuple(sorted(set(readings))))


def between(
    floors: Iterable[tuple[float, bool]], tops: Iterable[tuple[float, bool]]
) -> float | None:
    """A plain number above all floors and below all tops (each with whether it is excluded), or
    None.
    """
    low, open_low = max(floors, key=lambda end: (end[0], end[1]))
    high, open_high = min(tops, key=lambda end: (end[0], not end[1]))
    if low > high or (low == high and (open_low or open_high)):
        return None
    if low == -INFINITE and high == INFINITE:
        return 0.0
    if low == -INFINITE or high == INFINITE:
        end, way = (high, -1.0) if low == -INFINITE else (low, 1.0)
        return end + way * max(1.0, abs(end) / 10)
    middle = (low + high) / 2
    for digits in range(13):
        near = round(middle, digits)
        if low < near < high:
            return near
    return middle
